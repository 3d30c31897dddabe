//! From the open pull request to the merge.

use super::*;

#[test]
fn a_reviewed_step_opens_a_pull_request_and_waits() {
    let mut scene = Scene::reviewed().with_gate("soak", ready()).opened();
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
    assert_eq!(scene.message(), "waiting for PR #7 to be merged");
    assert_eq!(scene.status().pr_url.as_deref(), Some("https://github.com/myorg/gitops-repo/pull/7"));
    assert_eq!(scene.output("prNumber").as_deref(), Some("7"));
    assert_eq!(scene.output("prHead").as_deref(), Some("c0ffee0000"));
    assert_eq!(scene.status().promoted_at, None, "nothing has reached the environment yet");
    let status = scene.effect();
    assert_eq!(
        status,
        Effect::Forge(ForgeEffect::SetCommitStatus {
            sha: "c0ffee0000".to_owned(),
            context: "kardinal/gates/main".to_owned(),
            state: CommitState::Success,
            description: "all gates are open".to_owned(),
        })
    );
    scene.tell(&status, Outcome::Done);
    assert_eq!(scene.plan(), Plan::default(), "from here on somebody else must act");
}

#[test]
fn a_merge_is_the_approval() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pass(SignedDuration::from_mins(7));
    let approved = PullRequest { approved_by: vec!["bob".to_owned()], ..merged_pull_request() };
    scene.pull_request = Some(approved);
    let plan = scene.plan();
    assert_eq!(plan.notes, [], "what is merely under way is no news");
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    let status = scene.status();
    assert_eq!(status.merged_at, Some(time("2026-04-14T14:05:00Z")));
    assert_eq!(status.promoted_at, status.merged_at);
    assert_eq!(status.evidence.unwrap().approved_by.unwrap(), ["bob", "alice"]);
    assert_eq!(scene.status().steps[5].message.as_deref(), Some("PR #7 was merged by alice"));
    assert_eq!(promoted_commit(&scene.status()), Some("3e76ed"), "a squash leaves another commit than ours");
}

#[test]
fn a_forge_whose_clock_is_behind_brings_no_change_before_it_was_pushed() {
    for (merged_at, promoted_at) in [
        ("2026-04-14T13:00:00Z", "2026-04-14T14:00:00Z"),
        ("2026-04-14T14:05:00Z", "2026-04-14T14:05:00Z"),
        ("2026-04-14T15:00:00Z", "2026-04-14T14:07:00Z"),
    ] {
        let mut scene = Scene::reviewed().opened().kept();
        scene.pass(SignedDuration::from_mins(7));
        let merged = PullRequest { merged_at: Some(time(merged_at)), ..merged_pull_request() };
        scene.pull_request = Some(merged);
        scene.plan();
        let status = scene.status();
        let times = (status.merged_at, status.promoted_at);
        assert_eq!(times, (Some(time(merged_at)), Some(time(promoted_at))));
    }
}

#[test]
fn the_merge_of_another_pull_request_with_the_same_number_is_none_of_ours() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request =
        Some(PullRequest { branch: "other".to_owned(), head: "0ther".to_owned(), ..merged_pull_request() });
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    assert!(scene.message().contains("was merged by alice from `other`"), "{}", scene.message());
    assert!(scene.status().promoted_at.is_none());
}

#[test]
fn a_branch_that_gets_another_name_hides_no_merge_past_a_closed_gate() {
    let mut scene = Scene::reviewed().with_gate("soak", ready()).opened().kept();
    scene.set_gate("soak", closed());
    let mut scene = scene.kept();
    let merged = PullRequest {
        branch: "renamed".to_owned(),
        merged_by: Some("mallory".to_owned()),
        ..merged_pull_request()
    };
    scene.pull_request = Some(merged);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking, "{}", scene.message());
    let status = scene.status();
    assert!(status.merged_at.is_some() && status.promoted_at.is_some());
    let gates = status.evidence.unwrap().policy_gates.unwrap();
    assert_eq!(gates[0].result, kardinal_api::kardinal::GateResult::Fail);
}

