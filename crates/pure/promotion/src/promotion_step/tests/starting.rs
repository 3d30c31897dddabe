//! From Pending to the push.

use super::*;

#[test]
fn a_step_names_what_it_waits_for() {
    let gated = |status: Value| Scene::new(json!({})).with_gate("my-app-no-weekend-deploys", status);
    let mut missing = gated(ready());
    missing.gates.clear();
    let mut gone = Scene::new(json!({}));
    gone.bundle = None;
    let mut superseded = Scene::new(json!({}));
    superseded.bundle.as_mut().unwrap().status = from(json!({"phase": "Superseded"}));
    let mut held = gated(closed());
    held.hold = super::held("Pipeline `my-app` is paused");
    let cases = [
        (gone, "waiting for Bundle `my-app-v1-29-0`: it does not exist"),
        (superseded, "Bundle `my-app-v1-29-0` is superseded: a newer one has taken its place"),
        (
            Scene::new(json!({"upstreamVerified": "Promoting"})),
            "waiting for staging to be Verified: it is Promoting",
        ),
        (Scene::new(json!({"upstreamVerified": ""})), "waiting for staging to be Verified"),
        (held, "held: Pipeline `my-app` is paused"),
        (missing, "waiting for gate `my-app-no-weekend-deploys`: it does not exist"),
        (gated(Value::Null), "waiting for gate `no-weekend-deploys`: it was not evaluated yet"),
        (gated(closed()), "held by gate `no-weekend-deploys`: schedule.isWeekend = true"),
        (
            gated(json!({"ready": false, "lastEvaluatedAt": "2026-04-14T13:59:00Z"})),
            "held by gate `no-weekend-deploys`: not on weekends",
        ),
        (
            gated(json!({"ready": true, "lastEvaluatedAt": "2026-04-14T13:50:00Z"})),
            "waiting for gate `no-weekend-deploys`: its last answer is 10m old, and must be newer than 10m",
        ),
    ];
    for (mut scene, message) in cases {
        let plan = scene.plan();
        assert_eq!((scene.state(), scene.message().as_str()), (PromotionState::Pending, message));
        assert_eq!(plan.notes.len(), 1, "{message}");
        let again = scene.plan();
        assert_eq!(again, Plan::default(), "nothing new is nothing written: {message}");
    }
}

#[test]
fn a_step_starts_when_nothing_stands_in_its_way() {
    let fresh = json!({"ready": true, "reason": "ok", "lastEvaluatedAt": "2026-04-14T13:50:01Z"});
    let mut scene = Scene::new(json!({"upstreamVerified": "Verified"})).with_gate("my-app-soak", fresh);
    let plan = scene.plan();
    assert_eq!(plan.effect(), None, "the start is written down before anything is done");
    assert_eq!(scene.state(), PromotionState::Promoting);
    assert_eq!(scene.message(), "pushing the change to `main`");
    let names: Vec<String> = scene.status().steps.iter().map(|task| task.name.clone()).collect();
    assert_eq!(names, ["git-clone", "kustomize-set-image", "git-commit", "git-push", "health-check"]);
    let evidence = scene.status().evidence.unwrap();
    assert_eq!(evidence.gate_duration.unwrap().as_str(), "4m12s");
    // What keeps it once its gates are open is not their doing.
    let mut open = json!({"ready": true, "reason": "ok", "lastEvaluatedAt": "2026-04-14T13:50:01Z"});
    open["conditions"] = json!([{"type": "Ready", "status": "True", "reason": "Open", "message": "",
        "lastTransitionTime": "2026-04-14T13:56:48Z"}]);
    let mut late = Scene::new(json!({"upstreamVerified": "Verified"})).with_gate("my-app-soak", open);
    late.plan();
    assert_eq!(late.status().evidence.unwrap().gate_duration.unwrap().as_str(), "1m");
    let mut free = Scene::new(json!({"upstreamVerified": "Verified"}));
    free.plan();
    assert_eq!(free.status().evidence.unwrap().gate_duration, None, "it has no gates to wait at");
    assert_eq!(
        serde_json::to_value(evidence.policy_gates).unwrap(),
        json!([{"name": "soak", "result": "pass", "reason": "ok", "evaluatedAt": "2026-04-14T13:50:01Z"}])
    );
}

