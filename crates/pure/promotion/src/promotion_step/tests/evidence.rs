//! What stays on record of what the gates said at a push or a merge.

use kardinal_api::kardinal::GateResult;

use super::organisation::{BEFORE, gate, place, state};
use super::*;
use crate::seal::Claim;

#[test]
fn commits_of_others_are_not_shown_as_allowed_and_their_merge_is_on_record() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request.as_mut().unwrap().head = "5trange".to_owned();
    let look = scene.effect();
    scene.tell(&look, Outcome::Overtaken { message: "somebody has pushed".to_owned() });
    let green = scene.effect();
    scene.tell(&green, Outcome::Done);
    let body = scene.effect();
    scene.tell(&body, Outcome::Done);
    let status = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state, description, .. }) = &status else {
        panic!("{status:?}")
    };
    assert_eq!(*state, CommitState::Pending, "{description}");
    scene.tell(&status, Outcome::Done);
    scene.pull_request = Some(PullRequest { head: "5trange".to_owned(), ..merged_pull_request() });
    scene.pass(SignedDuration::from_mins(7));
    scene.plan();
    let evidence = scene.status().evidence.unwrap().policy_gates.unwrap();
    let own = evidence.iter().find(|gate| gate.name == "own-commit").unwrap();
    assert_eq!((own.result, own.forced_by.as_deref()), (GateResult::Fail, Some("alice")));
}

#[test]
fn nobody_is_accused_of_a_commit_that_was_merged_before_anybody_looked_at_it() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request = Some(PullRequest { head: "bea7ed".to_owned(), ..merged_pull_request() });
    scene.plan();
    let evidence = scene.status().evidence.unwrap().policy_gates.unwrap();
    let own = evidence.iter().find(|gate| gate.name == "own-commit").unwrap();
    assert_eq!(
        (own.result, own.forced_by.as_deref()),
        (GateResult::Fail, None),
        "it is on record all the same"
    );
    assert!(own.reason.as_deref().unwrap().contains("before it was looked at"), "{own:?}");
}

#[test]
fn a_merge_forced_over_a_pause_is_on_record_unless_the_pause_came_later() {
    let cases = [
        // Nobody knows since when: the check tells whether it was before.
        (None, true, true, Some("alice")),
        (None, false, true, None),
        (Some("2026-04-14T14:04:00Z"), true, true, Some("alice")),
        (Some("2026-04-14T14:06:00Z"), true, false, None),
    ];
    for (since, shown, is_known, by) in cases {
        let mut scene = Scene::reviewed().opened().kept();
        scene.hold = Some(Hold { why: "hands off".to_owned(), since: since.map(time) });
        // What people see of a pause that they disregard is that the check is not green.
        let mut scene = if shown { scene.kept() } else { scene };
        scene.pass(SignedDuration::from_mins(7));
        scene.pull_request = Some(merged_pull_request());
        scene.plan();
        let evidence = scene.status().evidence.unwrap().policy_gates.unwrap();
        let paused = evidence.iter().find(|gate| gate.name == "paused");
        assert_eq!(paused.is_some(), is_known, "{since:?}");
        if let Some(paused) = paused {
            assert_eq!((paused.result, paused.forced_by.as_deref()), (GateResult::Fail, by));
            assert_eq!(paused.reason.as_deref(), Some("hands off"));
        }
    }
}

/// A gate that closed at 14:04, and a merge at 14:05 that was seen at 14:07. `renewed` is when the check said so, after
/// which it may have become `green_again`: what the evidence then says of the gate.
fn merged_after_closing(renewed: Option<&str>, green_again: Option<&str>) -> (Option<String>, Option<bool>) {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    let closed = json!({"ready": false, "reason": "x", "lastEvaluatedAt": "2026-04-14T14:04:00Z"});
    scene.now = time("2026-04-14T14:04:00Z");
    let show = |scene: &mut Scene, at: &str, wanted: CommitState| {
        for _ in 0..2 {
            let effect = scene.effect();
            let outcome = match &effect {
                Effect::Forge(ForgeEffect::SetCommitStatus { state, .. }) => {
                    assert_eq!(*state, wanted);
                    Outcome::Shown { at: time(at) }
                }
                _ => Outcome::Done,
            };
            scene.tell(&effect, outcome);
        }
    };
    scene.set_gate("my-app-soak", closed.clone());
    if let Some(at) = renewed {
        show(&mut scene, at, CommitState::Pending);
    }
    if let Some(at) = green_again {
        scene.set_gate("my-app-soak", ready());
        show(&mut scene, at, CommitState::Success);
        scene.set_gate("my-app-soak", closed);
    }
    scene.now = time("2026-04-14T14:07:00Z");
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert_eq!(gates[0].result, GateResult::Fail, "the gate was closed, whatever was shown");
    (gates[0].forced_by.clone(), gates[0].check_was_green)
}

