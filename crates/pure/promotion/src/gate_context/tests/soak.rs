//! How long a Bundle has been verified before its environment, and when that lets it in.

use super::door::{at, door, gate};
use crate::gate_context::bundle::soaking_since;

#[test]
fn soaking_starts_when_the_last_upstream_is_verified() {
    let door = door().verified(&[("eu", "2026-04-14T12:00:00Z"), ("us", "2026-04-14T13:50:00Z")]);
    assert_eq!(soaking_since(&door.bundle, &door.upstreams), Some(at("2026-04-14T13:50:00Z")));
    assert_eq!(soaking_since(&door.bundle, &["asia".to_owned()]), None);
    assert_eq!(soaking_since(&door.bundle, &[]), None);
}

#[test]
fn a_soak_gate_opens_to_the_second() {
    let soaking = || door().verified(&[("staging", "2026-04-14T13:48:07Z")]);
    // Verified 11 minutes and 53 seconds ago.
    for (expression, expected) in [
        ("bundle.upstreamSoakMinutes >= 30", Some("2026-04-14T14:18:07Z")),
        ("bundle.upstreamSoakMinutes == 12", Some("2026-04-14T14:00:07Z")),
        ("bundle.upstreamSoakMinutes * 2 >= 60", Some("2026-04-14T14:18:07Z")),
        ("bundle.upstreamSoakSeconds > 1800", Some("2026-04-14T14:18:08Z")),
        (
            "bundle.upstreamSoakSeconds >= 1790 && bundle.upstreamSoakMinutes >= 29",
            Some("2026-04-14T14:17:57Z"),
        ),
        ("bundle.upstreamSoakMinutes >= 6000 && !schedule.isWeekend", Some("2026-04-20T00:00:00Z")),
        ("bundle.upstreamSoakMinutes >= 9223372036854775807", None),
    ] {
        let told = soaking().says(expression);
        assert_eq!((told.is_open(), told.satisfied_at), (false, expected.map(at)), "{expression}");
    }
    assert_eq!(door().says("bundle.upstreamSoakMinutes >= 30").next_change, None, "nothing was verified");
}

#[test]
fn a_pull_request_tells_the_soak() {
    let context = door().verified(&[("staging", "2026-04-14T13:15:00Z")]).context();
    for (expression, expected) in [
        ("bundle.upstreamSoakMinutes >= 30", "Soak: 45m (min: 30m)"),
        ("bundle.upstreamSoakSeconds < 30", "Soak: 2700s (max: 30s)"),
        ("!schedule.isWeekend", "Tuesday 14:00 UTC"),
    ] {
        assert_eq!(kardinal_policy::detail(&gate(expression), &context), expected);
    }
}
