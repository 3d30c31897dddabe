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
