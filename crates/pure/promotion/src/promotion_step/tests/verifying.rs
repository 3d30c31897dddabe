//! From the change to the verdict.

use super::super::verifying::{Ending, ending};
use super::*;

#[test]
fn health_decides() {
    let mut stuck = deployment("1.29.0");
    stuck["status"]["conditions"] = json!([
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no progress"},
    ]);
    let cases = [
        (facts(vec![deployment("1.29.0")]), PromotionState::Verified, "Deployment `my-app` is Available"),
        (
            facts(vec![deployment("1.28.0")]),
            PromotionState::HealthChecking,
            "checking health: Deployment `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app",
        ),
        (
            facts(vec![stuck]),
            PromotionState::HealthChecking,
            "degraded: Deployment `my-app` is stuck: no progress",
        ),
        (
            facts(Vec::new()),
            PromotionState::HealthChecking,
            "checking health: Deployment `my-app` in namespace `prod` does not exist",
        ),
    ];
    for (seen, state, message) in cases {
        let mut scene = Scene::new(json!({})).pushed();
        scene.health = Some(seen);
        let plan = scene.plan();
        assert_eq!((scene.state(), scene.message().as_str()), (state, message));
        let waits = state == PromotionState::HealthChecking;
        assert_eq!(plan.wake, waits.then(|| time("2026-04-14T14:10:00Z")), "{message}");
        assert_eq!(scene.plan().status, None, "nothing new is nothing written: {message}");
    }
}

#[test]
fn the_deadline_is_exact_and_health_beats_it() {
    let timeouts = [(json!({}), 600, "10m"), (json!({"health": {"timeout": "90s"}}), 90, "1m30s")];
    for (extra, seconds, text) in timeouts {
        let mut scene = Scene::new(extra).pushed();
        scene.health = Some(facts(vec![deployment("1.28.0")]));
        scene.pass(SignedDuration::from_secs(seconds) - SignedDuration::from_millis(1));
        scene.plan();
        assert_eq!(scene.state(), PromotionState::HealthChecking);
        scene.pass(SignedDuration::from_millis(1));
        let mut healthy = Scene { step: scene.step.clone(), ..Scene::new(json!({})) };
        healthy.now = scene.now;
        healthy.health = Some(facts(vec![deployment("1.29.0")]));
        healthy.plan();
        assert_eq!(healthy.state(), PromotionState::Verified);
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Failed);
        assert_eq!(
            scene.message(),
            format!(
                "not healthy after {text}: Deployment `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app"
            )
        );
        assert_eq!(scene.task("health-check"), TaskState::Failed);
    }
}

#[test]
fn nothing_seen_is_no_verdict() {
    let mut scene = Scene::new(json!({})).pushed();
    let plan = scene.plan();
    assert_eq!((plan.status, plan.wake), (None, Some(time("2026-04-14T14:10:00Z"))));
    scene.pass(SignedDuration::from_hours(1));
    let plan = scene.plan();
    assert_eq!((plan.status, plan.wake), (None, Some(time("2026-04-14T15:00:08Z"))));
}

#[test]
fn a_merge_that_was_seen_late_leaves_the_whole_time_for_the_check() {
    let mut scene = Scene::reviewed().opened().kept();
    scene.pass(SignedDuration::from_hours(5));
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    scene.health = Some(facts(vec![deployment("1.28.0")]));
    assert_eq!(scene.plan().wake, Some(scene.now + SignedDuration::from_mins(10)));
    assert_eq!(scene.state(), PromotionState::HealthChecking);
}

