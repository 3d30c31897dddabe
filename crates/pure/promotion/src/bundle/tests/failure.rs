//! What a failed Bundle says of itself follows from its record alone.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleStatus, DeletedPredecessor, PromotionState};

use super::world::{World, bundle, line, now, pipeline};
use crate::pipeline as planner;

const GOOD: &str = "my-app-v1";
const GONE: &str = "my-app-v1-5";
const BAD: &str = "my-app-v2";
const NEWER: &str = "my-app-v3";

fn versioned(name: &str, tag: &str, seconds: i64) -> Bundle {
    let mut bundle = bundle(name);
    bundle.spec.artifacts.images[0].reference = format!("ghcr.io/myorg/my-app:{tag}");
    bundle.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_secs(seconds)));
    bundle
}

fn status(world: &mut World) -> &mut BundleStatus {
    world.bundle_mut(BAD).status.as_mut().unwrap()
}

fn fail(world: &mut World, environment: &str, said: &str) {
    world.set(BAD, environment, PromotionState::Failed).message = Some(said.to_owned());
}

fn reject(world: &mut World, environment: &str, said: &str) {
    fail(world, environment, said);
    let status = world.set(BAD, environment, PromotionState::Failed);
    status.outputs.insert("rejected".to_owned(), "true".to_owned());
}

/// Its pull request was merged although it had been closed.
fn merge(world: &mut World, environment: &str, said: &str) {
    fail(world, environment, said);
    world.set(BAD, environment, PromotionState::Failed).outputs.remove("rejected");
}

/// `BAD` was rejected in `eu` and in `us`, one of which says much the same as the other.
fn rejected_twice() -> World {
    let fan = "    - {name: dev}\n    - {name: eu, dependsOn: [dev]}\n    - {name: us, dependsOn: [dev]}\n";
    let mut world = World::new(pipeline(fan), vec![versioned(BAD, "2", 5)]);
    world.verify(BAD, &["dev"]);
    reject(&mut world, "eu", "closed; us: closed.");
    reject(&mut world, "us", "closed");
    world.pass(BAD);
    assert_eq!(world.ready(BAD), "False Rejected: eu: closed; us: closed; us: closed");
    world
}

#[test]
fn what_becomes_known_later_is_told_whatever_the_words_before_were_like() {
    let mut world = rejected_twice();
    assert_eq!(status(&mut world).failure.as_ref().unwrap().environments, ["eu", "us"]);
    merge(&mut world, "us", "closed, and merged all the same");
    world.pass(BAD);
    assert_eq!(
        world.ready(BAD),
        "False StepFailed: eu: closed; us: closed; us: closed, and merged all the same"
    );
    // What fails after the end is on record, and not why the Bundle ended.
    fail(&mut world, "dev", "broken since");
    merge(&mut world, "eu", "merged");
    world.pass(BAD);
    assert_eq!(world.ready(BAD), "False StepFailed: eu: merged; us: closed, and merged all the same");
}

#[test]
fn a_step_that_is_made_anew_does_not_make_its_bundle_forget_why_it_failed() {
    let mut world = rejected_twice();
    let before = world.ready(BAD);
    let made_anew = world.set(BAD, "us", PromotionState::Pending);
    made_anew.outputs.clear();
    made_anew.message = Some("waiting for the organisation's gates".to_owned());
    assert!(world.pass(BAD).status.is_some());
    assert_eq!(world.ready(BAD), before);
    reject(&mut world, "us", "closed before");
    world.pass(BAD);
    assert_eq!(world.ready(BAD), "False Rejected: eu: closed; us: closed; us: closed before");
}

#[test]
fn words_that_an_earlier_program_wrote_down_alone_stay() {
    let mut world = rejected_twice();
    let before = world.ready(BAD);
    status(&mut world).failure = None;
    merge(&mut world, "us", "merged all the same");
    let plan = world.plan(BAD);
    let written = plan.status.unwrap();
    assert_eq!(written.environments["us"].message.as_deref(), Some("merged all the same"));
    world.bundle_mut(BAD).status = Some(written);
    assert_eq!(world.ready(BAD), before);
}

