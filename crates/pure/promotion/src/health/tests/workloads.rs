//! The `resource` adapter, and images.

use super::*;

const NEW: &str = "ghcr.io/myorg/my-app:1.29.0";
const OLD: &str = "ghcr.io/myorg/my-app:1.28.0";

fn done() -> Value {
    json!({
        "observedGeneration": 4, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3,
        "conditions": [{"type": "Available", "status": "True"}],
    })
}

fn with(changes: Value) -> Value {
    let mut status = done();
    for (key, value) in changes.as_object().unwrap() {
        status[key] = value.clone();
    }
    status
}

#[test]
fn a_deployment_is_healthy_when_the_promoted_version_runs_everywhere() {
    let stuck = json!([
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"},
    ]);
    let unavailable = json!([{"type": "Available", "status": "False", "message": "too few pods"}]);
    let cases = [
        (NEW, done(), healthy("Deployment `my-app` is Available")),
        (OLD, done(), progressing("Deployment `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app")),
        ("other:1", done(), progressing("no container of Deployment `my-app` uses ghcr.io/myorg/my-app")),
        (
            NEW,
            with(json!({"observedGeneration": 3})),
            progressing("Deployment `my-app` has not acted on its newest spec yet"),
        ),
        (NEW, json!({}), progressing("Deployment `my-app` has not acted on its newest spec yet")),
        (
            NEW,
            with(json!({"updatedReplicas": 1})),
            progressing("Deployment `my-app`: 1 of 3 replicas are updated"),
        ),
        (
            NEW,
            with(json!({"replicas": 4})),
            progressing("Deployment `my-app`: 1 old replicas are still there"),
        ),
        (
            NEW,
            with(json!({"availableReplicas": 2})),
            progressing("Deployment `my-app`: 2 of 3 replicas are available"),
        ),
        (NEW, with(json!({"conditions": stuck})), degraded("Deployment `my-app` is stuck: timed out")),
        (
            NEW,
            with(json!({"conditions": unavailable})),
            progressing("Deployment `my-app` is not Available: too few pods"),
        ),
        (
            NEW,
            with(json!({"conditions": []})),
            progressing("Deployment `my-app` has no condition Available yet"),
        ),
    ];
    let target = target(Adapter::Resource, "Deployment");
    for (image, status, expected) in cases {
        let found = object("Deployment", image, status.clone());
        assert_eq!(Promotion::of_image().judge(&target, &[found]), expected, "{image} {status}");
    }
}

#[test]
fn a_config_bundle_needs_something_that_changed_since_the_push() {
    let target = target(Adapter::Resource, "Deployment");
    let untouched = object("Deployment", OLD, done());
    let reason = "Deployment `my-app` is Available, but nothing in it has changed since the push";
    assert_eq!(
        Promotion::of_config().judge(&target, std::slice::from_ref(&untouched)),
        Verdict::Unproven(reason.to_owned())
    );
    let mut promotion = Promotion::of_config();
    promotion.since = None;
    assert_eq!(
        promotion.judge(&target, std::slice::from_ref(&untouched)),
        healthy("Deployment `my-app` is Available"),
        "where nothing was to be changed there is nothing to prove"
    );
    let stale = object("Deployment", OLD, with(json!({"observedGeneration": 3})));
    assert!(matches!(Promotion::of_config().judge(&target, &[stale]), Verdict::Progressing(_)));
    // The push was at 14:00:00.
    let written = |time: &str, subresource: Option<&str>| {
        let mut found = untouched.clone();
        let mut entry = json!({"manager": "argocd", "operation": "Apply", "time": time});
        if let Some(subresource) = subresource {
            entry["subresource"] = json!(subresource);
        }
        found["metadata"]["managedFields"] = json!([entry]);
        found
    };
    let rolled_out = with(json!({"conditions": [
        {"type": "Available", "status": "True"},
        {"type": "Progressing", "status": "True", "lastUpdateTime": "2026-04-14T14:00:07Z"},
    ]}));
    let cases = [
        (written("2026-04-14T14:00:00Z", None), true),
        (written("2026-04-14T13:59:59Z", None), false),
        (written("2026-04-14T14:00:05Z", Some("status")), false),
        (object("Deployment", OLD, rolled_out), true),
    ];
    for (found, proven) in cases {
        let verdict = Promotion::of_config().judge(&target, std::slice::from_ref(&found));
        assert_eq!(matches!(verdict, Verdict::Healthy(_)), proven, "{found}: {verdict:?}");
    }
}