#[test]
fn a_deleted_pull_request_whose_commit_is_gone_too_is_opened_anew() {
    let mut scene = Scene::reviewed().opened();
    let green = scene.effect();
    scene.tell(&green, Outcome::Done);
    scene.pull_request = None;
    let look = scene.effect();
    scene.tell_again(
        &look,
        Outcome::Absent { message: "no pull request #7 (yet)".to_owned() },
        BLOCKED_ATTEMPTS_MAX,
    );
    let withdrawn = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, sha, .. }) =
        withdrawn.clone()
    else {
        panic!("{withdrawn:?}")
    };
    let absent = || Outcome::Absent { message: "commit is not there (yet)".to_owned() };
    for attempt in 1..BLOCKED_ATTEMPTS_MAX {
        assert!(scene.tell_again(&withdrawn, absent(), attempt).retry.is_some(), "it may come in a moment");
        assert_eq!(scene.effect(), withdrawn);
    }
    let done = in_time(&scene.step, &withdrawn, absent(), BLOCKED_ATTEMPTS_MAX);
    assert_eq!(done, Outcome::Done, "nothing is green on a commit that is gone");
    scene.tell(&withdrawn, done);
    scene.withdrawn = Some(sha);
    assert!(matches!(scene.effect(), Effect::Git(GitEffect::Commit(_))), "{:?}", scene.status());
    // While the pull request is there, its newest commit has only not been seen yet; one that it has no more may be gone.
    let mut scene = Scene::reviewed().opened();
    assert!(matches!(
        in_time(&scene.step, &withdrawn, absent(), BLOCKED_ATTEMPTS_MAX),
        Outcome::Fault { .. }
    ));
    scene.step.status.as_mut().unwrap().outputs.insert("prHead".to_owned(), "beef".to_owned());
    assert_eq!(in_time(&scene.step, &withdrawn, absent(), BLOCKED_ATTEMPTS_MAX), Outcome::Done);
}

#[test]
fn a_merge_that_is_forced_past_a_gate_is_an_event() {
    let mut scene = Scene::reviewed().with_gate("soak", ready()).opened().kept();
    let gate = json!({"ready": false, "reason": "no", "lastEvaluatedAt": "2026-04-14T13:59:00Z"});
    scene.set_gate("soak", gate);
    scene.step.status.as_mut().unwrap().outputs.remove("greenHead");
    scene.shown = None;
    scene.seal();
    scene.pull_request = Some(PullRequest { merged_at: Some(time(NOW)), ..merged_pull_request() });
    let plan = scene.plan();
    let note = plan.notes.iter().find(|note| note.reason == "MergedPastGates").expect("an Event");
    assert_eq!(note.message, "PR #7 was merged by alice past `soak`");
    assert!(note.warning);
}

#[test]
fn while_a_gate_holds_an_open_pull_request_the_step_says_so() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    assert_eq!(scene.message(), "waiting for PR #7 to be merged");
    scene.set_gate("my-app-soak", closed());
    let mut scene = scene.kept();
    scene.plan();
    assert!(scene.message().starts_with("PR #7 waits: held by "), "{}", scene.message());
}

#[test]
fn a_restart_reads_the_pull_request_again() {
    let outcomes = [
        (merged_pull_request(), PromotionState::HealthChecking),
        (closed_pull_request(), PromotionState::Failed),
        (open_pull_request(), PromotionState::WaitingForMerge),
    ];
    for (found, state) in outcomes {
        let mut scene = Scene::reviewed().opened().kept();
        scene.pull_request = None;
        let read = scene.effect();
        assert_eq!(read, Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 }));
        scene.tell(&read, Outcome::PullRequest(found));
        assert_eq!(scene.state(), state);
    }
}

#[test]
fn a_closed_pull_request_fails_the_step() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    let message = "PR #7 was closed without merging by bob at 2026-04-14T13:59:30Z, which rejects this Bundle for `prod`";
    assert_eq!(scene.message(), message);
    assert!(is_rejected(&scene.step));
    let status = scene.status();
    assert_eq!(status.rejected_at, Some(time("2026-04-14T13:59:30Z")));
    assert_eq!(status.rejected_by.as_deref(), Some("bob"));
    assert_eq!(scene.status().conditions[0].reason, "Rejected");
    assert_eq!(scene.task("wait-for-merge"), TaskState::Failed);
    let take_back = scene.effect();
    assert!(
        matches!(take_back, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "{take_back:?}"
    );
    scene.tell(&take_back, Outcome::Done);
    assert_eq!(scene.plan(), Plan::default());
}