/// The Pipeline writes down what its environments have.
fn note_down(world: &mut World) {
    let pipeline = world.pipeline.clone().unwrap();
    let bundles: Vec<&Bundle> = world.bundles.iter().collect();
    let plan = planner::plan(&planner::Snapshot {
        pipeline: &pipeline,
        steps: &[],
        bundles: &bundles,
        promoting: false,
        missing: None,
        now: world.now,
    });
    if let Some(status) = plan.status {
        world.pipeline.as_mut().unwrap().status = Some(status);
    }
}

/// `BAD` has failed in `prod`, which had `GONE` before; `NEWER`, on its way there, has put the rollback off.
fn put_off() -> World {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(GONE, "1.5", 3), versioned(BAD, "2", 5)];
    let mut world = World::new(line(&["dev", "prod"]), bundles);
    for name in [GOOD, GONE] {
        world.verify(name, &["dev", "prod"]);
        note_down(&mut world);
    }
    world.verify(BAD, &["dev"]);
    world.set(BAD, "prod", PromotionState::HealthChecking);
    world.pass(BAD);
    note_down(&mut world);
    let mut newer = versioned(NEWER, "3", 0);
    newer.metadata.creation_timestamp = Some(Time(world.now));
    world.bundles.push(newer);
    world.pass(NEWER);
    world.set(NEWER, "dev", PromotionState::Promoting);
    world.pass(NEWER);
    fail(&mut world, "prod", "not healthy");
    world.pass(BAD);
    assert_eq!(world.phase(BAD), Some(BundlePhase::Failed));
    assert_eq!(status(&mut world).rollbacks_put_off, ["prod"]);
    assert_eq!(world.ready(BAD), "False StepFailed: prod: not healthy");
    world
}

#[test]
fn what_is_lost_for_a_rollback_that_was_put_off_is_told_once_and_stays_told() {
    const LOST: &str = "`prod` cannot go back to `1.5`, which it had before, because the Bundle `my-app-v1-5` was deleted: \
                        it goes back to `1` instead";
    let mut world = put_off();
    world.bundles.retain(|bundle| bundle.metadata.name.as_deref() != Some(GONE));
    note_down(&mut world);
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let before = world.bundle(BAD).status.clone();
    world.pass(BAD);
    let said = format!("False StepFailed: prod: not healthy; {LOST}");
    assert_eq!(world.ready(BAD), said);
    let lost = DeletedPredecessor {
        environment: "prod".to_owned(),
        bundle: GONE.to_owned(),
        version: "1.5".to_owned(),
        instead: Some("1".to_owned()),
    };
    let known = |world: &mut World| status(world).failure.clone().unwrap().deleted_predecessors;
    assert_eq!(known(&mut world), std::slice::from_ref(&lost));
    fail(&mut world, "prod", "not healthy after all.");
    world.pass(BAD);
    assert_eq!(world.ready(BAD), format!("False StepFailed: prod: not healthy after all; {LOST}"));
    // One that was written down in part tells it once.
    world.bundle_mut(BAD).status = before;
    status(&mut world).failure.as_mut().unwrap().deleted_predecessors = vec![lost.clone()];
    world.pass(BAD);
    assert_eq!(known(&mut world), [lost]);
    // Without the data the words stay, and the condition of the rollback tells it.
    let mut world = put_off();
    status(&mut world).failure = None;
    world.bundles.retain(|bundle| bundle.metadata.name.as_deref() != Some(GONE));
    note_down(&mut world);
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let written = world.plan(BAD).status.unwrap();
    let put_off = written.conditions.iter().find(|one| one.type_ == "RollbackPutOff").unwrap();
    assert!(put_off.message.contains(LOST), "{}", put_off.message);
    world.bundle_mut(BAD).status = Some(written);
    assert_eq!(world.ready(BAD), "False StepFailed: prod: not healthy");
}
