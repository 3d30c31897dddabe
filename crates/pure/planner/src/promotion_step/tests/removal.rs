//! Steps that are deleted.

use super::*;

fn delete(scene: &mut Scene) {
    scene.step.metadata.deletion_timestamp = from(json!(NOW));
}

/// Everything that a deleted step does, by the names of the effects.
fn drive(scene: &mut Scene, mut answer: impl FnMut(&Effect) -> Outcome) -> Vec<Effect> {
    let mut done = Vec::new();
    for _ in 0..10 {
        let Some(effect) = scene.plan().effect else { return done };
        done.push(effect.clone());
        if effect == Effect::RemoveFinalizer {
            scene.step.metadata.finalizers = None;
            continue;
        }
        let outcome = answer(&effect);
        scene.tell(&effect, outcome);
    }
    panic!("it does not end: {done:?}");
}

fn branch(commit: Option<&str>) -> Effect {
    Effect::DeleteBranch {
        branch: "kardinal/default/my-app-v1-29-0/prod".to_owned(),
        commit: commit.map(str::to_owned),
    }
}

#[test]
fn a_step_without_a_branch_goes_at_once() {
    let mut scene = Scene::new(json!({})).pushed();
    delete(&mut scene);
    assert_eq!(scene.plan(), Plan::default());

    let mut unchanged_step = Scene::reviewed();
    unchanged_step.effect();
    unchanged_step.tell(&Effect::AddFinalizer, Outcome::Done);
    let commit = unchanged_step.effect();
    unchanged_step.tell(&commit, unchanged());
    delete(&mut unchanged_step);
    assert_eq!(drive(&mut unchanged_step, |_| Outcome::Done), [Effect::RemoveFinalizer]);
}

#[test]
fn an_open_pull_request_is_closed_and_its_branch_deleted() {
    let mut scene = Scene::reviewed().opened();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded", "conditions": [
        {"type": "Ready", "status": "False", "reason": "Superseded", "message": "`v3` takes it back",
         "lastTransitionTime": NOW}]}));
    delete(&mut scene);
    scene.pull_request = None;
    let done = drive(&mut scene, |effect| match effect {
        Effect::ReadPullRequest { .. } => Outcome::PullRequest(open_pull_request()),
        _ => Outcome::Done,
    });
    let comment =
        "Closed by kardinal: `my-app-v1-29-0` is superseded on its way to `prod`: \\`v3\\` takes it back."
            .to_owned();
    assert_eq!(
        done,
        [
            Effect::ReadPullRequest { number: 7 },
            Effect::ClosePullRequest { number: 7, comment },
            branch(Some("c0ffee0000")),
            Effect::RemoveFinalizer,
        ]
    );
}

#[test]
fn the_green_check_of_a_superseded_promotion_is_taken_back() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded"}));
    delete(&mut scene);
    let done = drive(&mut scene, |_| Outcome::Done);
    let [Effect::ClosePullRequest { .. }, Effect::SetCommitStatus { sha, state, .. }, rest @ ..] = &*done
    else {
        panic!("{done:?}")
    };
    assert_eq!((sha.as_str(), *state), ("c0ffee0000", CommitState::Pending));
    assert_eq!(rest, [branch(Some("c0ffee0000")), Effect::RemoveFinalizer]);

    // What was merged is merged.
    let mut merged = Scene::reviewed().opened().kept();
    delete(&mut merged);
    merged.pull_request = None;
    let done = drive(&mut merged, |effect| match effect {
        Effect::ReadPullRequest { .. } => Outcome::PullRequest(merged_pull_request()),
        _ => Outcome::Done,
    });
    assert!(!done.iter().any(|effect| matches!(effect, Effect::SetCommitStatus { .. })), "{done:?}");
}

