//! Default sequences, listed ones, and custom tasks.

use kardinal_api::kardinal::{BundleType, PromotionStepSpec};

use super::*;

/// The tasks of a step, or the problem that is told.
fn tasks(spec: &PromotionStepSpec, kind: BundleType) -> Result<Vec<Task>, Problem> {
    let checked = check(&PromotionStep::new("step", spec.clone()), kind);
    checked.map(|checked| checked.tasks).map_err(|mut problems| problems.remove(0))
}

fn names(extra: Value, kind: BundleType) -> String {
    let tasks = tasks(&Scene::new(extra).step.spec, kind).unwrap();
    tasks.iter().map(|task| task.name.as_str()).collect::<Vec<&str>>().join(" ")
}

#[test]
fn sequences_follow_from_strategy_approval_and_type() {
    let cases = [
        (json!({}), BundleType::Image, "git-clone kustomize-set-image git-commit git-push health-check"),
        (
            json!({"approval": "pr-review"}),
            BundleType::Image,
            "git-clone kustomize-set-image git-commit git-push open-pr wait-for-merge health-check",
        ),
        (
            json!({"approval": "pr-review", "update": {"strategy": "helm"}}),
            BundleType::Image,
            "git-clone helm-set-image git-commit git-push open-pr wait-for-merge health-check",
        ),
        (
            json!({"pr": true, "update": {"strategy": "replace"}}),
            BundleType::Image,
            "git-clone replace-image git-commit git-push open-pr wait-for-merge health-check",
        ),
        (json!({}), BundleType::Config, "git-clone config-merge git-commit git-push health-check"),
        (
            json!({}),
            BundleType::Mixed,
            "git-clone config-merge kustomize-set-image git-commit git-push health-check",
        ),
    ];
    for (extra, kind, expected) in cases {
        assert_eq!(names(extra.clone(), kind), expected, "{extra}");
    }
}

/// Tasks by their names, each with the settings that it cannot do without.
fn listed(names: &str) -> Value {
    let task = |name: &str| match name {
        "call" => json!({"uses": "call", "config": {"url": "https://x"}}),
        name => json!({"uses": name}),
    };
    json!({"steps": names.split(' ').map(task).collect::<Vec<Value>>()})
}

#[test]
fn a_wrong_order_is_explained() {
    let usual = "git-clone kustomize-set-image git-commit git-push";
    let cases: [(String, &str); 14] = [
        ("git-push".into(), "steps[0]: `git-push` needs `git-commit` before it"),
        ("git-commit git-clone git-push".into(), "steps[0]: `git-commit` needs `git-clone` before it"),
        ("git-clone git-commit".into(), "steps[1]: `git-commit` needs `git-push` after it"),
        ("open-pr".into(), "steps[0]: `open-pr` needs `git-push` before it"),
        (format!("open-pr {usual} wait-for-merge"), "steps[0]: `open-pr` needs `git-push` before it"),
        (format!("{usual} open-pr"), "steps[4]: `open-pr` needs `wait-for-merge` after it"),
        (format!("{usual} wait-for-merge"), "steps[4]: `wait-for-merge` needs `open-pr` before it"),
        (format!("{usual} git-push"), "steps[4]: `git-push` is listed twice; a step makes one change"),
        ("kustomize-set-image".into(), "steps[0]: `kustomize-set-image` needs `git-clone` before it"),
        (format!("{usual} helm-set-image"), "steps[4]: `helm-set-image` needs `git-commit` after it"),
        (format!("health-check {usual}"), "steps[0]: `health-check` must come after `git-push`"),
        (
            format!("{usual} open-pr health-check wait-for-merge"),
            "steps[5]: `health-check` must come after `wait-for-merge`",
        ),
        (
            "git-clone git-commit git-push".into(),
            "steps: a Bundle of type `image` needs a task that sets images, such as `kustomize-set-image`, \
             before `git-commit`",
        ),
        (
            "git-clone kustomize-build git-commit git-push".into(),
            "steps: a Bundle of type `image` needs a task that sets images, such as `kustomize-set-image`, \
             before `git-commit`",
        ),
    ];
    for (order, message) in cases {
        let spec = Scene::new(listed(&order)).step.spec;
        let problem = tasks(&spec, BundleType::Image).unwrap_err();
        assert_eq!(problem.to_string(), message, "{order}");
    }
}

