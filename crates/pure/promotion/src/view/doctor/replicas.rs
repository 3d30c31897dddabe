//! Whether a controller leads, and whether the agents of shards are there.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_planner::doctor::Finding;
use kardinal_planner::lease::{Holder, seen};

use crate::shard::{Agent, brief};

/// Whether a controller leads, by its Lease.
pub fn leader_finding(lease: &Lease, now: Timestamp) -> Finding {
    let holder = seen(lease, now);
    if holder.present {
        return Finding::ok("controllers", format!("one leads{}", version(&holder)));
    }
    let seen = holder.seen.map(|seen| format!(", last seen {} ago", brief(now.duration_since(seen))));
    let detail = format!("none leads{}", seen.unwrap_or_default());
    Finding::fail("controllers", detail, "start one with `kardinal controller`, and look at its log")
}

/// The answer to somebody who may not read who leads.
pub fn unreadable_leader(why: &str) -> Finding {
    let remedy = format!("ask for the right to get and list Leases in `{SYSTEM_NAMESPACE}`");
    Finding::warn("controllers", format!("who leads may not be read: {why}"), remedy)
}

/// Whether the agents of shards work.
pub fn agent_findings(agents: &[Agent], now: Timestamp) -> Vec<Finding> {
    agents.iter().map(|agent| agent_finding(agent, now)).collect()
}

fn agent_finding(agent: &Agent, now: Timestamp) -> Finding {
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

fn version(holder: &Holder) -> String {
    holder.version.as_deref().map(|version| format!(", version {version}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kardinal_planner::doctor::Mark;
    use serde_json::{Value, json};

    use super::*;

    fn lease(spec: Value) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "l", "labels": {"kardinal.io/shard": "eu"},
                "annotations": {"kardinal.io/version": "1.2.3"}},
            "spec": spec,
        }))
        .unwrap()
    }

    fn held(renewed: &str) -> Lease {
        lease(json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": renewed}))
    }

    #[test]
    fn whoever_renews_its_lease_is_there() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let (fresh, stale) = (held("2026-04-09T09:59:58.000000Z"), held("2026-04-09T09:50:00.000000Z"));
        let nobody = lease(json!({}));
        for (lease, mark, detail) in [
            (&fresh, Mark::Ok, "one leads, version 1.2.3"),
            (&stale, Mark::Fail, "none leads, last seen 10 min ago"),
            (&nobody, Mark::Fail, "none leads"),
        ] {
            let found = leader_finding(lease, now);
            assert_eq!((found.mark, found.detail.as_str()), (mark, detail));
        }
        let agents: Vec<Agent> = [&fresh, &stale].into_iter().filter_map(|one| Agent::of(one, now)).collect();
        let found = agent_findings(&agents, now);
        assert_eq!((found[0].mark, found[0].detail.as_str()), (Mark::Ok, "its agent works, version 1.2.3"));
        assert_eq!((found[1].mark, found[1].what.as_str()), (Mark::Fail, "shard eu"));
        assert!(found[1].remedy.as_ref().is_some_and(|remedy| remedy.contains("kardinal agent --shard eu")));
        assert!(agent_findings(&[], now).is_empty());
        assert_eq!(unreadable_leader("no").mark, Mark::Warn);
    }
}
