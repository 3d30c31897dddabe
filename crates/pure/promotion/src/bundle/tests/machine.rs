//! The phases of a Bundle.

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{BundlePhase, PromotionState};

use super::waits::at_a_gate;
use super::world::{World, bundle, gate, intended, line, pipeline, yaml};
use crate::bundle::Effect;

const A: &str = "my-app-v1-1712567890";

fn start() -> World {
    World::new(line(&["dev", "prod"]), vec![bundle(A)])
}

#[test]
fn a_bundle_goes_its_way() {
    let mut world = start();
    let plan = world.pass(A);
    assert!(matches!(plan.effects().as_slice(), [Effect::CreateGraph(_)]));
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
    assert_eq!(world.bundle(A).status.as_ref().unwrap().graph_ref.as_deref(), Some("my-app-v1"));
    world.pass(A);
    let plan = world.pass(A);
    assert!(plan.effects().is_empty() && plan.status.is_none() && plan.notes.is_empty(), "{plan:?}");
    assert_eq!(world.ready(A), "Unknown Promoting: waits for the Graph `my-app-v1` to create the next step");

    world.set(A, "dev", PromotionState::Verified);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
    let status = world.set(A, "prod", PromotionState::WaitingForMerge);
    status.pr_url = Some("https://forge/pull/1".to_owned());
    world.pass(A);
    assert_eq!(
        world.ready(A),
        "Unknown WaitingForMerge: `prod` waits for the pull request https://forge/pull/1 to be merged"
    );
    let status = world.set(A, "prod", PromotionState::WaitingForMerge);
    status.message = Some("PR #1 waits: held by no-weekends".to_owned());
    world.pass(A);
    assert_eq!(
        world.ready(A),
        "Unknown WaitingForMerge: `prod`: PR #1 waits: held by no-weekends (the pull request https://forge/pull/1)"
    );
    world.set(A, "prod", PromotionState::Verified);
    let plan = world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Verified));
    assert_eq!(world.ready(A), "True Verified: verified in `dev`, `prod`");
    assert_eq!(plan.notes.len(), 1);
    let prod = &world.bundle(A).status.as_ref().unwrap().environments["prod"];
    assert_eq!(prod.commit.as_deref(), Some("commit-prod"));
    assert_eq!(prod.pr_url.as_deref(), Some("https://forge/pull/1"));
    assert!(prod.verified_at.is_some() && prod.promoted_at.is_some());
}

#[test]
fn without_a_pipeline_it_waits() {
    let mut world = start();
    let pipeline = world.pipeline.take();
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Available));
    assert_eq!(
        world.ready(A),
        "False PipelineNotFound: waits for the Pipeline `my-app` in namespace `default`, which does not exist"
    );
    let plan = world.pass(A);
    assert!(plan.status.is_none() && plan.notes.is_empty(), "it says so once");
    world.bundle_mut(A).metadata.labels = None;
    world.pass(A);
    assert_eq!(
        world.ready(A),
        "False PipelineNotFound: the label `kardinal.io/pipeline` is missing: it names the Pipeline to go through"
    );
    world.pipeline = pipeline;
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
}

#[test]
fn what_cannot_be_promoted_fails_at_once() {
    let mut world = World::new(
        pipeline("    - {name: a, dependsOn: [b]}\n    - {name: b, dependsOn: [a]}\n"),
        vec![bundle(A)],
    );
    let plan = world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Failed));
    assert!(world.ready(A).starts_with("False InvalidPipeline: spec.environments: "), "{}", world.ready(A));
    assert!(plan.notes[0].warning && plan.effects().is_empty());

    let mut world = World::new(line(&["dev"]), vec![intended(A, "{target: prod}")]);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Failed));
    assert!(world.ready(A).starts_with("False InvalidIntent: spec.intent.target: "), "{}", world.ready(A));
}

#[test]
fn a_pipeline_whose_last_environment_has_an_unknown_task_takes_no_bundle_on_the_way() {
    let text = "    - {name: dev}\n    - name: prod\n      steps: [{uses: git-clon}]\n";
    let mut world = World::new(pipeline(text), vec![bundle(A)]);
    assert!(world.pass(A).effects().is_empty());
    assert_eq!(world.phase(A), Some(BundlePhase::Failed));
    assert!(
        world.ready(A).starts_with("False InvalidPipeline: spec.environments[1].steps[0]"),
        "{}",
        world.ready(A)
    );

    // One that does not go there is not concerned.
    let mut world = World::new(pipeline(text), vec![intended(A, "{target: dev}")]);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
}