#[test]
fn a_merged_pull_request_is_left_alone() {
    let mut scene = Scene::reviewed().opened();
    delete(&mut scene);
    scene.pull_request = None;
    let done = drive(&mut scene, |effect| match effect {
        Effect::ReadPullRequest { .. } => Outcome::PullRequest(merged_pull_request()),
        _ => Outcome::Done,
    });
    assert_eq!(
        done,
        [Effect::ReadPullRequest { number: 7 }, branch(Some("c0ffee0000")), Effect::RemoveFinalizer]
    );
}

#[test]
fn a_pull_request_that_was_never_written_down_is_found() {
    let pushed = || {
        let mut scene = Scene::reviewed();
        scene.effect();
        scene.tell(&Effect::AddFinalizer, Outcome::Done);
        let commit = scene.effect();
        scene.tell(&commit, committed());
        delete(&mut scene);
        scene.bundle = None;
        scene
    };
    let find = Effect::FindPullRequest {
        head: "kardinal/default/my-app-v1-29-0/prod".to_owned(),
        base: "main".to_owned(),
        marker: "<!-- kardinal-step: 0b5e -->".to_owned(),
        since: change::since(&pushed().snapshot()),
    };
    let done = drive(&mut pushed(), |effect| match effect {
        Effect::FindPullRequest { .. } => Outcome::PullRequest(open_pull_request()),
        _ => Outcome::Done,
    });
    let comment = "Closed by kardinal: the promotion of `my-app-v1-29-0` to `prod` was deleted.".to_owned();
    assert_eq!(
        done,
        [
            find.clone(),
            Effect::ClosePullRequest { number: 7, comment },
            branch(Some("c0ffee0000")),
            Effect::RemoveFinalizer,
        ]
    );
    let done = drive(&mut pushed(), |effect| match effect {
        Effect::FindPullRequest { .. } => Outcome::NoPullRequest,
        _ => Outcome::Done,
    });
    assert_eq!(done, [find, branch(Some("c0ffee0000")), Effect::RemoveFinalizer]);
}

#[test]
fn a_push_that_was_never_written_down_is_cleared_away() {
    let mut scene = Scene::reviewed();
    scene.effect();
    scene.tell(&Effect::AddFinalizer, Outcome::Done);
    delete(&mut scene);
    let find = change::find(&scene.snapshot());
    let done = drive(&mut scene, |effect| match effect {
        Effect::FindPullRequest { .. } => Outcome::NoPullRequest,
        _ => Outcome::Done,
    });
    assert_eq!(done, [find, branch(None), Effect::RemoveFinalizer]);
}

#[test]
fn a_door_that_stays_shut_does_not_keep_the_step() {
    let mut scene = Scene::reviewed().opened();
    delete(&mut scene);
    let close = scene.effect();
    let blocked = Outcome::Blocked { message: "Secret `github-token` is missing".to_owned() };
    for attempt in 1..4 {
        let report = report(&scene.snapshot(), &close, &blocked, attempt);
        assert!(report.retry.is_some());
        scene.write(report.status);
        assert_eq!(scene.effect(), close);
    }
    let report = report(&scene.snapshot(), &close, &blocked, 4);
    assert_eq!(report.notes[0].message, "closing PR #7 was given up: Secret `github-token` is missing");
    scene.write(report.status);
    let delete = scene.effect();
    scene.tell(&delete, Outcome::Refused { task: None, message: "somebody pushed to it".to_owned() });
    assert_eq!(scene.effect(), Effect::RemoveFinalizer);
}

#[test]
fn a_fault_is_waited_for_but_not_for_ever() {
    let mut scene = Scene::reviewed().opened();
    delete(&mut scene);
    let close = scene.effect();
    for attempt in 1..75 {
        let report = report(&scene.snapshot(), &close, &fault(), attempt);
        assert!(report.retry.is_some());
        scene.write(report.status);
        assert_eq!(scene.effect(), close);
    }
    // A forge that is gone for good must not keep a namespace from being deleted.
    let report = report(&scene.snapshot(), &close, &fault(), 75);
    assert_eq!(report.notes[0].reason, "LeftBehind");
    scene.write(report.status);
    assert!(matches!(scene.effect(), Effect::DeleteBranch { .. }));
}
