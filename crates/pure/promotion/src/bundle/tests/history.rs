//! Which Bundles give way, and which are kept.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleType, PromotionState};

use super::world::{World, bundle, intended, line, now, pipeline, yaml};
use crate::bundle::{Commit, Effect, OFFER_AGAIN, refused, search};

const OLD: &str = "my-app-v1-1712567890";
const NEW: &str = "my-app-v2-1712567999";

/// A Bundle made so many seconds after the others.
fn later(mut bundle: Bundle, seconds: i64) -> Bundle {
    bundle.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_secs(seconds)));
    bundle
}

fn two(new: Bundle) -> World {
    let mut world = World::new(line(&["dev", "staging", "prod"]), vec![bundle(OLD), later(new, 5)]);
    world.pass(OLD);
    world
}

#[test]
fn a_graph_that_cannot_be_deleted_holds_up_no_record() {
    let mut world = two(bundle(NEW));
    world.set(OLD, "dev", PromotionState::HealthChecking);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
    // What was on its way arrives before the Graph goes.
    world.set(OLD, "dev", PromotionState::Verified);
    let plan = world.plan(OLD);
    assert!(plan.status.is_some(), "{plan:?}");
    let answer = world.decide(OLD, |snapshot| refused(snapshot, plan.effects()[0], "forbidden"));
    assert!(answer.effects().is_empty());
    assert_eq!((answer.status, answer.wake), (plan.status, Some(world.now + OFFER_AGAIN)));
}

#[test]
fn steps_of_a_bundle_that_had_the_same_name_say_nothing_of_this_one() {
    let mut world = two(bundle(NEW));
    for environment in ["dev", "staging", "prod"] {
        let status = world.set(NEW, environment, PromotionState::Verified);
        status.outputs.insert("bundleUid".to_owned(), "that-of-the-deleted-one".to_owned());
    }
    world.pass(NEW);
    assert_eq!(world.phase(NEW), Some(BundlePhase::Promoting));
    assert!(world.bundle_mut(NEW).status.as_ref().unwrap().environments.is_empty());
}

#[test]
fn a_newer_bundle_takes_over() {
    let mut world = two(bundle(NEW));
    world.set(OLD, "dev", PromotionState::Verified);
    assert!(world.pass(OLD).effects().is_empty());
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting), "the newer one has not started");
    world.pass(NEW);
    let plan = world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
    assert_eq!(
        world.ready(OLD),
        format!("False Superseded: `{NEW}` is newer and goes to the same environments")
    );
    assert!(plan.effects().is_empty(), "first the status");
    let plan = world.pass(OLD);
    assert!(matches!(plan.effects().as_slice(), [Effect::DeleteGraph { name, .. }] if name == "my-app-v1"));
    assert_eq!(world.graphs.len(), 1);
    assert!(world.pass(OLD).effects().is_empty());
    assert_eq!(world.phase(NEW), Some(BundlePhase::Promoting));
}

#[test]
fn one_that_has_not_started_gives_way_too() {
    let mut world = World::new(line(&["dev"]), vec![bundle(OLD), later(bundle(NEW), 5)]);
    world.pass(NEW);
    let plan = world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
    assert!(plan.effects().is_empty());
}

/// Whether the older Bundle stays on its way when this newer one has started.
fn stays(new: Bundle) -> bool {
    let mut world = two(new);
    world.pass(NEW);
    world.pass(OLD);
    world.phase(OLD) == Some(BundlePhase::Promoting)
}

#[test]
fn it_gives_way_only_to_one_that_does_the_same() {
    assert!(!stays(bundle(NEW)));
    assert!(stays(intended(NEW, "{target: staging}")), "prod would get nothing");
    assert!(stays(intended(NEW, "{skip: [dev]}")));
    let mut config = bundle(NEW);
    config.spec.kind = Some(BundleType::Config);
    assert!(stays(config));
    let mut mixed = bundle(NEW);
    mixed.spec.kind = Some(BundleType::Mixed);
    assert!(!stays(mixed), "it carries images too");
}

fn config(name: &str) -> Bundle {
    let mut bundle = bundle(name);
    bundle.spec.kind = Some(BundleType::Config);
    bundle.spec.artifacts =
        yaml("{gitCommit: {repository: 'https://github.com/myorg/config', sha: abc123def456}}");
    bundle
}

