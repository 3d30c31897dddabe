//! What an environment has, beside what comes.

use super::*;

/// v1.28.0 is verified in prod, and v1.29.0 has come to this end there.
fn after(record: Value) -> Scene {
    let mut scene = Scene::new();
    scene.bundles.clear();
    scene.graphs.clear();
    scene.add_bundle("old", "1.28.0", "2026-04-09T09:00:00Z");
    let good = json!({"state": "Verified", "promotedAt": "2026-04-09T09:09:00Z", "verifiedAt": "2026-04-09T09:10:00Z"});
    let mut scene = scene.record("prod", good);
    scene.bundles[0].status.as_mut().unwrap().phase = Some(BundlePhase::Verified);
    scene.add_bundle("new", "1.29.0", "2026-04-09T10:00:00Z");
    let mut scene = scene.record("prod", record);
    scene.bundles[1].status.as_mut().unwrap().phase = Some(BundlePhase::Failed);
    scene
}

#[test]
fn a_failed_bundle_does_not_hide_what_the_environment_has() {
    let rejected = after(json!({"state": "Failed", "message": "PR #3 was closed without merging"}));
    let lines = [
        "  Bundle: v1.29.0\n  Now:    v1.28.0 (old), verified at 2026-04-09T09:10:00Z\n",
        "RESULT: FAILED: PR #3 was closed without merging",
    ];
    rejected.says("prod", Outcome::Failed, &lines);
    let broken =
        json!({"state": "Failed", "promotedAt": "2026-04-09T10:09:00Z", "message": "not healthy after 10m"});
    let broken = after(broken);
    broken.says("prod", Outcome::Failed, &["  Bundle: v1.29.0\n  Now:    v1.29.0 (new), not verified\n"]);
    let json = serde_json::to_value(broken.explain("prod")).unwrap();
    assert_eq!(json["environments"][0]["has"][0]["bundle"], "new");
}

#[test]
fn when_the_bundle_of_a_rollback_is_deleted_the_older_version_is_not_told_as_present() {
    let came = json!({"state": "Verified", "promotedAt": "2026-04-09T10:09:00Z", "verifiedAt": "2026-04-09T10:10:00Z"});
    let mut scene = after(came);
    scene.bundles[1].status.as_mut().unwrap().phase = Some(BundlePhase::Verified);
    scene.says("prod", Outcome::Verified, &["Bundle: v1.29.0"]);
    let status = json!({"environments": [{
        "environment": "prod", "type": "image", "bundle": "back", "version": "1.28.0",
        "promotedAt": "2026-04-09T10:19:00Z", "verifiedAt": "2026-04-09T10:20:00Z",
    }]});
    scene.pipeline.status = Some(object(status));
    let lines = [
        "  Now:    v1.28.0 (back, which does not exist any more), verified at 2026-04-09T10:20:00Z\n",
        "RESULT: IDLE",
    ];
    scene.says("prod", Outcome::Idle, &lines);
    assert!(!scene.explain("prod").render().contains("1.29.0"));
    // A failure before that is past, too.
    let mut rejected = after(json!({"state": "Failed", "message": "PR #3 was closed without merging"}));
    rejected.pipeline.status.clone_from(&scene.pipeline.status);
    rejected.says("prod", Outcome::Idle, &lines);
    // So is one that stopped before it came here.
    let mut stopped = after(json!({"state": "Failed"}));
    stopped.pipeline.status.clone_from(&scene.pipeline.status);
    stopped.bundles[1].status.as_mut().unwrap().environments.clear();
    stopped.says("prod", Outcome::Idle, &lines);
    assert!(!stopped.explain("prod").render().contains("1.29.0"));
    // Whatever comes later is what counts again.
    scene.add_bundle("next", "1.30.0", "2026-04-09T10:25:00Z");
    scene.says(
        "prod",
        Outcome::Waiting,
        &["Bundle: v1.30.0", "v1.28.0 (back, which does not exist any more)"],
    );
    let scene = scene.verified("prod", "2026-04-09T10:29:00Z");
    scene.says("prod", Outcome::Verified, &["Bundle: v1.30.0"]);
}

