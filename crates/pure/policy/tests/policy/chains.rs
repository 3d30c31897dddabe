//! Several gates that decide together.

use kardinal_policy::{Decision, Question, Verdict, all, joint_window};

use super::door::{at, door, gate};

#[test]
fn together_the_strongest_decides_and_nothing_that_is_waited_for_is_lost() {
    let (soon, late) = (at("2026-04-14T15:00:00Z"), at("2026-04-14T16:00:00Z"));
    let open = || Verdict::allow("open", Some(late));
    let soaks = || Verdict::closed("soak", "12 minutes", Some(soon));
    let sleeps = || Verdict::closed("hours", "it is night", Some(late));
    let broken = || Verdict::unknown("broken", "error", None);
    let shut = || Verdict::closed("never", "it is shut", None);
    for (verdicts, decision, reason, satisfied_at, next_change, names) in [
        (vec![], Decision::Allow, "", None, None, vec![]),
        (vec![open(), open()], Decision::Allow, "open; open", None, Some(late), vec![]),
        (vec![open(), soaks()], Decision::Wait, "12 minutes", Some(soon), Some(soon), vec!["soak"]),
        (
            vec![sleeps(), soaks()],
            Decision::Wait,
            "it is night; 12 minutes",
            Some(late),
            Some(soon),
            vec!["hours", "soak"],
        ),
        (vec![broken(), soaks()], Decision::Unknown, "error", None, Some(soon), vec!["broken", "soak"]),
        (
            vec![soaks(), shut(), broken()],
            Decision::Deny,
            "it is shut",
            None,
            Some(soon),
            vec!["soak", "never", "broken"],
        ),
    ] {
        let verdict = all(verdicts);
        assert_eq!((verdict.decision, verdict.reason.as_str()), (decision, reason));
        assert_eq!((verdict.satisfied_at, verdict.next_change), (satisfied_at, next_change), "{reason}");
        let waits: Vec<&str> = verdict.why.iter().map(|wait| wait.subject.name.as_str()).collect();
        assert_eq!(waits, names);
    }
}

fn window(expressions: &[&str], now: &str) -> Option<String> {
    let gates: Vec<_> = expressions.iter().map(|text| gate(text)).collect();
    let door = door();
    let questions: Vec<_> =
        gates.iter().map(|gate| Question { name: "gate", gate, context: &door }).collect();
    joint_window(&questions, at(now)).map(|at| at.to_string())
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