#[test]
fn an_override_opens_a_gate_for_its_environment_and_time() {
    let cases = [
        (json!({"reason": "hotfix"}), true),
        (json!({"reason": "hotfix", "stage": "prod"}), true),
        (json!({"reason": "hotfix", "stage": "staging"}), false),
        (json!({"reason": "hotfix", "expiresAt": "2026-04-14T14:00:01Z"}), true),
        (json!({"reason": "hotfix", "expiresAt": "2026-04-14T14:00:00Z"}), false),
    ];
    for (given, opens) in cases {
        let mut scene = Scene::new(json!({})).with_gate("soak", closed());
        scene.gates.get_mut("soak").unwrap().spec.overrides = vec![from(given.clone())];
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Promoting, opens, "{given}");
    }
}

#[test]
fn gates_and_holds_are_asked_again_right_before_the_first_write_and_gates_never_after() {
    let mut scene = Scene::reviewed().with_gate("soak", ready());
    scene.plan();
    scene.set_gate("soak", closed());
    assert_eq!(scene.plan().effect(), None);
    assert_eq!(scene.state(), PromotionState::Promoting);
    assert_eq!(scene.message(), "held by gate `soak`: schedule.isWeekend = true");
    scene.set_gate("soak", ready());
    assert_eq!(scene.effect(), Effect::Step(StepEffect::AddFinalizer));
    scene.tell(&Effect::Step(StepEffect::AddFinalizer), Outcome::Done);
    let commit = scene.effect();
    scene.tell(&commit, committed());
    scene.set_gate("soak", closed());
    assert!(matches!(scene.effect(), Effect::Forge(ForgeEffect::OpenPullRequest(_))));
    scene.hold = held("Pipeline `my-app` is paused");
    assert_eq!(scene.plan().effect(), None, "a hold stops the next write whenever it comes");
    assert_eq!(scene.message(), "held: Pipeline `my-app` is paused");
}

#[test]
fn a_direct_push_orders_one_commit_and_goes_on_to_health() {
    let mut scene = Scene::new(json!({}));
    let Effect::Git(GitEffect::Commit(order)) = scene.effect() else { panic!("a commit") };
    assert_eq!((order.base.as_str(), order.branch.as_str()), ("main", "main"));
    assert_eq!(order.directory, "environments/prod");
    assert_eq!(
        order.message,
        "[kardinal] Promote my-app-v1-29-0 to prod\n\nghcr.io/myorg/my-app:1.29.0\n\nKardinal-Step: 0b5e\n"
    );
    assert_eq!(order.identity, "Kardinal-Step: 0b5e");
    assert_eq!(order.time, time("2026-04-14T13:58:00Z"));
    let [Edit::KustomizeImages { task: 1, images }] = order.edits.as_slice() else {
        panic!("{:?}", order.edits)
    };
    assert_eq!(images[0].tag.as_deref(), Some("1.29.0"));
    let report = scene.tell(&Effect::Git(GitEffect::Commit(order)), committed());
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(scene.message(), "pushed c0ffee0 to `main`; checking health");
    assert_eq!(scene.status().promoted_at, Some(scene.now));
    assert_eq!(scene.output("commit").as_deref(), Some("c0ffee0000"));
    assert_eq!(scene.output("baseCommit").as_deref(), Some("ba5e"));
    assert_eq!(scene.output("branch").as_deref(), Some("main"));
    assert_eq!(scene.task("git-push"), TaskState::Completed);
    assert_eq!(scene.task("git-clone"), TaskState::Completed);
    assert_eq!(scene.task("health-check"), TaskState::InProgress);
    assert_eq!(scene.status().current_step_index, Some(4));
    assert_eq!(report.notes, [], "what is merely under way is no news");
}

