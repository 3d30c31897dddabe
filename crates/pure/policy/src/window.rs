//! When several gates are open at the same time.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::PolicyGateSpec;

use crate::evaluate::evaluate;
use crate::facts::Facts;

/// How far ahead the search looks.
const HORIZON: SignedDuration = SignedDuration::from_hours(400 * 24);
/// How many instants the search looks at.
const MAX_STEPS: usize = 500;

/// The first instant from now on at which all gates, each with what it is told, are open together although nothing else
/// changes. Nothing when there is none within 400 days, or when that takes too long to find out. Gates that each open at
/// some time need not have one: one may close before the other opens.
pub fn joint_window(gates: &[(&PolicyGateSpec, &Facts<'_>)], now: Timestamp) -> Option<Timestamp> {
    let mut at = now;
    for _ in 0..MAX_STEPS {
        if at.duration_since(now) > HORIZON {
            return None;
        }
        let mut latest = at;
        for (gate, facts) in gates {
            let verdict = evaluate(gate, &Facts { now: at, ..**facts });
            if !verdict.ready {
                // Before it opens there is no joint window, whatever the others do.
                latest = latest.max(verdict.next_change?);
            }
        }
        if latest == at {
            return Some(at);
        }
        at = latest;
    }
    None
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::{Approval, Bundle, BundleSpec};

    use super::*;
    use crate::facts::EnvironmentFacts;

    fn window(expressions: &[&str], now: &str) -> Option<String> {
        let gates: Vec<PolicyGateSpec> = expressions
            .iter()
            .map(|text| PolicyGateSpec { expression: (*text).to_owned(), ..PolicyGateSpec::default() })
            .collect();
        let bundle = Bundle::new("b", BundleSpec::default());
        let facts = Facts {
            bundle: &bundle,
            environment: EnvironmentFacts { name: "prod", approval: Approval::Auto, upstreams: &[] },
            previous: None,
            now: now.parse().unwrap(),
        };
        let gates: Vec<(&PolicyGateSpec, &Facts<'_>)> = gates.iter().map(|gate| (gate, &facts)).collect();
        joint_window(&gates, facts.now).map(|at| at.to_string())
    }

    #[test]
    fn the_joint_window_is_one_in_which_all_gates_are_open_together() {
        let saturday = "2026-04-11T15:00:00Z";
        // Each opens sooner on its own; together they are open on Tuesday from ten.
        let gates = [
            "!schedule.isWeekend",
            "schedule.hour >= 10 && schedule.hour < 12",
            "schedule.dayOfWeek != \"Monday\"",
        ];
        assert_eq!(window(&gates, saturday).as_deref(), Some("2026-04-14T10:00:00Z"));
        assert_eq!(window(&["true"], saturday).as_deref(), Some(saturday), "it is open now");
        assert_eq!(window(&[], saturday).as_deref(), Some(saturday));
        // One closes when the other opens: each has a window, together they have none.
        assert_eq!(window(&["schedule.hour < 9", "schedule.hour >= 9"], saturday), None);
        assert_eq!(window(&["false", "!schedule.isWeekend"], saturday), None);
    }
}
