//! What a Bundle waits for, as data.

use kardinal_api::kardinal::PromotionState;
use kardinal_planner::why::Wait;

use super::world::{World, bundle, gate, line, yaml};
use crate::bundle::why;
use crate::promotion_step::why as step;

const A: &str = "my-app-v1-1712567890";

fn start() -> World {
    World::new(line(&["dev", "prod"]), vec![bundle(A)])
}

/// `dev` is verified, and `prod` waits at a gate with this status.
pub(super) fn at_a_gate(status: &str, message: &str) -> World {
    let mut world = start();
    world.verify(A, &["dev"]);
    world.gates = vec![gate(
        "default",
        "my-app-v1-slow",
        &format!(
            "{{kardinal.io/gate-template: slow, kardinal.io/bundle: {A}, kardinal.io/environment: prod}}"
        ),
        &format!("{{expression: 'false', message: {message}}}"),
    )];
    world.gates[0].status = yaml(status);
    world.pass(A);
    world
}

/// What the Bundle waits for, each as `reason subject who until`.
fn waits(world: &World) -> Vec<String> {
    let waits = &world.bundle(A).status.as_ref().unwrap().waits;
    let said = |wait: &Wait| {
        let until = wait.until.or(wait.deadline).map(|at| format!(" {at}")).unwrap_or_default();
        format!("{} {} {:?}{until}", wait.reason, wait.subject.name, wait.who)
    };
    waits.iter().map(said).collect()
}

#[test]
fn what_it_waits_for_is_data() {
    let mut world = start();
    let pipeline = world.pipeline.take();
    world.pass(A);
    assert_eq!(waits(&world), ["PipelineNotFound my-app Person"]);
    world.bundle_mut(A).metadata.labels = None;
    world.pass(A);
    assert_eq!(waits(&world), ["PipelineNotFound kardinal.io/pipeline Person"]);
    world.pipeline = pipeline;
    world.pass(A);
    assert_eq!(waits(&world), ["Next kardinal Kardinal"]);
    let graph = world.graphs[0].clone();
    for (status, said) in [
        ("reason: Conflict", "GraphNotReady my-app-v1 Person"),
        ("reason: SystemError", "GraphNotReady my-app-v1 Outside"),
    ] {
        world.graphs[0].status = Some(yaml(&format!(
            "{{conditions: [{{type: Ready, status: 'False', {status}, message: m, lastTransitionTime: '2026-04-09T10:00:00Z'}}]}}",
        )));
        world.pass(A);
        assert_eq!(waits(&world), [said]);
    }
    world.graphs = vec![graph];
    world.set(A, "dev", PromotionState::HealthChecking);
    world.pass(A);
    assert_eq!(waits(&world), ["Recorded dev Outside"]);
    let status = world.set(A, "dev", PromotionState::WaitingForMerge);
    status.pr_url = Some("https://forge/pull/1".to_owned());
    world.pass(A);
    assert_eq!(waits(&world), ["Recorded the pull request Person"]);
    world.set(A, "dev", PromotionState::Verified);
    world.pass(A);
    assert_eq!(waits(&world), ["Next kardinal Kardinal"]);
    world.set(A, "prod", PromotionState::Verified);
    world.pass(A);
    assert_eq!(waits(&world), [""; 0], "it has arrived");
}

#[test]
fn what_its_steps_wait_for_it_waits_for_too() {
    let opens = "2026-04-09T18:00:00Z".parse().unwrap();
    let cases = [
        (
            PromotionState::Pending,
            step::closed("hours", "hour = 10", Some(opens)),
            "`dev`: held by gate `hours`: hour = 10",
        ),
        (
            PromotionState::Promoting,
            step::outside("the forge does not answer"),
            "`dev`: the forge does not answer; trying again",
        ),
        (
            PromotionState::WaitingForMerge,
            step::pull_request(Some(3), Some("u"), step::reason::REVIEW),
            "`dev`: waiting for PR #3 to be merged (the pull request u)",
        ),
        (
            PromotionState::HealthChecking,
            step::health("dev", step::reason::CHECKING, "1 of 2"),
            "`dev`: checking health: 1 of 2",
        ),
        (
            PromotionState::Pending,
            step::ahead("b", "dev", "its PR #2 is open"),
            "`dev`: waiting for `b` to leave `dev`: its PR #2 is open",
        ),
    ];
    for (state, wait, said) in cases {
        let mut world = start();
        world.pass(A);
        let status = world.set(A, "dev", state);
        status.message = Some(step::message(std::slice::from_ref(&wait)));
        status.waits = vec![wait.clone()];
        status.pr_url = Some("u".to_owned());
        world.pass(A);
        let ready = world.ready(A);
        assert!(ready.ends_with(said), "{ready}");
        let waits = &world.bundle(A).status.as_ref().unwrap().waits;
        assert_eq!(waits.len(), 1);
        assert_eq!(why::environment(&waits[0]), Some("dev"));
        let wait =
            if wait.value_of("environment").is_some() { wait } else { wait.value("environment", "dev") };
        // The step tells the end of its check by another way.
        assert_eq!(waits[0], Wait { deadline: waits[0].deadline, ..wait });
        assert_eq!(waits[0].deadline.is_some(), state == PromotionState::HealthChecking, "{waits:?}");
    }
}

#[test]
fn a_gate_says_as_data_until_when_it_is_closed() {
    for (status, said) in [
        (
            "{ready: false, reason: x = 1, nextChangeAt: '2026-04-09T11:00:00Z'}",
            "Closed slow Time 2026-04-09T11:00:00Z",
        ),
        ("{ready: false, reason: x = 1}", "Closed slow Person"),
        ("{reason: is asked when dev is verified}", "NotAsked slow Kardinal"),
        ("~", "NotAsked slow Kardinal"),
    ] {
        let world = at_a_gate(status, "~");
        assert_eq!(waits(&world), [said]);
    }
}
