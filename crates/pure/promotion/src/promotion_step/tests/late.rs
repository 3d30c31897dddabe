//! Pull requests that are merged while the step does not wait for them.

use kardinal_api::kardinal::{GateEvidence, GateResult};

use super::organisation::{BEFORE, gate};
use super::*;

fn merged_by(who: &str, at: &str) -> PullRequest {
    PullRequest {
        state: PullRequestState::Merged,
        merged_at: Some(time(at)),
        merged_by: Some(who.to_owned()),
        merge_commit: Some("mer9e".to_owned()),
        ..open_pull_request()
    }
}

fn evidence_of(scene: &Scene, name: &str) -> GateEvidence {
    let evidence = scene.status().evidence.expect("evidence");
    let gates = evidence.policy_gates.unwrap_or_default();
    gates.into_iter().find(|gate| gate.name == name).unwrap_or_else(|| panic!("nothing is told of `{name}`"))
}

#[test]
fn what_is_merged_while_nothing_is_on_record_is_written_down_with_who_forced_it() {
    for (finalized, heard) in [(true, false), (false, true)] {
        let mut scene = Scene::reviewed().opened().kept().asked(&[gate("false", BEFORE)]);
        // Its record is taken away, and with it perhaps the finalizer, while the gate is closed.
        scene.step.status = None;
        (scene.pull_request, scene.heard_of_pull_request) = (None, heard);
        if !finalized {
            scene.step.metadata.finalizers = None;
        }
        let find = scene.effect();
        assert!(matches!(find, Effect::Forge(ForgeEffect::FindPullRequest { .. })), "{find:?}");
        scene.tell(&find, Outcome::PullRequest(open_pull_request()));
        scene.pull_request = Some(open_pull_request());
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Pending);
        assert!(scene.message().contains("held by gate"), "{}", scene.message());
        scene.pass(SignedDuration::from_mins(2));
        scene.pull_request = Some(merged_by("mallory", "2026-04-14T14:01:00Z"));
        scene.plan();
        assert_eq!(scene.state(), PromotionState::HealthChecking);
        assert_eq!(scene.status().merged_at, Some(time("2026-04-14T14:01:00Z")));
        let gate = evidence_of(&scene, "never");
        assert_eq!((gate.result, gate.forced_by.as_deref()), (GateResult::Fail, Some("mallory")));
        assert_eq!(scene.task("open-pr"), TaskState::Completed);
    }
}

/// Up to the question whether a merge of this promotion is why nothing was left to change.
fn nothing_left() -> (Scene, Effect) {
    let mut scene = Scene::reviewed().asked(&[gate("true", BEFORE)]);
    let finalizer = scene.effect();
    scene.tell(&finalizer, Outcome::Done);
    scene.pass(SignedDuration::from_mins(10));
    let commit = scene.effect();
    scene.tell(&commit, unchanged());
    let find = scene.effect();
    (scene, find)
}

#[test]
fn a_merge_that_nobody_heard_of_is_found_where_nothing_is_left_to_change() {
    let (mut scene, find) = nothing_left();
    scene.tell(&find, Outcome::PullRequest(merged_by("mallory", "2026-04-14T14:01:00Z")));
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(scene.status().merged_at, Some(time("2026-04-14T14:01:00Z")));
    assert_eq!(evidence_of(&scene, "never").result, GateResult::Pass);
    // One of before the Bundle was another one's of the same name.
    let (mut scene, find) = nothing_left();
    scene.tell(&find, Outcome::PullRequest(merged_by("mallory", "2026-04-14T12:59:59Z")));
    assert_eq!((scene.state(), scene.status().merged_at), (PromotionState::HealthChecking, None));
}

#[test]
fn a_process_shows_what_the_gates_say_once_whatever_stands_in_the_status() {
    let mut scene = Scene::reviewed().opened().kept();
    assert_eq!(scene.plan().effect(), None);
    scene.has_shown = false;
    assert!(matches!(
        scene.effect(),
        Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Success, .. })
    ));
}

