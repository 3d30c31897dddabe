//! What a gate says as data.

use kardinal_api::kardinal::GateOverride;
use kardinal_api::{Fact, PolicyGateSpec, WaitOn, Who};
use kardinal_policy::{CLOSED, Decision};

use super::door::{at, door, gate};

#[test]
fn a_verdict_tells_whether_a_gate_is_open_and_what_ends_the_waiting() {
    let soak = "bundle.upstreamSoakMinutes >= 30 && !schedule.isWeekend";
    let given = GateOverride { reason: "outage".to_owned(), ..GateOverride::default() };
    let overridden = |expression| PolicyGateSpec { overrides: vec![given.clone()], ..gate(expression) };
    let (opens, weekend) = (Some("2026-04-14T14:18:00Z"), Some("2026-04-18T00:00:00Z"));
    let values = &[("bundle.upstreamSoakMinutes", "12")][..];
    for (name, gate, decision, who, change, values) in [
        ("open", gate("!schedule.isWeekend"), Decision::Allow, None, weekend, &[][..]),
        ("opens by itself", gate(soak), Decision::Wait, Some(Who::Time), opens, values),
        ("stays closed", gate("false"), Decision::Deny, Some(Who::Person), None, &[]),
        ("does not compile", gate("nonsense("), Decision::Unknown, Some(Who::Person), None, &[]),
        (
            "fails for an hour",
            gate("10 / (schedule.hour - 14) > 0"),
            Decision::Unknown,
            Some(Who::Time),
            Some("2026-04-14T15:00:00Z"),
            &[],
        ),
        ("overridden", overridden("false"), Decision::Allow, None, None, &[]),
        ("broken and overridden", overridden("nonsense("), Decision::Allow, None, None, &[]),
    ] {
        let verdict = door().verified("2026-04-14T13:48:00Z").ask(&gate);
        assert_eq!(verdict.decision, decision, "{name}");
        assert_eq!(verdict.next_change, change.map(at), "{name}");
        assert_eq!(verdict.satisfied_at, change.map(at).filter(|_| who.is_some()), "{name}");
        assert_eq!(verdict.overridden.is_some(), name.contains("overridden"), "{name}");
        let (is_open, is_unknown) = (verdict.is_open(), verdict.is_unknown());
        assert_eq!((is_open, is_unknown), (who.is_none(), decision == Decision::Unknown), "{name}");
        let Some(who) = who else {
            assert_eq!(verdict.why, [], "{name}");
            continue;
        };
        let [wait] = verdict.why.as_slice() else { panic!("{name}: {:?}", verdict.why) };
        assert_eq!((wait.on, wait.reason.as_str(), wait.who), (WaitOn::Gate, CLOSED, who), "{name}");
        assert_eq!((wait.subject.kind.as_deref(), wait.subject.name.as_str()), (Some("PolicyGate"), "gate"));
        assert_eq!((wait.detail.as_str(), wait.until), (verdict.reason.as_str(), change.map(at)), "{name}");
        let fact =
            |(name, value): &(&str, &str)| Fact { name: (*name).to_owned(), value: (*value).to_owned() };
        assert_eq!(wait.values, values.iter().map(fact).collect::<Vec<Fact>>(), "{name}");
    }
}
