//! What is wrong with a step, and which type of Bundle it is checked for.

use kardinal_api::kardinal::BundleType;

use super::*;

/// The fields that are wrong, each with its task.
fn wrong(step: &PromotionStep, kind: BundleType) -> Vec<(String, Option<usize>)> {
    let problems = check(step, kind).unwrap_err();
    problems.into_iter().map(|problem| (problem.field, problem.task)).collect()
}

fn field(name: &str, task: impl Into<Option<usize>>) -> (String, Option<usize>) {
    (name.to_owned(), task.into())
}

/// A step with these tasks, by name.
fn listing(names: &str) -> PromotionStep {
    let task = |name: &str| match name {
        "call" => json!({"uses": "call", "config": {"url": "https://x"}}),
        name => json!({"uses": name}),
    };
    Scene::new(json!({"steps": names.split(' ').map(task).collect::<Vec<Value>>()})).step
}

#[test]
fn what_a_checked_step_says() {
    let step = Scene::new(json!({"approval": "pr-review", "path": "./apps//prod/"})).step;
    let checked = check(&step, BundleType::Image).unwrap();
    assert_eq!((checked.bundle_type, checked.environment.as_str()), (BundleType::Image, "prod"));
    assert_eq!((checked.base.as_str(), checked.directory.as_str()), ("main", "apps/prod"));
    assert_eq!(checked.branch, "kardinal/default/my-app-v1-29-0/prod");
    assert_eq!(checked.position(&TaskKind::Push), Some(3));
    let direct = check(&Scene::new(json!({})).step, BundleType::Config).unwrap();
    assert_eq!((direct.branch, direct.bundle_type), ("main".to_owned(), BundleType::Config));
}

#[test]
fn every_problem_of_a_setting_names_its_field() {
    let cases = [
        ("uses", json!({"uses": "kustomise-set-image"})),
        ("config.valuesFile", json!({"uses": "helm-set-image", "config": {"valuesFile": 1}})),
        ("config.imagePathTemplate", json!({"uses": "helm-set-image", "config": {"imagePathTemplate": ""}})),
        ("config.file", json!({"uses": "replace-text", "config": {"file": [], "pattern": "x", "with": "y"}})),
        ("config.pattern", json!({"uses": "replace-text", "config": {"with": "x"}})),
        ("config.with", json!({"uses": "replace-text", "config": {"pattern": "x"}})),
        ("config.file", json!({"uses": "yaml-set", "config": {"path": "x", "value": 1}})),
        ("config.path", json!({"uses": "yaml-set", "config": {"file": "x", "value": 1}})),
        ("config.value", json!({"uses": "yaml-set", "config": {"file": "x", "path": "x"}})),
        ("config.value", json!({"uses": "yaml-set", "config": {"file": "x", "path": "x", "value": null}})),
        ("config.strategy", json!({"uses": "config-merge", "config": {"strategy": "rebase"}})),
        ("config.strategy", json!({"uses": "config-merge", "config": {"strategy": true}})),
        ("config.path", json!({"uses": "config-merge", "config": {"path": 3}})),
        ("config.output", json!({"uses": "kustomize-build", "config": {"output": 3}})),
        ("config.url", json!({"uses": "t", "config": {"url": 3}})),
        ("config.url", json!({"uses": "t", "config": {"url": "ftp://x"}})),
        ("config.url", json!({"uses": "t", "config": {"url": "https://me:secret@x/y"}})),
        ("config.timeout", json!({"uses": "t", "config": {"url": "https://x", "timeout": 90}})),
        ("config.timeout", json!({"uses": "t", "config": {"url": "https://x", "timeout": "soon"}})),
        ("config.timeout", json!({"uses": "t", "config": {"url": "https://x", "timeout": "0s"}})),
        ("config.timeout", json!({"uses": "t", "config": {"url": "https://x", "timeout": "2h"}})),
        ("config.header", json!({"uses": "t", "config": {"url": "https://x", "header": "X Y"}})),
        ("config.header", json!({"uses": "t", "config": {"url": "https://x", "header": "Host"}})),
        ("config.header", json!({"uses": "t", "config": {"url": "https://x", "header": "X-Forwarded-Host"}})),
        ("config.secretRef", json!({"uses": "t", "config": {"url": "https://x", "secretRef": "token"}})),
        ("config.secretRef", json!({"uses": "t", "config": {"url": "https://x", "secretRef": {"key": "k"}}})),
    ];
    for (name, task) in cases {
        let step = Scene::new(json!({"steps": [{"uses": "git-clone"}, task]})).step;
        for kind in TYPES {
            assert_eq!(wrong(&step, kind), [field(&format!("spec.steps[1].{name}"), 1)], "{task}");
        }
    }
    let step =
        Scene::new(json!({"steps": [{"uses": "a"}, {"uses": "git-clone"}, {"uses": "yaml-set"}]})).step;
    let both = [field("spec.steps[0].uses", 0), field("spec.steps[2].config.file", 2)];
    assert_eq!(wrong(&step, BundleType::Image), both, "all tasks are looked at");
}