#[test]
fn a_check_that_this_process_has_shown_green_is_taken_back_whatever_the_status_says() {
    let sealed = |scene: &Scene, state: &str| {
        let mut step = scene.step.clone();
        let mut status: PromotionStepStatus = from(json!({"state": state, "outputs": {"commit": "c1"}}));
        status.progress_seal = scene.key.seal_progress(&step, &status);
        step.status = Some(status);
        step
    };
    let mut scene = Scene::reviewed().opened().kept().asked(&[gate("false", BEFORE)]);
    let head = open_pull_request().head;
    scene.shown = Some(Shown { sha: head.clone(), state: CommitState::Success, since: scene.now });
    let forged = PromotionStep { status: from(json!({"state": "Verified"})), ..scene.step.clone() };
    let steps = [sealed(&scene, "Pending"), sealed(&scene, "Promoting"), sealed(&scene, "Failed"), forged];
    for step in steps {
        scene.step = step;
        scene.withdrawn = None;
        match plan(&scene.snapshot()).effect() {
            Some(Effect::Forge(ForgeEffect::SetCommitStatus {
                sha, state: CommitState::Pending, ..
            })) => assert_eq!(sha, head),
            other => panic!("{:?}: {other:?}", scene.state()),
        }
        // A forge that refuses for good is not asked for ever.
        scene.withdrawn = Some(head.clone());
        let next = plan(&scene.snapshot()).effect();
        assert!(
            !matches!(next, Some(Effect::Forge(ForgeEffect::SetCommitStatus { .. }))),
            "{:?}: {next:?}",
            scene.state()
        );
    }
}

#[test]
fn an_open_pull_request_of_which_nothing_is_left_to_change_is_closed() {
    let (mut scene, find) = nothing_left();
    let outputs = &mut scene.step.status.as_mut().unwrap().outputs;
    outputs.insert("prState".to_owned(), "open".to_owned());
    outputs.insert("prNumber".to_owned(), "7".to_owned());
    let status = scene.step.status.clone().unwrap();
    scene.step.status.as_mut().unwrap().progress_seal = scene.key.seal_progress(&scene.step, &status);
    scene.tell(&find, Outcome::NoPullRequest);
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
    scene.pull_request = Some(open_pull_request());
    let close = scene.effect();
    assert!(matches!(close, Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, .. })), "{close:?}");
    scene.tell(&close, Outcome::Done);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
}

#[test]
fn what_a_gate_said_before_it_was_changed_is_not_known() {
    let (at, later) = ("2026-04-14T14:01:00Z", "2026-04-14T14:05:00Z");
    for (green, changed, result, told_as) in [
        (false, later, GateResult::Fail, "changed later, at 2026-04-14T14:05:00Z"),
        (true, later, GateResult::Pass, "changed later, at 2026-04-14T14:05:00Z"),
        // Nobody knows whether it was open when it was passed.
        (true, at, GateResult::Fail, "not known: the gate was changed in the same second"),
        (false, at, GateResult::Fail, "not known: the gate was changed in the same second"),
    ] {
        let mut gate = gate("true", BEFORE);
        gate.metadata.managed_fields = from(json!([{"manager": "kubectl", "time": changed}]));
        let mut scene = Scene::reviewed().opened().kept().asked(&[gate]);
        let state = if green { CommitState::Success } else { CommitState::Pending };
        scene.shown = Some(Shown { sha: open_pull_request().head, state, since: time(NOW) });
        scene.pass(SignedDuration::from_mins(10));
        scene.pull_request = Some(merged_by("mallory", at));
        scene.plan();
        let gate = evidence_of(&scene, "never");
        assert_eq!((gate.result, gate.evaluated_at, gate.forced_by), (result, None, None), "{green}");
        let reason = gate.reason.unwrap_or_default();
        assert!(reason.contains(told_as), "{reason}");
    }
}