/// Whether an object proves the configuration that was pushed at 14:00:00, by what it looked like earlier.
fn proves(target: &Target, found: &Value, earlier: &Value, before_push: bool) -> bool {
    let marks = marks(std::slice::from_ref(earlier));
    let Promotion { images, commit, contains, since } = &Promotion::of_config();
    let baseline = Some(Baseline { marks: &marks, before_push });
    let expected = Expected { images, commit: *commit, contains, since: *since, baseline };
    matches!(verdict(target, std::slice::from_ref(found), &expected), Verdict::Healthy(_))
}

#[test]
fn a_rollout_in_the_second_of_the_push_is_proof_only_if_it_was_not_there_before() {
    let target = target(Adapter::Resource, "Deployment");
    let written = |generation: i64, time: &str| {
        let mut found = object("Deployment", OLD, done());
        found["metadata"]["generation"] = json!(generation);
        found["status"]["observedGeneration"] = json!(generation);
        found["metadata"]["managedFields"] =
            json!([{"manager": "argocd", "operation": "Apply", "time": time}]);
        found
    };
    let (push, later) = ("2026-04-14T14:00:00Z", "2026-04-14T14:00:01Z");
    let before = written(4, push);
    assert!(!proves(&target, &before, &before, true), "it is the rollout of the version before");
    assert!(proves(&target, &written(5, push), &before, true));
    assert!(proves(&target, &written(4, later), &before, true));
    assert!(proves(&target, &before, &before, false), "nobody knows which came first");
}