#[test]
fn a_verified_step_keeps_its_evidence() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    scene.pull_request = Some(merged_pull_request());
    scene.plan();
    // What the gates say later is not what let the promotion pass.
    scene.set_gate("my-app-soak", closed());
    scene.hold = held("paused");
    scene.health = Some(facts(vec![deployment("1.29.0")]));
    let plan = scene.plan();
    assert_eq!(scene.state(), PromotionState::Verified, "a hold does not stop the watching");
    assert_eq!(plan.notes[0].reason, "Verified");
    let status = serde_json::to_value(scene.status()).unwrap();
    assert_eq!(
        status["evidence"],
        json!({
            "gateDuration": "4m12s",
            "approvedBy": ["alice"],
            "policyGates": [{
                "name": "soak", "result": "pass", "reason": "schedule.isWeekend = false",
                "evaluatedAt": "2026-04-14T13:59:00Z",
            }],
        })
    );
    assert_eq!(status["verifiedAt"], NOW);
    assert_eq!(status["conditions"][0]["type"], "Verified");
    assert_eq!(status["conditions"][0]["status"], "True");
    scene.health = Some(facts(vec![deployment("1.28.0")]));
    assert_eq!(scene.plan(), Plan::default(), "final");
}

#[test]
fn the_delegate_is_named_with_what_it_says() {
    let mut scene = Scene::new(json!({"delivery": {"delegate": "argoRollouts"}})).pushed();
    let mut rollout = deployment("1.29.0");
    rollout["kind"] = json!("Rollout");
    rollout["status"] = json!({"observedGeneration": "3", "phase": "Paused", "message": "CanaryPauseStep"});
    let mut seen = facts(vec![rollout]);
    seen.target.adapter = Adapter::ArgoRollouts;
    seen.target.kind = "Rollout".to_owned();
    scene.health = Some(seen);
    scene.plan();
    let status = scene.status();
    assert_eq!(status.delegated_to.as_deref(), Some("argoRollouts"));
    assert_eq!(status.delegated_status.as_deref(), Some("Paused"));

    scene.health = Some(facts(vec![deployment("1.28.0")]));
    scene.plan();
    assert_eq!(
        scene.status().delegated_status.as_deref(),
        Some("Progressing"),
        "another adapter tells its verdict"
    );
}

#[test]
fn a_fallback_is_told_once() {
    let mut scene = Scene::new(json!({})).pushed();
    let mut seen = facts(vec![deployment("1.28.0")]);
    seen.fell_back = Some("Application `my-app-prod` does not exist".to_owned());
    scene.health = Some(seen);
    let plan = scene.plan();
    assert!(plan.notes.iter().any(|note| note.warning && note.reason == "HealthFallback"));
    assert_eq!(scene.plan().notes, Vec::new());
}

#[test]
fn a_sequence_without_a_health_check_ends_with_the_change() {
    let mut scene = Scene::new(json!({"steps": [
        {"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"}, {"uses": "git-push"},
    ]}));
    let commit = scene.effect();
    scene.tell(&commit, committed());
    assert_eq!(scene.state(), PromotionState::Verified);
    assert_eq!(scene.message(), "pushed c0ffee0 to `main`");
    assert_eq!(scene.status().promoted_at, Some(scene.now));
}

#[test]
fn a_mixed_bundle_is_not_proven_by_its_images_alone() {
    let mut scene = Scene::new(json!({}));
    let mut mixed = image_bundle();
    mixed.spec.kind = from(json!("mixed"));
    mixed.spec.artifacts.git_commit = config_bundle().spec.artifacts.git_commit;
    scene.bundle = Some(mixed);
    let mut scene = scene.pushed();
    let application = |revision: &str| {
        json!({"kind": "Application", "metadata": {"name": "a"}, "status": {
            "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": revision},
            "summary": {"images": ["ghcr.io/myorg/my-app:1.29.0"]},
        }})
    };
    let mut seen = facts(vec![application("0dd")]);
    seen.target.adapter = Adapter::ArgoCd;
    seen.target.kind = "Application".to_owned();
    scene.health = Some(seen.clone());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    seen.objects = vec![application("c0ffee0000")];
    scene.health = Some(seen);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Verified);
}