#[test]
fn a_forge_that_tells_nothing_of_a_closing_leaves_the_time_at_which_it_was_seen() {
    let ahead = Some(time("2026-04-14T14:00:09Z"));
    for closed_at in [None, ahead] {
        let mut scene = Scene::reviewed().opened().kept();
        scene.pull_request = Some(PullRequest { closed_at, closed_by: None, ..closed_pull_request() });
        scene.plan();
        let status = scene.status();
        assert_eq!((status.rejected_at, status.rejected_by), (Some(time(NOW)), None));
        assert!(scene.message().starts_with("PR #7 was closed without merging at 2026-04-14T14:00:00Z,"));
    }
}

#[test]
fn who_has_rejected_a_bundle_is_the_controllers_word() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    assert!(scene.key.proves_progress(&scene.step));
    scene.step.status.as_mut().unwrap().rejected_by = Some("mallory".to_owned());
    assert!(!scene.key.proves_progress(&scene.step));
}

#[test]
fn what_the_gates_say_is_kept_up_to_date() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    scene.set_gate("my-app-soak", json!({"ready": true, "reason": "another reason", "lastEvaluatedAt": NOW}));
    assert_eq!(scene.plan().effect(), None, "a new reason alone can wait a moment");
    scene.set_gate("my-app-soak", closed());
    // A green check is taken back first of all: until then people may merge.
    let status = scene.effect();
    assert_eq!(
        status,
        Effect::Forge(ForgeEffect::SetCommitStatus {
            sha: "c0ffee0000".to_owned(),
            context: "kardinal/gates/main".to_owned(),
            state: CommitState::Pending,
            description: "held by soak".to_owned(),
        })
    );
    scene.tell(&status, Outcome::Done);
    let update = scene.effect();
    let Effect::Forge(ForgeEffect::UpdatePullRequest { number: 7, body, labels, title }) = &update else {
        panic!("{update:?}")
    };
    assert!(body.contains("| soak | org | FAIL | schedule.isWeekend = true |"), "{body}");
    assert_eq!(labels, &["kardinal", "kardinal/promotion"]);
    assert_eq!(title, "[kardinal] Promote my-app-v1-29-0 to prod");
    scene.tell(&update, Outcome::Done);
    assert_eq!(scene.plan().effect(), None);

    scene.pull_request.as_mut().unwrap().head = "other".to_owned();
    let look = scene.effect();
    scene.tell(&look, Outcome::Overtaken { message: "somebody has pushed".to_owned() });
    let body = scene.effect();
    scene.tell(&body, Outcome::Done);
    assert!(
        matches!(scene.effect(), Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) if sha == "other"),
        "a new head has no status yet"
    );
}

#[test]
fn a_hold_is_shown_on_the_pull_request() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.hold = held(&format!("Pipeline `my-app` is paused{}", "!".repeat(200)));
    let effect = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state, description, .. }) = &effect else {
        panic!("{effect:?}")
    };
    assert_eq!(*state, CommitState::Pending);
    assert!(description.starts_with("held: Pipeline `my-app` is paused"));
    assert_eq!(description.chars().count(), 140);
    scene.tell(&effect, Outcome::Done);
    let mut scene = scene.kept();
    scene.plan();
    assert!(scene.message().ends_with("; PR #7 waits"), "{}", scene.message());
}

/// The commit status is set; what comes next is not about showing things.
fn shown(mut scene: Scene) -> Scene {
    let status = scene.effect();
    assert!(matches!(status, Effect::Forge(ForgeEffect::SetCommitStatus { .. })), "{status:?}");
    scene.tell(&status, Outcome::Done);
    scene
}

/// The commit that the pull request had before shows no green check any more.
fn not_green_any_more(mut scene: Scene) -> Scene {
    let status = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { sha, state, .. }) = &status else {
        panic!("{status:?}")
    };
    assert_eq!((sha.as_str(), *state), ("c0ffee0000", CommitState::Pending));
    scene.tell(&status, Outcome::Done);
    scene
}