#[test]
fn a_failed_step_ends_it() {
    let mut world = start();
    world.pass(A);
    world.set(A, "dev", PromotionState::Failed).message = Some("push refused".to_owned());
    let plan = world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Failed));
    assert_eq!(world.ready(A), "False StepFailed: dev: push refused");
    assert!(plan.effects().is_empty(), "nothing was received");
    // Later events change the record, never the phase.
    world.set(A, "dev", PromotionState::Verified);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Failed));
    let dev = &world.bundle(A).status.as_ref().unwrap().environments["dev"];
    assert_eq!(dev.state, Some(PromotionState::Verified));
    assert_eq!(world.ready(A), "False StepFailed: dev: push refused");
}

#[test]
fn a_graph_that_is_gone_is_made_again_and_nothing_is_forgotten() {
    let mut world = start();
    world.verify(A, &["dev"]);
    let before = world.bundle(A).status.as_ref().unwrap().environments["dev"].clone();
    world.graphs.clear();
    world.steps.clear();
    let plan = world.pass(A);
    assert!(matches!(plan.effects().as_slice(), [Effect::CreateGraph(_)]));
    world.set(A, "dev", PromotionState::Promoting);
    world.pass(A);
    assert_eq!(world.bundle(A).status.as_ref().unwrap().environments["dev"], before);
    world.pipeline = None;
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting), "a Graph needs its Pipeline no more");
    world.graphs.clear();
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
    assert!(world.ready(A).starts_with("False PipelineNotFound"));
}

#[test]
fn evidence_outlives_the_steps() {
    let mut world = start();
    world.pass(A);
    world.set(A, "dev", PromotionState::Verified).evidence = Some(yaml("{approvedBy: [alice]}"));
    world.pass(A);
    world.steps.clear();
    world.set(A, "prod", PromotionState::Verified);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Verified));
    let dev = &world.bundle(A).status.as_ref().unwrap().environments["dev"];
    assert_eq!(dev.evidence.as_ref().unwrap().approved_by, Some(vec!["alice".to_owned()]));
}

#[test]
fn a_graph_written_by_hand_is_accepted() {
    let hand = |name: &str, nodes: &str| -> Graph {
        yaml(&format!(
            "apiVersion: experimental.kro.run/v1alpha1\nkind: Graph\nmetadata: {{name: {name}, namespace: default}}\nspec: {{nodes: [{nodes}]}}"
        ))
    };
    let node = format!(
        "{{id: bundle, ref: {{apiVersion: kardinal.io/v1alpha1, kind: Bundle, metadata: {{name: {A}}}}}}}"
    );
    let step = "{id: qa, template: {apiVersion: kardinal.io/v1alpha1, kind: PromotionStep, metadata: {name: s}, spec: {environment: qa}}}";
    let mut world = start();
    world.graphs = vec![hand("mine", &format!("{node}, {step}"))];
    let plan = world.pass(A);
    assert!(plan.effects().is_empty());
    assert_eq!(world.bundle(A).status.as_ref().unwrap().graph_ref.as_deref(), Some("mine"));
    world.set(A, "qa", PromotionState::Verified);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Verified));

    // One that only reads the Bundle promotes nothing, and one of another Bundle neither.
    let mut world = start();
    world.graphs = vec![hand("reader", &node)];
    assert!(matches!(world.pass(A).effects().as_slice(), [Effect::CreateGraph(_)]));
    let mut world = start();
    world.graphs = vec![hand("other", &format!("{}, {step}", node.replace(A, "other")))];
    assert!(matches!(world.pass(A).effects().as_slice(), [Effect::CreateGraph(_)]));

    // Where a Graph leaves names open, it must itself be ready.
    let many = step.replace("{id: qa, ", "{id: qa, forEach: {x: '${[1]}'}, ");
    let mut world = start();
    world.graphs = vec![hand("many", &format!("{node}, {many}"))];
    world.pass(A);
    world.set(A, "qa", PromotionState::Verified);
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Promoting));
    world.graphs[0].status = Some(yaml(
        "{conditions: [{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2026-04-09T10:00:00Z'}]}",
    ));
    world.pass(A);
    assert_eq!(world.phase(A), Some(BundlePhase::Verified));
}

/// The message while `dev` is verified and `prod` waits at a gate with this status.
fn at_the_gate(status: &str, message: &str) -> String {
    at_a_gate(status, message).ready(A)
}