fn unseen(why: Unknown) -> HealthFacts {
    // What was seen before the connection was cut would do.
    HealthFacts { unknown: Some(why), ..facts(vec![deployment("1.29.0")]) }
}

#[test]
fn a_cluster_that_cannot_be_reached_is_unknown_never_healthy_and_never_still_runs_the_old_version() {
    let mut scene = Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
    let since = scene.now;
    scene.health = Some(unseen(Unknown::Unreachable { why: "connection refused".to_owned(), code: None }));
    let plan = scene.plan();
    let message = "health is unknown: the cluster cannot be reached, which was noticed at 2026-04-14T14:00:00Z: connection refused";
    assert_eq!((scene.state(), scene.message().as_str()), (PromotionState::HealthChecking, message));
    assert_eq!(plan.wake, Some(since + SignedDuration::from_secs(8)));
    assert!(plan.notes.iter().any(|note| note.reason == "ClusterUnreachable"));
    // Hours later, far beyond the timeout, it is neither failed nor forgotten since when.
    scene.pass(SignedDuration::from_hours(3));
    let plan = scene.plan();
    assert_eq!((scene.state(), scene.message().as_str()), (PromotionState::HealthChecking, message));
    assert_eq!((plan.status, plan.notes), (None, Vec::new()));
    // When it is back, the whole time is left for the check.
    scene.health = Some(facts(vec![deployment("1.28.0")]));
    let plan = scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert!(scene.message().contains("still runs 1.28.0"), "{}", scene.message());
    assert!(scene.status().conditions.iter().all(|condition| condition.type_ != "ClusterUnreachable"));
    assert_eq!(plan.wake, Some(scene.now + SignedDuration::from_secs(15)), "it may go away again");
    scene.pass(SignedDuration::from_mins(10) - SignedDuration::from_secs(1));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    scene.pass(SignedDuration::from_secs(1));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Failed);
}

#[test]
fn a_kubeconfig_that_cannot_be_used_blocks_until_somebody_acts() {
    let mut scene = Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
    let problem = "the kubeconfig in the Secret `eu` cannot be used: `users[0].user.exec` is not permitted";
    scene.health = Some(unseen(Unknown::problem(problem)));
    scene.plan();
    scene.pass(SignedDuration::from_hours(1));
    scene.plan();
    assert_eq!((scene.state(), scene.message().as_str()), (PromotionState::HealthChecking, problem));
    assert!(scene.status().conditions.iter().any(|condition| condition.type_ == "Blocked"));
    scene.health = Some(facts(vec![deployment("1.29.0")]));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Verified);
    assert!(scene.status().conditions.iter().all(|condition| condition.type_ != "Blocked"));
}

#[test]
fn where_nothing_proves_a_config_bundle_the_status_says_not_proven_and_the_soak_starts_only_then() {
    let mut scene = Scene::new(json!({}));
    scene.bundle = Some(config_bundle());
    let mut scene = scene.pushed();
    scene.health = Some(facts(vec![deployment("1.28.0")]));
    let plan = scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking);
    assert_eq!(
        scene.message(),
        "not proven yet: Deployment `my-app` is Available, but nothing in it has changed since the push; without a proof \
         it counts from 2026-04-14T14:10:00Z on"
    );
    let deadline = time("2026-04-14T14:10:00Z");
    assert_eq!(plan.wake, Some(deadline));
    // A rollout in the meantime is the proof.
    let mut proven = Scene { step: scene.step.clone(), ..Scene::new(json!({})) };
    proven.bundle = Some(config_bundle());
    let mut newer = deployment("1.28.0");
    newer["metadata"]["generation"] = json!(4);
    newer["status"]["observedGeneration"] = json!(4);
    proven.health = Some(facts(vec![newer]));
    proven.plan();
    assert_eq!(proven.state(), PromotionState::Verified);
    assert!(proven.status().conditions.iter().all(|condition| condition.type_ != "HealthProven"));
    // Without one the time of the check is waited for, and only then the soak begins.
    scene.now = deadline;
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Verified);
    assert_eq!(scene.status().verified_at, Some(deadline));
    assert!(scene.message().starts_with("not proven: "), "{}", scene.message());
    let proven = scene.status().conditions.into_iter().find(|condition| condition.type_ == "HealthProven");
    assert_eq!(
        proven.map(|proven| (proven.status, proven.reason)),
        Some(("False".to_owned(), "NotProven".to_owned()))
    );
}