/// The effect that rebuilds the branch of a pull request that conflicts.
fn rebuild(scene: &mut Scene) -> Effect {
    scene.pull_request.as_mut().unwrap().mergeable = Some(false);
    let effect = scene.effect();
    let Effect::Git(GitEffect::Commit(order)) = &effect else { panic!("{effect:?}") };
    assert_eq!(order.replaces.as_deref(), Some("c0ffee0000"));
    assert_eq!(
        (order.branch.as_str(), order.base.as_str()),
        ("kardinal/default/my-app-v1-29-0/prod", "main")
    );
    assert_eq!(order.identity, format!("Kardinal-Step: {UID}"), "it stays the step's own");
    effect
}

fn on_new_base() -> Outcome {
    Outcome::Committed {
        commit: "bea7ed".to_owned(),
        base: Some("f00dfeed".to_owned()),
        push: Push::Made,
        files: vec!["environments/prod/kustomization.yaml".to_owned()],
        moves: Vec::new(),
        source: None,
    }
}

#[test]
fn pull_requests_that_conflict_with_strangers_edits_are_rebuilt_on_the_new_tip_with_the_reason_as_a_comment()
{
    for (scene, by_itself) in [(Scene::reviewed(), false), (Scene::new(json!({"pr": true})), true)] {
        let mut scene = shown(scene.opened());
        let effect = rebuild(&mut scene);
        scene.tell(&effect, on_new_base());
        assert_eq!(scene.state(), PromotionState::WaitingForMerge);
        assert_eq!(scene.output("commit").as_deref(), Some("bea7ed"));
        assert_eq!(scene.message(), "rebuilt on `main` at f00dfee");
        // The forge has not compared the new head yet.
        let head = PullRequest { head: "bea7ed".to_owned(), mergeable: None, ..open_pull_request() };
        scene.pull_request = Some(head);
        let mut scene = not_green_any_more(scene);
        let comment = scene.effect();
        let Effect::Forge(ForgeEffect::CommentPullRequest { number: 7, comment: text }) = &comment else {
            panic!("{comment:?}")
        };
        assert!(text.contains("`main`") && text.contains("f00dfee"), "{text}");
        scene.tell(&comment, Outcome::Done);
        let body = scene.effect();
        assert!(matches!(body, Effect::Forge(ForgeEffect::UpdatePullRequest { .. })), "{body:?}");
        scene.tell(&body, Outcome::Done);
        let mut scene = shown(scene);
        let merge = Effect::Forge(ForgeEffect::MergePullRequest {
            number: 7,
            head_sha: "bea7ed".to_owned(),
            base: "main".to_owned(),
        });
        assert_eq!(scene.plan().effect(), by_itself.then_some(merge), "a mere record is merged by kardinal");
    }
}

#[test]
fn a_strangers_commit_on_our_branch_is_not_overwritten() {
    let mut scene = Scene::reviewed().opened().kept();
    let own = scene.pull_request.clone().unwrap();
    scene.pull_request = Some(PullRequest { mergeable: Some(false), head: "5trange".to_owned(), ..own });
    let look = scene.effect();
    assert!(
        matches!(&look, Effect::Git(GitEffect::Commit(order)) if order.replaces.as_deref() == Some("c0ffee0000")),
        "{look:?}"
    );
    scene.tell(&look, Outcome::Overtaken { message: "somebody has pushed".to_owned() });
    let mut scene = not_green_any_more(scene);
    let body = scene.effect();
    assert!(
        matches!(&body, Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) if body.contains("Look twice")),
        "{body:?}"
    );
    scene.tell(&body, Outcome::Done);
    let status = scene.effect();
    assert!(matches!(status, Effect::Forge(ForgeEffect::SetCommitStatus { .. })), "{status:?}");
    scene.tell(&status, Outcome::Done);
    assert_eq!(scene.plan().effect(), None);
    assert!(scene.message().contains("somebody has pushed to its branch"), "{}", scene.message());
}