#[test]
fn a_rejected_pull_request_that_is_opened_again_is_closed_and_a_merge_of_it_is_on_record() {
    let mut scene = Scene::reviewed().opened().kept().asked(&[gate("false", BEFORE)]);
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    let take_back = scene.effect();
    assert!(
        matches!(take_back, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{take_back:?}"
    );
    scene.tell(&take_back, Outcome::Shown { at: scene.now });
    assert_eq!(scene.plan(), Plan::default(), "closed is closed");
    // Somebody opens it again.
    scene.pull_request = None;
    let read = scene.effect();
    assert_eq!(read, Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 }));
    scene.tell(&read, Outcome::PullRequest(open_pull_request()));
    scene.pull_request = Some(open_pull_request());
    assert!(matches!(scene.effect(), Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, .. })));
    // It is merged before it can be closed.
    scene.pass(SignedDuration::from_mins(5));
    scene.pull_request = None;
    let read = scene.effect();
    let merged = merged_by("mallory", "2026-04-14T14:04:00Z");
    let report = scene.tell(&read, Outcome::PullRequest(merged.clone()));
    assert_eq!(report.status, None, "the gates are asked first");
    scene.pull_request = Some(merged);
    let plan = scene.plan();
    assert_eq!(plan.notes.iter().map(|note| note.reason.as_str()).collect::<Vec<_>>(), ["MergedAfterTheEnd"]);
    assert_eq!(scene.state(), PromotionState::Failed);
    let (status, at) = (scene.status(), time("2026-04-14T14:04:00Z"));
    assert_eq!((status.merged_at, status.promoted_at), (Some(at), Some(at)));
    assert!(!is_rejected(&scene.step), "it is in");
    for part in
        ["was closed without merging", "merged into `main` by mallory at 2026-04-14T14:04:00Z (PR #7)"]
    {
        assert!(scene.message().contains(part), "`{part}` is missing in: {}", scene.message());
    }
    for name in ["never", "rejected"] {
        let gate = evidence_of(&scene, name);
        assert_eq!((gate.result, gate.forced_by.as_deref()), (GateResult::Fail, Some("mallory")), "{name}");
    }
    assert_eq!(scene.plan(), Plan::default());
}

/// A step that had failed at this time while its pull request was open.
fn failed_at(at: &str) -> Scene {
    let mut scene = Scene::reviewed().opened().kept();
    scene.now = time(at);
    let failed = {
        let snapshot = scene.snapshot();
        let checked = check::check_current(&snapshot);
        let mut draft = draft::Draft::new(&snapshot, &checked);
        // Its check was never green, so nobody is excused by it.
        commit_check::forget(&mut draft, &open_pull_request().head);
        draft.fail(None, "task `notify` said no");
        draft.plan().status
    };
    scene.write(failed);
    scene
}

fn notes(plan: &Plan) -> Vec<&str> {
    plan.notes.iter().map(|note| note.reason.as_str()).collect()
}

#[test]
fn words_and_conditions_that_somebody_changes_change_no_evidence() {
    let merged = merged_by("mallory", "2026-04-14T14:10:00Z");
    let forge = |scene: &mut Scene, change: fn(&mut PromotionStepStatus)| {
        change(scene.step.status.as_mut().unwrap());
    };
    let changes: [fn(&mut PromotionStepStatus); 4] = [
        |status| status.conditions.clear(),
        |status| status.conditions[0].last_transition_time.0 = time("2026-04-14T14:12:00Z"),
        |status| status.conditions[0].last_transition_time.0 = time("2026-04-01T00:00:00Z"),
        |status| {
            let words = "it had been merged into `main` by mallory at 2026-04-14T14:10:00Z (PR #7)";
            status.message = Some(words.to_owned());
        },
    ];
    for change in changes {
        let mut scene = failed_at("2026-04-14T14:05:00Z");
        forge(&mut scene, change);
        scene.pass(SignedDuration::from_mins(10));
        scene.pull_request = None;
        assert!(scene.plan().effect().is_some(), "it is looked for");
        scene.pull_request = Some(merged.clone());
        let plan = scene.plan();
        assert_eq!(notes(&plan), ["MergedAfterTheEnd"]);
        let over = evidence_of(&scene, "failed");
        assert_eq!((over.result, over.forced_by.as_deref()), (GateResult::Fail, Some("mallory")));
        assert_eq!(over.reason.as_deref(), Some("the promotion was over: task `notify` said no"));
        let said = "all the same it was merged into `main` by mallory at 2026-04-14T14:10:00Z (PR #7)";
        assert!(scene.message().ends_with(said), "{}", scene.message());
        assert_eq!(scene.plan(), Plan::default());
    }
}