#[test]
fn an_environment_that_has_the_version_needs_no_change() {
    let mut direct = Scene::new(json!({}));
    let commit = direct.effect();
    direct.tell(&commit, unchanged());
    assert_eq!(direct.message(), "`main` already has this version; checking health");
    assert_eq!(direct.output("commit").as_deref(), Some("71b"));

    let mut reviewed = Scene::reviewed();
    reviewed.effect();
    reviewed.tell(&Effect::Step(StepEffect::AddFinalizer), Outcome::Done);
    let commit = reviewed.effect();
    reviewed.tell(&commit, unchanged());
    // That may be the doing of this promotion, in a life of which the record got lost.
    let find = reviewed.effect();
    assert!(matches!(find, Effect::Forge(ForgeEffect::FindMerge { .. })), "{find:?}");
    reviewed.tell(&find, Outcome::NoPullRequest);
    assert_eq!(reviewed.state(), PromotionState::HealthChecking);
    assert_eq!(reviewed.task("open-pr"), TaskState::Completed);
    assert_eq!(reviewed.task("wait-for-merge"), TaskState::Completed);
    assert_eq!(reviewed.status().promoted_at, Some(reviewed.now));
    assert_eq!(
        reviewed.status().steps[4].message.as_deref(),
        Some("not needed: `main` already has this version")
    );
    assert_eq!(reviewed.output("branch"), None);
}

#[test]
fn the_layout_decides_branch_and_directory() {
    let cases = [
        (json!({"git": {"branch": "trunk"}, "path": "apps/x"}), "trunk", "trunk", "apps/x"),
        (json!({"git": {"layout": "branch"}, "path": "apps/x"}), "env/prod", "env/prod", "."),
        (
            json!({"git": {"layout": "branch"}, "pr": true}),
            "env/prod",
            "kardinal/default/my-app-v1-29-0/prod",
            ".",
        ),
        (
            json!({"approval": "pr-review"}),
            "main",
            "kardinal/default/my-app-v1-29-0/prod",
            "environments/prod",
        ),
    ];
    for (extra, base, branch, directory) in cases {
        let mut scene = Scene::new(extra);
        scene.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        scene.has_no_pull_request = true;
        let Effect::Git(GitEffect::Commit(order)) = scene.effect() else { panic!("a commit") };
        assert_eq!(
            (order.base.as_str(), order.branch.as_str(), order.directory.as_str()),
            (base, branch, directory)
        );
    }
}

#[test]
fn configuration_goes_back_from_the_commit_that_is_taken_back() {
    let rollback = |reverted: Option<Bundle>| {
        let mut older = config_bundle();
        older.spec.provenance.get_or_insert_default().rollback_of = Some("newer".to_owned());
        Scene { bundle: Some(older), reverted, ..Scene::new(json!({})) }
    };
    let mut newer = config_bundle();
    newer.spec.artifacts.git_commit.as_mut().unwrap().sha = "def456".to_owned();
    let Effect::Git(GitEffect::Commit(order)) = rollback(Some(newer)).effect() else { panic!("a commit") };
    let [Edit::ConfigMerge { sha, instead_of, .. }] = order.edits.as_slice() else {
        panic!("{:?}", order.edits)
    };
    assert_eq!((sha.as_str(), instead_of.as_deref()), ("abc123def456", Some("def456")));

    // One without configuration has changed none, so there is nothing to undo.
    let Effect::Git(GitEffect::Commit(order)) = rollback(Some(image_bundle())).effect() else {
        panic!("a commit")
    };
    assert!(matches!(order.edits.as_slice(), [Edit::ConfigMerge { instead_of: None, .. }]));

    let mut lost = rollback(None);
    while !matches!(lost.status().state, Some(PromotionState::Failed)) {
        assert!(lost.plan().effect().is_none(), "nothing must be written");
    }
    assert!(
        lost.message().contains("the Bundle `newer` that is to be taken back is gone"),
        "{}",
        lost.message()
    );
}

