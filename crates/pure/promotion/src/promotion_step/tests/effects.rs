//! What is asked before each effect: whether a gate holds it, and whether the record that it follows from is the
//! controller's own.

use super::organisation::{BEFORE, gate, state};
use super::*;
use crate::promotion_step::body::fingerprint;
use crate::promotion_step::why;
use crate::seal::Claim;

/// As if everything that people are shown of the pull request had been brought up to date.
fn shown(scene: &mut Scene) {
    let snapshot = scene.snapshot();
    let pull_request = scene.pull_request.as_ref().unwrap();
    let (evidence, status) = (fingerprint(&snapshot), commit_check::status_key(&snapshot, pull_request));
    let outputs = &mut scene.step.status.as_mut().unwrap().outputs;
    outputs.insert(draft::EVIDENCE_KEY.to_owned(), evidence);
    outputs.insert(draft::STATUS_KEY.to_owned(), status);
    scene.seal();
}

#[test]
fn a_closed_gate_of_the_organisation_holds_every_change_of_git() {
    let held = |mut scene: Scene, place: &str| {
        let plan = scene.plan();
        assert_eq!(plan.effect(), None, "{place}");
        assert!(scene.message().starts_with("held by gate `never`: "), "{place}: {}", scene.message());
        let again = scene.plan();
        assert_eq!(again.status, None, "nothing new is nothing written: {place}");
        assert!(again.wake.is_some(), "{place}");
    };
    let closed = [gate("false", BEFORE)];
    held(Scene::new(json!({})).asked(&closed), "pending");
    let mut pushing = Scene::new(json!({"pr": true})).asked(&closed);
    state(&mut pushing, "Promoting", json!({}));
    pushing.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    held(pushing, "pushing");
    let mut opening = Scene::new(json!({"pr": true})).asked(&closed);
    state(&mut opening, "Promoting", json!({"commit": "c1"}));
    for task in &mut opening.step.status.as_mut().unwrap().steps[..4] {
        task.state = TaskState::Completed;
    }
    opening.seal();
    held(opening, "opening a pull request");
    let mut merging = Scene::new(json!({"pr": true})).asked(&closed);
    state(&mut merging, "WaitingForMerge", json!({"commit": "c1", "prNumber": "3", "prState": "open"}));
    merging.pull_request =
        Some(PullRequest { head: "c1".to_owned(), mergeable: Some(true), ..open_pull_request() });
    shown(&mut merging);
    held(merging, "merging");
}

