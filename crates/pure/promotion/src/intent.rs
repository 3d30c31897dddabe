//! What people ask for, as objects to create: built once for the command line, the web and the API.
//!
//! Each function gives the whole object, or says what is wrong with the request. Nothing is written here. Going forward
//! and back follow from what environments have and had; [`present`](present()) and [`view`](crate::view) tell people the
//! same.

mod chosen;
mod content;
mod create;
mod error;
mod gate;
mod history;
mod init;
mod known;
mod ledger;
mod names;
mod objection;
mod ordered;
mod outlook;
mod override_;
mod present;
mod promote;
mod request;
mod rollback;
#[cfg(test)]
mod tests;
mod wish;

pub use chosen::chosen;
pub use create::{NewBundle, check_type, commit_of, create_bundle, skip};
pub use error::Error;
pub use gate::{Resumed, Resumption, freeze_name, pause, paused, resume};
pub use history::{FORCE, History, Objection};
pub(crate) use history::{came, carries_kind, ended_at, entry, is_under_way, presents};
pub use init::{InitConfig, InitGit, init, organisations_gates};
pub use known::{bundle_named, environment_named, only_pipeline, pipeline_named, pipelines_with};
pub use names::{check_name, check_namespace, check_shard};
pub use ordered::{Coming, Ordered};
pub use outlook::{Leg, Outlook, outlook};
pub use override_::{
    Instance, Override, WritesTo, expiry, instances, overridden_in, override_gate, place_of,
};
pub use present::{Present, meet, present};
pub(crate) use present::{WayBack, arrived, gone, way_back, with_before};
pub use promote::promote;
pub use request::{BundleRequest, SOURCE_ANNOTATION, bundle_of_request, is_answer_to};
pub use rollback::{automatic_rollback, rollback, verified_before};
pub use wish::{Answer, Wish};