#[test]
fn a_workload_that_differs_from_the_first_look_is_proof() {
    let target = target(Adapter::Resource, "Deployment");
    let first = object("Deployment", OLD, done());
    let judge = |found: &Value| proves(&target, found, &first, false);
    assert!(!judge(&first));
    let mut newer = first.clone();
    newer["metadata"]["generation"] = json!(5);
    newer["status"]["observedGeneration"] = json!(5);
    assert!(judge(&newer));
    let mut rolled = first.clone();
    rolled["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "8"});
    assert!(judge(&rolled));
    let mut anew = first.clone();
    anew["metadata"]["uid"] = json!("another");
    assert!(judge(&anew));
}

#[test]
fn a_workload_scaled_to_zero_has_nothing_left_to_do() {
    let mut found = object(
        "Deployment",
        NEW,
        json!({
            "observedGeneration": 4, "conditions": [{"type": "Available", "status": "True"}],
        }),
    );
    found["spec"]["replicas"] = json!(0);
    let verdict = Promotion::of_image().judge(&target(Adapter::Resource, "Deployment"), &[found]);
    assert_eq!(verdict, healthy("Deployment `my-app` is Available"));
}

#[test]
fn other_workloads_count_in_their_own_words() {
    let cases = [
        (
            "StatefulSet",
            json!({"observedGeneration": 4, "updatedReplicas": 3, "readyReplicas": 3}),
            healthy("StatefulSet `my-app` is rolled out"),
        ),
        (
            "StatefulSet",
            json!({"observedGeneration": 4, "updatedReplicas": 2, "readyReplicas": 3}),
            progressing("StatefulSet `my-app`: 2 of 3 replicas are updated"),
        ),
        (
            "StatefulSet",
            json!({"observedGeneration": 4, "updatedReplicas": 3, "readyReplicas": 1}),
            progressing("StatefulSet `my-app`: 1 of 3 replicas are available"),
        ),
        (
            "DaemonSet",
            json!({
                "observedGeneration": 4, "desiredNumberScheduled": 5, "updatedNumberScheduled": 5, "numberAvailable": 5,
            }),
            healthy("DaemonSet `my-app` is rolled out"),
        ),
        (
            "DaemonSet",
            json!({
                "observedGeneration": 4, "desiredNumberScheduled": 5, "updatedNumberScheduled": 4, "numberAvailable": 5,
            }),
            progressing("DaemonSet `my-app`: 4 of 5 replicas are updated"),
        ),
    ];
    for (kind, status, expected) in cases {
        let found = object(kind, NEW, status.clone());
        assert_eq!(
            Promotion::of_image().judge(&target(Adapter::Resource, kind), &[found]),
            expected,
            "{status}"
        );
    }
    let mut ready = target(Adapter::Resource, "Widget");
    ready.condition = Some("Ready".to_owned());
    let widget = json!({
        "kind": "Widget", "metadata": {"name": "w", "creationTimestamp": "2026-04-14T14:00:01Z"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    assert_eq!(Promotion::of_image().judge(&ready, &[widget]), healthy("Widget `w` is Ready"));
}

#[test]
fn versions_are_compared_by_digest_where_both_have_one() {
    let one = format!("sha256:{}", "1".repeat(64));
    let two = format!("sha256:{}", "2".repeat(64));
    let repository = "ghcr.io/myorg/my-app";
    let cases = [
        (format!("{repository}:1.29.0"), format!("{repository}:1.29.0"), true),
        (format!("{repository}:1.29.0@{one}"), format!("{repository}:1.29.0@{one}"), true),
        (format!("{repository}:1.29.0@{one}"), format!("{repository}@{one}"), true),
        (format!("{repository}:1.29.0@{one}"), format!("{repository}:1.29.0@{two}"), false),
        (format!("{repository}:1.29.0@{one}"), format!("{repository}:1.29.0"), true),
        (format!("{repository}:1.29.0"), format!("{repository}:1.29.0@{two}"), true),
        (format!("{repository}:1.29.0"), format!("{repository}@{two}"), false),
        (format!("{repository}@{one}"), format!("{repository}:1.29.0"), false),
        ("nginx:1".to_owned(), "docker.io/library/nginx:1".to_owned(), true),
        ("nginx:1".to_owned(), "docker.io/library/nginx:2".to_owned(), false),
        // A mirror of the repository under another registry.
        (format!("{repository}:1.29.0"), "mirror:5000/cache/my-app:1.29.0".to_owned(), true),
        (format!("{repository}:1.29.0"), "mirror:5000/cache/my-app:1.28.0".to_owned(), false),
    ];
    for (promoted, runs, same) in cases {
        let promotion = Promotion { images: vec![image(&promoted)], ..Promotion::of_image() };
        let found = object("Deployment", &runs, done());
        let verdict = promotion.judge(&target(Adapter::Resource, "Deployment"), &[found]);
        assert_eq!(matches!(verdict, Verdict::Healthy(_)), same, "{promoted} runs as {runs}: {verdict:?}");
    }
}

#[test]
fn the_worst_of_several_decides_and_none_is_missing() {
    let mut selected = target(Adapter::Resource, "Deployment");
    selected.name = None;
    selected.labels = BTreeMap::from([("app".to_owned(), "my-app".to_owned())]);
    let promotion = Promotion::of_image();
    let good = object("Deployment", NEW, done());
    let old = object("Deployment", OLD, done());
    let stuck = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
    let bad = object("Deployment", NEW, with(json!({"conditions": stuck})));
    assert!(matches!(promotion.judge(&selected, &[good.clone(), good.clone()]), Verdict::Healthy(_)));
    assert!(matches!(promotion.judge(&selected, &[good.clone(), old.clone()]), Verdict::Progressing(_)));
    assert!(matches!(promotion.judge(&selected, &[bad, old, good]), Verdict::Degraded(_)));
    assert_eq!(
        promotion.judge(&selected, &[]),
        Verdict::Missing("Deployment with `app=my-app` in namespace `prod` does not exist".to_owned())
    );
}
