//! Leases: who leads among equal replicas. The protocol is that of client-go, so `kubectl get leases` reads as usual.
//!
//! A holder writes its name and renews it; whoever sees the same record for as long as the Lease says may take it. Only
//! the watcher's own clock counts for that: the times in the record are for people.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

#[cfg(test)]
mod tests;

/// The Lease of the replica that runs the controllers.
pub const CONTROLLER_LEASE: &str = "kardinal-controller";
/// The version of the program that holds a Lease.
pub const VERSION_ANNOTATION: &str = "kardinal.io/version";

/// How long nobody else may take a Lease after it was renewed.
pub const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(15);
/// How long a holder may go on writing after its last renewal. What is left of [`LEASE_DURATION`] is the margin for
/// requests under way and for clocks that run at different speeds.
pub const RENEW_DEADLINE: SignedDuration = SignedDuration::from_secs(10);
/// How often a Lease is renewed, or looked at by those who wait for it.
pub const RETRY_PERIOD: SignedDuration = SignedDuration::from_secs(2);

/// What a replica does next about a Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nobody holds it: take it by writing this.
    Claim(LeaseSpec),
    /// It is ours: renew it by writing this.
    Renew(LeaseSpec),
    /// Another one holds it: look again after so long.
    Wait(SignedDuration),
}

/// What the replica `identity` does about a Lease that it has seen unchanged for `unchanged_for`, measured by itself.
pub fn decide(
    found: Option<&LeaseSpec>,
    unchanged_for: SignedDuration,
    identity: &str,
    now: Timestamp,
) -> Decision {
    let fresh = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    };
    let Some(found) = found else { return Decision::Claim(fresh) };
    let transitions = found.lease_transitions.unwrap_or_default();
    let holder = holder(found);
    if holder == Some(identity) {
        let acquire_time = found.acquire_time.clone().or(fresh.acquire_time);
        return Decision::Renew(LeaseSpec { acquire_time, lease_transitions: Some(transitions), ..fresh });
    }
    let left = duration(found).saturating_sub(unchanged_for);
    match holder {
        Some(_) if left.is_positive() => Decision::Wait(left.min(RETRY_PERIOD)),
        _ => Decision::Claim(LeaseSpec { lease_transitions: Some(transitions.saturating_add(1)), ..fresh }),
    }
}

/// What a holder writes that stops on purpose, so that the next one need not wait.
pub fn released(found: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..found.clone()
    }
}

/// Who holds a Lease, as far as the record says.
pub fn holder(lease: &LeaseSpec) -> Option<&str> {
    lease.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// How long its holder may be silent.
fn duration(lease: &LeaseSpec) -> SignedDuration {
    let seconds = lease.lease_duration_seconds.map_or(LEASE_DURATION.as_secs(), i64::from);
    SignedDuration::from_secs(seconds.max(1))
}

/// A holder of a Lease as somebody sees it who does not take part in the election, such as a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// When it was heard of last.
    pub seen: Option<Timestamp>,
    /// Whether it is at work, as far as the record tells.
    pub present: bool,
    /// Its version.
    pub version: Option<String>,
}

/// What a Lease tells of its holder.
pub fn seen(lease: &Lease, now: Timestamp) -> Holder {
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let silent_for = renewed.map(|renewed| now.duration_since(renewed));
    let present = spec.is_some_and(|spec| {
        holder(spec).is_some() && silent_for.is_some_and(|silent| silent <= duration(spec))
    });
    let annotations = lease.metadata.annotations.as_ref();
    Holder {
        seen: renewed,
        present,
        version: annotations.and_then(|all| all.get(VERSION_ANNOTATION)).cloned(),
    }
}
