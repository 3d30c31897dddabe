//! What was promoted when: the records of all Bundles, in the order in which things happened.

use std::cmp::Reverse;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundlePhase, EnvironmentStatus, GateResult, PromotionState};
use kardinal_object::{created_at, name_of};
use serde::Serialize;

use crate::bundle::{is_rollback, phase_of};
use crate::intent::{came, entry, is_under_way};

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

/// Somebody closed the pull request of a promotion without merging it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// Who.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Whether it was merged all the same.
    pub overruled: bool,
}

/// What the gates said to a promotion when it came in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateTally {
    /// How many were asked.
    pub asked: usize,
    /// How many of them were open.
    pub passed: usize,
    /// Who passed one that was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_by: Option<String>,
    /// Whether one had only just closed: the check of the pull request was still green.
    pub check_was_green: bool,
}

/// The latest promotions through a Pipeline, or to one of its environments, the latest first.
pub fn history(bundles: &[Bundle], environment: Option<&str>, limit: usize) -> Vec<Past> {
    let mut entries = past(bundles);
    entries.retain(|entry| environment.is_none_or(|wanted| entry.environment == wanted));
    entries.truncate(limit);
    entries
}

/// All promotions, the latest first: what is under way, then by the time at which it arrived or was rejected. What has no
/// such time is as old as its Bundle.
fn past(bundles: &[Bundle]) -> Vec<Past> {
    let mut all: Vec<(&Bundle, &String, &EnvironmentStatus)> = bundles
        .iter()
        .flat_map(|bundle| {
            let records = bundle.status.iter().flat_map(|status| &status.environments);
            records.map(move |(environment, record)| (bundle, environment, record))
        })
        .collect();
    all.sort_by_cached_key(|(bundle, environment, _)| {
        let rejected_at = entry(bundle, environment).and_then(|entry| entry.rejected_at);
        let at = came(bundle, environment).max(rejected_at);
        Reverse((is_under_way(bundle, environment), at, created_at(&bundle.metadata)))
    });
    let row = |(bundle, environment, record): (&Bundle, &String, &EnvironmentStatus)| Past {
        bundle: name_of(&bundle.metadata).to_owned(),
        version: crate::gate_context::version(&bundle.spec),
        environment: environment.clone(),
        rollback: is_rollback(bundle),
        outcome: outcome(bundle, record),
        not_proven: not_proven(record),
        record: record.clone(),
    };
    all.into_iter().map(row).collect()
}

