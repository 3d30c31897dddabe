//! What keeps promotions from going on, and the remedies.

mod gates;
mod objects;
mod pipelines;
mod replicas;
mod secrets;

pub use gates::gate_findings;
pub use objects::{Objects, object_findings};
pub use pipelines::{PipelineSeen, is_in_local_forge, pipeline_findings};
pub use replicas::{agent_findings, leader_finding, unreadable_leader};
pub use secrets::{SecretSeen, WantedSecret, wanted_secrets};

use kardinal_api::kardinal::Pipeline;
use kardinal_object::name_of;

/// How findings name a Pipeline.
fn title(pipeline: &Pipeline) -> String {
    format!("pipeline {}", name_of(&pipeline.metadata))
}
