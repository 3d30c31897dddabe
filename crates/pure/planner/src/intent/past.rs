//! What was promoted when: the records of all Bundles, in the order in which things happened.

use std::cmp::Reverse;

use kardinal_api::kardinal::{Bundle, BundlePhase, EnvironmentStatus, PromotionState};
use serde::Serialize;

use super::history::{came, is_under_way};
use crate::bundle::{READY, is_rollback, name_of};

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
    /// What came of it in one word: the state of its step, or why that never came to an end.
    pub outcome: String,
    /// The Bundle's record of the environment.
    #[serde(flatten)]
    pub record: EnvironmentStatus,
}

/// All promotions, the latest first: what is under way, then by the time at which it arrived. What never did is as old as
/// its Bundle.
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
        Reverse((is_under_way(bundle, environment), came(bundle, environment), created))
    });
    let entry = |(bundle, environment, record): (&Bundle, &String, &EnvironmentStatus)| Past {
        bundle: name_of(&bundle.metadata).to_owned(),
        version: kardinal_policy::version(&bundle.spec),
        environment: environment.clone(),
        rollback: is_rollback(bundle),
        outcome: outcome(bundle, record),
        record: record.clone(),
    };
    all.into_iter().map(entry).collect()
}

/// A Bundle that was superseded leaves its last state behind, which is not what it is in.
fn outcome(bundle: &Bundle, record: &EnvironmentStatus) -> String {
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let state = record.state.unwrap_or(PromotionState::Pending);
    match (phase, state) {
        (_, PromotionState::Verified) if not_proven(record) => "Verified (not proven)".to_owned(),
        (_, PromotionState::Failed) if is_rejected(bundle) => "Rejected".to_owned(),
        (_, PromotionState::Verified | PromotionState::Failed) => format!("{state:?}"),
        (Some(BundlePhase::Superseded), _) => "Superseded".to_owned(),
        _ => format!("{state:?}"),
    }
}

fn not_proven(record: &EnvironmentStatus) -> bool {
    record.evidence.as_ref().is_some_and(|evidence| evidence.not_proven.is_some())
}

/// Whether all that failed was that somebody closed a pull request.
fn is_rejected(bundle: &Bundle) -> bool {
    let mut conditions = bundle.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == READY && condition.reason == "Rejected")
}