#[test]
fn one_whose_commit_is_not_there_takes_nobodys_place() {
    let mut world = World::new(line(&["dev", "prod"]), vec![config(OLD), later(config(NEW), 5)]);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting));
    world.commit = Commit::Unknown;
    let found = world.decide(NEW, search).unwrap();
    let plan = world.pass(NEW);
    assert_eq!((found.commit.sha.as_str(), found.steps.len()), ("abc123def456", 2));
    assert!(plan.effects().is_empty() && world.phase(NEW).is_none(), "first it is looked for");

    world.commit = Commit::Unreachable("connection refused".to_owned());
    let plan = world.pass(NEW);
    assert!(plan.effects().is_empty() && plan.wake > Some(world.now), "{plan:?}");
    assert_eq!(world.phase(NEW), Some(BundlePhase::Available));
    assert_eq!(
        world.ready(NEW),
        "False CommitUnknown: waits to learn whether `https://github.com/myorg/config` has the commit \
         `abc123def456`: connection refused"
    );
    assert!(world.pass(NEW).status.is_none(), "it says so once");
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting));

    world.commit = Commit::Missing("no commit begins with `abc123def456`".to_owned());
    let plan = world.pass(NEW);
    assert!(plan.effects().is_empty(), "{plan:?}");
    assert_eq!(world.phase(NEW), Some(BundlePhase::Failed));
    assert_eq!(
        world.ready(NEW),
        "False CommitNotFound: `spec.artifacts.gitCommit.sha` of the Bundle cannot be used: no commit begins with \
         `abc123def456`"
    );
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting));
}

#[test]
fn a_commit_is_looked_for_once_and_only_where_it_is_taken_over() {
    for commit in [Commit::Found, Commit::Elsewhere] {
        let mut world = World::new(line(&["dev"]), vec![config(NEW)]);
        world.commit = commit;
        world.pass(NEW);
        assert_eq!(world.phase(NEW), Some(BundlePhase::Promoting));
        world.commit = Commit::Missing("it was taken away".to_owned());
        world.graphs.clear();
        let plan = world.pass(NEW);
        assert!(matches!(plan.effects().as_slice(), [Effect::CreateGraph(_)]), "it has started: {plan:?}");
    }
    let calls = "    - {name: dev, steps: [{uses: my-task, config: {url: 'https://tasks.example.com'}}]}\n";
    let mut world = World::new(pipeline(calls), vec![config(NEW)]);
    world.commit = Commit::Unknown;
    assert_eq!(world.decide(NEW, search), None, "the task alone knows what to do with it");
    let mut world = World::new(line(&["dev"]), vec![bundle(NEW)]);
    world.commit = Commit::Unknown;
    assert_eq!(world.decide(NEW, search), None, "an image is no commit");
}

#[test]
fn what_is_in_an_environment_is_judged_until_the_newer_one_stands_before_it() {
    let mut world = two(bundle(NEW));
    for environment in ["dev", "staging"] {
        world.set(OLD, environment, PromotionState::Verified);
    }
    world.set(OLD, "prod", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(NEW);
    world.set(NEW, "dev", PromotionState::Promoting);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting), "nobody else finds out whether prod is well");
    world.set(OLD, "prod", PromotionState::Failed);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Failed));

    let mut world = two(bundle(NEW));
    for environment in ["dev", "staging"] {
        world.set(OLD, environment, PromotionState::Verified);
    }
    world.set(OLD, "prod", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(NEW);
    world.set(NEW, "prod", PromotionState::Pending);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded), "the newer one takes prod over");

    // One that would go on from there is not kept: it would carry the older version further.
    let mut world = two(bundle(NEW));
    world.set(OLD, "dev", PromotionState::Verified);
    world.set(OLD, "staging", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(NEW);
    world.set(NEW, "dev", PromotionState::Promoting);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded), "prod is not its any more");

    // The first environment goes to the newer one at once: a fix does not wait for what it mends.
    let mut world = two(bundle(NEW));
    world.set(OLD, "dev", PromotionState::HealthChecking).promoted_at = Some(now());
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
}

#[test]
fn who_is_told_to_give_way_does_and_nobody_else() {
    let all = ["dev", "staging", "prod"];
    for (reached, gives_way) in [(0, true), (1, true), (2, false)] {
        for pinned in [false, true] {
            let mut world = two(bundle(NEW));
            for environment in &all[..reached] {
                world.set(OLD, environment, PromotionState::Verified);
            }
            world.set(OLD, all[reached], PromotionState::HealthChecking).promoted_at = Some(now());
            let pin = yaml(&format!("{{kardinal.io/pin: '{pinned}'}}"));
            world.bundle_mut(OLD).metadata.annotations = Some(pin);
            world.pass(OLD);
            let pipeline = world.pipeline.clone().unwrap();
            let answer = crate::bundle::gives_way(&pipeline, world.bundle(OLD), world.bundle(NEW));
            world.pass(NEW);
            world.pass(OLD);
            let gave_way = world.phase(OLD) == Some(BundlePhase::Superseded);
            assert_eq!(gave_way, gives_way && !pinned, "{}, pinned: {pinned}", all[reached]);
            assert_eq!(answer, gave_way, "{}, pinned: {pinned}", all[reached]);
        }
    }
}

#[test]
fn environments_that_are_verified_need_nobody_else() {
    let mut world = two(intended(NEW, "{skip: [dev]}"));
    world.set(OLD, "dev", PromotionState::Verified);
    world.pass(OLD);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
}

#[test]
fn the_pin_is_honoured() {
    let mut world = two(bundle(NEW));
    world.bundle_mut(OLD).metadata.annotations = Some(yaml("{kardinal.io/pin: 'true'}"));
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Promoting));
    world.bundle_mut(OLD).metadata.annotations = Some(yaml("{kardinal.io/pin: 'false'}"));
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Superseded));
}

