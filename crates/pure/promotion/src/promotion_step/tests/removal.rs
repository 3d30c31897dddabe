//! Steps that are deleted.

use super::*;

fn delete(scene: &mut Scene) {
    scene.step.metadata.deletion_timestamp = from(json!(NOW));
}

/// Everything that a deleted step does.
fn drive(scene: &mut Scene, mut answer: impl FnMut(&Effect) -> Outcome) -> Vec<Effect> {
    let mut done = Vec::new();
    for _ in 0..12 {
        let plan = scene.plan();
        let Some(effect) = plan.effect() else {
            if plan.status.is_some() {
                continue;
            }
            return done;
        };
        done.push(effect.clone());
        if effect == Effect::Step(StepEffect::RemoveFinalizer) {
            scene.step.metadata.finalizers = None;
            continue;
        }
        let outcome = answer(&effect);
        scene.tell(&effect, outcome);
        // As the controller remembers it.
        match effect {
            Effect::Forge(ForgeEffect::ClosePullRequest { .. }) => scene.pull_request = None,
            Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) => scene.withdrawn = Some(sha),
            _ => {}
        }
    }
    panic!("it does not end: {done:?}");
}

/// A forge that has pull request #7, which is open until it is closed.
fn forge() -> impl FnMut(&Effect) -> Outcome {
    let mut now = open_pull_request();
    move |effect| match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. }) => {
            Outcome::PullRequest(now.clone())
        }
        Effect::Forge(ForgeEffect::ClosePullRequest { .. }) => {
            now = closed_pull_request();
            Outcome::Done
        }
        _ => Outcome::Done,
    }
}

/// The check of the commit turns to pending.
fn pending(why: &str) -> Effect {
    Effect::Forge(ForgeEffect::SetCommitStatus {
        sha: "c0ffee0000".to_owned(),
        context: "kardinal/gates/main".to_owned(),
        state: CommitState::Pending,
        description: format!("this promotion is over: {why}"),
    })
}

const READ: Effect = Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 });

fn branch(commit: Option<&str>) -> Effect {
    Effect::Git(GitEffect::DeleteBranch {
        branch: "kardinal/default/my-app-v1-29-0/prod".to_owned(),
        commit: commit.map(str::to_owned),
    })
}

#[test]
fn a_step_without_a_branch_goes_at_once() {
    let mut scene = Scene::new(json!({})).pushed();
    delete(&mut scene);
    assert_eq!(scene.plan(), Plan::default());

    let mut unchanged_step = Scene::reviewed();
    unchanged_step.effect();
    unchanged_step.tell(&Effect::Step(StepEffect::AddFinalizer), Outcome::Done);
    let commit = unchanged_step.effect();
    unchanged_step.tell(&commit, unchanged());
    delete(&mut unchanged_step);
    assert_eq!(drive(&mut unchanged_step, |_| Outcome::Done), [Effect::Step(StepEffect::RemoveFinalizer)]);
}

#[test]
fn an_open_pull_request_is_closed_and_its_branch_deleted() {
    let mut scene = Scene::reviewed().opened();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded", "conditions": [
        {"type": "Ready", "status": "False", "reason": "Superseded", "message": "`v3` takes it back",
         "lastTransitionTime": NOW}]}));
    delete(&mut scene);
    scene.pull_request = None;
    let done = drive(&mut scene, forge());
    let comment =
        "Closed by kardinal: `my-app-v1-29-0` is superseded on its way to `prod`: \\`v3\\` takes it back."
            .to_owned();
    assert_eq!(
        done,
        [
            READ,
            Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment }),
            READ,
            pending("its Bundle is superseded"),
            branch(Some("c0ffee0000")),
            Effect::Step(StepEffect::RemoveFinalizer),
        ]
    );
}

#[test]
fn the_green_check_of_a_superseded_promotion_is_taken_back() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded"}));
    delete(&mut scene);
    let done = drive(&mut scene, forge());
    let [Effect::Forge(ForgeEffect::ClosePullRequest { .. }), rest @ ..] = &*done else { panic!("{done:?}") };
    let taken_back = pending("its Bundle is superseded");
    assert_eq!(
        rest,
        [READ, taken_back, branch(Some("c0ffee0000")), Effect::Step(StepEffect::RemoveFinalizer)]
    );

    // What was merged is merged.
    let mut merged = Scene::reviewed().opened().kept();
    delete(&mut merged);
    merged.pull_request = None;
    let done = drive(&mut merged, |effect| match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. }) => Outcome::PullRequest(merged_pull_request()),
        _ => Outcome::Done,
    });
    assert!(
        !done.iter().any(|effect| matches!(effect, Effect::Forge(ForgeEffect::SetCommitStatus { .. }))),
        "{done:?}"
    );
}

