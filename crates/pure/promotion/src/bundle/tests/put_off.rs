//! A rollback that is put off because a newer Bundle is on its way to the environment.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{Bundle, BundlePhase, PromotionState};

use super::world::{World, bundle, line, now};
use crate::bundle::{Effect, OFFER_AGAIN, Plan, refusal, refused};

const GOOD: &str = "my-app-v1";
const BAD: &str = "my-app-v2";
const NEWER: &str = "my-app-v3";
const NEWEST: &str = "my-app-v4";

fn versioned(name: &str, seconds: i64) -> Bundle {
    let mut bundle = bundle(name);
    bundle.spec.artifacts.images[0].reference = format!("ghcr.io/myorg/{}", name.replace("-v", ":"));
    bundle.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_secs(seconds)));
    bundle
}

/// `BAD` has failed in `prod` while `NEWER` was in `dev`. The clock of the forge is behind: by its time `BAD` came before
/// anything was verified.
fn world() -> World {
    let bundles = vec![versioned(GOOD, 0), versioned(BAD, 5), versioned(NEWER, 9)];
    let mut world = World::new(line(&["dev", "staging", "prod"]), bundles);
    world.verify(GOOD, &["dev", "staging", "prod"]);
    world.verify(BAD, &["dev", "staging"]);
    world.set(BAD, "prod", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(BAD);
    world.pass(NEWER);
    world.set(NEWER, "dev", PromotionState::Promoting);
    world.pass(NEWER);
    world.pass(BAD);
    assert_eq!(
        world.phase(BAD),
        Some(BundlePhase::Promoting),
        "somebody has to find out whether prod is well"
    );
    fail(&mut world, BAD, "prod");
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert!(plan.notes.iter().any(|note| note.reason == "NewerOnItsWay"), "{plan:?}");
    assert_eq!(world.phase(BAD), Some(BundlePhase::Failed));
    assert_eq!(put_off(&world), waits_for(NEWER));
    assert!(is_idle(&world.pass(BAD)));
    world
}

fn fail(world: &mut World, bundle: &str, environment: &str) {
    let at = world.now + SignedDuration::from_secs(60);
    let status = world.set(bundle, environment, PromotionState::Failed);
    (status.message, status.failed_at) = (Some("not healthy".to_owned()), Some(at));
}

fn waits_for(newer: &str) -> String {
    format!("True NewerOnItsWay: `prod` is not rolled back as long as `{newer}` is on its way there")
}

/// What is said of the rollback that is put off.
fn put_off(world: &World) -> String {
    let status = world.bundle(BAD).status.as_ref().unwrap();
    let condition = status.conditions.iter().find(|condition| condition.type_ == "RollbackPutOff").unwrap();
    format!("{} {}: {}", condition.status, condition.reason, condition.message)
}

fn is_idle(plan: &Plan) -> bool {
    plan.effects().is_empty() && plan.status.is_none() && plan.notes.is_empty()
}

/// The rollback that a plan makes.
fn made(plan: &Plan) -> &Bundle {
    match plan.effects().as_slice() {
        [Effect::CreateBundle(bundle)] => bundle,
        other => panic!("{other:?}"),
    }
}

/// `BAD` makes exactly one Bundle that brings `prod` back, and says so.
fn comes_back(world: &mut World, why: &str) {
    let plan = world.pass(BAD);
    let back = made(&plan);
    assert_eq!(back.spec.intent.as_ref().unwrap().target.as_deref(), Some("prod"), "{why}");
    assert_eq!(back.spec.artifacts, world.bundle(GOOD).spec.artifacts, "{why}");
    assert_eq!(back.spec.provenance.as_ref().unwrap().rollback_of.as_deref(), Some(BAD), "{why}");
    assert!(plan.notes.iter().any(|note| note.reason == "RollingBack"), "{why}: {plan:?}");
    assert!(
        put_off(world).starts_with("False RollingBack: `prod` goes back to what `my-app-v1` brought"),
        "{why}"
    );
    assert_eq!(world.phase(BAD), Some(BundlePhase::Failed), "{why}");
    assert_eq!(world.ready(BAD), "False StepFailed: prod: not healthy", "{why}");
    let name = back.metadata.name.clone().unwrap();
    assert!(is_idle(&world.pass(BAD)), "{why}");
    // Somebody may not want it.
    world.bundles.retain(|bundle| bundle.metadata.name.as_ref() != Some(&name));
    assert!(is_idle(&world.pass(BAD)), "{why}");
}

#[test]
fn a_version_that_failed_is_taken_back_when_the_newer_one_ends_before_it_arrives() {
    let mut world = world();
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    comes_back(&mut world, "it has failed");

    let mut world = self::world();
    world.bundle_mut(NEWER).metadata.deletion_timestamp = Some(Time(now()));
    comes_back(&mut world, "it is being deleted");

    let mut world = self::world();
    world.bundles.retain(|bundle| bundle.metadata.name.as_deref() != Some(NEWER));
    comes_back(&mut world, "it is gone");

    let mut world = self::world();
    world.bundle_mut(NEWER).status.as_mut().unwrap().phase = Some(BundlePhase::Superseded);
    comes_back(&mut world, "it was taken back in dev");

    // It stands before prod, and somebody closes its pull request.
    let mut world = self::world();
    for environment in ["dev", "staging"] {
        world.set(NEWER, environment, PromotionState::Verified);
    }
    world.pass(NEWER);
    assert!(is_idle(&world.pass(BAD)));
    world.set(NEWER, "prod", PromotionState::Failed).outputs.insert("rejected".to_owned(), "true".to_owned());
    world.pass(NEWER);
    comes_back(&mut world, "it was rejected");
}

/// The rollback that `NEWER` makes of `dev`, and the one that was put off, both on their way.
fn two_ways_back() -> (World, String, String) {
    let mut world = world();
    world.set(NEWER, "dev", PromotionState::HealthChecking);
    world.set(NEWER, "dev", PromotionState::Failed);
    let less = made(&world.pass(NEWER)).clone();
    assert_eq!(less.spec.intent.as_ref().unwrap().target.as_deref(), Some("dev"));
    assert_eq!(less.spec.artifacts, world.bundle(BAD).spec.artifacts, "dev was healthy with it");
    let less = less.metadata.name.unwrap();
    let further = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    (world, less, further)
}

#[test]
fn the_rollback_that_goes_further_wins_whenever_it_was_made() {
    // By the server's clock the one that was put off is made in the second of the other one, after it, or before it.
    for seconds in [0, 1, -1] {
        for first in [true, false] {
            let (mut world, less, further) = two_ways_back();
            assert!(less > further, "of one second, the names alone would decide otherwise");
            let made = world.bundle(&less).metadata.creation_timestamp.clone().unwrap().0;
            let at = made + SignedDuration::from_secs(seconds);
            world.bundle_mut(&further).metadata.creation_timestamp = Some(Time(at));
            let order = if first { [&further, &less, &further] } else { [&less, &further, &less] };
            for name in order {
                world.pass(name);
            }
            assert_eq!(
                (world.phase(&further), world.phase(&less)),
                (Some(BundlePhase::Promoting), Some(BundlePhase::Superseded)),
                "{seconds} s, first: {first}"
            );
        }
    }
}

#[test]
fn a_rollback_from_before_a_version_does_not_stand_for_taking_that_one_back() {
    // Also where both were created in one second.
    for same_second in [false, true] {
        taken_back_after_another_one(same_second);
    }
}

fn taken_back_after_another_one(same_second: bool) {
    let bundles = vec![versioned(GOOD, 0), versioned(BAD, 5)];
    let mut world = World::new(line(&["dev"]), bundles);
    world.verify(GOOD, &["dev"]);
    world.pass(BAD);
    world.set(BAD, "dev", PromotionState::HealthChecking);
    fail(&mut world, BAD, "dev");
    let first = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    world.verify(&first, &["dev"]);
    assert_eq!(world.phase(&first), Some(BundlePhase::Verified));
    let mut newer = versioned(NEWER, 0);
    newer.metadata.creation_timestamp = match same_second {
        true => world.bundle(&first).metadata.creation_timestamp.clone(),
        false => Some(Time(world.now)),
    };
    world.bundles.push(newer);
    world.pass(NEWER);
    assert_eq!(world.phase(NEWER), Some(BundlePhase::Promoting));
    world.set(NEWER, "dev", PromotionState::HealthChecking);
    fail(&mut world, NEWER, "dev");
    let second = made(&world.pass(NEWER)).metadata.name.clone().unwrap();
    world.pass(&second);
    assert_eq!(world.phase(&second), Some(BundlePhase::Promoting));
}

#[test]
fn a_rollback_that_was_made_before_a_crash_is_not_made_again() {
    let mut world = world();
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let status = world.bundle(BAD).status.clone();
    let back = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    // What it has written down is lost.
    world.bundle_mut(BAD).status = status;
    world.pass(&back);
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert_eq!(put_off(&world), format!("False RollingBack: `prod` goes back with the Bundle `{back}`"));
    assert!(is_idle(&world.pass(BAD)));
}

#[test]
fn one_that_has_arrived_is_answerable_for_the_environment() {
    let mut world = world();
    let before = world.bundle(BAD).status.as_ref().unwrap().conditions.clone();
    for environment in ["dev", "staging"] {
        world.set(NEWER, environment, PromotionState::Verified);
    }
    world.set(NEWER, "prod", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(NEWER);
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty() && plan.notes.is_empty(), "{plan:?}");
    assert_eq!(put_off(&world), "False RollbackNotNeeded: `prod` has another version now");
    fail(&mut world, NEWER, "prod");
    let plan = world.pass(NEWER);
    // The same if that is all that is seen of it.
    world.bundle_mut(BAD).status.as_mut().unwrap().conditions = before;
    assert!(world.pass(BAD).effects().is_empty());
    assert_eq!(put_off(&world), "False RollbackNotNeeded: `prod` has another version now");
    assert_eq!(made(&plan).spec.artifacts, world.bundle(GOOD).spec.artifacts);
    assert!(is_idle(&world.pass(BAD)));
    // The same if it is gone, and only the Pipeline knows.
    let mut world = self::world();
    world.bundles.retain(|bundle| bundle.metadata.name.as_deref() != Some(NEWER));
    world.pipeline.as_mut().unwrap().status = Some(super::world::yaml(&format!(
        "{{environments: [{{environment: prod, type: image, bundle: {NEWER}, version: '3', promotedAt: '{}'}}]}}",
        world.now
    )));
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert_eq!(put_off(&world), "False RollbackNotNeeded: `prod` has another version now");
}

#[test]
fn it_stays_put_off_while_somebody_else_is_on_the_way() {
    let mut world = world();
    world.bundles.push(versioned(NEWEST, 15));
    world.pass(NEWEST);
    world.pass(NEWER);
    assert_eq!(world.phase(NEWER), Some(BundlePhase::Superseded));
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert_eq!(put_off(&world), waits_for(NEWEST));
    assert!(is_idle(&world.pass(BAD)));
    // Nobody knows what is wanted without the Pipeline.
    let pipeline = world.pipeline.take();
    world.set(NEWEST, "dev", PromotionState::Failed);
    world.pass(NEWEST);
    assert!(is_idle(&world.pass(BAD)));
    world.pipeline = pipeline;
    comes_back(&mut world, "the Pipeline is there again");
}

#[test]
fn a_rollback_by_hand_that_has_failed_is_not_tried_again() {
    let mut world = world();
    let mut back = crate::intent::automatic_rollback(world.bundle(BAD), "prod", world.bundle(GOOD), &[]);
    back.metadata.annotations = None;
    back.metadata.name = Some("by-hand".to_owned());
    back.metadata.creation_timestamp = versioned(NEWEST, 15).metadata.creation_timestamp;
    world.bundles.push(back);
    world.pass("by-hand");
    world.pass(NEWER);
    world.pass(BAD);
    assert_eq!(put_off(&world), waits_for("by-hand"));
    world.set("by-hand", "dev", PromotionState::Failed);
    world.pass("by-hand");
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert_eq!(
        put_off(&world),
        "False RollbackFailed: `by-hand` was to take it back in `prod` and has failed"
    );
    assert!(is_idle(&world.pass(BAD)));
}

#[test]
fn a_late_rollback_that_the_server_does_not_take_is_told_and_offered_again() {
    let mut world = world();
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let plan = world.plan(BAD);
    let answer = world.decide(BAD, |snapshot| refused(snapshot, plan.effects()[0], "exceeded quota"));
    assert!(answer.effects().is_empty());
    assert_eq!(answer.wake, Some(world.now + OFFER_AGAIN));
    assert!(answer.notes.iter().any(|note| note.warning && note.reason == "RollbackRefused"));
    world.bundle_mut(BAD).status = answer.status;
    assert_eq!(world.ready(BAD), "False StepFailed: prod: not healthy", "why it failed stays on record");
    assert!(put_off(&world).starts_with("True RollbackRefused: the API server does not take the Bundle"));
    assert!(refusal(world.bundle(BAD)).is_some_and(|said| said.detail.contains("exceeded quota")));
    let again = world.decide(BAD, |snapshot| refused(snapshot, plan.effects()[0], "exceeded quota"));
    assert!(again.status.is_none() && again.notes.is_empty(), "it says so once");
    comes_back(&mut world, "the server takes it");
    assert!(refusal(world.bundle(BAD)).is_none());
}

/// `BAD` has failed in `prod`, its rollback waits there for people, and `NEWER` takes the place of that.
fn given_way() -> (World, String) {
    let bundles = vec![versioned(GOOD, 0), versioned(BAD, 5)];
    let mut world = World::new(line(&["dev", "staging", "prod"]), bundles);
    world.verify(GOOD, &["dev", "staging", "prod"]);
    world.verify(BAD, &["dev", "staging"]);
    world.set(BAD, "prod", PromotionState::HealthChecking);
    world.pass(BAD);
    fail(&mut world, BAD, "prod");
    let back = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    world.pass(&back);
    for environment in ["dev", "staging"] {
        world.set(&back, environment, PromotionState::Verified);
    }
    world.set(&back, "prod", PromotionState::WaitingForMerge);
    world.pass(&back);
    assert!(is_idle(&world.pass(BAD)));
    add(&mut world, NEWER);
    assert_eq!(world.phase(&back), Some(BundlePhase::Promoting));
    world.pass(&back);
    assert_eq!(world.phase(&back), Some(BundlePhase::Superseded));
    world.pass(BAD);
    assert_eq!(put_off(&world), waits_for(NEWER));
    assert!(is_idle(&world.pass(BAD)));
    (world, back)
}

/// A new version sets out.
fn add(world: &mut World, name: &str) {
    let mut newer = versioned(name, 0);
    world.now += SignedDuration::from_secs(10);
    newer.metadata.creation_timestamp = Some(Time(world.now));
    world.bundles.push(newer);
    world.pass(name);
    world.set(name, "dev", PromotionState::Promoting);
    world.pass(name);
}

#[test]
fn a_rollback_that_gave_way_to_a_newer_version_is_made_again_when_that_one_fails() {
    let (mut world, back) = given_way();
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let again = made(&world.pass(BAD)).clone();
    assert_ne!(again.metadata.name.as_ref(), Some(&back));
    assert_eq!(again.spec, world.bundle(&back).spec);
    assert!(put_off(&world).starts_with("False RollingBack: "), "{}", put_off(&world));
    assert!(is_idle(&world.pass(BAD)));
    // The next one comes, and fails, too: once more, under another name, also if the first ones are history.
    let again = again.metadata.name.unwrap();
    world.pass(&again);
    add(&mut world, NEWEST);
    world.pass(&again);
    world.pass(BAD);
    assert_eq!(put_off(&world), waits_for(NEWEST));
    world.bundles.retain(|bundle| bundle.metadata.name.as_ref() != Some(&back));
    world.set(NEWEST, "dev", PromotionState::Failed);
    world.pass(NEWEST);
    let third = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    assert_ne!(third, again);
    assert!(is_idle(&world.pass(BAD)));
    // Somebody may not want it: it stays deleted, although one that gave way is still there.
    assert_eq!(world.phase(&again), Some(BundlePhase::Superseded));
    world.bundles.retain(|bundle| bundle.metadata.name.as_ref() != Some(&third));
    assert!(is_idle(&world.pass(BAD)));
    // The same for one that is not the Pipeline's any more.
    let (mut world, _) = given_way();
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let again = made(&world.pass(BAD)).metadata.name.clone().unwrap();
    assert_eq!(world.bundle(BAD).status.as_ref().unwrap().rollbacks["prod"], again);
    let elsewhere = world.bundles.pop().unwrap();
    assert_eq!(elsewhere.metadata.name.as_ref(), Some(&again));
    assert!(is_idle(&world.pass(BAD)));
}

#[test]
fn a_rollback_that_gave_way_is_settled_when_the_newer_version_has_come() {
    let (mut world, _) = given_way();
    for environment in ["dev", "staging", "prod"] {
        world.set(NEWER, environment, PromotionState::Verified);
    }
    world.pass(NEWER);
    assert!(world.pass(BAD).effects().is_empty());
    assert_eq!(put_off(&world), "False RollbackNotNeeded: `prod` has another version now");
    assert!(is_idle(&world.pass(BAD)));
}

#[test]
fn a_newer_version_that_was_there_before_keeps_no_environment_from_going_back() {
    let mut bad = versioned(BAD, 5);
    bad.metadata.annotations = Some([("kardinal.io/pin".to_owned(), "true".to_owned())].into());
    let mut world = World::new(line(&["dev", "prod"]), vec![versioned(GOOD, 0), bad]);
    world.verify(GOOD, &["dev", "prod"]);
    world.verify(BAD, &["dev"]);
    add(&mut world, NEWER);
    world.verify(NEWER, &["dev", "prod"]);
    assert_eq!(world.phase(NEWER), Some(BundlePhase::Verified));
    // What was pinned goes on only now, and is not well.
    world.set(BAD, "prod", PromotionState::HealthChecking);
    world.pass(BAD);
    fail(&mut world, BAD, "prod");
    let plan = world.pass(BAD);
    let back = made(&plan);
    assert_eq!(back.spec.artifacts, world.bundle(NEWER).spec.artifacts);
    assert_eq!(back.spec.intent.as_ref().unwrap().target.as_deref(), Some("prod"));
}

#[test]
fn what_was_not_put_off_is_not_made_again() {
    // Both are last on their way: `us` is put off, for `NEWER` goes there alone.
    let pipeline = super::world::yaml(
        "{apiVersion: kardinal.io/v1alpha1, kind: Pipeline, metadata: {name: my-app, namespace: default}, spec: {
           git: {url: 'https://github.com/myorg/gitops'}, environments: [
             {name: dev}, {name: eu, dependsOn: [dev]}, {name: us, dependsOn: [dev]}]}}",
    );
    let mut newer = versioned(NEWER, 9);
    newer.spec.intent = Some(super::world::yaml("{target: us, skip: []}"));
    let mut world = World::new(pipeline, vec![versioned(GOOD, 0), versioned(BAD, 5), newer]);
    world.verify(GOOD, &["dev", "eu", "us"]);
    world.verify(BAD, &["dev"]);
    for environment in ["eu", "us"] {
        world.set(BAD, environment, PromotionState::HealthChecking);
    }
    world.pass(BAD);
    world.pass(NEWER);
    world.set(NEWER, "dev", PromotionState::Promoting);
    world.pass(NEWER);
    fail(&mut world, BAD, "eu");
    fail(&mut world, BAD, "us");
    let eu = made(&world.pass(BAD)).clone();
    assert_eq!(eu.spec.intent.as_ref().unwrap().target.as_deref(), Some("eu"));
    assert_eq!(world.bundle(BAD).status.as_ref().unwrap().rollbacks_put_off, ["us"]);
    // Somebody does not want it.
    world.bundles.retain(|bundle| bundle.metadata.name != eu.metadata.name);
    assert!(is_idle(&world.pass(BAD)));
    world.set(NEWER, "dev", PromotionState::Failed);
    world.pass(NEWER);
    let us = made(&world.pass(BAD)).clone();
    assert_eq!(us.spec.intent.as_ref().unwrap().target.as_deref(), Some("us"));
    assert!(world.bundle(BAD).status.as_ref().unwrap().rollbacks_put_off.is_empty());
}
