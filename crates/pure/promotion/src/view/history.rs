//! What was promoted when: the records of all Bundles, in the order in which things happened.

use std::cmp::Reverse;

use kardinal_api::kardinal::{Bundle, BundlePhase, EnvironmentStatus, PromotionState};
use kardinal_object::name_of;
use serde::Serialize;

use super::history::{came, entry, is_under_way};
use crate::bundle::is_rollback;

/// One promotion of one Bundle to one environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// The Bundle.
    pub bundle: String,
    /// How people call what it carries.
    pub version: String,
    /// The environment.
    pub environment: String,
    /// Whether it takes another one back.
    pub rollback: bool,
    /// What came of it in one word.
    pub outcome: PastOutcome,
    /// Why nothing proves that what was verified runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
    /// The Bundle's record of the environment.
    #[serde(flatten)]
    pub record: EnvironmentStatus,
}

/// What came of a promotion: the state of its step, or why that never came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PastOutcome {
    /// Nothing has been done yet.
    Pending,
    /// The change is being written.
    Promoting,
    /// The pull request waits for somebody to merge it.
    WaitingForMerge,
    /// The change is in; the environment is being watched.
    HealthChecking,
    /// The environment was found healthy with it.
    Verified,
    /// It has failed.
    Failed,
    /// Somebody closed its pull request without merging it.
    Rejected,
    /// A newer Bundle took its place before it came to an end.
    Superseded,
}

impl PastOutcome {
    /// The word that JSON and tables use.
    pub fn as_str(self) -> &'static str {
        match self {
            PastOutcome::Pending => "Pending",
            PastOutcome::Promoting => "Promoting",
            PastOutcome::WaitingForMerge => "WaitingForMerge",
            PastOutcome::HealthChecking => "HealthChecking",
            PastOutcome::Verified => "Verified",
            PastOutcome::Failed => "Failed",
            PastOutcome::Rejected => "Rejected",
            PastOutcome::Superseded => "Superseded",
        }
    }
}

/// All promotions, the latest first: what is under way, then by the time at which it arrived or was rejected. What has no
/// such time is as old as its Bundle.
pub fn past(bundles: &[Bundle]) -> Vec<Past> {
    let mut all: Vec<(&Bundle, &String, &EnvironmentStatus)> = bundles
        .iter()
        .flat_map(|bundle| {
            let records = bundle.status.iter().flat_map(|status| &status.environments);
            records.map(move |(environment, record)| (bundle, environment, record))
        })
        .collect();
    all.sort_by_cached_key(|(bundle, environment, _)| {
        let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let rejected_at = entry(bundle, environment).and_then(|entry| entry.rejected_at);
        Reverse((is_under_way(bundle, environment), came(bundle, environment).max(rejected_at), created))
    });
    let told = |(bundle, environment, record): (&Bundle, &String, &EnvironmentStatus)| Past {
        bundle: name_of(&bundle.metadata).to_owned(),
        version: kardinal_policy::version(&bundle.spec),
        environment: environment.clone(),
        rollback: is_rollback(bundle),
        outcome: outcome(bundle, record),
        not_proven: not_proven(record),
        record: record.clone(),
    };
    all.into_iter().map(told).collect()
}

/// A Bundle that was superseded leaves its last state behind, which is not what it is in.
fn outcome(bundle: &Bundle, record: &EnvironmentStatus) -> PastOutcome {
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let open = |outcome| match phase {
        Some(BundlePhase::Superseded) => PastOutcome::Superseded,
        _ => outcome,
    };
    match record.state {
        Some(PromotionState::Verified) => PastOutcome::Verified,
        Some(PromotionState::Failed) if record.rejected == Some(true) => PastOutcome::Rejected,
        Some(PromotionState::Failed) => PastOutcome::Failed,
        Some(PromotionState::HealthChecking) => open(PastOutcome::HealthChecking),
        Some(PromotionState::WaitingForMerge) => open(PastOutcome::WaitingForMerge),
        Some(PromotionState::Promoting) => open(PastOutcome::Promoting),
        Some(PromotionState::Pending) | None => open(PastOutcome::Pending),
    }
}

fn not_proven(record: &EnvironmentStatus) -> Option<String> {
    let evidence = record.evidence.as_ref().filter(|_| record.state == Some(PromotionState::Verified));
    evidence.and_then(|evidence| evidence.not_proven.clone())
}