#[test]
fn every_problem_of_an_order_names_its_field() {
    let usual = "git-clone kustomize-set-image git-commit git-push";
    let cases: [(String, &[usize]); 16] = [
        (format!("git-clone {usual}"), &[1]),
        (format!("{usual} git-push"), &[4]),
        (format!("{usual} health-check health-check"), &[5]),
        ("git-commit git-clone kustomize-set-image git-push".into(), &[0, 2]),
        ("git-clone kustomize-set-image git-push".into(), &[2, 1]),
        ("open-pr wait-for-merge".into(), &[0]),
        (format!("open-pr {usual} wait-for-merge"), &[0]),
        (format!("{usual} wait-for-merge"), &[4]),
        (format!("{usual} wait-for-merge open-pr"), &[4]),
        ("kustomize-set-image".into(), &[0, 0]),
        (format!("{usual} helm-set-image"), &[4]),
        ("git-clone git-commit".into(), &[1]),
        (format!("{usual} open-pr"), &[4]),
        (format!("health-check {usual}"), &[0]),
        (format!("{usual} open-pr health-check wait-for-merge"), &[5]),
        (format!("health-check {usual} open-pr wait-for-merge"), &[0, 0]),
    ];
    for (order, tasks) in cases {
        let fields: Vec<_> = tasks.iter().map(|&task| field(&format!("spec.steps[{task}]"), task)).collect();
        assert_eq!(wrong(&listing(&order), BundleType::Image), fields, "{order}");
    }
}

#[test]
fn every_problem_of_all_tasks_together_names_its_field() {
    let images = "git-clone kustomize-set-image git-commit git-push";
    let config = "git-clone config-merge git-commit git-push";
    let all = [field("spec.steps", None)];
    for (order, kind) in [
        (config, BundleType::Image),
        (images, BundleType::Config),
        (images, BundleType::Mixed),
        (config, BundleType::Mixed),
    ] {
        assert_eq!(wrong(&listing(order), kind), all, "{order} {kind:?}");
    }
    let mut reviewed = listing(images);
    reviewed.spec.approval = Some(kardinal_api::kardinal::Approval::PrReview);
    assert_eq!(wrong(&reviewed, BundleType::Image), all);
    let mut recorded = listing(images);
    recorded.spec.pr = Some(true);
    assert_eq!(wrong(&recorded, BundleType::Image), all);
    assert_eq!(wrong(&recorded, BundleType::Config), [all.clone(), all].concat(), "both are told");
    let mut homeless = Scene::new(json!({})).step;
    homeless.spec.git = None;
    assert_eq!(wrong(&homeless, BundleType::Mixed), [field("spec.git.url", 4)]);
}