#[test]
fn no_commit_is_merged_but_the_controllers_own_for_the_place_it_was_made_for() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    shown(&mut scene);
    assert!(matches!(
        plan(&scene.snapshot()).effect(),
        Some(Effect::Forge(ForgeEffect::MergePullRequest { .. }))
    ));
    let good = scene.step.clone();
    let changes: [(&str, Forge); 5] = [
        ("another commit", |step| drop(outputs(step).insert(draft::COMMIT.to_owned(), "evil".to_owned()))),
        ("another pull request", |step| drop(outputs(step).insert("prNumber".to_owned(), "8".to_owned()))),
        ("another place", |step| step.spec.path = Some("environments/elsewhere".to_owned())),
        ("another Bundle", |step| step.spec.bundle_ref = "my-app-v0-9-0".to_owned()),
        ("another step", |step| step.metadata.uid = Some("another".to_owned())),
    ];
    for (what, change) in changes {
        scene.step = good.clone();
        change(&mut scene.step);
        scene.withdrawn = None;
        let head = scene.pull_request.as_ref().map(|found| found.head.clone());
        // Before the record is forgotten, and with it what the check shows, nothing is green any more.
        match plan(&scene.snapshot()).effect() {
            Some(Effect::Forge(ForgeEffect::SetCommitStatus {
                sha, state: CommitState::Pending, ..
            })) => {
                assert_eq!(Some(sha), head, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
        scene.withdrawn = head;
        assert_eq!(plan(&scene.snapshot()).effect(), Some(Effect::Step(StepEffect::ForgetStatus)), "{what}");
        scene.withdrawn = None;
        let opened = scene.pull_request.take();
        assert!(
            matches!(
                plan(&scene.snapshot()).effect(),
                Some(Effect::Forge(ForgeEffect::FindPullRequest { .. }))
            ),
            "{what}"
        );
        scene.has_no_pull_request = true;
        assert_eq!(
            plan(&scene.snapshot()).effect(),
            Some(Effect::Step(StepEffect::ForgetStatus)),
            "{what}: there is none"
        );
        (scene.has_no_pull_request, scene.pull_request) = (false, opened);
    }
}

/// What somebody does to a step.
type Forge = fn(&mut PromotionStep);

fn outputs(step: &mut PromotionStep) -> &mut BTreeMap<String, String> {
    &mut step.status.as_mut().unwrap().outputs
}

#[test]
fn a_forged_status_proves_nothing_and_is_taken_away() {
    for forged in ["Pending", "Promoting", "WaitingForMerge", "HealthChecking"] {
        let mut scene = Scene::new(json!({"pr": true}));
        state(&mut scene, forged, json!({"commit": "c1", "prNumber": "3", "prState": "open"}));
        let status = scene.step.status.as_mut().unwrap();
        for task in &mut status.steps {
            task.state = TaskState::Completed;
        }
        scene.health = Some(facts(vec![deployment("1.29.0")]));
        let find = plan(&scene.snapshot()).effect();
        assert!(
            matches!(find, Some(Effect::Forge(ForgeEffect::FindPullRequest { .. }))),
            "{forged}: {find:?}"
        );
        scene.has_no_pull_request = true;
        assert_eq!(
            plan(&scene.snapshot()).effect(),
            Some(Effect::Step(StepEffect::ForgetStatus)),
            "{forged}"
        );
        let report = scene.tell(&Effect::Step(StepEffect::ForgetStatus), Outcome::Done);
        assert_eq!((report.status, report.notes[0].reason.as_str()), (None, "StatusNotOurs"));
        scene.step.status = None;
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Promoting, "it begins again, and does it itself");
        assert_eq!(scene.output("commit"), None);
    }
}

#[test]
fn a_forged_end_closes_the_steps_own_pull_request_and_nobody_elses() {
    let mut scene = Scene::new(json!({"pr": true}));
    state(&mut scene, "Failed", json!({"prNumber": "3", "prState": "open"}));
    scene.step.status.as_mut().unwrap().progress_seal = None;
    // Its finalizer may have been taken away as well.
    let find = plan(&scene.snapshot()).effect().unwrap();
    assert!(
        matches!(find, Effect::Forge(ForgeEffect::FindPullRequest { .. })),
        "by its marker, never by a number that was forged: {find:?}"
    );
    let report = scene.tell(&find, Outcome::PullRequest(open_pull_request()));
    assert_eq!(report.status, None, "what was forged is not sealed");
    // Its check may be green, also if it is closed: whoever opens it again could merge it.
    for found in [open_pull_request(), closed_pull_request()] {
        (scene.withdrawn, scene.pull_request) = (None, Some(found.clone()));
        match plan(&scene.snapshot()).effect() {
            Some(Effect::Forge(ForgeEffect::SetCommitStatus {
                sha, state: CommitState::Pending, ..
            })) => {
                assert_eq!(sha, found.head)
            }
            other => panic!("{other:?}"),
        }
    }
    scene.withdrawn = Some(open_pull_request().head);
    scene.pull_request = Some(open_pull_request());
    assert!(matches!(
        plan(&scene.snapshot()).effect(),
        Some(Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, .. }))
    ));
    scene.pull_request = Some(closed_pull_request());
    assert_eq!(plan(&scene.snapshot()), Plan::default());
    scene.pull_request = None;
    scene.has_no_pull_request = true;
    assert_eq!(plan(&scene.snapshot()), Plan::default());
    scene.step.metadata.deletion_timestamp = from(json!(NOW));
    assert_eq!(
        plan(&scene.snapshot()).effect(),
        Some(Effect::Step(StepEffect::ForgetStatus)),
        "what it cleared up would be anybody's"
    );
}

#[test]
fn words_for_people_need_no_seal() {
    let mut scene = Scene::reviewed().opened().kept();
    let status = scene.step.status.as_mut().unwrap();
    status.message = Some("hello".to_owned());
    status.conditions.clear();
    assert_ne!(plan(&scene.snapshot()).effect(), Some(Effect::Step(StepEffect::ForgetStatus)));
}