#[test]
fn what_came_between_a_push_and_its_record_proves_it_and_what_came_while_it_was_held_does_not() {
    for (held_at_first, state) in [(false, PromotionState::Verified), (true, PromotionState::HealthChecking)]
    {
        let mut scene = Scene::new(json!({}));
        scene.bundle = Some(config_bundle());
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Promoting);
        let begun = scene.now;
        if held_at_first {
            scene.hold = held("the Pipeline is paused");
            scene.plan();
            scene.hold = None;
        }
        // The first record of it was lost.
        scene.pass(SignedDuration::from_secs(5));
        let mut scene = scene.pushed();
        let mut rolled_out = deployment("1.28.0");
        rolled_out["metadata"]["managedFields"] = json!([{"manager": "argocd", "time": begun.to_string()}]);
        scene.health = Some(facts(vec![rolled_out]));
        scene.plan();
        assert_eq!(scene.state(), state, "held: {held_at_first}: {}", scene.message());
    }
}

#[test]
fn a_rollout_right_before_a_push_in_the_same_second_proves_nothing() {
    for (push, state) in
        [(Push::Made, PromotionState::HealthChecking), (Push::Found, PromotionState::Verified)]
    {
        let mut scene = Scene::new(json!({}));
        scene.bundle = Some(config_bundle());
        scene.plan();
        let mut rolled_out = deployment("1.28.0");
        rolled_out["metadata"]["managedFields"] =
            json!([{"manager": "argocd", "time": scene.now.to_string()}]);
        scene.health = Some(facts(vec![rolled_out.clone()]));
        let commit = scene.effect();
        let Outcome::Committed { commit: id, base, files, source, .. } = committed() else { unreachable!() };
        scene.tell(&commit, Outcome::Committed { commit: id, base, push, files, moves: Vec::new(), source });
        scene.plan();
        assert_eq!(scene.state(), state, "{push:?}: {}", scene.message());
        // What comes after it does.
        rolled_out["metadata"]["generation"] = json!(4);
        rolled_out["status"]["observedGeneration"] = json!(4);
        scene.health = Some(facts(vec![rolled_out]));
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Verified, "{push:?}: {}", scene.message());
    }
}

#[test]
fn what_was_written_between_two_tries_of_a_push_proves_nothing() {
    let mut scene = Scene::new(json!({}));
    scene.bundle = Some(config_bundle());
    let commit = scene.effect();
    scene.tell(&commit, fault());
    scene.pass(SignedDuration::from_mins(5));
    let mut restarted = deployment("1.28.0");
    restarted["metadata"]["managedFields"] = json!([{"manager": "kubectl", "time": scene.now.to_string()}]);
    scene.pass(SignedDuration::from_mins(5));
    scene.health = Some(facts(vec![restarted]));
    scene.tell(&commit, committed());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::HealthChecking, "{}", scene.message());
}

#[test]
fn a_push_of_configuration_waits_a_moment_for_a_first_look_and_no_longer() {
    let mut scene = Scene::new(json!({}));
    let bundle = config_bundle();
    assert!(!looks_before_push(&scene.step, &bundle), "it has not begun");
    scene.bundle = Some(bundle.clone());
    scene.plan();
    assert!(looks_before_push(&scene.step, &bundle));
    let image = Scene::new(json!({})).bundle.unwrap();
    assert!(!looks_before_push(&scene.step, &image), "an image is a proof of its own");
    assert!(awaits_look(&scene.step, scene.now));
    assert!(!awaits_look(&scene.step, scene.now + SignedDuration::from_secs(2)));
}