#[test]
fn nobody_is_accused_of_a_merge_while_the_check_was_still_green() {
    let forced = (Some("alice".to_owned()), None);
    let unseen = (None, Some(true));
    let cases = [
        // The check was never renewed, or after the merge, or in its very second.
        (None, None, &unseen),
        (Some("2026-04-14T14:06:00Z"), None, &unseen),
        (Some("2026-04-14T14:05:00.4Z"), None, &unseen),
        (Some("2026-04-14T14:04:01Z"), None, &forced),
        // It became green again: after the merge, in its second, before it.
        (Some("2026-04-14T14:04:01Z"), Some("2026-04-14T14:06:00Z"), &forced),
        (Some("2026-04-14T14:04:01Z"), Some("2026-04-14T14:05:00.9Z"), &unseen),
        (Some("2026-04-14T14:04:01Z"), Some("2026-04-14T14:04:30Z"), &unseen),
        // Renewed after the merge, and green again after that.
        (Some("2026-04-14T14:05:30Z"), Some("2026-04-14T14:06:00Z"), &unseen),
    ];
    for (renewed, green_again, expected) in cases {
        assert_eq!(merged_after_closing(renewed, green_again), *expected, "{renewed:?} {green_again:?}");
    }
}

#[test]
fn a_check_that_the_forge_refused_to_show_was_not_green() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened();
    let status = scene.effect();
    scene.tell(&status, Outcome::Refused { task: None, barrier: Barrier::Other, message: "no".to_owned() });
    let closed = json!({"ready": false, "reason": "x", "lastEvaluatedAt": "2026-04-14T14:04:00Z"});
    scene.set_gate("my-app-soak", closed);
    scene.now = time("2026-04-14T14:07:00Z");
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert_eq!((gates[0].forced_by.as_deref(), gates[0].check_was_green), (Some("alice"), None));
}

#[test]
fn a_gate_that_closed_after_the_merge_accuses_nobody() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    scene.set_gate(
        "my-app-soak",
        json!({"ready": false, "reason": "x", "lastEvaluatedAt": "2026-04-14T14:06:00Z"}),
    );
    scene.pass(SignedDuration::from_mins(7));
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    let evidence = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert_eq!((evidence[0].result, evidence[0].forced_by.as_deref()), (GateResult::Fail, None));
}

#[test]
fn a_merge_in_the_second_in_which_a_gate_opened_was_not_forced() {
    let soak = gate("bundle.upstreamSoakSeconds >= 2700", BEFORE);
    let mut scene = Scene::reviewed().asked(&[]);
    let bundle = scene.bundle.clone().unwrap();
    let verified_at = time("2026-04-14T13:15:00.478Z");
    let (pipeline, environment) = ("my-app", "staging");
    let claim = Claim { bundle: &bundle, pipeline, environment, place: place("staging"), verified_at };
    let seal = scene.key.seal(&claim);
    let environments = &mut scene.bundle.as_mut().unwrap().status.as_mut().unwrap().environments;
    environments.insert(
        "staging".to_owned(),
        from(json!({"state": "Verified", "verifiedAt": verified_at.to_string(), "seal": seal})),
    );
    scene.now = time("2026-04-14T14:00:00.600Z");
    let mut scene = scene.asked(std::slice::from_ref(&soak)).opened().kept();
    // The forge tells it in whole seconds.
    let merged_at = Some(time("2026-04-14T14:00:00Z"));
    scene.pull_request = Some(PullRequest { merged_at, ..merged_pull_request() });
    scene.now = time("2026-04-14T14:00:01Z");
    scene.ask(&[soak]);
    scene.plan();
    let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert_eq!((gates[0].result, gates[0].forced_by.as_deref()), (GateResult::Pass, None), "{gates:?}");
}

#[test]
fn the_evidence_of_a_push_tells_what_the_gates_said_right_before_it() {
    let open = [gate("true", BEFORE)];
    let mut scene = Scene::new(json!({})).asked(&open);
    let commit = scene.effect();
    scene.pass(SignedDuration::from_mins(5));
    scene.ask(&open);
    scene.tell(&commit, committed());
    let status = scene.status();
    assert_eq!(status.promoted_at, Some(scene.now));
    let gates = status.evidence.unwrap().policy_gates.unwrap();
    assert_eq!(gates[0].evaluated_at, Some(scene.now));
}

#[test]
fn a_forced_merge_over_a_closed_gate_is_recorded_as_such() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).asked(&[gate("false", BEFORE)]);
    state(&mut scene, "WaitingForMerge", json!({"commit": "c1", "prNumber": "3", "prState": "open"}));
    scene.pull_request = Some(PullRequest {
        head: "c1".to_owned(),
        merged_at: Some(scene.now),
        merged_by: Some("mallory".to_owned()),
        ..merged_pull_request()
    });
    scene.plan();
    let gates = serde_json::to_value(scene.status().evidence.unwrap().policy_gates).unwrap();
    assert_eq!((&gates[0]["name"], &gates[0]["result"]), (&json!("never"), &json!("fail")), "{gates}");
    assert_eq!(gates[0]["forcedBy"], "mallory");
    assert_eq!((&gates[1]["name"], &gates[1]["result"]), (&json!("soak"), &json!("pass")), "{gates}");
    assert_eq!(gates[1].get("forcedBy"), None);
}

#[test]
fn a_green_check_is_taken_back_when_the_bundle_is_gone_and_the_merge_is_on_record() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.bundle = None;
    let effect = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, description, .. }) =
        &effect
    else {
        panic!("{effect:?}")
    };
    assert!(description.contains("it does not exist"), "{description}");
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    let evidence = scene.status().evidence.unwrap().policy_gates.unwrap();
    let told = evidence.iter().find(|gate| gate.name == "organisation-gates").unwrap();
    assert_eq!((told.result, told.forced_by.as_deref()), (GateResult::Fail, None));
}