#[test]
fn a_pull_request_that_was_pointed_elsewhere_is_neither_merged_nor_shown_as_allowed() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    shown(&mut scene);
    scene.pull_request.as_mut().unwrap().base = "release".to_owned();
    let body = scene.effect();
    assert!(
        matches!(&body, Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) if body.contains("Look twice")),
        "{body:?}"
    );
    scene.tell(&body, Outcome::Done);
    let status = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, description, .. }) =
        &status
    else {
        panic!("{status:?}")
    };
    assert!(description.contains("into `release`"), "{description}");
    scene.tell(&status, Outcome::Done);
    assert_eq!(scene.plan().effect(), None);
    assert!(scene.message().contains("waits for a person to look at it"), "{}", scene.message());
    scene.pull_request = Some(PullRequest { base: "release".to_owned(), ..merged_pull_request() });
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    assert_eq!(scene.message(), "PR #7 was merged into `release` and not into `main`");
}

#[test]
fn a_rebuilt_commit_whose_record_got_lost_is_found_again() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request.as_mut().unwrap().head = "bea7ed".to_owned();
    let look = scene.effect();
    assert!(matches!(&look, Effect::Git(GitEffect::Commit(order)) if order.replaces.is_some()), "{look:?}");
    let Outcome::Committed { base, files, moves, .. } = committed() else { unreachable!() };
    let found = Outcome::Committed {
        commit: "bea7ed".to_owned(),
        base,
        push: Push::Made,
        files,
        moves,
        source: None,
    };
    scene.tell(&look, found);
    assert_eq!(scene.output("commit").as_deref(), Some("bea7ed"));
    assert!(pull_request::foreign(&scene.snapshot(), scene.pull_request.as_ref().unwrap()).is_none());
}

#[test]
fn another_bundle_of_the_same_name_inherits_no_progress() {
    let mut scene = Scene::new(json!({"pr": true}));
    scene.bundle.as_mut().unwrap().metadata.uid = Some("first".to_owned());
    let mut scene = scene.opened();
    shown(&mut scene);
    assert!(matches!(
        plan(&scene.snapshot()).effect(),
        Some(Effect::Forge(ForgeEffect::MergePullRequest { .. }))
    ));
    scene.bundle.as_mut().unwrap().metadata.uid = Some("second".to_owned());
    scene.withdrawn = scene.pull_request.as_ref().map(|found| found.head.clone());
    assert_eq!(plan(&scene.snapshot()).effect(), Some(Effect::Step(StepEffect::ForgetStatus)));
}

#[test]
fn what_closes_before_the_push_holds_it_and_a_strange_file_refuses_it() {
    let mut scene = Scene::new(json!({}));
    let effect = scene.effect();
    let inside = ["environments/prod/kustomization.yaml".to_owned()];
    assert_eq!(objection(&scene.snapshot(), &effect, &inside), None);
    for strange in ["environments/prod/other.yaml", "environments/dev/kustomization.yaml", "x"] {
        let answer = objection(&scene.snapshot(), &effect, &[inside[0].clone(), strange.to_owned()]);
        assert!(
            matches!(&answer, Some(Outcome::Refused { message, .. }) if message.contains(strange)),
            "{answer:?}"
        );
    }
    let mut shut =
        Scene { step: scene.step.clone(), ..Scene::new(json!({})) }.asked(&[gate("false", BEFORE)]);
    let answer = objection(&shut.snapshot(), &effect, &inside);
    assert!(
        matches!(&answer, Some(Outcome::Held { why }) if why::message(why).contains("held by gate")),
        "{answer:?}"
    );
    shut.tell(&effect, answer.unwrap());
    assert_eq!(shut.state(), PromotionState::Promoting);
    assert!(shut.message().contains("held by gate `never`"), "{}", shut.message());
    scene.hold = held("paused");
    let answer = objection(&scene.snapshot(), &effect, &inside);
    assert!(
        matches!(&answer, Some(Outcome::Held { why }) if why::message(why).contains("paused")),
        "{answer:?}"
    );
}