/// `old` was created before `new`, and both came to an end in prod.
fn both(old: Value, new: Value, failed_at: &str) -> Scene {
    let mut scene = after(new);
    let record: kardinal_api::kardinal::EnvironmentStatus = object(old);
    scene.bundles[0].status.as_mut().unwrap().environments.insert("prod".to_owned(), record);
    let failed = json!([{"type": "Ready", "status": "False", "reason": "StepFailed", "message": "prod: it broke",
        "lastTransitionTime": failed_at}]);
    scene.bundles[1].status.as_mut().unwrap().conditions = object(failed);
    scene
}

#[test]
fn a_failure_before_a_later_verification_is_past_whichever_bundle_is_newer() {
    let verified = |at: &str| json!({"state": "Verified", "promotedAt": at, "verifiedAt": at});
    let failed = json!({"state": "Failed", "message": "it broke"});
    let came = json!({"state": "Failed", "message": "it broke", "promotedAt": "2026-04-09T10:09:00Z"});
    let closed = json!({"state": "Failed", "message": "it broke", "rejected": true, "rejectedAt": "2026-04-09T10:10:00Z"});
    // The failure is at 10:10, the verification of the older Bundle before, at the same time and after it.
    for record in [&failed, &came, &closed] {
        for (at, outcome, bundle) in [
            ("2026-04-09T09:50:00Z", Outcome::Failed, "new"),
            ("2026-04-09T10:10:00.9Z", Outcome::Failed, "new"),
            ("2026-04-09T10:20:00Z", Outcome::Verified, "old"),
        ] {
            let scene = both(verified(at), record.clone(), "2026-04-09T10:10:00Z");
            let explanation = scene.explain("prod");
            let prod = &explanation.environments[0];
            assert_eq!((prod.outcome, prod.bundle.as_deref()), (outcome, Some(bundle)), "{at} {record}");
        }
    }
}

#[test]
fn a_failure_is_past_when_the_rollback_of_the_same_second_has_arrived() {
    let broken = json!({"state": "Failed", "promotedAt": "2026-04-09T10:00:00.2Z", "message": "it broke"});
    let mut scene = after(broken);
    // By its name it comes before the Bundle that it takes back.
    scene.add_bundle("back", "1.28.0", "2026-04-09T10:00:00Z");
    scene.bundles[2].spec.provenance = Some(object(json!({"rollbackOf": "new"})));
    scene.says("prod", Outcome::Waiting, &["Bundle: v1.28.0"]);
    let mut scene = scene.verified("prod", "2026-04-09T10:00:03Z");
    scene.bundles[2].status.as_mut().unwrap().phase = Some(BundlePhase::Verified);
    scene.says("prod", Outcome::Verified, &["Bundle: v1.28.0"]);
}

#[test]
fn a_version_that_cannot_come_back_is_told() {
    let broken = json!({"state": "Failed", "promotedAt": "2026-04-09T10:09:00Z", "message": "it broke"});
    let mut scene = after(broken);
    let note = "Note: prod cannot go back to v1.28.5, which it had before: its Bundle gone was deleted";
    assert!(!scene.explain("prod").render().contains("cannot go back"));
    scene.pipeline.status = Some(object(json!({"environments": [{
        "environment": "prod", "type": "image", "bundle": "new", "version": "1.29.0",
        "promotedAt": "2026-04-09T10:09:00Z",
        "before": {"bundle": "gone", "version": "1.28.5", "verifiedAt": "2026-04-09T09:50:00Z"},
    }]})));
    scene.says("prod", Outcome::Failed, &[note]);
    // The rollback goes to the version before that one, and says so until it is there.
    scene.add_bundle("back", "1.28.0", "2026-04-09T10:20:00Z");
    scene.bundles[2].spec.provenance = Some(object(json!({"rollbackOf": "new"})));
    scene.says("prod", Outcome::Waiting, &["Bundle: v1.28.0", note]);
    let mut scene = scene.verified("prod", "2026-04-09T10:25:00Z");
    scene.bundles[2].status.as_mut().unwrap().phase = Some(BundlePhase::Verified);
    assert!(!scene.explain("prod").render().contains("cannot go back"));
}