#[test]
fn a_step_that_begins_again_ends_when_its_promotion_did() {
    let mut scene = failed_at("2026-04-14T14:05:00Z");
    let ended = scene.status().failed_at;
    let environment = scene.step.spec.environment.clone();
    let record = json!({"state": "Failed", "failedAt": ended, "message": "task `notify` said no"});
    let status = json!({"phase": "Failed", "environments": {environment: record}});
    scene.bundle.as_mut().unwrap().status = from(status);
    scene.step.status = None;
    scene.pass(SignedDuration::from_mins(10));
    scene.plan();
    assert_eq!(scene.status().failed_at, ended);
    scene.pull_request = Some(merged_by("mallory", "2026-04-14T14:10:00Z"));
    assert_eq!(notes(&scene.plan()), ["MergedAfterTheEnd"]);
    assert_eq!(evidence_of(&scene, "failed").forced_by.as_deref(), Some("mallory"));
}

#[test]
fn the_end_of_a_record_from_before_is_told_by_its_condition() {
    let mut scene = failed_at("2026-04-14T14:05:00Z");
    let mut status = serde_json::to_value(scene.status()).unwrap();
    status.as_object_mut().unwrap().remove("failedAt");
    scene.step.status = Some(from(status));
    scene.seal();
    scene.pass(SignedDuration::from_mins(10));
    scene.pull_request = Some(merged_by("mallory", "2026-04-14T14:10:00Z"));
    assert_eq!(notes(&scene.plan()), ["MergedAfterTheEnd"]);
    assert_eq!(evidence_of(&scene, "failed").forced_by.as_deref(), Some("mallory"));
}

#[test]
fn a_merge_in_the_second_of_the_end_is_not_known_to_have_come_after_it() {
    for (merged_at, accused) in [("2026-04-14T14:05:00Z", false), ("2026-04-14T14:05:01Z", true)] {
        let mut scene = failed_at("2026-04-14T14:05:00.4Z");
        scene.pass(SignedDuration::from_mins(10));
        scene.pull_request = Some(merged_by("alice", merged_at));
        let plan = scene.plan();
        assert_eq!(!plan.notes.is_empty(), accused, "{:?}", plan.notes);
        let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
        assert_eq!(gates.iter().any(|gate| gate.forced_by.is_some()), accused, "{gates:?}");
    }
}

#[test]
fn a_rejected_pull_request_that_is_merged_elsewhere_stays_rejected() {
    let mut scene = rejected();
    scene.pass(SignedDuration::from_mins(5));
    let elsewhere = merged_by("mallory", "2026-04-14T14:04:00Z");
    scene.pull_request = Some(PullRequest { base: "sandbox".to_owned(), ..elsewhere });
    scene.plan();
    assert!(scene.message().contains("merged into `sandbox` by mallory"), "{}", scene.message());
    assert_eq!(scene.status().merged_at, None);
    assert!(is_rejected(&scene.step), "the environment never had it");
}

#[test]
fn without_its_bundle_a_forged_status_leaves_no_green_check_either() {
    for state in ["Verified", "Failed", "Promoting"] {
        let mut scene = Scene::reviewed().opened().kept();
        scene.step.status = from(json!({"state": state}));
        (scene.bundle, scene.pull_request) = (None, None);
        let find = scene.effect();
        assert!(matches!(find, Effect::Forge(ForgeEffect::FindPullRequest { .. })), "{state}: {find:?}");
        scene.pull_request = Some(open_pull_request());
        let pending = scene.effect();
        assert!(
            matches!(
                pending,
                Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })
            ),
            "{state}: {pending:?}"
        );
    }
    // One that pushes has none.
    let mut scene = Scene::new(json!({}));
    scene.step.status = from(json!({"state": "Promoting"}));
    scene.bundle = None;
    assert_eq!(scene.effect(), Effect::Step(StepEffect::ForgetStatus));
}

#[test]
fn a_merge_before_the_end_accuses_nobody() {
    let mut scene = failed_at("2026-04-14T14:05:00Z");
    scene.pull_request = Some(merged_by("alice", "2026-04-14T14:03:00Z"));
    let plan = scene.plan();
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert!(gates.iter().all(|gate| gate.forced_by.is_none()), "{gates:?}");
    let said =
        "task `notify` said no; it had been merged into `main` by alice at 2026-04-14T14:03:00Z (PR #7)";
    assert_eq!(scene.message(), said);
}