#[test]
fn a_listed_sequence_must_fit_the_bundle_the_approval_and_the_repository() {
    let usual = || listed("git-clone kustomize-set-image git-commit git-push health-check");
    let problem = |spec: &PromotionStepSpec, kind| tasks(spec, kind).unwrap_err().to_string();
    let spec = Scene::new(usual()).step.spec;
    assert_eq!(
        problem(&spec, BundleType::Config),
        "steps: a Bundle of type `config` needs `config-merge` before `git-commit`"
    );
    assert_eq!(
        problem(&spec, BundleType::Mixed),
        "steps: a Bundle of type `mixed` needs `config-merge` before `git-commit`"
    );
    for (extra, why) in
        [(json!({"approval": "pr-review"}), "`approval: pr-review`"), (json!({"pr": true}), "`pr: true`")]
    {
        let mut all = usual();
        merge(&mut all, extra);
        assert_eq!(
            problem(&Scene::new(all).step.spec, BundleType::Image),
            format!("steps: {why} needs `open-pr` and `wait-for-merge` after `git-push`")
        );
    }
    let mut homeless = Scene::new(json!({})).step.spec;
    homeless.git = None;
    assert_eq!(problem(&homeless, BundleType::Image), "steps[3]: `git-push` needs `spec.git.url`");
    homeless.steps = from(listed("call health-check")["steps"].clone());
    assert!(tasks(&homeless, BundleType::Image).is_ok(), "a step without a change needs no repository");
}

#[test]
fn settings_are_checked() {
    let cases = [
        (
            json!({"uses": "yaml-set", "config": {"file": "x"}}),
            "steps[0].config.path of task `yaml-set`: it is missing",
        ),
        (json!({"uses": "replace-text"}), "steps[0].config.pattern of task `replace-text`: it is missing"),
        (
            json!({"uses": "config-merge", "config": {"strategy": "rebase"}}),
            "steps[0].config.strategy of task `config-merge`: `rebase` is not a strategy; write `cherry-pick` or `overlay`",
        ),
        (
            json!({"uses": "kustomize-build", "config": {"output": 3}}),
            "steps[0].config.output of task `kustomize-build`: `3` is not a text",
        ),
        (
            json!({"uses": "t", "config": {"url": "ftp://x"}}),
            "steps[0].config.url of task `t`: it must start with `https://` or `http://`",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://bot:secret@x/y"}}),
            "steps[0].config.url of task `t`: it must not hold a user name or a password; name a Secret in \
             `config.secretRef`",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://x", "header": "X Y"}}),
            "steps[0].config.header of task `t`: `X Y` is not the name of a header",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://x", "header": "Host"}}),
            "steps[0].config.header of task `t`: `Host` says where a request goes, how long it is or who sent it, so it \
             cannot carry a secret; use `Authorization` or one of your own, such as `X-Token`",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://x", "timeout": "soon"}}),
            "steps[0].config.timeout of task `t`: `soon` is not a duration: write a number and a unit \
             (ns, us, ms, s, m, h), such as `5m` or `1h30m`",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://x", "timeout": "2h"}}),
            "steps[0].config.timeout of task `t`: it must be more than 0s and at most 1h",
        ),
        (
            json!({"uses": "t", "config": {"url": "https://x", "secretRef": "token"}}),
            "steps[0].config.secretRef of task `t`: write `{name: …, key: …}`",
        ),
    ];
    for (task, message) in cases {
        let spec = Scene::new(json!({"steps": [task]})).step.spec;
        assert_eq!(tasks(&spec, BundleType::Image).unwrap_err().message, message);
    }
    let spec = Scene::new(json!({"steps": [{"uses": "kustomise-set-image"}]})).step.spec;
    let message = tasks(&spec, BundleType::Image).unwrap_err().message;
    assert!(message.contains("`kustomise-set-image` is not a built-in task"), "{message}");
    assert!(message.contains("kustomize-set-image"), "{message}");
}

fn tested() -> Scene {
    Scene::new(json!({"steps": [
        {"uses": "git-clone"},
        {"uses": "kustomize-set-image"},
        {"uses": "run-tests", "config": {
            "url": "https://test-runner.internal/validate", "timeout": "90s", "suite": "smoke",
            "secretRef": {"name": "runner", "key": "token"},
        }},
        {"uses": "git-commit"},
        {"uses": "git-push"},
        {"uses": "health-check"},
        {"uses": "announce", "config": {"url": "https://chat.internal/hook"}},
    ]}))
}