#[test]
fn a_pause_holds_the_rebuilding_too_and_what_cannot_be_applied_blocks() {
    let mut scene = Scene::reviewed().opened().kept();
    let effect = rebuild(&mut scene);
    let refused = Outcome::Refused {
        task: Some(1),
        barrier: Barrier::Other,
        message: "`x.yaml` has no image".to_owned(),
    };
    let report = scene.tell(&effect, refused);
    assert_eq!(scene.state(), PromotionState::WaitingForMerge, "the base may be mended");
    assert!(scene.message().ends_with("on the newest `main`: `x.yaml` has no image"), "{}", scene.message());
    let retry = |attempt: u32| {
        let refused = Outcome::Refused {
            task: Some(1),
            barrier: Barrier::Other,
            message: "`x.yaml` has no image".to_owned(),
        };
        super::report(&scene.snapshot(), &effect, &refused, attempt).retry.unwrap()
    };
    assert!(report.retry.unwrap() < SignedDuration::from_secs(2), "soon at first");
    assert!(
        retry(12) >= SignedDuration::from_mins(5),
        "and seldom in the end: each try costs the forge and Git"
    );
    scene.hold = held("paused");
    assert!(!matches!(scene.effect(), Effect::Git(GitEffect::Commit(_))));
}

#[test]
fn audit_pull_requests_never_wait_for_ever_where_the_forge_only_refuses_to_merge() {
    let mut scene = shown(Scene::new(json!({"pr": true})).opened());
    let merge = scene.effect();
    assert!(matches!(merge, Effect::Forge(ForgeEffect::MergePullRequest { .. })), "{merge:?}");
    let said = "pull request #7 cannot be merged yet: Please try again later";
    let fault = Outcome::Conflict { message: said.to_owned(), certain: false };
    for attempt in [1, 2] {
        let status = report(&scene.snapshot(), &merge, &fault, attempt).status.unwrap();
        assert!(!status.outputs.contains_key("conflict"), "the forge may still be comparing");
    }
    let status = report(&scene.snapshot(), &merge, &fault, 3).status;
    scene.step.status = status;
    let effect = scene.effect();
    assert!(
        matches!(&effect, Effect::Git(GitEffect::Commit(order)) if order.replaces.is_some()),
        "{effect:?}"
    );
    // It was no conflict: merging is tried again.
    scene.tell(&effect, Outcome::Fault { message: "nothing was touched".to_owned(), retry: Retry::Soon });
    assert!(matches!(scene.effect(), Effect::Forge(ForgeEffect::MergePullRequest { .. })));
    let blocked = Outcome::Blocked {
        barrier: Barrier::Other,
        message: "#7 in acme/conflict-x: a review is missing".to_owned(),
    };
    scene.tell(&merge, blocked);
    assert!(
        matches!(scene.effect(), Effect::Forge(ForgeEffect::MergePullRequest { .. })),
        "a name is no conflict"
    );
    scene.tell(&merge, Outcome::Conflict { message: "both changed `a`".to_owned(), certain: true });
    assert!(
        matches!(scene.effect(), Effect::Git(GitEffect::Commit(_))),
        "where the forge says so there is no doubt"
    );
}

#[test]
fn a_base_that_says_it_all_already_needs_no_merge() {
    let mut scene = Scene::reviewed().opened().kept();
    let effect = rebuild(&mut scene);
    let nothing = Outcome::Committed {
        commit: "f00dfeed".to_owned(),
        base: None,
        push: Push::NotNeeded,
        files: Vec::new(),
        moves: Vec::new(),
        source: None,
    };
    scene.tell(&effect, nothing);
    let close = scene.effect();
    let Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment }) = &close else {
        panic!("{close:?}")
    };
    assert!(comment.contains("already says"), "{comment}");
    let mut lost = Scene { step: scene.step.clone(), ..Scene::reviewed() };
    scene.tell(&close, Outcome::Done);
    scene.pull_request = None;
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    // The same when the record of our closing got lost.
    let read = lost.effect();
    lost.tell(&read, Outcome::PullRequest(closed_pull_request()));
    assert_eq!(lost.state(), PromotionState::HealthChecking);
}

#[test]
fn a_pull_request_without_a_change_that_cannot_be_closed_does_not_hold_the_step() {
    let mut scene = Scene::reviewed().opened().kept();
    let effect = rebuild(&mut scene);
    scene.tell(&effect, unchanged());
    let close = scene.effect();
    assert!(matches!(close, Effect::Forge(ForgeEffect::ClosePullRequest { .. })), "{close:?}");
    let blocked = Outcome::Blocked { barrier: Barrier::Other, message: "the token may not".to_owned() };
    let report = report(&scene.snapshot(), &close, &blocked, BLOCKED_ATTEMPTS_MAX);
    assert_eq!(report.notes[0].reason, "LeftBehind");
    scene.write(report.status);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking, "{}", scene.message());
}