/// A step whose pull request was closed, and that has not looked at it since the process started.
fn rejected() -> Scene {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    let take_back = scene.effect();
    scene.tell(&take_back, Outcome::Shown { at: scene.now });
    scene.pull_request = None;
    scene
}

#[test]
fn after_a_week_only_who_has_heard_of_it_looks_back() {
    let mut scene = rejected();
    assert!(scene.plan().effect().is_some());
    scene.pass(SignedDuration::from_hours(8 * 24));
    assert_eq!(scene.plan(), Plan::default());
    scene.heard_of_pull_request = true;
    assert!(scene.plan().effect().is_some());
}

#[test]
fn a_look_back_is_never_given_up_and_changes_no_record() {
    let mut scene = rejected();
    let read = scene.effect();
    let before = scene.status();
    for attempt in [1, 4, 100] {
        for trouble in [
            fault(),
            Outcome::Blocked { barrier: Barrier::Other, message: "Secret `token` is missing".to_owned() },
        ] {
            let report = report(&scene.snapshot(), &read, &trouble, attempt);
            assert!(report.status.is_none() && report.retry.is_some(), "{report:?}");
        }
    }
    assert_eq!(scene.status(), before);
}

#[test]
fn an_older_record_that_is_put_back_makes_no_check_green() {
    let mut scene = Scene::reviewed().opened().kept().asked(&[gate("true", BEFORE)]);
    let green = scene.step.status.clone();
    let head = open_pull_request().head;
    scene.pass(SignedDuration::from_mins(1));
    scene = scene.asked(&[gate("false", BEFORE)]);
    let pending = scene.effect();
    assert!(
        matches!(pending, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{pending:?}"
    );
    let taken_back = scene.now;
    scene.tell(&pending, Outcome::Shown { at: taken_back });
    scene.shown = Some(Shown { sha: head, state: CommitState::Pending, since: taken_back });
    // Ten minutes later somebody puts the sealed status of the green check back, and merges past the check.
    scene.pass(SignedDuration::from_mins(10));
    scene.step.status = green;
    let mut merged_first =
        Scene { step: scene.step.clone(), ..Scene::reviewed() }.asked(&[gate("false", BEFORE)]);
    (merged_first.shown, merged_first.now) = (scene.shown.clone(), scene.now);
    let merged = merged_by("mallory", "2026-04-14T14:10:00Z");
    merged_first.pull_request = Some(merged.clone());
    merged_first.plan();
    assert_eq!(evidence_of(&merged_first, "never").forced_by.as_deref(), Some("mallory"));
    // The same where the check is shown once more before the merge is seen.
    scene.pull_request = Some(open_pull_request());
    let pending = scene.effect();
    scene.tell(&pending, Outcome::Shown { at: scene.now });
    scene.shown = None;
    scene.pull_request = Some(merged);
    scene.plan();
    let gate = evidence_of(&scene, "never");
    assert_eq!((gate.forced_by.as_deref(), gate.check_was_green), (Some("mallory"), None));
}

#[test]
fn a_webhook_concerns_those_who_may_have_that_pull_request() {
    let step = |state: &str, number: Option<&str>, finalized: bool| {
        let mut step = Scene::reviewed().step;
        let outputs = number.map_or_else(|| json!({}), |number| json!({"prNumber": number}));
        step.status = from(json!({"state": state, "outputs": outputs}));
        step.metadata.finalizers = finalized.then(|| vec![FINALIZER.to_owned()]);
        step
    };
    let cases = [
        (step("WaitingForMerge", Some("3"), true), Some(7), true),
        (step("WaitingForMerge", Some("3"), true), None, true),
        (step("Verified", Some("7"), true), Some(7), true),
        (step("Verified", Some("3"), true), Some(7), false),
        (step("Failed", Some("7"), true), Some(7), true),
        (step("Failed", Some("3"), true), Some(7), false),
        (step("Failed", Some("7"), true), None, false),
        (step("Pending", None, true), Some(7), true),
        (step("Pending", None, false), Some(7), false),
    ];
    for (step, number, expected) in cases {
        assert_eq!(concerns(&step, number), expected, "{number:?}: {:?}", step.status);
    }
}
