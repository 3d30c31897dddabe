use super::*;

const NOW: &str = "2026-04-09T10:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn record(holder: Option<&str>, seconds: Option<i32>, transitions: i32) -> LeaseSpec {
    let earlier: Timestamp = "2026-04-09T09:00:00Z".parse().unwrap();
    LeaseSpec {
        holder_identity: holder.map(str::to_owned),
        lease_duration_seconds: seconds,
        acquire_time: Some(MicroTime(earlier)),
        renew_time: Some(MicroTime(earlier)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

/// What is decided, as `claim 3`, `renew 3` (with the transitions) or `wait 2s`.
fn check(found: Option<&LeaseSpec>, unchanged_ms: i64) -> String {
    let written = |word: &str, spec: &LeaseSpec| {
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(spec.lease_duration_seconds, Some(15));
        assert_eq!(spec.renew_time, Some(MicroTime(now())));
        format!("{word} {}", spec.lease_transitions.unwrap_or(-1))
    };
    match decide(found, SignedDuration::from_millis(unchanged_ms), "me", now()) {
        Decision::Claim(spec) => {
            assert_eq!(spec.acquire_time, Some(MicroTime(now())));
            written("claim", &spec)
        }
        Decision::Renew(spec) => {
            assert_eq!(spec.acquire_time, found.and_then(|found| found.acquire_time.clone()));
            written("renew", &spec)
        }
        Decision::Wait(left) => format!("wait {}ms", left.as_millis()),
    }
}

#[test]
fn a_lease_is_taken_only_when_nobody_can_hold_it() {
    let cases = [
        (None, 0, "claim 0"),
        (Some(record(Some("me"), Some(15), 3)), 0, "renew 3"),
        // Ours is ours, however long ago: the server refuses the write if another one took it meanwhile.
        (Some(record(Some("me"), Some(15), 3)), 60_000, "renew 3"),
        (Some(record(Some("other"), Some(15), 3)), 0, "wait 2000ms"),
        (Some(record(Some("other"), Some(15), 3)), 13_500, "wait 1500ms"),
        (Some(record(Some("other"), Some(15), 3)), 14_999, "wait 1ms"),
        (Some(record(Some("other"), Some(15), 3)), 15_000, "claim 4"),
        (Some(record(Some("other"), Some(60), 3)), 15_000, "wait 2000ms"),
        (Some(record(Some("other"), None, 3)), 14_000, "wait 1000ms"),
        (Some(record(Some("other"), Some(-5), 3)), 500, "wait 500ms"),
        (Some(record(Some(""), Some(15), 3)), 0, "claim 4"),
        (Some(record(None, None, i32::MAX)), 0, "claim 2147483647"),
        (Some(LeaseSpec::default()), 0, "claim 1"),
    ];
    for (found, unchanged, wanted) in cases {
        assert_eq!(check(found.as_ref(), unchanged), wanted, "{found:?} unchanged for {unchanged} ms");
    }
}

#[test]
fn the_times_in_the_record_do_not_count() {
    let mut ahead = record(Some("other"), Some(15), 0);
    ahead.renew_time = Some(MicroTime("2099-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!(check(Some(&ahead), 15_000), "claim 1", "a clock that is ahead holds nothing for ever");
    let behind = record(Some("other"), Some(15), 0);
    assert_eq!(check(Some(&behind), 0), "wait 2000ms", "a clock that is behind loses nothing");
}

#[test]
fn a_released_lease_is_free_at_once() {
    let free = released(&record(Some("other"), Some(15), 3), now());
    assert_eq!(holder(&free), None);
    assert_eq!(free.lease_duration_seconds, Some(1));
    assert_eq!(check(Some(&free), 0), "claim 4");
}

#[test]
fn a_holder_is_away_when_it_was_silent_for_longer_than_its_lease() {
    let lease = |holder: &str, silent: i64| {
        let mut lease = Lease { spec: Some(record(Some(holder), Some(15), 0)), ..Lease::default() };
        lease.metadata.annotations = Some([(VERSION_ANNOTATION.to_owned(), "1.2.3".to_owned())].into());
        let renewed = now() - SignedDuration::from_secs(silent);
        lease.spec.as_mut().unwrap().renew_time = Some(MicroTime(renewed));
        seen(&lease, now())
    };
    for (name, silent, present) in
        [("a", 0, true), ("a", 15, true), ("a", 16, false), ("", 0, false), ("a", -9, true)]
    {
        let holder = lease(name, silent);
        assert_eq!(holder.present, present, "`{name}` silent for {silent} s");
        assert_eq!(holder.version.as_deref(), Some("1.2.3"));
    }
    assert!(!seen(&Lease::default(), now()).present);
}