#[test]
fn it_says_which_gate_it_waits_for() {
    assert_eq!(
        at_the_gate("{ready: false, reason: 'schedule.isWeekend = true'}", "~"),
        "Unknown WaitingForGate: `prod` waits for the gate `slow`: schedule.isWeekend = true"
    );
    assert_eq!(
        at_the_gate("{ready: false, reason: x = 12, nextChangeAt: '2026-04-09T11:00:00Z'}", "no deploys now"),
        "Unknown WaitingForGate: `prod` waits for the gate `slow` until 2026-04-09T11:00:00Z at the earliest: no deploys now"
    );
    assert_eq!(
        at_the_gate("~", "~"),
        "Unknown WaitingForGate: `prod` waits for the gate `slow`, which has not been asked yet"
    );
    assert_eq!(
        at_the_gate("{ready: true}", "~"),
        "Unknown Promoting: waits for the Graph `my-app-v1` to create the next step"
    );
}

#[test]
fn it_says_what_else_it_waits_for() {
    let mut world = start();
    world.pass(A);
    world.set(A, "dev", PromotionState::HealthChecking);
    world.pass(A);
    assert_eq!(world.ready(A), "Unknown HealthChecking: `dev`: waits for the environment to become healthy");
    world.set(A, "dev", PromotionState::Promoting).message = Some("the Pipeline is paused".to_owned());
    world.pass(A);
    assert_eq!(world.ready(A), "Unknown Promoting: `dev`: the Pipeline is paused");

    let mut world = start();
    world.pass(A);
    world.graphs[0].status = Some(yaml(
        "{conditions: [{type: Ready, status: 'False', reason: Conflict, message: somebody owns it, lastTransitionTime: '2026-04-09T10:00:00Z'}]}",
    ));
    world.pass(A);
    assert_eq!(world.ready(A), "Unknown GraphNotReady: the Graph `my-app-v1` cannot go on: somebody owns it");
    world.graphs[0].metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    assert!(world.pass(A).effects().is_empty(), "its name is still taken");
    let message =
        "Unknown GraphNotReady: the Graph `my-app-v1` is being deleted; after that it is made again";
    assert_eq!(world.ready(A), message);
}

#[test]
fn the_transition_time_moves_only_with_the_status() {
    let mut world = start();
    world.pass(A);
    let time = |world: &World| world.bundle(A).status.as_ref().unwrap().conditions[0].last_transition_time.0;
    let first = time(&world);
    world.set(A, "dev", PromotionState::Promoting);
    world.pass(A);
    assert_eq!(time(&world), first);
    world.set(A, "dev", PromotionState::Verified);
    world.set(A, "prod", PromotionState::Verified);
    world.pass(A);
    assert!(time(&world) > first);
}

#[test]
fn a_bundle_that_is_being_deleted_is_left_alone() {
    let mut world = start();
    world.bundle_mut(A).metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    let plan = world.pass(A);
    assert!(plan.effects().is_empty() && plan.status.is_none());
}

#[test]
fn a_bundle_whose_graph_would_be_too_large_says_how_large() {
    let applies = "{kardinal.io/applies-to: prod}";
    for (gates, expression, said) in [
        (1000, "'true'".to_owned(), "1003 nodes, and a Graph can have 1000"),
        (20, format!("'\"{}\" != \"\"'", "x".repeat(60_000)), "bytes, and a Graph can have 1048576"),
    ] {
        let mut world = start();
        let spec = format!("{{expression: {expression}}}");
        world.gates = (0..gates).map(|at| gate("default", &format!("g-{at}"), applies, &spec)).collect();
        let plan = world.pass(A);
        assert!(plan.effects().is_empty());
        assert_eq!(world.phase(A), Some(BundlePhase::Failed));
        let ready = world.ready(A);
        let message =
            format!("with {gates} × PolicyGate and 2 × PromotionStep the Graph of this Bundle has ");
        assert!(ready.starts_with(&format!("False GraphTooLarge: spec.environments: {message}")), "{ready}");
        assert!(ready.contains(said) && ready.contains("let fewer gates apply"), "{ready}");
    }
    let mut world = start();
    world.gates =
        (0..997).map(|at| gate("default", &format!("g-{at}"), applies, "{expression: 'true'}")).collect();
    assert!(matches!(world.pass(A).effects().as_slice(), [Effect::CreateGraph(_)]));
}
