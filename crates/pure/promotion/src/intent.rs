//! What people ask for, as objects to create: built once for the command line, the web and the API.
//!
//! Each function gives the whole object, or says what is wrong with the request. Nothing is written here. Going forward
//! and back follow from what environments have and had; [`present`](present()) and [`past`](past()) tell people the same.

mod chosen;
mod content;
mod create;
mod gate;
mod history;
mod init;
mod ledger;
mod names;
mod objection;
mod outlook;
mod past;
mod present;
mod promote;
mod request;
mod rollback;
#[cfg(test)]
mod tests;
mod wish;

pub use chosen::chosen;
pub use create::{NewBundle, create_bundle, skip};
pub use gate::{
    Override, Resumption, WritesTo, freeze_name, overridden_in, override_gate, pause, place_of, resume,
};
pub use history::{FORCE, History, Objection};
pub(crate) use history::{carries_kind, ended_at, presents};
pub use init::{InitConfig, InitGit, init};
pub use names::{check_name, check_namespace, check_shard};
pub use outlook::{Leg, Outlook, outlook};
pub use past::{Past, PastOutcome, past};
pub use present::{Present, meet, present};
pub(crate) use present::{WayBack, arrived, gone, way_back, with_before};
pub use promote::promote;
pub use request::{BundleRequest, SOURCE_ANNOTATION, bundle_of_request, is_answer_to};
pub use rollback::{automatic_rollback, rollback, verified_before};
pub use wish::{Answer, Wish};