#[test]
fn a_step_whose_bundle_or_gates_are_not_known_changes_nothing() {
    let mut gone = Scene::new(json!({"pr": true}));
    state(&mut gone, "WaitingForMerge", json!({"commit": "c1", "prNumber": "3", "prState": "open"}));
    gone.bundle = None;
    assert!(
        why::sentence(&crate::promotion_step::organisation::blocker(&gone.snapshot()).unwrap())
            .contains("does not exist")
    );
    let mut unknown = Scene::new(json!({}));
    unknown.organisation = Err("the Secret cannot be had".to_owned());
    let plan = unknown.plan();
    assert_eq!((plan.effect(), plan.wake.is_some()), (None, true));
    assert!(unknown.message().starts_with("waiting for the organisation's gates: "), "{}", unknown.message());
}

#[test]
fn a_forged_status_gets_no_seal_while_the_gates_are_not_known() {
    let mut scene = Scene::new(json!({}));
    scene.organisation = Err("PolicyGate `soak` cannot be read".to_owned());
    scene.step.status =
        from(json!({"state": "WaitingForMerge", "outputs": {"commit": "ev11", "prNumber": "3"}}));
    let plan = plan(&scene.snapshot());
    assert_eq!((plan.effect(), plan.status), (Some(Effect::Step(StepEffect::ForgetStatus)), None));
}

#[test]
fn without_the_key_nothing_is_cleared_up_by_anybodys_record() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.step.status.as_mut().unwrap().state = Some(PromotionState::Failed);
    let plan = plan(&Snapshot { key: None, organisation: Err("no key"), ..scene.snapshot() });
    assert_eq!((plan.effect(), plan.status, plan.wake.is_some()), (None, None, true));
}

#[test]
fn while_the_key_cannot_be_read_a_step_does_not_spoil_its_own_seal() {
    let mut scene = Scene::new(json!({}));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Promoting);
    let snapshot = Snapshot { key: None, organisation: Err("no key"), ..scene.snapshot() };
    let status = plan(&snapshot).status.expect("it says why it waits");
    assert!(status.message.as_deref().unwrap_or_default().contains("no key"), "{:?}", status.message);
    scene.step.status = Some(status);
    let effect = scene.effect();
    assert!(matches!(effect, Effect::Git(GitEffect::Commit(_))), "the key is back: {effect:?}");
}

#[test]
fn taking_a_green_check_back_is_never_given_up() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.hold = held("paused");
    let effect = scene.effect();
    assert!(
        matches!(effect, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{effect:?}"
    );
    let troubles = [
        Outcome::Blocked { barrier: Barrier::Other, message: "401".to_owned() },
        Outcome::Refused { task: None, barrier: Barrier::Other, message: "422".to_owned() },
        Outcome::Fault { message: "502".to_owned(), retry: Retry::Soon },
    ];
    for trouble in troubles {
        let report = report(&scene.snapshot(), &effect, &trouble, 30);
        assert!(report.retry.is_some(), "{trouble:?}");
        scene.write(report.status);
        assert_eq!(scene.effect(), effect, "{trouble:?}");
    }
    scene.tell(&effect, Outcome::Done);
    assert_eq!(scene.kept().plan().effect(), None);
}

#[test]
fn a_record_is_not_merged_over_a_closed_gate_of_the_team() {
    let mut scene = Scene::new(json!({"pr": true})).with_gate("my-app-soak", ready()).opened();
    scene.set_gate("my-app-soak", closed());
    let mut scene = scene.kept();
    assert_eq!(scene.plan().effect(), None);
    assert_eq!(scene.message(), "PR #7 waits: held by soak");
    scene.set_gate("my-app-soak", ready());
    let body = scene.effect();
    scene.tell(&body, Outcome::Done);
    let status = scene.effect();
    scene.tell(&status, Outcome::Done);
    assert!(matches!(scene.effect(), Effect::Forge(ForgeEffect::MergePullRequest { .. })));
}

/// The Bundle's record of prod, as a step that is gone has left it.
fn recorded(scene: &mut Scene, record: Value) {
    let bundle = scene.bundle.as_mut().unwrap();
    bundle.metadata.uid = Some("b1".to_owned());
    let environments = &mut bundle.status.as_mut().unwrap().environments;
    environments.insert("prod".to_owned(), from(record));
}

