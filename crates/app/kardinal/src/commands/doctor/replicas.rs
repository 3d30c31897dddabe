//! Whether a controller leads, and whether the agents of shards are there.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_planner::doctor::Finding;
use kardinal_planner::lease::CONTROLLER_LEASE;
use kardinal_promotion::view::doctor::{agent_findings, leader_finding, unreadable_leader};
use kube::Api;

use crate::failure::{Failure, Kind};
use crate::server::{Server, about};

/// Nothing is said of a leader where none was ever elected, as in `kardinal up`.
pub(super) async fn check(server: &Server) -> Result<Vec<Finding>, Failure> {
    let now = Timestamp::now();
    let api: Api<Lease> = Api::namespaced(server.client.clone(), SYSTEM_NAMESPACE);
    let leader =
        match api.get_opt(CONTROLLER_LEASE).await.map_err(|error| about::<Lease>(CONTROLLER_LEASE, error)) {
            Ok(lease) => lease,
            Err(failure) if failure.kind == Kind::Refused => {
                return Ok(vec![unreadable_leader(&failure.to_string())]);
            }
            Err(failure) => return Err(failure),
        };
    let mut findings: Vec<Finding> = leader.iter().map(|lease| leader_finding(lease, now)).collect();
    let agents = server.agents(now).await?.unwrap_or_default();
    findings.extend(agent_findings(&agents, now));
    Ok(findings)
}