#[test]
fn every_kind_of_bundle_and_strategy_has_its_edits() {
    let mut helm =
        Scene::new(json!({"update": {"strategy": "helm", "helm": {"imagePathTemplate": ".app.tag"}}}));
    let Effect::Git(GitEffect::Commit(order)) = helm.effect() else { panic!("a commit") };
    let [Edit::HelmImages { file, path, .. }] = order.edits.as_slice() else { panic!("{:?}", order.edits) };
    assert_eq!((file.as_str(), path.as_str()), ("values.yaml", ".app.tag"));

    let mut config = Scene::new(json!({}));
    config.bundle = Some(config_bundle());
    let Effect::Git(GitEffect::Commit(order)) = config.effect() else { panic!("a commit") };
    assert!(
        order.message.contains("\nhttps://github.com/myorg/app-config@abc123def456\n"),
        "{}",
        order.message
    );
    let expected = Edit::ConfigMerge {
        task: 1,
        repository: "https://github.com/myorg/app-config".to_owned(),
        sha: "abc123def456".to_owned(),
        instead_of: None,
        strategy: MergeStrategy::CherryPick,
        source_path: None,
    };
    assert_eq!(order.edits, [expected]);

    let mut listed = Scene::new(json!({"steps": [
        {"uses": "git-clone"},
        {"uses": "yaml-set", "config": {"file": "app.yaml", "path": ".version", "value": "{version}"}},
        {"uses": "replace-text", "config": {"pattern": "v: .*", "with": "v: {bundle} {environment}"}},
        {"uses": "kustomize-build"},
        {"uses": "git-commit"},
        {"uses": "git-push"},
    ]}));
    let Effect::Git(GitEffect::Commit(order)) = listed.effect() else { panic!("a commit") };
    assert_eq!(
        order.edits,
        [
            Edit::YamlSet {
                task: 1,
                file: "app.yaml".into(),
                path: ".version".into(),
                value: json!("1.29.0")
            },
            Edit::ReplaceText {
                task: 2,
                file: None,
                pattern: "v: .*".into(),
                with: "v: my-app-v1-29-0 prod".into()
            },
            Edit::KustomizeBuild { task: 3, output: "rendered.yaml".into() },
        ]
    );
}

#[test]
fn images_are_replaced_wherever_plain_yaml_names_them() {
    let mut scene = Scene::new(json!({"update": {"strategy": "replace"}}));
    let Effect::Git(GitEffect::Commit(order)) = scene.effect() else { panic!("a commit") };
    let [Edit::ReplaceText { file: None, pattern, with, .. }] = order.edits.as_slice() else { panic!() };
    let text = "a: ghcr.io/myorg/my-app:1.28.0\nb: \"ghcr.io/myorg/my-app:1@sha256:00\"\nc: ghcr.io/myorg/my-app-x:1\n\
                d: x.ghcr.io/myorg/my-app:1\ne: ghcrXio/myorg/my-app:1\nname: ghcr.io/myorg/my-app\n";
    let replaced = kardinal_manifest::replace::replace("x.yaml", text, pattern, with).unwrap();
    assert_eq!(
        replaced,
        "a: ghcr.io/myorg/my-app:1.29.0\nb: \"ghcr.io/myorg/my-app:1.29.0\"\nc: ghcr.io/myorg/my-app-x:1\n\
         d: x.ghcr.io/myorg/my-app:1\ne: ghcrXio/myorg/my-app:1\nname: ghcr.io/myorg/my-app\n"
    );
}

#[test]
fn a_fault_is_told_and_tried_again_for_ever() {
    let mut scene = Scene::new(json!({}));
    let commit = scene.effect();
    let pauses = [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (40, 8), (u32::MAX, 8), (0, 1)];
    for (attempt, seconds) in pauses {
        let report = report(&scene.snapshot(), &commit, &fault(), attempt);
        assert_eq!(report.retry, Some(SignedDuration::from_secs(seconds)), "attempt {attempt}");
    }
    let asked = [(30, 30), (3600, 60), (0, 1)];
    for (after, seconds) in asked {
        let outcome = Outcome::Fault {
            message: "not now".to_owned(),
            retry: Retry::After(SignedDuration::from_secs(after)),
        };
        let report = report(&scene.snapshot(), &commit, &outcome, 1);
        assert_eq!(report.retry, Some(SignedDuration::from_secs(seconds)), "asked for {after}");
    }
    scene.tell(&commit, fault());
    assert_eq!(scene.state(), PromotionState::Promoting);
    assert_eq!(scene.message(), "pushing to `main`: connection refused; trying again");
    let again = scene.tell(&commit, fault());
    assert_eq!(again.status, None, "the same trouble is written once");
    assert_eq!(scene.effect(), commit);
}