/// A Bundle that was superseded leaves its last state behind, which is not what it is in.
fn outcome(bundle: &Bundle, record: &EnvironmentStatus) -> PastOutcome {
    let open = |outcome| match phase_of(bundle) {
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

impl Past {
    /// Who closed its pull request, and whether that was the end of it. Absent: nobody did.
    pub fn rejection(&self) -> Option<Rejection> {
        let overruled = self.outcome == PastOutcome::Failed && self.record.rejected_at.is_some();
        (self.outcome == PastOutcome::Rejected || overruled).then(|| Rejection {
            by: self.record.rejected_by.clone(),
            at: self.record.rejected_at,
            overruled,
        })
    }

    /// What the gates said. What they say before a change came in is no evidence for it: they may say something else by
    /// then.
    pub fn gates(&self) -> Option<GateTally> {
        let has_come = self.record.promoted_at.or(self.record.verified_at).is_some();
        let evidence = self.record.evidence.as_ref().filter(|_| has_come)?;
        let asked = evidence.policy_gates.as_deref().filter(|asked| !asked.is_empty())?;
        Some(GateTally {
            asked: asked.len(),
            passed: asked.iter().filter(|gate| gate.result == GateResult::Pass).count(),
            forced_by: asked.iter().find_map(|gate| gate.forced_by.clone()),
            check_was_green: asked.iter().any(|gate| gate.check_was_green == Some(true)),
        })
    }

    /// `Verified`, or `Rejected by bob at 2026-04-14T14:05:00Z`, perhaps `, merged all the same`.
    pub fn render_outcome(&self) -> String {
        if let Some(Rejection { by, at, overruled }) = self.rejection() {
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            let at = at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
            let end = if overruled { ", merged all the same" } else { "" };
            return format!("{}{by}{at}{end}", PastOutcome::Rejected.as_str());
        }
        let word = self.outcome.as_str();
        if self.not_proven.is_some() { format!("{word} (not proven)") } else { word.to_owned() }
    }
}

impl GateTally {
    /// `2/2 passed`, `1/2 passed, forced by bob`, or `1/2 passed, check was green` where a gate had only just closed.
    pub fn render(&self) -> String {
        let GateTally { asked, passed, forced_by, check_was_green } = self;
        match forced_by {
            Some(by) => format!("{passed}/{asked} passed, forced by {by}"),
            None if *check_was_green => format!("{passed}/{asked} passed, check was green"),
            None => format!("{passed}/{asked} passed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn past_of(outcome: PastOutcome, record: serde_json::Value) -> Past {
        Past {
            bundle: "b".to_owned(),
            version: "1.0.0".to_owned(),
            environment: "prod".to_owned(),
            rollback: false,
            outcome,
            not_proven: None,
            record: serde_json::from_value(record).unwrap(),
        }
    }

    #[test]
    fn gates_are_told_of_what_has_come_in_and_not_of_what_waits() {
        let at = "2026-04-09T10:00:00Z";
        let open = json!({"name": "a", "result": "pass", "evaluatedAt": at});
        let closed = json!({"name": "b", "result": "fail", "evaluatedAt": at});
        let forced = json!({"name": "b", "result": "fail", "evaluatedAt": at, "forcedBy": "mallory"});
        let green = json!({"name": "b", "result": "fail", "evaluatedAt": at, "checkWasGreen": true});
        let told = |promoted: Option<&str>, gates: &[&serde_json::Value]| {
            let record = json!({"promotedAt": promoted, "evidence": {"policyGates": gates}});
            past_of(PastOutcome::Promoting, record).gates().map(|tally| tally.render())
        };
        for (gates, wanted) in [
            (vec![&open, &open], Some("2/2 passed")),
            (vec![&open, &closed], Some("1/2 passed")),
            (vec![&open, &forced], Some("1/2 passed, forced by mallory")),
            (vec![&open, &green], Some("1/2 passed, check was green")),
            (vec![&green, &forced], Some("0/2 passed, forced by mallory")),
            (vec![], None),
        ] {
            assert_eq!(told(Some(at), &gates).as_deref(), wanted);
            assert_eq!(told(None, &gates), None, "they may have closed since");
        }
    }

    #[test]
    fn a_rejection_is_told_with_who_when_and_whether_it_was_the_end() {
        let at = json!({"rejectedAt": "2026-04-14T14:05:00Z", "rejectedBy": "bob"});
        for (outcome, record, wanted) in [
            (PastOutcome::Rejected, at.clone(), "Rejected by bob at 2026-04-14T14:05:00Z"),
            (PastOutcome::Rejected, json!({}), "Rejected"),
            (PastOutcome::Failed, at.clone(), "Rejected by bob at 2026-04-14T14:05:00Z, merged all the same"),
            (PastOutcome::Failed, json!({}), "Failed"),
            (PastOutcome::Verified, at, "Verified"),
        ] {
            assert_eq!(past_of(outcome, record).render_outcome(), wanted);
        }
        let mut doubtful = past_of(PastOutcome::Verified, json!({}));
        doubtful.not_proven = Some("nothing names the commit".to_owned());
        assert_eq!(doubtful.render_outcome(), "Verified (not proven)");
    }

    #[test]
    fn a_history_is_of_one_environment_or_of_all_and_has_an_end() {
        let record =
            |minute: u8| json!({"state": "Verified", "verifiedAt": format!("2026-04-09T10:{minute:02}:00Z")});
        let bundle = |name: &str, minute: u8| -> Bundle {
            serde_json::from_value(json!({
                "metadata": {"name": name},
                "spec": {"artifacts": {"images": [{"name": "a", "reference": "r/a:1"}]}},
                "status": {"environments": {"dev": record(minute), "prod": record(minute + 1)}},
            }))
            .unwrap()
        };
        let bundles = [bundle("one", 1), bundle("two", 5)];
        let told = |environment: Option<&str>, limit: usize| -> Vec<String> {
            let entries = history(&bundles, environment, limit);
            entries.iter().map(|one| format!("{} {}", one.bundle, one.environment)).collect()
        };
        assert_eq!(told(None, 20), ["two prod", "two dev", "one prod", "one dev"]);
        assert_eq!(told(None, 3), ["two prod", "two dev", "one prod"]);
        assert_eq!(told(Some("dev"), 1), ["two dev"], "the limit counts what is shown");
        assert!(told(Some("nowhere"), 20).is_empty() && history(&[], None, 20).is_empty());
    }
}