#[test]
fn the_end_that_is_told_is_the_end_that_comes() {
    let mut config = Scene::new(json!({"health": {"cluster": "eu"}}));
    config.bundle = Some(config_bundle());
    let old = facts(vec![deployment("1.28.0")]);
    let away = unseen(Unknown::Unreachable { why: "connection refused".to_owned(), code: None });
    let image = || Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
    let cases = [
        (image(), vec![old.clone()], PromotionState::Failed),
        (image(), vec![old.clone(), away.clone(), old.clone()], PromotionState::Failed),
        (config.pushed(), vec![old.clone(), away, old], PromotionState::Verified),
    ];
    for (mut scene, seen, state) in cases {
        for seen in seen {
            let is_known = seen.unknown.is_none();
            scene.health = Some(seen);
            scene.plan();
            let answer = ending(&scene.step);
            assert_eq!(answer == Some(Ending::Open), !is_known, "{answer:?}");
            scene.pass(SignedDuration::from_mins(4));
        }
        let at = match ending(&scene.step) {
            Some(Ending::Fails(at)) if state == PromotionState::Failed => at,
            Some(Ending::Counts(at)) if state == PromotionState::Verified => at,
            other => panic!("{state:?}: {other:?}"),
        };
        scene.now = at - SignedDuration::from_millis(1);
        scene.plan();
        assert_eq!(scene.state(), PromotionState::HealthChecking);
        scene.now = at;
        scene.plan();
        assert_eq!(scene.state(), state);
    }
}

#[test]
fn what_was_not_proven_is_in_the_evidence_and_times_are_whole_seconds() {
    let mut scene = Scene::new(json!({}));
    scene.bundle = Some(config_bundle());
    scene.now = time("2026-04-14T14:00:00.123456789Z");
    let mut scene = scene.pushed();
    scene.health = Some(facts(vec![deployment("1.28.0")]));
    scene.plan();
    assert!(scene.message().ends_with("it counts from 2026-04-14T14:10:00Z on"), "{}", scene.message());
    assert_eq!(scene.status().evidence.unwrap_or_default().not_proven, None);
    scene.pass(SignedDuration::from_mins(10));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Verified);
    let why = scene.status().evidence.unwrap().not_proven.unwrap();
    assert!(why.contains("nothing in it has changed since the push"), "{why}");
}

#[test]
fn explain_says_since_when_a_remote_cluster_is_unreachable() {
    let mut scene = Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
    let pipeline: kardinal_api::kardinal::Pipeline = from(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "my-app", "namespace": "default"},
        "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": [{"name": "prod"}]},
    }));
    scene.health = Some(unseen(Unknown::Unreachable { why: "connection refused".to_owned(), code: None }));
    scene.plan();
    scene.pass(SignedDuration::from_hours(3));
    scene.health = Some(unseen(Unknown::Unreachable { why: "no route to host".to_owned(), code: None }));
    scene.plan();
    let mut bundle = image_bundle();
    bundle.metadata.labels = Some([("kardinal.io/pipeline".to_owned(), "my-app".to_owned())].into());
    bundle.status = Some(from(json!({"phase": "Promoting"})));
    let world = crate::explain::World {
        bundles: &[bundle],
        steps: std::slice::from_ref(&scene.step),
        ..crate::explain::World::of(&pipeline, scene.now)
    };
    let text = crate::explain::explain(&world, Some("prod")).render();
    // Since it was noticed, not since it was last asked in vain; why is what was said last.
    let since = "the cluster cannot be reached, which was noticed at 2026-04-14T14:00:00Z: no route to host";
    assert!(text.contains(since), "{text}");
    assert!(text.contains("RESULT: WAITING for prod"), "{text}");
    assert!(!text.contains("still runs") && !text.contains("VERIFIED"), "{text}");
}
