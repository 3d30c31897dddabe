//! Argo CD, Flux, Argo Rollouts and Flagger.

use super::*;

fn application(revision: &str, images: Value) -> Value {
    json!({
        "kind": "Application",
        "metadata": {"name": "my-app", "generation": 900},
        "status": {
            "health": {"status": "Healthy"},
            "sync": {"status": "Synced", "revision": revision},
            "operationState": {"phase": "Succeeded"},
            "summary": {"images": images},
        },
    })
}

fn edit(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

#[test]
fn an_application_must_have_the_promoted_revision_or_images() {
    let new = || application("c0ffee0000", json!([]));
    let cases = [
        (new(), healthy("Application `my-app` is Healthy and Synced")),
        (application("de5cend", json!([])), healthy("Application `my-app` is Healthy and Synced")),
        (
            application("0dd", json!(["envoy:1", "ghcr.io/myorg/my-app:1.29.0"])),
            healthy("Application `my-app` is Healthy and Synced"),
        ),
        (
            application("0dd", json!(["ghcr.io/myorg/my-app:1.28.0"])),
            progressing("Application `my-app` is at 0dd, not yet at c0ffee0"),
        ),
        (
            application("0123456789", json!([])),
            progressing("Application `my-app` is at 0123456, not yet at c0ffee0"),
        ),
        (
            edit(new(), "/status/sync/status", json!("OutOfSync")),
            progressing("Application `my-app` is OutOfSync"),
        ),
        (
            edit(new(), "/status/health", json!({"status": "Progressing", "message": "waiting"})),
            progressing("Application `my-app` is Progressing: waiting"),
        ),
        (
            edit(new(), "/status/health", json!({"status": "Degraded"})),
            degraded("Application `my-app` is Degraded"),
        ),
        (edit(new(), "/status/health", Value::Null), progressing("Application `my-app` has no health yet")),
        (
            edit(new(), "/status/operationState", Value::Null),
            healthy("Application `my-app` is Healthy and Synced"),
        ),
        (
            edit(new(), "/status/operationState", json!({"phase": "Running", "message": "hooks"})),
            progressing("Application `my-app`: the sync is Running: hooks"),
        ),
        (
            edit(new(), "/status/operationState", json!({"phase": "Failed", "message": "bad manifest"})),
            degraded("Application `my-app`: the sync is Failed: bad manifest"),
        ),
        (
            edit(new(), "/status/sync", json!({"status": "Synced", "revisions": ["9", "c0ffee0000"]})),
            healthy("Application `my-app` is Healthy and Synced"),
        ),
    ];
    for (object, expected) in cases {
        let verdict = Promotion::of_image()
            .judge(&target(Adapter::ArgoCd, "Application"), std::slice::from_ref(&object));
        assert_eq!(verdict, expected, "{object}");
    }
    let old = application("0dd", json!(["ghcr.io/myorg/my-app:1.29.0"]));
    let verdict = Promotion::of_config().judge(&target(Adapter::ArgoCd, "Application"), &[old]);
    assert_eq!(
        verdict,
        progressing("Application `my-app` is at 0dd, not yet at c0ffee0"),
        "images prove no configuration"
    );
}

fn kustomization(revision: &str, status: &str, reason: &str) -> Value {
    json!({
        "kind": "Kustomization",
        "metadata": {"name": "my-app", "generation": 2},
        "status": {
            "observedGeneration": 2,
            "lastAppliedRevision": revision,
            "conditions": [{"type": "Ready", "status": status, "reason": reason, "message": "as told"}],
        },
    })
}

#[test]
fn a_kustomization_must_be_ready_with_the_promoted_revision() {
    let new = || kustomization("main@sha1:c0ffee0000", "True", "ReconciliationSucceeded");
    let cases = [
        (new(), healthy("Kustomization `my-app` is Ready")),
        (kustomization("main/c0ffee0000", "True", "x"), healthy("Kustomization `my-app` is Ready")),
        (kustomization("main@sha1:de5cend", "True", "x"), healthy("Kustomization `my-app` is Ready")),
        (
            kustomization("main@sha1:0dd", "True", "x"),
            progressing("Kustomization `my-app` is at 0dd, not yet at c0ffee0"),
        ),
        (
            kustomization("", "True", "x"),
            progressing("Kustomization `my-app` has not applied a revision yet"),
        ),
        (
            edit(new(), "/status/observedGeneration", json!(1)),
            progressing("Kustomization `my-app` has not acted on its newest spec yet"),
        ),
        (
            kustomization("main@sha1:c0ffee0000", "Unknown", "Progressing"),
            progressing("Kustomization `my-app` is not ready yet: as told"),
        ),
        (
            kustomization("main@sha1:c0ffee0000", "False", "DependencyNotReady"),
            progressing("Kustomization `my-app` is not ready: as told"),
        ),
        (
            kustomization("main@sha1:0dd", "False", "BuildFailed"),
            degraded("Kustomization `my-app` is not ready: as told"),
        ),
        (
            edit(new(), "/status/conditions", json!([])),
            progressing("Kustomization `my-app` has no condition Ready yet"),
        ),
    ];
    for (object, expected) in cases {
        let verdict = Promotion::of_image()
            .judge(&target(Adapter::Flux, "Kustomization"), std::slice::from_ref(&object));
        assert_eq!(verdict, expected, "{object}");
    }
}

#[test]
fn revisions_are_read_where_the_tool_writes_them() {
    let argocd = target(Adapter::ArgoCd, "Application");
    let flux = target(Adapter::Flux, "Kustomization");
    assert_eq!(revision_of(&argocd, &application("abc", json!([]))).as_deref(), Some("abc"));
    let several = json!({"status": {"sync": {"revisions": ["one", "two"]}}});
    assert_eq!(revision_of(&argocd, &several).as_deref(), Some("one"));
    assert_eq!(revision_of(&argocd, &json!({})), None);
    for text in ["main@sha1:abc", "main/abc", "feature/x@sha1:abc", "sha1:abc", "abc"] {
        assert_eq!(revision_of(&flux, &kustomization(text, "True", "x")).as_deref(), Some("abc"), "{text}");
    }
    assert_eq!(revision_of(&target(Adapter::Resource, "Deployment"), &application("abc", json!([]))), None);
}

#[test]
fn a_rollout_must_be_healthy_with_the_promoted_image() {
    let new = "ghcr.io/myorg/my-app:1.29.0";
    let cases = [
        (new, json!({"observedGeneration": "4", "phase": "Healthy"}), healthy("Rollout `my-app` is Healthy")),
        (new, json!({"observedGeneration": 4, "phase": "Healthy"}), healthy("Rollout `my-app` is Healthy")),
        (
            new,
            json!({"observedGeneration": "3", "phase": "Healthy"}),
            progressing("Rollout `my-app` has not acted on its newest spec yet"),
        ),
        (
            "ghcr.io/myorg/my-app:1.28.0",
            json!({"observedGeneration": "4", "phase": "Healthy"}),
            progressing("Rollout `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app"),
        ),
        (
            new,
            json!({"observedGeneration": "4", "phase": "Paused", "message": "CanaryPauseStep"}),
            progressing("Rollout `my-app` is Paused: CanaryPauseStep"),
        ),
        (
            new,
            json!({"observedGeneration": "4", "phase": "Degraded", "message": "aborted"}),
            degraded("Rollout `my-app` is Degraded: aborted"),
        ),
        (new, json!({"observedGeneration": "4"}), progressing("Rollout `my-app` has no phase yet")),
    ];
    let target = target(Adapter::ArgoRollouts, "Rollout");
    for (image, status, expected) in cases {
        let found = object("Rollout", image, status.clone());
        assert_eq!(Promotion::of_image().judge(&target, &[found]), expected, "{image} {status}");
    }
}

#[test]
fn a_rollout_may_refer_to_another_workload() {
    let target = target(Adapter::ArgoRollouts, "Rollout");
    let rollout = json!({
        "kind": "Rollout", "metadata": {"name": "my-app", "generation": 1},
        "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "base"}},
        "status": {"observedGeneration": "1", "phase": "Healthy"},
    });
    let wanted = related(&target, &rollout).unwrap();
    assert_eq!(wanted.to_string(), "Deployment `base` in namespace `prod`");
    let workload = |version: &str| {
        let mut workload = object("Deployment", &format!("ghcr.io/myorg/my-app:{version}"), json!({}));
        workload["metadata"]["name"] = json!("base");
        workload
    };
    let promotion = Promotion::of_image();
    assert_eq!(
        promotion.judge(&target, &[rollout.clone(), workload("1.29.0")]),
        healthy("Rollout `my-app` is Healthy")
    );
    assert_eq!(
        promotion.judge(&target, &[rollout.clone(), workload("1.28.0")]),
        progressing("Deployment `base` still runs 1.28.0 of ghcr.io/myorg/my-app")
    );
    assert!(matches!(promotion.judge(&target, &[rollout]), Verdict::Missing(_)));
}

fn canary(phase: &str, ended: &str) -> Value {
    json!({
        "kind": "Canary", "metadata": {"name": "my-app"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-app"}},
        "status": {
            "phase": phase, "lastTransitionTime": ended,
            "conditions": [{"type": "Promoted", "status": "False", "message": "success rate 91%"}],
        },
    })
}

#[test]
fn a_canary_must_have_succeeded_for_the_promoted_version() {
    let target = target(Adapter::Flagger, "Canary");
    let after = "2026-04-14T14:00:00Z";
    let before = "2026-04-14T13:59:59Z";
    let primary = |version: &str| {
        let mut primary = object("Deployment", &format!("ghcr.io/myorg/my-app:{version}"), json!({}));
        primary["metadata"]["name"] = json!("my-app-primary");
        primary
    };
    let wanted = related(&target, &canary("Succeeded", after)).unwrap();
    assert_eq!(wanted.to_string(), "Deployment `my-app-primary` in namespace `prod`");
    let cases = [
        (vec![canary("Succeeded", after)], healthy("Canary `my-app` has Succeeded")),
        (
            vec![canary("Succeeded", before)],
            progressing("Canary `my-app` has not analysed the new version yet"),
        ),
        (vec![canary("Succeeded", "")], progressing("Canary `my-app` has not analysed the new version yet")),
        (vec![canary("Succeeded", before), primary("1.29.0")], healthy("Canary `my-app` has Succeeded")),
        (
            vec![canary("Succeeded", after), primary("1.28.0")],
            progressing("Deployment `my-app-primary` still runs 1.28.0 of ghcr.io/myorg/my-app"),
        ),
        (
            vec![canary("Progressing", after), primary("1.29.0")],
            progressing("Canary `my-app` is Progressing"),
        ),
        (vec![canary("", after)], progressing("Canary `my-app` has no phase yet")),
        (vec![canary("Failed", after)], degraded("Canary `my-app` has failed: success rate 91%")),
    ];
    for (objects, expected) in cases {
        assert_eq!(Promotion::of_image().judge(&target, &objects), expected, "{objects:?}");
    }
    let nothing_changed = Promotion { since: None, ..Promotion::of_config() };
    assert!(matches!(nothing_changed.judge(&target, &[canary("Succeeded", before)]), Verdict::Healthy(_)));
}
