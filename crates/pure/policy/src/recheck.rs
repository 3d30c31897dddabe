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

/// What is wrong with the interval that a gate wants, as the schema says it.
pub fn check_recheck_interval(gate: &PolicyGateSpec) -> Result<(), String> {
    let Some(text) = &gate.recheck_interval else { return Ok(()) };
    match text.parse().map_err(|error| error.to_string())? < MIN_RECHECK {
        false => Ok(()),
        true => Err(format!(
            "`{text}` is too short: a gate is asked again after 10s at the earliest; write `10s` or more, such as `5m`"
        )),
    }
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
        for (text, seconds, wrong) in [
            (None, 300, None),
            (Some("5m"), 300, None),
            (Some("1m"), 60, None),
            (Some("10s"), 10, None),
            (Some("0s"), 10, Some("`0s` is too short")),
            (Some("9.9s"), 10, Some("`9.9s` is too short")),
            (Some("often"), 300, Some("`often` is not a duration")),
        ] {
            assert_eq!(recheck_interval(&gate(text)).as_secs(), seconds, "{text:?}");
            assert_eq!(freshness(&gate(text)).as_secs(), 2 * seconds, "{text:?}");
            let said = check_recheck_interval(&gate(text)).err();
            assert_eq!(said.is_some(), wrong.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().starts_with(wrong.unwrap_or_default()), "{text:?}");
        }
    }
}
