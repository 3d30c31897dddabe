//! How often a gate is asked, and how long its answer counts: one rule for everybody.

use jiff::SignedDuration;
use kardinal_api::PolicyGateSpec;

/// How often a gate is asked when it does not say.
const RECHECK: SignedDuration = SignedDuration::from_mins(5);
/// No gate is asked more often than this without a reason. The schema refuses less; what was stored before it did is
/// read as this.
const MIN_RECHECK: SignedDuration = SignedDuration::from_secs(10);

/// The longest time between two evaluations of a gate.
pub fn recheck_interval(gate: &PolicyGateSpec) -> SignedDuration {
    let written = gate.recheck_interval.as_ref().and_then(|text| text.parse().ok());
    written.unwrap_or(RECHECK).max(MIN_RECHECK)
}

/// How long an answer counts: two intervals, so that one late evaluation closes no gate.
pub fn freshness(gate: &PolicyGateSpec) -> SignedDuration {
    recheck_interval(gate).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use kardinal_api::GoDuration;

    use super::*;

    #[test]
    fn the_recheck_interval_has_one_rule_and_an_answer_always_counts_for_a_while() {
        let gate = |text: Option<&str>| PolicyGateSpec {
            recheck_interval: text.map(GoDuration::new),
            ..PolicyGateSpec::default()
        };
        for (text, seconds) in [
            (None, 300),
            (Some("5m"), 300),
            (Some("1m"), 60),
            (Some("10s"), 10),
            (Some("0s"), 10),
            (Some("9.9s"), 10),
            (Some("often"), 300),
        ] {
            assert_eq!(recheck_interval(&gate(text)).as_secs(), seconds, "{text:?}");
            assert_eq!(freshness(&gate(text)).as_secs(), 2 * seconds, "{text:?}");
        }
    }
}
