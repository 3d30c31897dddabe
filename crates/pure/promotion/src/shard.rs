//! Shards: which process carries out a step, and how an agent is found that should.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::kardinal::{PromotionStep, SHARD_LABEL};
use sha2::{Digest as _, Sha256};

use kardinal_planner::lease;

/// Which steps a process carries out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shards {
    /// All of them, except those of shards that have an agent.
    #[default]
    All,
    /// Those without a shard; agents carry out the rest.
    Unsharded,
    /// Those of one shard: the process is an agent, and does nothing else.
    Only(String),
}

/// The shard of a step.
pub fn shard_of(step: &PromotionStep) -> Option<&str> {
    step.metadata.labels.as_ref()?.get(SHARD_LABEL).map(String::as_str)
}

/// Whether a process carries out a step. `has_agent` tells whether a shard's Lease exists: from the first time it does,
/// the shard belongs to its agent, even while that is away. `None`: nobody knows yet, so nothing is touched.
pub fn serves(shards: &Shards, shard: Option<&str>, has_agent: impl FnOnce(&str) -> Option<bool>) -> bool {
    match (shards, shard) {
        (Shards::All | Shards::Unsharded, None) => true,
        (Shards::All, Some(shard)) => has_agent(shard) == Some(false),
        (Shards::Only(own), Some(shard)) => own == shard,
        (Shards::Unsharded, Some(_)) | (Shards::Only(_), None) => false,
    }
}

/// The name of the Lease of a shard's agent. A shard that cannot be part of a name is told apart by its hash.
pub fn agent_lease(shard: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends_well = !shard.ends_with('-') && !shard.is_empty();
    if ends_well && shard.bytes().all(fits) {
        return format!("kardinal-agent-{shard}");
    }
    let hash: String = Sha256::digest(shard).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // A dot cannot be in the names above, so the two sorts never meet.
    format!("kardinal-agent.{hash}")
}

/// An agent as its Lease tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its shard.
    pub shard: String,
    /// Its Lease.
    pub lease: String,
    /// What is known of it.
    pub holder: lease::Holder,
}

impl Agent {
    /// The agent whose Lease this is. A Lease without the label is nobody's.
    pub fn of(lease: &Lease, now: Timestamp) -> Option<Agent> {
        let shard = lease.metadata.labels.as_ref()?.get(SHARD_LABEL)?.clone();
        let name = lease.metadata.name.clone().unwrap_or_default();
        Some(Agent { shard, lease: name, holder: lease::seen(lease, now) })
    }

    /// `agent of shard eu-cluster last seen 4 min ago`, when it is away.
    pub fn away(&self, now: Timestamp) -> Option<String> {
        if self.holder.present {
            return None;
        }
        let shard = &self.shard;
        Some(match self.holder.seen {
            Some(seen) => {
                format!("agent of shard {shard} last seen {} ago", brief(now.duration_since(seen)))
            }
            None => format!("agent of shard {shard} never seen"),
        })
    }
}

/// `4 min`: the largest unit that fits, as whole as it has passed.
pub fn brief(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::coordination::v1::LeaseSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    #[test]
    fn a_shard_belongs_to_its_agent_from_the_first_time_its_lease_is_seen() {
        let own = Shards::Only("eu".to_owned());
        let cases = [
            (&Shards::All, None, None, true),
            (&Shards::All, Some("eu"), Some(false), true),
            (&Shards::All, Some("eu"), Some(true), false),
            // The Leases are not known yet: they might tell of an agent.
            (&Shards::All, Some("eu"), None, false),
            (&Shards::Unsharded, None, Some(false), true),
            (&Shards::Unsharded, Some("eu"), Some(false), false),
            (&own, Some("eu"), Some(true), true),
            (&own, Some("us"), Some(false), false),
            (&own, None, Some(false), false),
        ];
        for (shards, shard, has_agent, wanted) in cases {
            assert_eq!(serves(shards, shard, |_| has_agent), wanted, "{shards:?} {shard:?} {has_agent:?}");
        }
    }

    #[test]
    fn every_shard_has_a_lease_with_a_name_of_its_own() {
        assert_eq!(agent_lease("eu-cluster"), "kardinal-agent-eu-cluster");
        let odd = ["EU", "eu_west", "eu.west", "eu-", ""].map(agent_lease);
        for name in &odd {
            assert!(name.starts_with("kardinal-agent.") && name.len() == 31, "{name}");
        }
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), odd.len());
    }

    #[test]
    fn an_agent_that_is_away_is_told_with_the_time() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let agent = |seconds: i64| {
            let mut lease = Lease::default();
            lease.metadata.labels = Some([(SHARD_LABEL.to_owned(), "eu-cluster".to_owned())].into());
            lease.spec = Some(LeaseSpec {
                holder_identity: Some("pod".to_owned()),
                renew_time: Some(MicroTime(now - SignedDuration::from_secs(seconds))),
                ..LeaseSpec::default()
            });
            Agent::of(&lease, now).unwrap().away(now)
        };
        assert_eq!(agent(3), None);
        assert_eq!(agent(240).as_deref(), Some("agent of shard eu-cluster last seen 4 min ago"));
        assert_eq!(Agent::of(&Lease::default(), now), None);
    }
}