#[test]
fn a_step_that_was_deleted_after_its_end_does_nothing_once_more() {
    let mut scene = Scene::reviewed();
    recorded(&mut scene, json!({"state": "Pending"}));
    let (bundle, verified_at) = (scene.bundle.clone().unwrap(), time("2026-04-14T12:00:00Z"));
    let place = written_to(&scene.step, bundle.spec.kind());
    let claim = Claim { bundle: &bundle, pipeline: "my-app", environment: "prod", place, verified_at };
    let seal = scene.key.seal(&claim);
    let record = json!({"state": "Verified", "verifiedAt": "2026-04-14T12:00:00Z", "seal": seal,
        "promotedAt": "2026-04-14T11:00:00Z", "commit": "c1",
        "evidence": {"approvedBy": ["alice"], "policyGates": []}});
    recorded(&mut scene, record);
    assert_eq!(scene.plan().effect(), None);
    let status = scene.status();
    assert_eq!((status.state, status.verified_at), (Some(PromotionState::Verified), Some(verified_at)));
    // The team may have written it; the record keeps it, and the controller does not sign it.
    assert_eq!((&status.evidence, status.outputs.get("commit"), status.promoted_at), (&None, None, None));
    let kept = crate::bundle::record(scene.bundle.as_ref().unwrap(), &[&scene.step]);
    assert_eq!(kept["prod"].evidence.as_ref().unwrap().approved_by.as_ref().unwrap(), &["alice"]);
    assert_eq!((kept["prod"].commit.as_deref(), kept["prod"].seal.is_some()), (Some("c1"), true));
    assert_eq!(scene.plan(), Plan::default());
    // An older status that is put back is taken away, and not told as the present.
    for older in ["Promoting", "WaitingForMerge", "HealthChecking"] {
        let mut status: PromotionStepStatus = from(json!({"state": older, "outputs": {"prNumber": "3"}}));
        status.progress_seal = scene.key.seal_progress(&scene.step, &status);
        scene.step.status = Some(status);
        assert_eq!(plan(&scene.snapshot()).effect(), Some(Effect::Step(StepEffect::ForgetStatus)), "{older}");
    }

    let mut rejected = Scene::reviewed();
    recorded(&mut rejected, json!({"state": "Failed", "rejected": true, "message": "PR #3 was closed"}));
    rejected.plan();
    assert_eq!(
        (rejected.state(), rejected.message()),
        (PromotionState::Failed, "PR #3 was closed".to_owned())
    );
    assert!(is_rejected(&rejected.step));
    assert_eq!(rejected.plan(), Plan::default());

    let mut forged = Scene::new(json!({}));
    recorded(
        &mut forged,
        json!({"state": "Verified", "verifiedAt": "2026-04-14T12:00:00Z", "seal": "Zm9v.YmFy"}),
    );
    assert!(
        matches!(forged.effect(), Effect::Git(GitEffect::Commit(_))),
        "nobody is verified by what a tenant wrote"
    );
}

#[test]
fn the_green_check_of_a_rejected_pull_request_is_taken_back() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request.as_mut().unwrap().state = PullRequestState::Closed;
    assert_eq!(scene.plan().effect(), None);
    assert_eq!(scene.state(), PromotionState::Failed);
    let effect = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, description, .. }) =
        &effect
    else {
        panic!("{effect:?}")
    };
    assert!(description.starts_with("this promotion is over: PR #7 was closed"), "{description}");
    // It is over, but whoever opens the pull request again must not find it green.
    for trouble in [
        Outcome::Blocked { barrier: Barrier::Other, message: "401".to_owned() },
        Outcome::Refused { task: None, barrier: Barrier::Other, message: "422".to_owned() },
        Outcome::Fault { message: "502".to_owned(), retry: Retry::Soon },
    ] {
        let report = report(&scene.snapshot(), &effect, &trouble, 100);
        assert!(report.retry.is_some(), "{trouble:?}");
        scene.write(report.status);
        assert_eq!(scene.effect(), effect, "{trouble:?}");
    }
    scene.tell(&effect, Outcome::Done);
    assert_eq!(scene.plan(), Plan::default());
}