fn answer(success: bool, message: &str) -> Outcome {
    Outcome::TaskAnswer { success, message: message.to_owned() }
}

#[test]
fn a_custom_task_is_called_in_its_place_with_everything_it_needs() {
    let mut scene = tested();
    let effect = scene.effect();
    let Effect::CallTask(call) = &effect else { panic!("{effect:?}") };
    assert_eq!((call.index, call.attempt, call.timeout), (2, 1, SignedDuration::from_secs(90)));
    assert_eq!(call.secret, Some(SecretKey { name: "runner".to_owned(), key: "token".to_owned() }));
    assert_eq!(call.header, "Authorization");
    assert_eq!(call.body["pipeline"], "my-app");
    assert_eq!(call.body["environment"], "prod");
    assert_eq!(call.body["bundle"]["artifacts"]["images"][0]["reference"], "ghcr.io/myorg/my-app:1.29.0");
    assert_eq!(call.body["context"]["id"], "0b5e/2");
    assert_eq!(call.body["config"]["suite"], "smoke");
    assert_eq!(scene.message(), "calling `run-tests`");
    assert_eq!(scene.task("run-tests"), TaskState::InProgress);
    scene.tell(&effect, answer(true, "12 tests"));
    assert_eq!(scene.status().steps[2].message.as_deref(), Some("12 tests"));

    let commit = scene.effect();
    assert!(matches!(commit, Effect::Git(GitEffect::Commit(_))));
    scene.tell(&commit, committed());
    scene.health = Some(facts(vec![deployment("1.29.0")]));
    assert_eq!(scene.plan().status.and_then(|status| status.state), Some(PromotionState::Promoting));
    let effect = scene.effect();
    let Effect::CallTask(call) = &effect else { panic!("{effect:?}") };
    assert_eq!(call.timeout, SignedDuration::from_mins(5));
    assert_eq!(call.body["context"]["commit"], "c0ffee0000");
    scene.tell(&effect, answer(true, ""));
    assert_eq!(scene.state(), PromotionState::Verified);
    assert_eq!(scene.status().verified_at, Some(scene.now));
}

#[test]
fn a_custom_task_that_says_no_fails_the_step() {
    let mut scene = tested();
    let effect = scene.effect();
    scene.tell(&effect, answer(false, "3 tests failed"));
    assert_eq!(scene.state(), PromotionState::Failed);
    assert_eq!(scene.message(), "task `run-tests` said no: 3 tests failed");
    assert_eq!(scene.task("run-tests"), TaskState::Failed);
}

#[test]
fn a_custom_task_is_called_three_times_even_across_restarts() {
    let mut scene = tested();
    for attempt in 1..=3 {
        let effect = scene.effect();
        let Effect::CallTask(call) = &effect else { panic!("{effect:?}") };
        assert_eq!(call.attempt, attempt);
        assert_eq!(call.body["context"]["id"], "0b5e/2");
        let report = scene.tell(&effect, fault());
        assert_eq!(report.retry.is_some(), attempt < 3);
    }
    assert_eq!(scene.state(), PromotionState::Failed);
    assert_eq!(scene.message(), "calling `run-tests` failed 3 times: connection refused");

    let mut recovers = tested();
    let effect = recovers.effect();
    recovers.tell(&effect, fault());
    let effect = recovers.effect();
    recovers.tell(&effect, answer(true, "ok"));
    assert_eq!(recovers.output("taskAttempts"), None, "the next task starts from one");
}

#[test]
fn a_secret_travels_in_no_header_that_belongs_to_the_connection() {
    let header = |name: &str| {
        let task = json!({"uses": "t", "config": {"url": "https://x", "header": name}});
        tasks(&Scene::new(json!({"steps": [task]})).step.spec, BundleType::Image)
    };
    for name in [
        "host",
        "HOST",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Cookie",
        "TE",
        "Upgrade",
        "Expect",
        "Proxy-Authorization",
        "X-Forwarded-For",
        "Forwarded",
    ] {
        let message = header(name).unwrap_err().message;
        assert!(message.contains(&format!("`{name}`")) && message.contains("X-Token"), "{message}");
    }
    for name in ["Authorization", "X-Runner-Token", "PRIVATE-TOKEN"] {
        header(name).unwrap();
    }
}
