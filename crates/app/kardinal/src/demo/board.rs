//! One line for each transition: when, where, which version, how it stands, what it waits for and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::kardinal::Bundle;
use kardinal_promotion::explain::{Explanation, Promotion};
use kardinal_promotion::view::{BoardRow, Tone, board_row, last_row, new_row, until};

use crate::output::clean_line;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// What was printed so far.
pub(super) struct Board {
    zone: TimeZone,
    known: BTreeSet<String>,
    /// By environment: the Bundle that was printed last, and how it stood.
    rows: BTreeMap<String, (String, BoardRow)>,
    begun: bool,
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
            let Some(row) = board_row(promotion) else { continue };
            let environment = &promotion.environment;
            let printed = (promotion.bundle.clone().unwrap_or_default(), row);
            if self.rows.get(environment) == Some(&printed) {
                continue;
            }
            let until = until(promotion, now).map(|until| format!(", {until}")).unwrap_or_default();
            self.line(&mut text, now, environment, &printed.1, &until);
            self.rows.insert(environment.clone(), printed);
        }
        text
    }

    /// Another Bundle is on its way before the end of the last one was printed.
    fn finish(&mut self, text: &mut String, now: Timestamp, bundles: &[Bundle], promotion: &Promotion) {
        let environment = &promotion.environment;
        let Some((last, printed)) = self.rows.get(environment) else { return };
        if promotion.bundle.as_ref() == Some(last) {
            return;
        }
        let found = bundles.iter().find(|bundle| bundle.metadata.name.as_ref() == Some(last));
        let Some(row) = found.and_then(|bundle| last_row(bundle, environment)) else { return };
        if row != *printed {
            self.line(text, now, environment, &row, "");
            self.rows.insert(environment.clone(), (last.clone(), row));
        }
    }

    /// A Bundle that was not there before. What was there at the start is told by the environments.
    fn announce(&mut self, text: &mut String, now: Timestamp, bundle: &Bundle, first: bool) {
        let name = bundle.metadata.name.clone().unwrap_or_default();
        if !self.known.insert(name) || !(self.begun || first) {
            return;
        }
        let (what, row) = new_row(bundle);
        self.line(text, now, what, &row, "");
    }

    fn line(&self, text: &mut String, now: Timestamp, what: &str, row: &BoardRow, until: &str) {
        let time = now.to_zoned(self.zone.clone()).strftime("%H:%M:%S");
        let BoardRow { version, state, tone } = row;
        let (what, version, state) = (clean_line(what), clean_line(version), clean_line(state));
        let colour = colour(*tone);
        let _ = writeln!(text, "{time}  {what:<8}  {version:<13}  {colour}{state}{PLAIN}{until}");
    }
}

fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => GREEN,
        Tone::Bad => RED,
        Tone::Waiting => YELLOW,
        Tone::New => CYAN,
        Tone::Plain => PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use kardinal_api::kardinal::PromotionState;
    use kardinal_promotion::explain::{Outcome, Subject, Wait, WaitOn, Who};
    use serde_json::json;

    use super::*;

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
