//! One line for each transition: when, where, which version, how it stands, what it waits for and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, PromotionState};
use kardinal_promotion::bundle::ROLLBACK_LABEL;
use kardinal_promotion::explain::{Explanation, Outcome, Promotion, Wait, WaitOn, Who, display_version};

use crate::output::clean_line;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";
const VERIFIED: &str = "verified";

/// What was told so far.
pub(super) struct Board {
    zone: TimeZone,
    known: BTreeSet<String>,
    /// By environment: the Bundle that was told last, and how it stood.
    rows: BTreeMap<String, (String, Row)>,
    begun: bool,
}

/// How an environment stands. Two that are equal are told once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    version: String,
    state: String,
    colour: &'static str,
}

impl Board {
    pub(super) fn new(zone: TimeZone) -> Board {
        Board { zone, known: BTreeSet::new(), rows: BTreeMap::new(), begun: false }
    }

    /// The lines that are news. The Bundles come with the newest first.
    pub(super) fn update(&mut self, bundles: &[Bundle], explanation: &Explanation) -> String {
        let mut text = String::new();
        let now = explanation.now;
        for promotion in &explanation.environments {
            self.finish(&mut text, now, bundles, promotion);
        }
        for bundle in bundles.iter().rev() {
            self.announce(&mut text, now, bundle, bundles.len() == 1);
        }
        self.begun = true;
        for promotion in &explanation.environments {
            let Some(row) = row(promotion) else { continue };
            let bundle = promotion.bundle.clone().unwrap_or_default();
            let told = (bundle, row);
            if self.rows.get(&promotion.environment) == Some(&told) {
                continue;
            }
            let until = promotion.waits.first().and_then(|wait| until(wait, now));
            self.line(&mut text, now, &promotion.environment, &told.1, &until.unwrap_or_default());
            self.rows.insert(promotion.environment.clone(), told);
        }
        text
    }

    /// Another Bundle is on its way before the end of the last one was told.
    fn finish(&mut self, text: &mut String, now: Timestamp, bundles: &[Bundle], promotion: &Promotion) {
        let environment = &promotion.environment;
        let Some((last, told)) = self.rows.get(environment) else { return };
        if promotion.bundle.as_ref() == Some(last) {
            return;
        }
        let found = bundles.iter().find(|bundle| bundle.metadata.name.as_ref() == Some(last));
        let record = found.and_then(|bundle| bundle.status.as_ref()?.environments.get(environment));
        let (state, colour) = match record.and_then(|record| record.state) {
            Some(PromotionState::Verified) => (VERIFIED.to_owned(), GREEN),
            Some(PromotionState::Failed) => {
                let why = record.and_then(|record| record.message.clone()).unwrap_or_default();
                (format!("FAILED: {why}"), RED)
            }
            _ => return,
        };
        let row = Row { version: told.version.clone(), state, colour };
        if row != *told {
            self.line(text, now, environment, &row, "");
            self.rows.insert(environment.clone(), (last.clone(), row));
        }
    }

    /// A Bundle that was not there before. What was there at the start is told by the environments.
    fn announce(&mut self, text: &mut String, now: Timestamp, bundle: &Bundle, first: bool) {
        let name = bundle.metadata.name.clone().unwrap_or_default();
        if !self.known.insert(name.clone()) || !(self.begun || first) {
            return;
        }
        let labels = bundle.metadata.labels.as_ref();
        let what = match labels.is_some_and(|labels| labels.contains_key(ROLLBACK_LABEL)) {
            true => "rollback",
            false => "new",
        };
        let version = display_version(&kardinal_promotion::gate_context::version(&bundle.spec));
        let row = Row { version, state: format!("Bundle {name}"), colour: CYAN };
        self.line(text, now, what, &row, "");
    }

    fn line(&self, text: &mut String, now: Timestamp, what: &str, row: &Row, until: &str) {
        let time = now.to_zoned(self.zone.clone()).strftime("%H:%M:%S");
        let Row { version, state, colour } = row;
        let (what, version, state) = (clean_line(what), clean_line(version), clean_line(state));
        let _ = writeln!(text, "{time}  {what:<8}  {version:<13}  {colour}{state}{PLAIN}{until}");
    }
}

/// How an environment stands, unless it only waits for the ones before it.
fn row(promotion: &Promotion) -> Option<Row> {
    let first = promotion.waits.first();
    let (state, colour) = match promotion.outcome {
        Outcome::Idle => return None,
        Outcome::Verified => (VERIFIED.to_owned(), GREEN),
        Outcome::Failed => (promotion.result.clone(), RED),
        _ => match first.map(|wait| (wait.on, wait)) {
            Some((WaitOn::Upstream, _)) => return None,
            Some((WaitOn::Gate, _)) => (format!("waits for {}", gates(&promotion.waits)), YELLOW),
            Some((WaitOn::PullRequest, wait)) if is_for_people(wait) => {
                (format!("waits for you to merge {}  {}", wait.subject.name, wait.detail), YELLOW)
            }
            Some((WaitOn::PullRequest, wait)) => (format!("merges {} by itself", wait.subject.name), PLAIN),
            Some((WaitOn::Health, _)) => ("is deployed, waits to be healthy".to_owned(), PLAIN),
            Some((WaitOn::Bundle, wait)) => {
                (format!("waits for {}: {}", wait.subject.name, wait.detail), YELLOW)
            }
            Some((WaitOn::Pause | WaitOn::Agent | WaitOn::Action | WaitOn::Outside, wait)) => {
                (format!("waits: {}", wait.detail), YELLOW)
            }
            // Without a step, what comes next may as well be a gate.
            Some((WaitOn::Controller, _)) | None if promotion.state.is_none() => return None,
            Some((WaitOn::Controller, _)) | None => ("promoting".to_owned(), PLAIN),
        },
    };
    let version = display_version(promotion.version.as_deref().unwrap_or_default());
    Some(Row { version, state, colour })
}

