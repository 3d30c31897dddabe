//! The promotion Graph of the specification, told from start to end.

use serde_json::json;

use super::world::Story;

const NODES: &str = include_str!("promotion.yaml");

fn start() -> Story {
    let mut story = Story::new(NODES);
    story.put("{apiVersion: kardinal.io/v1alpha1, kind: Bundle, metadata: {name: my-app-v1-29-0-1712567890}, spec: {type: image}}");
    story
}

const DEV: &str = "my-app-v1-29-0-dev";
const STAGING: &str = "my-app-v1-29-0-staging";
const PROD: &str = "my-app-v1-29-0-prod";
const WEEKEND: &str = "my-app-v1-29-0-no-weekend-deploys";
const SOAK: &str = "my-app-v1-29-0-staging-soak";

/// A gate reconciler has looked just now.
fn evaluated(story: &mut Story, gate: &str, ready: bool) {
    let now = story.now.to_string();
    story.set(gate, "/status", json!({ "ready": ready, "lastEvaluatedAt": now }));
}

fn until_gates(story: &mut Story) {
    story.run();
    story.set(DEV, "/status/state", json!("Verified")).run();
    story.set(STAGING, "/status/state", json!("Verified")).run();
    story.writes();
}

fn until_prod(story: &mut Story) {
    until_gates(story);
    evaluated(story, WEEKEND, true);
    evaluated(story, SOAK, true);
    story.run();
    story.writes();
}

#[test]
fn goes_from_environment_to_environment() {
    let mut story = start();
    story.expect(
        "bundle=Ready dev=NotReady staging=Pending noWeekendDeploys=Pending stagingSoak=Pending prod=Pending",
        "apply my-app-v1-29-0-1712567890, apply my-app-v1-29-0-dev",
    );
    story.set(DEV, "/status/state", json!("Promoting")).expect(
        "bundle=Ready dev=NotReady staging=Pending noWeekendDeploys=Pending stagingSoak=Pending prod=Pending",
        "",
    );
    story.set(DEV, "/status/state", json!("Verified")).expect(
        "bundle=Ready dev=Ready staging=NotReady noWeekendDeploys=Pending stagingSoak=Pending prod=Pending",
        "apply my-app-v1-29-0-staging",
    );
    assert_eq!(story.object(STAGING)["spec"]["upstreamVerified"], json!("Verified"));
    // Both gates follow at once: independent branches run side by side.
    story.set(STAGING, "/status/state", json!("Verified")).expect(
        "bundle=Ready dev=Ready staging=Ready noWeekendDeploys=NotReady stagingSoak=NotReady prod=Pending",
        "apply my-app-v1-29-0-no-weekend-deploys, apply my-app-v1-29-0-staging-soak",
    );
    evaluated(&mut story, WEEKEND, true);
    story.expect(
        "bundle=Ready dev=Ready staging=Ready noWeekendDeploys=Ready stagingSoak=NotReady prod=Pending",
        "",
    );
    evaluated(&mut story, SOAK, true);
    story.expect(
        "bundle=Ready dev=Ready staging=Ready noWeekendDeploys=Ready stagingSoak=Ready prod=NotReady",
        "apply my-app-v1-29-0-prod",
    );
    assert_eq!(story.object(PROD)["spec"]["requiredGates"], json!([WEEKEND, SOAK]));
    assert_eq!(story.object(PROD)["metadata"]["annotations"]["internal.kro.run/apply-order"], json!("5"));
}

#[test]
fn a_gate_that_closes_leaves_the_step_behind_it_as_it_is() {
    let mut story = start();
    until_prod(&mut story);
    story.set(PROD, "/status/state", json!("Promoting"));
    evaluated(&mut story, SOAK, false);
    story.expect(
        "bundle=Ready dev=Ready staging=Ready noWeekendDeploys=Ready stagingSoak=NotReady prod=NotReady*",
        "",
    );
    // Not even drift is repaired while the gate is closed, and it is when it opens.
    story.set(PROD, "/spec/approval", json!("auto")).run();
    assert_eq!(story.writes(), "");
    evaluated(&mut story, SOAK, true);
    story.expect(
        "bundle=Ready dev=Ready staging=Ready noWeekendDeploys=Ready stagingSoak=Ready prod=NotReady",
        "apply my-app-v1-29-0-prod",
    );
    assert_eq!(story.object(PROD)["spec"]["approval"], json!("pr-review"));
}

#[test]
fn a_closed_gate_beats_a_new_revision() {
    let mut story = start();
    until_prod(&mut story);
    evaluated(&mut story, SOAK, false);
    story.run();
    story.revise(&NODES.replace("path: environments/prod", "path: environments/production")).run();
    assert_eq!(story.writes(), "");
    assert_eq!(story.object(PROD)["spec"]["path"], json!("environments/prod"));
    evaluated(&mut story, SOAK, true);
    story.run();
    assert_eq!(story.writes(), "apply my-app-v1-29-0-prod");
    assert_eq!(story.object(PROD)["spec"]["path"], json!("environments/production"));
}

#[test]
fn a_stale_answer_closes_the_gate_at_the_exact_time() {
    let mut story = start();
    until_gates(&mut story);
    evaluated(&mut story, SOAK, true);
    let looked = story.now;
    story.run();
    let wake = looked + jiff::SignedDuration::from_secs(120);
    let exact = story.wake.expect("a wake-up").duration_since(wake).abs();
    assert!(exact <= jiff::SignedDuration::from_millis(1), "{:?} is not {wake}", story.wake);
    story.pass(119);
    assert!(story.walker.report("stagingSoak").unwrap().propagating);
    story.pass(2);
    assert!(!story.walker.report("stagingSoak").unwrap().propagating);
    // The other gate was never evaluated, so prod waits for both and says so.
    let waits = &story.walker.report("prod").unwrap().waits;
    assert!(
        waits.iter().any(|wait| wait.node == "stagingSoak" && wait.detail.contains("now()")),
        "{waits:#?}"
    );
    evaluated(&mut story, WEEKEND, true);
    evaluated(&mut story, SOAK, true);
    story.run();
    assert_eq!(story.writes(), "apply my-app-v1-29-0-prod");
}

#[test]
fn a_restart_at_any_point_changes_nothing() {
    let mut story = start();
    until_prod(&mut story);
    let before = story.world.objects.clone();
    story.restart().run();
    assert_eq!(story.writes(), "");
    assert_eq!(story.world.objects, before);
}

#[test]
fn teardown_goes_backwards_and_keeps_the_bundle() {
    let mut story = start();
    until_prod(&mut story);
    story.world.linger = true;
    let waves = story.teardown();
    assert_eq!(
        waves,
        [
            "delete my-app-v1-29-0-prod",
            "delete my-app-v1-29-0-no-weekend-deploys delete my-app-v1-29-0-staging-soak",
            "delete my-app-v1-29-0-staging",
            "delete my-app-v1-29-0-dev",
            "release my-app-v1-29-0-1712567890",
        ]
    );
    let bundle = story.object("my-app-v1-29-0-1712567890");
    assert_eq!(bundle["spec"]["type"], json!("image"));
    assert_eq!(bundle["metadata"].get("labels"), None);
    assert_eq!(story.world.objects.len(), 1);
}