#[test]
fn nothing_is_merged_or_shown_as_allowed_for_a_bundle_that_is_superseded() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    scene.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded"}));
    let mut scene = scene.kept();
    assert_eq!(scene.plan().effect(), None);
    let shown = scene.output("statusKey").unwrap();
    assert!(shown.contains(" pending ") && shown.contains("is superseded"), "{shown}");
}

#[test]
fn a_record_is_merged_by_the_controller_itself() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    assert_eq!(scene.message(), "merging PR #7");
    let status = scene.effect();
    assert!(
        matches!(&status, Effect::Forge(ForgeEffect::SetCommitStatus { description, .. }) if description == "no gates guard this environment")
    );
    scene.tell(&status, Outcome::Done);
    scene.hold = held("paused");
    let held = scene.effect();
    assert!(matches!(held, Effect::Forge(ForgeEffect::SetCommitStatus { .. })));
    scene.tell(&held, Outcome::Done);
    let mut scene = scene.kept();
    assert_eq!(scene.plan().effect(), None, "not while everything is held");
    scene.hold = None;
    let body = scene.effect();
    assert!(matches!(body, Effect::Forge(ForgeEffect::UpdatePullRequest { .. })), "{body:?}");
    scene.tell(&body, Outcome::Done);
    let shown = scene.effect();
    scene.tell(&shown, Outcome::Done);
    let merge = scene.effect();
    let (head_sha, base) = ("c0ffee0000".to_owned(), "main".to_owned());
    assert_eq!(merge, Effect::Forge(ForgeEffect::MergePullRequest { number: 7, head_sha, base }));
    scene.tell(&merge, Outcome::PullRequest(merged_pull_request()));
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(scene.status().evidence.unwrap().approved_by.unwrap(), Vec::<String>::new());
}

#[test]
fn what_people_are_shown_is_not_worth_a_failure() {
    let mut scene = Scene::reviewed().opened();
    let status = scene.effect();
    let refused = Outcome::Refused {
        task: None,
        barrier: Barrier::Other,
        message: "the token may not set statuses".to_owned(),
    };
    let report = scene.tell(&status, refused.clone());
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
    assert_eq!(report.notes[0].message, "setting the commit status: the token may not set statuses");
    assert_eq!(scene.plan().effect(), None, "and it is not asked for again");

    scene.pull_request = None;
    let read = scene.effect();
    let report = scene.tell(&read, refused);
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
    assert!(report.retry.is_some());
}

#[test]
fn a_forge_that_shows_nothing_does_not_keep_a_record_from_being_merged() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    let show = scene.effect();
    let blocked =
        Outcome::Blocked { barrier: Barrier::Other, message: "the token may not set statuses".to_owned() };
    for attempt in 1..=4 {
        assert_eq!(scene.effect(), show);
        let report = report(&scene.snapshot(), &show, &blocked, attempt);
        assert_eq!(report.retry.is_some(), attempt < 4);
        scene.write(report.status);
    }
    assert!(scene.status().conditions.iter().all(|condition| condition.type_ != "Blocked"));
    assert!(matches!(scene.effect(), Effect::Forge(ForgeEffect::MergePullRequest { .. })));
}

#[test]
fn a_failed_step_leaves_no_pull_request_that_could_be_merged_by_mistake() {
    let mut scene = Scene::new(json!({"approval": "pr-review", "steps": [
        {"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"}, {"uses": "git-push"},
        {"uses": "open-pr"}, {"uses": "check", "config": {"url": "https://x"}}, {"uses": "wait-for-merge"},
    ]}))
    .opened();
    assert_eq!(scene.state(), PromotionState::Promoting);
    let call = scene.effect();
    scene.tell(&call, Outcome::TaskAnswer { success: false, message: "no <b>".to_owned() });
    assert_eq!(scene.state(), PromotionState::Failed);
    scene.pull_request = None;
    let read = scene.effect();
    assert_eq!(read, Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 }));
    scene.tell(&read, Outcome::PullRequest(open_pull_request()));
    let close = scene.effect();
    let comment = "Closed by kardinal: task \\`check\\` said no: no &lt;b&gt;.".to_owned();
    assert_eq!(close, Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment }));
    scene.tell(&close, fault());
    assert_eq!(scene.message(), "task `check` said no: no <b>", "the reason stays");
    scene.tell(&close, Outcome::Done);
    assert_eq!(scene.plan(), Plan::default());
}