/// Whether a pull request waits for a person; the others kardinal merges by itself.
pub(super) fn is_for_people(wait: &Wait) -> bool {
    wait.on == WaitOn::PullRequest && wait.who == Who::Person
}

fn gates(waits: &[Wait]) -> String {
    let names: Vec<&str> =
        waits.iter().filter(|wait| wait.on == WaitOn::Gate).map(|wait| wait.subject.name.as_str()).collect();
    names.join(" and ")
}

/// Until when, as far as that is known.
fn until(wait: &Wait, now: Timestamp) -> Option<String> {
    let left = |instant: Timestamp| seconds(instant.duration_since(now));
    match (wait.until, wait.deadline) {
        (Some(eta), _) => Some(format!(", opens in {}", left(eta))),
        (None, Some(deadline)) => Some(format!(", at most {}", left(deadline))),
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

#[cfg(test)]
mod tests {
    use kardinal_promotion::explain::Subject;

    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-04-09T10:00:00Z";

    fn promotion(environment: &str, bundle: &str, outcome: Outcome, waits: Vec<Wait>) -> Promotion {
        Promotion {
            environment: environment.to_owned(),
            bundle: Some(bundle.to_owned()),
            version: Some(bundle.to_owned()),
            phase: None,
            state: Some(PromotionState::Promoting),
            gates: Vec::new(),
            waits,
            outcome,
            result: String::new(),
            has: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn explanation(environments: Vec<Promotion>) -> Explanation {
        Explanation {
            pipeline: "my-app".to_owned(),
            namespace: "default".to_owned(),
            now: NOW.parse().unwrap(),
            environments,
            next_change: None,
        }
    }

    fn bundle(tag: &str, prod: &str) -> Bundle {
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "metadata": {"name": tag},
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": format!("my-app:{tag}")}]}},
            "status": {"environments": {"prod": {"state": prod, "message": "it is not healthy"}}},
        }))
        .unwrap()
    }

    fn gate(seconds: i64) -> Wait {
        let until = NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let wait = Wait::new(WaitOn::Gate, "Closed", Subject::new("staging-soak"), Who::Time);
        Wait { until: Some(until), ..wait }
    }

    fn plain(text: &str) -> String {
        [GREEN, RED, YELLOW, CYAN, PLAIN]
            .iter()
            .fold(text.to_owned(), |text, colour| text.replace(colour, ""))
    }

    #[test]
    fn a_transition_is_told_once_and_a_countdown_is_none() {
        let mut board = Board::new(TimeZone::UTC);
        let waiting =
            |seconds| explanation(vec![promotion("prod", "1.1.0", Outcome::Blocked, vec![gate(seconds)])]);
        let all = [bundle("1.1.0", "Pending")];
        assert_eq!(
            plain(&board.update(&all, &waiting(4))),
            "10:00:00  new       v1.1.0         Bundle 1.1.0\n\
             10:00:00  prod      v1.1.0         waits for staging-soak, opens in 4 s\n"
        );
        assert_eq!(board.update(&all, &waiting(3)), "");
        let verified = explanation(vec![promotion("prod", "1.1.0", Outcome::Verified, Vec::new())]);
        assert!(plain(&board.update(&all, &verified)).ends_with("v1.1.0         verified\n"));
        assert_eq!(board.update(&all, &verified), "");
    }

    #[test]
    fn only_people_are_asked_to_merge() {
        let said = |reason: &str, who: Who| {
            let request = Wait::new(WaitOn::PullRequest, reason, Subject::new("PR #2"), who).detail("URL");
            row(&promotion("prod", "1.1.0", Outcome::Waiting, vec![request])).unwrap().state
        };
        assert_eq!(said("Review", Who::Person), "waits for you to merge PR #2  URL");
        assert_eq!(said("Merging", Who::Kardinal), "merges PR #2 by itself");
    }

    #[test]
    fn the_end_of_the_last_version_is_told_before_the_next_one() {
        let mut board = Board::new(TimeZone::UTC);
        let now = |name| explanation(vec![promotion("prod", name, Outcome::Promoting, Vec::new())]);
        board.update(&[bundle("1.1.0", "Pending")], &now("1.1.0"));
        let lines =
            plain(&board.update(&[bundle("1.0.0", "Pending"), bundle("1.1.0", "Failed")], &now("1.0.0")));
        let said: Vec<&str> = lines.lines().filter_map(|line| line.get(35..)).collect();
        assert_eq!(said, ["FAILED: it is not healthy", "Bundle 1.0.0", "promoting"]);
    }
}