#[test]
fn the_older_one_never_takes_over() {
    let mut world = two(bundle(NEW));
    world.pass(NEW);
    world.pass(NEW);
    assert_eq!(world.phase(NEW), Some(BundlePhase::Promoting));
    // Of the same second: the name decides, so exactly one gives way.
    let mut world = World::new(line(&["dev"]), vec![bundle(OLD), bundle(NEW)]);
    for _ in 0..3 {
        world.pass(OLD);
        world.pass(NEW);
    }
    assert_eq!(
        (world.phase(OLD), world.phase(NEW)),
        (Some(BundlePhase::Superseded), Some(BundlePhase::Promoting))
    );
}

#[test]
fn a_failure_is_told_even_when_a_newer_one_has_come() {
    let mut world = two(bundle(NEW));
    world.set(OLD, "dev", PromotionState::Failed);
    world.pass(NEW);
    world.pass(OLD);
    assert_eq!(world.phase(OLD), Some(BundlePhase::Failed));
}

/// Bundles `b-0` … that were verified one after the other.
fn history(count: usize, limit: u32) -> World {
    let mut pipeline = line(&["dev"]);
    pipeline.spec.history_limit = Some(limit);
    let mut world = World::new(pipeline, Vec::new());
    for at in 0..count {
        let name = format!("b-{at}");
        let seconds = i64::try_from(at).unwrap();
        world.bundles.push(later(bundle(&name), seconds));
        world.verify(&name, &["dev"]);
    }
    world
}

fn left(world: &mut World) -> Vec<String> {
    let names: Vec<String> = world.bundles.iter().filter_map(|b| b.metadata.name.clone()).collect();
    for name in names {
        world.pass(&name);
    }
    world.bundles.iter().filter_map(|b| b.metadata.name.clone()).collect()
}

#[test]
fn the_oldest_go_beyond_the_limit() {
    assert_eq!(left(&mut history(3, 3)), ["b-0", "b-1", "b-2"]);
    assert_eq!(left(&mut history(5, 3)), ["b-2", "b-3", "b-4"]);
    assert_eq!(left(&mut history(4, 1)), ["b-3"]);
}

#[test]
fn what_a_rollback_needs_stays() {
    let mut world = history(4, 1);
    world.bundle_mut("b-1").metadata.annotations = Some(yaml("{kardinal.io/pin: 'true'}"));
    // Later ones failed before they were verified: the last good one is old.
    for name in ["b-2", "b-3"] {
        let status = world.bundle_mut(name).status.as_mut().unwrap();
        status.phase = Some(BundlePhase::Failed);
        status.environments.get_mut("dev").unwrap().verified_at = None;
    }
    world.bundle_mut("b-1").status.as_mut().unwrap().environments.clear();
    world.steps.clear();
    assert_eq!(left(&mut world), ["b-0", "b-1", "b-3"]);
}

#[test]
fn what_an_environment_has_of_another_kind_stays() {
    let mut world = history(4, 1);
    let mut first = world.bundles.remove(0);
    first.spec.kind = Some(BundleType::Config);
    world.bundles.insert(0, first);
    assert_eq!(left(&mut world), ["b-0", "b-3"], "the images that came later replace no configuration");
    // One that came last and was never found healthy is what the environment has.
    let mut world = history(3, 1);
    let status = world.bundle_mut("b-1").status.as_mut().unwrap();
    status.phase = Some(BundlePhase::Superseded);
    let entry = status.environments.get_mut("dev").unwrap();
    entry.promoted_at = Some(now() + SignedDuration::from_hours(9));
    (entry.verified_at, entry.state) = (None, Some(PromotionState::HealthChecking));
    world.steps.clear();
    assert_eq!(left(&mut world), ["b-1", "b-2"]);
}

#[test]
fn what_a_step_has_just_brought_is_on_record_before_its_bundle_is_judged_as_history() {
    let mut world = history(3, 1);
    // The first one comes again, and its record does not say so yet.
    world.set("b-0", "dev", PromotionState::HealthChecking).promoted_at =
        Some(now() + SignedDuration::from_hours(9));
    let entry = world.bundle_mut("b-0").status.as_mut().unwrap().environments.get_mut("dev").unwrap();
    (entry.verified_at, entry.state, entry.promoted_at) = (None, Some(PromotionState::Promoting), None);
    let plan = world.plan("b-0");
    assert!(plan.effects().is_empty() && plan.status.is_some(), "{plan:?}");
    assert!(left(&mut world).contains(&"b-0".to_owned()));
}

#[test]
fn those_on_their_way_do_not_count() {
    let mut world = history(2, 1);
    world.bundles.push(later(intended("b-9", "{target: dev}"), 9));
    world.pass("b-9");
    assert_eq!(left(&mut world), ["b-1", "b-9"]);
    world.pipeline = None;
    assert_eq!(left(&mut world), ["b-1", "b-9"], "nobody says how many");
}
