//! One line for each environment of a Pipeline while versions travel: which version, how it stands, until when; and what
//! somebody could do about it.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, PromotionState};
use kardinal_object::name_of;
use serde::Serialize;

use crate::bundle::is_rollback;
use crate::explain::{Explanation, Outcome, Promotion, Wait, WaitOn, Who, display_version};
use crate::intent::entry;
use crate::promotion_step::why::number;

/// How an environment stands. Two lines that are equal are no news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoardRow {
    /// How people call the version.
    pub version: String,
    /// How it stands, in words.
    pub state: String,
    /// How that is meant.
    pub tone: Tone,
}

/// Whether what is said is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// It has arrived.
    Good,
    /// It has failed.
    Bad,
    /// It waits for something.
    Waiting,
    /// It was not there before.
    New,
    /// It goes on.
    Plain,
}

/// How an environment stands, unless it only waits for the ones before it.
pub fn board_row(promotion: &Promotion) -> Option<BoardRow> {
    let (state, tone) = match promotion.outcome {
        Outcome::Idle => return None,
        Outcome::Verified => (VERIFIED.to_owned(), Tone::Good),
        Outcome::Failed => (promotion.result.clone(), Tone::Bad),
        Outcome::Promoting | Outcome::Waiting | Outcome::Blocked => under_way(promotion)?,
    };
    let version = display_version(promotion.version.as_deref().unwrap_or_default());
    Some(BoardRow { version, state, tone })
}

const VERIFIED: &str = "verified";

fn under_way(promotion: &Promotion) -> Option<(String, Tone)> {
    let waits = &promotion.waits;
    Some(match waits.first().map(|wait| (wait.on, wait)) {
        Some((WaitOn::Upstream, _)) => return None,
        Some((WaitOn::Gate, _)) => (format!("waits for {}", gates(waits)), Tone::Waiting),
        Some((WaitOn::PullRequest, wait)) if is_for_people(wait) => {
            (format!("waits for you to merge {}  {}", wait.subject.name, wait.detail), Tone::Waiting)
        }
        Some((WaitOn::PullRequest, wait)) => (format!("merges {} by itself", wait.subject.name), Tone::Plain),
        Some((WaitOn::Health, _)) => ("is deployed, waits to be healthy".to_owned(), Tone::Plain),
        Some((WaitOn::Bundle, wait)) => {
            (format!("waits for {}: {}", wait.subject.name, wait.detail), Tone::Waiting)
        }
        Some((WaitOn::Pause | WaitOn::Agent | WaitOn::Action | WaitOn::Outside, wait)) => {
            (format!("waits: {}", wait.detail), Tone::Waiting)
        }
        // Without a step, what comes next may as well be a gate.
        Some((WaitOn::Controller, _)) | None if promotion.state.is_none() => return None,
        Some((WaitOn::Controller, _)) | None => ("promoting".to_owned(), Tone::Plain),
    })
}

/// Whether a pull request waits for a person; the others kardinal merges by itself.
fn is_for_people(wait: &Wait) -> bool {
    wait.on == WaitOn::PullRequest && wait.who == Who::Person
}

fn gates(waits: &[Wait]) -> String {
    let names: Vec<&str> =
        waits.iter().filter(|wait| wait.on == WaitOn::Gate).map(|wait| wait.subject.name.as_str()).collect();
    names.join(" and ")
}

/// How a Bundle has ended in an environment to which another one is on its way now. Nothing: it has come to no end there.
pub fn last_row(bundle: &Bundle, environment: &str) -> Option<BoardRow> {
    let record = entry(bundle, environment)?;
    let (state, tone) = match record.state? {
        PromotionState::Verified => (VERIFIED.to_owned(), Tone::Good),
        PromotionState::Failed => {
            (format!("FAILED: {}", record.message.as_deref().unwrap_or_default()), Tone::Bad)
        }
        PromotionState::Pending
        | PromotionState::Promoting
        | PromotionState::WaitingForMerge
        | PromotionState::HealthChecking => return None,
    };
    let version = display_version(&crate::gate_context::version(&bundle.spec));
    Some(BoardRow { version, state, tone })
}

/// A Bundle that was not there before, with a word for what it is.
pub fn new_row(bundle: &Bundle) -> (&'static str, BoardRow) {
    let what = if is_rollback(bundle) { "rollback" } else { "new" };
    let version = display_version(&crate::gate_context::version(&bundle.spec));
    (what, BoardRow { version, state: format!("Bundle {}", name_of(&bundle.metadata)), tone: Tone::New })
}