#[test]
fn a_merged_pull_request_is_left_alone() {
    let mut scene = Scene::reviewed().opened();
    delete(&mut scene);
    scene.pull_request = None;
    let done = drive(&mut scene, |effect| match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. }) => Outcome::PullRequest(merged_pull_request()),
        _ => Outcome::Done,
    });
    assert_eq!(done[..2], [READ, branch(Some("c0ffee0000"))]);
}

/// A step whose Bundle was superseded when somebody had just merged its pull request.
fn merged_meanwhile() -> (Scene, Vec<Effect>) {
    let mut scene = Scene::reviewed().opened().kept();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded"}));
    delete(&mut scene);
    // The forge takes closing for done.
    let done = drive(&mut scene, |effect| match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. }) => Outcome::PullRequest(merged_pull_request()),
        _ => Outcome::Done,
    });
    (scene, done)
}

#[test]
fn a_merge_right_before_the_bundle_is_superseded_is_on_record() {
    // A process that died when it had opened the pull request has left the state before that.
    let (mut died, _) = merged_meanwhile();
    died.step.status.as_mut().unwrap().state = Some(PromotionState::Promoting);
    died.seal();
    let plan = died.plan();
    assert!(plan.effect().is_none() && plan.wake.is_some(), "{plan:?}");
    let (mut scene, done) = merged_meanwhile();
    let [Effect::Forge(ForgeEffect::ClosePullRequest { .. }), rest @ ..] = &*done else { panic!("{done:?}") };
    assert_eq!(rest, [READ, branch(Some("c0ffee0000"))]);
    let status = scene.status();
    assert_eq!(status.merged_at, merged_pull_request().merged_at);
    assert!(status.promoted_at.is_some() && status.evidence.unwrap().approved_by.is_some());
    assert!(scene.message().contains("was merged by"), "{}", scene.message());
    // It stays until the Bundle's record tells it: nobody else knows then.
    let plan = scene.plan();
    assert!(plan.effect().is_none() && plan.wake.is_some(), "{plan:?}");
    let record = json!({"phase": "Superseded", "environments": {"prod": {"promotedAt": NOW}}});
    scene.bundle.as_mut().unwrap().status = from(record);
    assert_eq!(scene.effect(), Effect::Step(StepEffect::RemoveFinalizer));
}

#[test]
fn a_record_that_never_comes_does_not_keep_the_step() {
    let (mut scene, _) = merged_meanwhile();
    scene.pass(SignedDuration::from_mins(1));
    assert_eq!(scene.effect(), Effect::Step(StepEffect::RemoveFinalizer));
    let (mut deleted, _) = merged_meanwhile();
    deleted.bundle = None;
    assert_eq!(deleted.effect(), Effect::Step(StepEffect::RemoveFinalizer));
}

#[test]
fn a_green_check_that_was_not_written_down_is_taken_back_when_the_step_goes() {
    // Somebody erased the status, or the process died before it was written.
    let mut scene = Scene::reviewed().opened();
    assert!(scene.output("greenHead").is_none());
    delete(&mut scene);
    let done = drive(&mut scene, forge());
    assert!(done.contains(&pending("it was deleted")), "{done:?}");
    // A rejected one that this process has shown green.
    let mut rejected = Scene::reviewed().opened();
    rejected.shown =
        Some(Shown { sha: "c0ffee0000".to_owned(), state: CommitState::Success, since: rejected.now });
    rejected.pull_request = Some(closed_pull_request());
    rejected.plan();
    assert_eq!(rejected.state(), PromotionState::Failed);
    let effect = rejected.effect();
    assert!(
        matches!(effect, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{effect:?}"
    );
}

#[test]
fn a_green_check_without_an_answer_is_taken_back_at_the_end() {
    let mut scene = Scene::reviewed().opened();
    let shown = scene.effect();
    assert!(
        matches!(shown, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Success, .. })),
        "{shown:?}"
    );
    scene.tell(&shown, fault());
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    let effect = scene.effect();
    assert!(
        matches!(effect, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{effect:?}"
    );
}

