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
        Effect::SetCommitStatus {
            sha: "c0ffee0000".to_owned(),
            state: CommitState::Success,
            description: "all gates are open".to_owned(),
        }
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
        assert_eq!(read, Effect::ReadPullRequest { number: 7 });
        scene.tell(&read, Outcome::PullRequest(found));
        assert_eq!(scene.state(), state);
    }
}

#[test]
fn a_closed_pull_request_fails_the_step() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request = Some(closed_pull_request());
    scene.plan();
    assert_eq!(scene.message(), "PR #7 was closed without merging");
    assert_eq!(scene.task("wait-for-merge"), TaskState::Failed);
    assert_eq!(scene.plan(), Plan::default());
}

#[test]
fn what_the_gates_say_is_kept_up_to_date() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    scene.set_gate("my-app-soak", json!({"ready": true, "reason": "another reason", "lastEvaluatedAt": NOW}));
    assert_eq!(scene.plan().effect, None, "a new reason alone is no news");
    scene.set_gate("my-app-soak", closed());
    let update = scene.effect();
    let Effect::UpdatePullRequest { number: 7, body, labels, title } = &update else { panic!("{update:?}") };
    assert!(body.contains("| soak | org | FAIL | schedule.isWeekend = true |"), "{body}");
    assert_eq!(labels, &["kardinal", "kardinal/promotion"]);
    assert_eq!(title, "[kardinal] Promote my-app-v1-29-0 to prod");
    scene.tell(&update, Outcome::Done);
    let status = scene.effect();
    assert_eq!(
        status,
        Effect::SetCommitStatus {
            sha: "c0ffee0000".to_owned(),
            state: CommitState::Pending,
            description: "held by soak".to_owned(),
        }
    );
    scene.tell(&status, Outcome::Done);
    assert_eq!(scene.plan().effect, None);

    scene.pull_request.as_mut().unwrap().head = "other".to_owned();
    assert!(
        matches!(scene.effect(), Effect::SetCommitStatus { sha, .. } if sha == "other"),
        "a new head has no status yet"
    );
}

#[test]
fn a_hold_is_shown_on_the_pull_request() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.hold = Some(format!("Pipeline `my-app` is paused{}", "!".repeat(200)));
    let effect = scene.effect();
    let Effect::SetCommitStatus { state, description, .. } = &effect else { panic!("{effect:?}") };
    assert_eq!(*state, CommitState::Pending);
    assert!(description.starts_with("held: Pipeline `my-app` is paused"));
    assert_eq!(description.chars().count(), 140);
    scene.tell(&effect, Outcome::Done);
    scene.plan();
    assert!(scene.message().ends_with("; PR #7 waits"), "{}", scene.message());
}

#[test]
fn conflicts_are_told() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pull_request.as_mut().unwrap().mergeable = Some(false);
    scene.plan();
    assert_eq!(scene.message(), "PR #7 has conflicts with `main`: resolve them, then merge it");
}

#[test]
fn a_record_is_merged_by_the_controller_itself() {
    let mut scene = Scene::new(json!({"pr": true})).opened();
    assert_eq!(scene.message(), "merging PR #7");
    let status = scene.effect();
    assert!(
        matches!(&status, Effect::SetCommitStatus { description, .. } if description == "no gates guard this environment")
    );
    scene.tell(&status, Outcome::Done);
    scene.hold = Some("paused".to_owned());
    let held = scene.effect();
    assert!(matches!(held, Effect::SetCommitStatus { .. }));
    scene.tell(&held, Outcome::Done);
    assert_eq!(scene.plan().effect, None, "not while everything is held");
    scene.hold = None;
    let shown = scene.effect();
    scene.tell(&shown, Outcome::Done);
    scene.pull_request.as_mut().unwrap().head = "foreign".to_owned();
    let shown = scene.effect();
    scene.tell(&shown, Outcome::Done);
    let merge = scene.effect();
    assert_eq!(
        merge,
        Effect::MergePullRequest { number: 7, head_sha: "c0ffee0000".to_owned() },
        "only our own commit may go in unseen"
    );
    scene.tell(&merge, Outcome::PullRequest(merged_pull_request()));
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(scene.status().evidence.unwrap().approved_by.unwrap(), Vec::<String>::new());
}

#[test]
fn what_people_are_shown_is_not_worth_a_failure() {
    let mut scene = Scene::reviewed().opened();
    let status = scene.effect();
    let refused = Outcome::Refused { task: None, message: "the token may not set statuses".to_owned() };
    let report = scene.tell(&status, refused.clone());
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
    assert_eq!(report.notes[0].message, "setting the commit status: the token may not set statuses");
    assert_eq!(scene.plan().effect, None, "and it is not asked for again");

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
    let blocked = Outcome::Blocked { message: "the token may not set statuses".to_owned() };
    for attempt in 1..=4 {
        assert_eq!(scene.effect(), show);
        let report = report(&scene.snapshot(), &show, &blocked, attempt);
        assert_eq!(report.retry.is_some(), attempt < 4);
        scene.write(report.status);
    }
    assert!(scene.status().conditions.iter().all(|condition| condition.type_ != "Blocked"));
    assert!(matches!(scene.effect(), Effect::MergePullRequest { .. }));
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
    assert_eq!(read, Effect::ReadPullRequest { number: 7 });
    scene.tell(&read, Outcome::PullRequest(open_pull_request()));
    let close = scene.effect();
    let comment = "Closed by kardinal: task \\`check\\` said no: no &lt;b&gt;.".to_owned();
    assert_eq!(close, Effect::ClosePullRequest { number: 7, comment });
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
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    assert_eq!(scene.message(), "the record of tasks in `status.steps` does not fit the tasks of this step");
}