#[test]
fn a_type_that_nobody_knows_is_a_problem() {
    let mut scene = Scene::reviewed();
    scene.bundle = None;
    let problems = check::check_current(&scene.snapshot()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].field.as_str(), problems[0].task), ("status.bundleType", None));
    assert!(problems[0].message.contains("the Bundle `my-app-v1-29-0` does not exist"), "{}", problems[0]);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Pending, "a step that has not begun waits for its Bundle");
}

/// What an older version has written: it kept no type.
fn forget_type(scene: &mut Scene) {
    scene.step.status.as_mut().unwrap().bundle_type = None;
    scene.seal();
}

#[test]
fn the_type_is_written_down_at_the_start_and_known_when_the_bundle_is_gone() {
    // Tasks that fit all types: nothing but the record tells which one it was.
    let all = json!({"approval": "pr-review", "steps": [
        {"uses": "git-clone"}, {"uses": "config-merge"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"},
        {"uses": "git-push"}, {"uses": "open-pr"}, {"uses": "wait-for-merge"}, {"uses": "health-check"},
    ]});
    let mut scene = Scene::new(all);
    scene.bundle = Some(config_bundle());
    let mut scene = scene.opened().kept();
    assert_eq!(scene.status().bundle_type, Some(BundleType::Config));
    scene.bundle = None;
    let checked = check::check_current(&scene.snapshot()).unwrap();
    assert_eq!(checked.bundle_type, BundleType::Config);
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(scene.status().bundle_type, Some(BundleType::Config));
}

#[test]
fn a_status_of_an_older_version_takes_the_type_from_the_bundle() {
    let mut scene = Scene::reviewed();
    scene.bundle = Some(config_bundle());
    let mut scene = scene.opened().kept();
    forget_type(&mut scene);
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    let mut pushed = Scene::new(json!({})).pushed();
    forget_type(&mut pushed);
    pushed.health = Some(facts(vec![deployment("1.29.0")]));
    pushed.plan();
    assert_eq!(pushed.state(), PromotionState::Verified);
}

#[test]
fn a_status_of_an_older_version_whose_bundle_is_gone_is_held_and_then_fails_with_the_reason() {
    let mut scene = Scene::reviewed().opened().kept();
    forget_type(&mut scene);
    scene.bundle = None;
    let mut scene = scene.kept();
    assert_eq!(
        scene.state(),
        PromotionState::WaitingForMerge,
        "an open pull request is held, as any without a Bundle"
    );
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
    assert!(scene.message().contains("its type is not in `status.bundleType`"), "{}", scene.message());
    assert_eq!(
        scene.status().merged_at,
        Some(time("2026-04-14T14:05:00Z")),
        "the merge is on record all the same"
    );

    let mut promoting = Scene::new(json!({}));
    promoting.effect();
    forget_type(&mut promoting);
    promoting.bundle = None;
    assert_eq!(promoting.plan().effect(), None);
    assert_eq!(promoting.state(), PromotionState::Promoting, "it waits for its Bundle");
}

#[test]
fn a_type_that_somebody_else_wrote_counts_for_nothing() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.step.status.as_mut().unwrap().bundle_type = Some(BundleType::Config);
    let pending = scene.effect();
    assert!(
        matches!(pending, Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. })),
        "the status is not the controller's own: {pending:?}"
    );
    scene.withdrawn = Some(open_pull_request().head);
    assert_eq!(scene.effect(), Effect::Step(StepEffect::ForgetStatus));
}

#[test]
fn a_failed_step_whose_type_nobody_knows_still_looks_for_its_pull_request() {
    for (extra, opens) in [(json!({"approval": "pr-review"}), true), (json!({}), false)] {
        let mut scene = Scene::new(extra);
        scene.effect();
        scene.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        let status = scene.step.status.as_mut().unwrap();
        (status.state, status.failed_at) = (Some(PromotionState::Failed), Some(scene.now));
        forget_type(&mut scene);
        scene.bundle = None;
        let looks = matches!(scene.plan().effect(), Some(Effect::Forge(ForgeEffect::FindPullRequest { .. })));
        assert_eq!(looks, opens, "one that pushes has none");
    }
}