/// Until when an environment waits as it does, as far as that is known: `opens in 4 s`, `at most 20 s`.
pub fn until(promotion: &Promotion, now: Timestamp) -> Option<String> {
    let left = |instant: Timestamp| seconds(instant.duration_since(now));
    let wait = promotion.waits.first()?;
    match (wait.until, wait.deadline) {
        (Some(opens), _) => Some(format!("opens in {}", left(opens))),
        (None, Some(deadline)) => Some(format!("at most {}", left(deadline))),
        (None, None) => None,
    }
}

/// `4 s`, `3 min`, `2 h`; a started one counts.
fn seconds(left: SignedDuration) -> String {
    let seconds = u64::try_from(left.as_millis()).unwrap_or_default().div_ceil(1000);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// What a person could do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Merge the pull request with this number, which waits for a person.
    Merge(u64),
    /// Release another version: everything has arrived.
    Release,
}

/// What there is to do for a person. Nothing: kardinal is at work, or waits for something else.
pub fn next(explanation: &Explanation) -> Option<Next> {
    let environments = &explanation.environments;
    let mut waits = environments.iter().flat_map(|promotion| &promotion.waits);
    if let Some(request) = waits.find(|wait| is_for_people(wait)) {
        return number(request).map(Next::Merge);
    }
    let is_at_rest = |outcome: Outcome| match outcome {
        Outcome::Verified | Outcome::Idle => true,
        Outcome::Promoting | Outcome::Waiting | Outcome::Blocked | Outcome::Failed => false,
    };
    environments.iter().all(|promotion| is_at_rest(promotion.outcome)).then_some(Next::Release)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::explain::Subject;

    const NOW: &str = "2026-04-09T10:00:00Z";

    fn at(seconds: i64) -> Timestamp {
        NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    fn promotion(outcome: Outcome, state: Option<PromotionState>, waits: Vec<Wait>) -> Promotion {
        Promotion {
            environment: "prod".to_owned(),
            bundle: Some("b".to_owned()),
            version: Some("1.1.0".to_owned()),
            phase: None,
            state,
            gates: Vec::new(),
            waits,
            outcome,
            result: "FAILED: broken".to_owned(),
            has: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn wait(on: WaitOn, who: Who) -> Wait {
        Wait::new(on, "Reason", Subject::new("it"), who).detail("words")
    }

    #[test]
    fn an_environment_says_what_it_waits_for_first() {
        let begun = Some(PromotionState::Promoting);
        let (time, person, kardinal) = (Who::Time, Who::Person, Who::Kardinal);
        for (outcome, state, waits, expected) in [
            (Outcome::Idle, None, vec![], None),
            (Outcome::Verified, begun, vec![], Some(("verified", Tone::Good))),
            (Outcome::Failed, begun, vec![], Some(("FAILED: broken", Tone::Bad))),
            (Outcome::Blocked, begun, vec![(WaitOn::Gate, time)], Some(("waits for it", Tone::Waiting))),
            (
                Outcome::Blocked,
                None,
                vec![(WaitOn::Gate, time), (WaitOn::Health, time), (WaitOn::Gate, person)],
                Some(("waits for it and it", Tone::Waiting)),
            ),
            (
                Outcome::Waiting,
                begun,
                vec![(WaitOn::PullRequest, person)],
                Some(("waits for you to merge it  words", Tone::Waiting)),
            ),
            (
                Outcome::Waiting,
                begun,
                vec![(WaitOn::PullRequest, kardinal)],
                Some(("merges it by itself", Tone::Plain)),
            ),
            (
                Outcome::Waiting,
                begun,
                vec![(WaitOn::Health, time)],
                Some(("is deployed, waits to be healthy", Tone::Plain)),
            ),
            (
                Outcome::Waiting,
                begun,
                vec![(WaitOn::Bundle, kardinal)],
                Some(("waits for it: words", Tone::Waiting)),
            ),
            (Outcome::Blocked, begun, vec![(WaitOn::Pause, person)], Some(("waits: words", Tone::Waiting))),
            (Outcome::Waiting, None, vec![(WaitOn::Upstream, kardinal)], None),
            (
                Outcome::Promoting,
                begun,
                vec![(WaitOn::Controller, kardinal)],
                Some(("promoting", Tone::Plain)),
            ),
            (Outcome::Promoting, begun, vec![], Some(("promoting", Tone::Plain))),
            (Outcome::Promoting, None, vec![(WaitOn::Controller, kardinal)], None),
            (Outcome::Promoting, None, vec![], None),
        ] {
            let waits = waits.into_iter().map(|(on, who)| wait(on, who)).collect();
            let promotion = promotion(outcome, state, waits);
            let row = board_row(&promotion);
            let row = row.as_ref().map(|row| (row.version.as_str(), row.state.as_str(), row.tone));
            assert_eq!(row, expected.map(|(state, tone)| ("v1.1.0", state, tone)), "{promotion:?}");
        }
    }

    #[test]
    fn the_last_version_is_shown_when_it_has_come_to_its_end() {
        for (record, expected) in [
            (json!({"prod": {"state": "Verified"}}), Some(("verified", Tone::Good))),
            (json!({"prod": {"state": "Failed", "message": "sick"}}), Some(("FAILED: sick", Tone::Bad))),
            (json!({"prod": {"state": "Failed"}}), Some(("FAILED: ", Tone::Bad))),
            (json!({"prod": {"state": "HealthChecking"}}), None),
            (json!({"prod": {}}), None),
            (json!({"dev": {"state": "Verified"}}), None),
            (Value::Null, None),
        ] {
            let bundle: Bundle = serde_json::from_value(json!({
                "metadata": {"name": "b"},
                "spec": {"artifacts": {"images": [{"name": "a", "reference": "r/a:1.1.0"}]}},
                "status": {"environments": if record.is_null() { json!({}) } else { record.clone() }},
            }))
            .unwrap();
            let row = last_row(&bundle, "prod");
            let row = row.as_ref().map(|row| (row.version.as_str(), row.state.as_str(), row.tone));
            assert_eq!(row, expected.map(|(state, tone)| ("v1.1.0", state, tone)), "{record}");
        }
    }

    #[test]
    fn a_new_bundle_says_whether_it_takes_another_one_back() {
        for (labels, what) in [
            (json!({}), "new"),
            (json!({"kardinal.io/rollback": "true"}), "rollback"),
            (json!({"kardinal.io/rollback": "false"}), "new"),
        ] {
            let bundle: Bundle = serde_json::from_value(json!({
                "metadata": {"name": "b", "labels": labels},
                "spec": {"artifacts": {"images": [{"name": "a", "reference": "r/a:1.1.0"}]}},
            }))
            .unwrap();
            let row =
                BoardRow { version: "v1.1.0".to_owned(), state: "Bundle b".to_owned(), tone: Tone::New };
            assert_eq!(new_row(&bundle), (what, row));
        }
    }

    #[test]
    fn what_is_left_is_counted_up() {
        for (until_in, at_most, expected) in [
            (Some(4), Some(100), Some("opens in 4 s")),
            (None, Some(119), Some("at most 119 s")),
            (Some(121), None, Some("opens in 3 min")),
            (Some(7200), None, Some("opens in 2 h")),
            (Some(-1), None, Some("opens in 0 s")),
            (None, None, None),
        ] {
            let gate =
                Wait { until: until_in.map(at), deadline: at_most.map(at), ..wait(WaitOn::Gate, Who::Time) };
            let promotion = promotion(Outcome::Blocked, None, vec![gate]);
            assert_eq!(until(&promotion, at(0)).as_deref(), expected);
        }
        assert_eq!(until(&promotion(Outcome::Promoting, None, Vec::new()), at(0)), None);
    }

    #[test]
    fn a_person_merges_or_releases_or_has_nothing_to_do() {
        let request = |number: &str| wait(WaitOn::PullRequest, Who::Person).value("number", number);
        let merged_by_us = wait(WaitOn::PullRequest, Who::Kardinal).value("number", "7");
        for (promotions, expected) in [
            (vec![(Outcome::Waiting, vec![request("7")])], Some(Next::Merge(7))),
            (vec![(Outcome::Verified, vec![]), (Outcome::Waiting, vec![request("7")])], Some(Next::Merge(7))),
            (vec![(Outcome::Waiting, vec![request("x")])], None),
            (vec![(Outcome::Waiting, vec![merged_by_us])], None),
            (vec![(Outcome::Verified, vec![]), (Outcome::Idle, vec![])], Some(Next::Release)),
            (vec![(Outcome::Verified, vec![]), (Outcome::Failed, vec![])], None),
            (vec![(Outcome::Promoting, vec![])], None),
        ] {
            let environments =
                promotions.into_iter().map(|(outcome, waits)| promotion(outcome, None, waits)).collect();
            let explanation = Explanation {
                pipeline: "my-app".to_owned(),
                namespace: "default".to_owned(),
                now: at(0),
                environments,
                next_change: None,
            };
            assert_eq!(next(&explanation), expected, "{explanation:?}");
        }
    }
}