#[test]
fn a_rate_limit_backs_off_from_1_s_to_5_min_with_jitter_and_an_unreachable_forge_is_tried_within_10_s() {
    let mut scene = Scene::new(json!({}));
    let commit = scene.effect();
    let retry = |retry, attempt| {
        let outcome = Outcome::Fault { message: "429".to_owned(), retry };
        report(&scene.snapshot(), &commit, &outcome, attempt).retry.unwrap()
    };
    let seconds = SignedDuration::from_secs;
    for attempt in 1..40u32 {
        let least = seconds(300.min(1i64 << (attempt - 1).min(30)));
        let wait = retry(Retry::Limited(None), attempt);
        assert!(wait >= least && wait <= (least * 3 / 2).min(seconds(300)), "{attempt}: {wait:?}");
        assert_eq!(wait, retry(Retry::Limited(None), attempt), "the same step waits the same");
        assert!(retry(Retry::Soon, attempt) <= seconds(10));
    }
    for (asked, granted) in [(30, 30), (900, 900), (90_000, 3600), (0, 1)] {
        assert_eq!(retry(Retry::Limited(Some(seconds(asked))), 1), seconds(granted), "Retry-After: {asked}");
    }
}

#[test]
fn what_somebody_can_mend_blocks_and_goes_on_by_itself() {
    let mut scene = Scene::new(json!({}));
    let commit = scene.effect();
    let blocked = Outcome::Blocked {
        barrier: Barrier::Other,
        message: "Secret `github-token` is missing: create it".to_owned(),
    };
    let report = scene.tell(&commit, blocked.clone());
    assert_eq!(report.retry, Some(SignedDuration::from_secs(1)));
    assert_eq!(report.notes.len(), 1);
    assert_eq!(scene.state(), PromotionState::Promoting);
    assert_eq!(scene.message(), "Secret `github-token` is missing: create it");
    let condition =
        |scene: &Scene| scene.status().conditions.iter().any(|condition| condition.type_ == "Blocked");
    assert!(condition(&scene));
    let again = scene.tell(&commit, blocked);
    assert_eq!((again.status, again.notes), (None, Vec::new()), "told once");
    scene.tell(&commit, committed());
    assert!(!condition(&scene));
    assert_eq!(scene.state(), PromotionState::HealthChecking);
}

#[test]
fn a_refused_edit_fails_the_step_and_its_task() {
    let mut scene = Scene::new(json!({}));
    let commit = scene.effect();
    let message = "environments/prod/kustomization.yaml: `images` is not a list".to_owned();
    let report = scene
        .tell(&commit, Outcome::Refused { task: Some(1), barrier: Barrier::Other, message: message.clone() });
    assert_eq!((scene.state(), scene.message()), (PromotionState::Failed, message));
    assert_eq!(report.retry, None);
    assert!(report.notes[0].warning);
    assert_eq!(scene.task("kustomize-set-image"), TaskState::Failed);
    assert_eq!(scene.task("git-push"), TaskState::Pending);
    assert_eq!(scene.plan(), Plan::default(), "over");
}

#[test]
fn a_wrong_order_or_image_fails_before_anything_is_done() {
    let mut order = Scene::new(json!({"steps": [{"uses": "git-push"}]}));
    order.plan();
    assert_eq!(
        (order.state(), order.message().as_str()),
        (PromotionState::Failed, "steps[0]: `git-push` needs `git-commit` before it",)
    );
    let mut image = Scene::new(json!({}));
    image.bundle = Some(bundle(json!({"artifacts": {"images": [{"name": "x", "reference": "a b"}]}})));
    image.plan();
    image.plan();
    assert_eq!(image.state(), PromotionState::Failed);
    assert!(
        image.message().starts_with("artifacts.images[0].reference of the Bundle: "),
        "{}",
        image.message()
    );
}