#[test]
fn a_step_whose_bundle_is_gone_still_knows_its_tasks() {
    let mut scene = Scene::reviewed();
    scene.bundle = Some(config_bundle());
    let mut scene = scene.opened().kept();
    scene.bundle = None;
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
}

#[test]
fn a_record_that_does_not_fit_is_never_a_success() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.step.status.as_mut().unwrap().steps.pop();
    scene.seal();
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    assert_eq!(scene.message(), "the record of tasks in `status.steps` does not fit the tasks of this step");
}

#[test]
fn a_green_commit_that_the_pull_request_has_no_more_loses_its_check_unless_the_forge_has_lost_it() {
    for refused in [false, true] {
        let mut scene = Scene::reviewed().opened().kept();
        let own = scene.pull_request.clone().unwrap();
        scene.pull_request = Some(PullRequest { head: "5trange".to_owned(), ..own });
        let look = scene.effect();
        scene.tell(&look, Outcome::Overtaken { message: "somebody has pushed".to_owned() });
        let status = scene.effect();
        assert!(
            matches!(&status, Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) if sha == "c0ffee0000"),
            "{status:?}"
        );
        let outcome = match refused {
            true => {
                Outcome::Refused { task: None, barrier: Barrier::Other, message: "no such commit".to_owned() }
            }
            false => Outcome::Done,
        };
        scene.tell(&status, outcome);
        let mut scene = scene.kept();
        assert_eq!(scene.output("greenHead"), None);
        assert_eq!(scene.plan().effect(), None, "{refused}");
    }
}

#[test]
fn a_pull_request_that_was_deleted_is_opened_anew_and_its_green_check_goes_first() {
    let mut scene = Scene::reviewed().with_gate("soak", ready()).opened();
    let green = scene.effect();
    scene.tell(&green, Outcome::Done);
    scene.pull_request = None;
    let look = scene.effect();
    assert_eq!(look, Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 }));
    let absent = || Outcome::Absent { message: "no pull request #7 (yet)".to_owned() };
    let first = scene.tell(&look, absent());
    assert!(first.retry.is_some() && scene.message().ends_with("; trying again"), "{}", scene.message());
    let last = scene.tell_again(&look, absent(), BLOCKED_ATTEMPTS_MAX);
    assert_eq!((last.retry, last.notes[0].reason.as_str()), (None, "PullRequestGone"));
    assert_eq!(scene.message(), "PR #7 no longer exists: another one is opened");
    let withdrawn = scene.effect();
    let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, sha, .. }) = &withdrawn
    else {
        panic!("{withdrawn:?}")
    };
    assert_eq!(sha, "c0ffee0000");
    scene.withdrawn = Some(sha.clone());
    scene.tell(&withdrawn, Outcome::Done);
    let Effect::Git(GitEffect::Commit(order)) = scene.effect() else { panic!("{:?}", scene.status()) };
    assert_eq!(order.replaces, None);
    assert_eq!((scene.state(), scene.status().pr_url), (PromotionState::Promoting, None));
    assert_eq!(scene.output("prNumber"), None);
}

#[test]
fn a_deleted_pull_request_is_opened_anew_only_where_the_gates_let_it() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    scene.pull_request = None;
    let look = scene.effect();
    let absent = Outcome::Absent { message: "no pull request #7 (yet)".to_owned() };
    scene.tell_again(&look, absent, BLOCKED_ATTEMPTS_MAX);
    scene.set_gate("my-app-soak", closed());
    for _ in 0..4 {
        let plan = scene.plan();
        match plan.effect() {
            Some(Effect::Forge(ForgeEffect::SetCommitStatus {
                state: CommitState::Pending,
                ref sha,
                ..
            })) => {
                scene.withdrawn = Some(sha.clone());
                scene.tell(&plan.effect().clone().unwrap(), Outcome::Done);
            }
            Some(effect) => panic!("{effect:?}"),
            None => {}
        }
    }
    assert!(scene.message().starts_with("held by gate `soak`"), "{}", scene.message());
}