#[test]
fn a_pull_request_that_was_never_written_down_is_found() {
    let pushed = || {
        let mut scene = Scene::reviewed();
        scene.effect();
        scene.tell(&Effect::Step(StepEffect::AddFinalizer), Outcome::Done);
        let commit = scene.effect();
        scene.tell(&commit, committed());
        delete(&mut scene);
        scene.bundle = None;
        scene
    };
    let find = Effect::Forge(ForgeEffect::FindPullRequest {
        head: "kardinal/default/my-app-v1-29-0/prod".to_owned(),
        base: "main".to_owned(),
        marker: "<!-- kardinal-step: 0b5e -->".to_owned(),
        since: change::since(&pushed().snapshot()),
    });
    let done = drive(&mut pushed(), forge());
    let comment = "Closed by kardinal: the promotion of `my-app-v1-29-0` to `prod` was deleted.".to_owned();
    assert_eq!(
        done,
        [
            find.clone(),
            Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment }),
            READ,
            pending("it was deleted"),
            branch(Some("c0ffee0000")),
            Effect::Step(StepEffect::RemoveFinalizer),
        ]
    );
    let done = drive(&mut pushed(), |effect| match effect {
        Effect::Forge(ForgeEffect::FindPullRequest { .. }) => Outcome::NoPullRequest,
        _ => Outcome::Done,
    });
    assert_eq!(done, [find, branch(Some("c0ffee0000")), Effect::Step(StepEffect::RemoveFinalizer)]);
}

#[test]
fn a_push_that_was_never_written_down_is_cleared_away() {
    let mut scene = Scene::reviewed();
    scene.effect();
    scene.tell(&Effect::Step(StepEffect::AddFinalizer), Outcome::Done);
    delete(&mut scene);
    let find = change::find(&scene.snapshot());
    let done = drive(&mut scene, |effect| match effect {
        Effect::Forge(ForgeEffect::FindPullRequest { .. }) => Outcome::NoPullRequest,
        _ => Outcome::Done,
    });
    assert_eq!(done, [find, branch(None), Effect::Step(StepEffect::RemoveFinalizer)]);
}

#[test]
fn a_door_that_stays_shut_does_not_keep_the_step() {
    let mut scene = Scene::reviewed().opened();
    delete(&mut scene);
    let close = scene.effect();
    let blocked =
        Outcome::Blocked { barrier: Barrier::Other, message: "Secret `github-token` is missing".to_owned() };
    for attempt in 1..4 {
        let report = report(&scene.snapshot(), &close, &blocked, attempt);
        assert!(report.retry.is_some());
        scene.write(report.status);
        assert_eq!(scene.effect(), close);
    }
    let report = report(&scene.snapshot(), &close, &blocked, 4);
    assert_eq!(report.notes[0].message, "closing PR #7 was given up: Secret `github-token` is missing");
    scene.write(report.status);
    let pending = scene.effect();
    scene.tell(
        &pending,
        Outcome::Refused { task: None, barrier: Barrier::Other, message: "not allowed".to_owned() },
    );
    let delete = scene.effect();
    scene.tell(
        &delete,
        Outcome::Refused { task: None, barrier: Barrier::Other, message: "somebody pushed to it".to_owned() },
    );
    assert_eq!(scene.effect(), Effect::Step(StepEffect::RemoveFinalizer));
}

#[test]
fn a_step_whose_checks_cannot_be_taken_back_goes_all_the_same() {
    // This process has shown green on one commit, and the pull request has another one since.
    let mut scene = Scene::reviewed().opened();
    scene.shown = Some(Shown { sha: "5407ed".to_owned(), state: CommitState::Success, since: scene.now });
    delete(&mut scene);
    let blocked = || Outcome::Blocked { barrier: Barrier::Other, message: "403: commit statuses".to_owned() };
    let mut given_up = Vec::new();
    for _ in 0..20 {
        let plan = scene.plan();
        let Some(effect) = plan.effect() else { continue };
        match &effect {
            Effect::Step(StepEffect::RemoveFinalizer) => {
                assert_eq!(given_up, ["5407ed", "c0ffee0000"]);
                return;
            }
            Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) => {
                given_up.push(sha.clone());
                scene.tell_again(&effect, blocked(), BLOCKED_ATTEMPTS_MAX);
            }
            Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. }) => {
                scene.tell(&effect, Outcome::PullRequest(closed_pull_request()));
            }
            _ => {
                scene.tell(&effect, Outcome::Done);
            }
        }
    }
    panic!("it does not end: {given_up:?}");
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
    let pending = scene.effect();
    assert!(matches!(pending, Effect::Forge(ForgeEffect::SetCommitStatus { .. })), "{pending:?}");
    let report = super::report(&scene.snapshot(), &pending, &fault(), 76);
    scene.write(report.status);
    assert!(matches!(scene.effect(), Effect::Git(GitEffect::DeleteBranch { .. })));
}
