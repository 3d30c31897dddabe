//! Whether somebody works on the objects, and what waits for a person.

use jiff::Timestamp;
use kardinal_planner::doctor::Finding;
use kardinal_promotion::view::doctor::{Objects, object_findings};
use kube::api::ListParams;

use crate::failure::Failure;
use crate::server::Server;

pub(super) async fn check(server: &Server) -> Result<Vec<Finding>, Failure> {
    let everything = ListParams::default();
    let (pipelines, bundles, steps, gates, graphs) = futures::try_join!(
        server.list(&everything),
        server.list(&everything),
        server.list(&everything),
        server.list(&everything),
        server.list(&everything),
    )?;
    let objects =
        Objects { pipelines: &pipelines, bundles: &bundles, steps: &steps, gates: &gates, graphs: &graphs };
    Ok(object_findings(&objects, Timestamp::now()))
}
