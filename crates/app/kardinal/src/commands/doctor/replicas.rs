//! Whether a controller leads, and whether the agents of shards are there.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_planner::lease::{CONTROLLER_LEASE, Holder, seen};
use kardinal_promotion::shard::{Agent, brief};
use kube::Api;

use super::Finding;
use crate::failure::{Failure, Kind};
use crate::server::{Server, about};

/// Nothing is said of a leader where none was ever elected, as in `kardinal up`.
pub(super) async fn check(server: &Server) -> Result<Vec<Finding>, Failure> {
    let now = Timestamp::now();
    let api: Api<Lease> = Api::namespaced(server.client.clone(), SYSTEM_NAMESPACE);
    let leader =
        match api.get_opt(CONTROLLER_LEASE).await.map_err(|error| about::<Lease>(CONTROLLER_LEASE, error)) {
            Ok(lease) => lease,
            Err(failure) if failure.kind == Kind::Refused => return Ok(vec![unknown(&failure)]),
            Err(failure) => return Err(failure),
        };
    let mut findings: Vec<Finding> = leader.iter().map(|lease| leading(&seen(lease, now), now)).collect();
    let agents = server.agents(now).await?.unwrap_or_default();
    findings.extend(agents.iter().map(|agent| agent_of(agent, now)));
    Ok(findings)
}

fn unknown(failure: &Failure) -> Finding {
    let remedy = format!("ask for the right to get and list Leases in `{SYSTEM_NAMESPACE}`");
    Finding::warn("controllers", format!("who leads may not be read: {failure}"), remedy)
}

fn version(holder: &Holder) -> String {
    holder.version.as_deref().map(|version| format!(", version {version}")).unwrap_or_default()
}

fn leading(holder: &Holder, now: Timestamp) -> Finding {
    if holder.present {
        return Finding::ok("controllers", format!("one leads{}", version(holder)));
    }
    let seen = holder.seen.map(|seen| format!(", last seen {} ago", brief(now.duration_since(seen))));
    let detail = format!("none leads{}", seen.unwrap_or_default());
    Finding::fail("controllers", detail, "start one with `kardinal controller`, and look at its log")
}

fn agent_of(agent: &Agent, now: Timestamp) -> Finding {
    let Agent { shard, lease, holder } = agent;
    match agent.away(now) {
        None => Finding::ok(format!("shard {shard}"), format!("its agent works{}", version(holder))),
        Some(away) => {
            let remedy = format!(
                "start it with `kardinal agent --shard {shard}`; to give the shard back to the controller, delete the Lease \
                 `{lease}` in `{SYSTEM_NAMESPACE}`"
            );
            Finding::fail(format!("shard {shard}"), away, remedy)
        }
    }
}
