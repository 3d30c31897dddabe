//! What happens to environments that received a failed Bundle.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{Bundle, BundlePhase, OnReject, PromotionState};

use super::world::{World, bundle, line, now, pipeline};
use crate::bundle::{Effect, OFFER_AGAIN, Plan, refusal, refused};

const GOOD: &str = "my-app-v1-1712567890";
const BAD: &str = "my-app-v2-1712567999";

fn versioned(name: &str, tag: &str, seconds: i64) -> Bundle {
    let mut bundle = bundle(name);
    bundle.spec.artifacts.images[0].reference = format!("ghcr.io/myorg/my-app:{tag}");
    bundle.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_secs(seconds)));
    bundle
}

/// A good Bundle everywhere, and a bad one that has started.
fn world() -> World {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(BAD, "2", 5)];
    let mut world = World::new(line(&["dev", "staging", "prod"]), bundles);
    world.verify(GOOD, &["dev", "staging", "prod"]);
    world.pass(BAD);
    world
}

fn created(plan: &Plan) -> Vec<&Bundle> {
    plan.effects()
        .into_iter()
        .map(|effect| match effect {
            Effect::CreateBundle(bundle) => bundle.as_ref(),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn targets(plan: &Plan) -> Vec<String> {
    created(plan).iter().map(|bundle| bundle.spec.intent.as_ref().unwrap().target.clone().unwrap()).collect()
}

/// Fails an environment, before or after the change reached it.
fn fail(world: &mut World, environment: &str, received: bool) {
    if received {
        world.set(BAD, environment, PromotionState::HealthChecking);
    }
    world.set(BAD, environment, PromotionState::Failed);
}

#[test]
fn the_environment_that_received_it_comes_back() {
    let mut world = world();
    world.set(BAD, "dev", PromotionState::Verified);
    fail(&mut world, "staging", true);
    let plan = world.plan(BAD);
    let made = created(&plan);
    assert_eq!(made.len(), 1, "dev is passed on the way");
    let back = made[0];
    assert_eq!(back.metadata.name.as_deref(), Some("my-app-v1-rollback-4bb6ac71"));
    assert_eq!(back.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(back.spec.artifacts, world.bundle(GOOD).spec.artifacts);
    assert_eq!(back.spec.intent.as_ref().unwrap().target.as_deref(), Some("staging"));
    assert_eq!(back.spec.provenance.as_ref().unwrap().rollback_of.as_deref(), Some(BAD));
    let labels = back.metadata.labels.as_ref().unwrap();
    assert_eq!(
        (labels["kardinal.io/rollback"].as_str(), labels["kardinal.io/pipeline"].as_str()),
        ("true", "my-app")
    );
    assert_eq!(back.metadata.annotations.as_ref().unwrap()["kardinal.io/automatic"], "true");
    assert!(plan.notes.iter().any(|note| note.reason == "RollingBack"));
    // Doing it again makes the same.
    assert_eq!(world.plan(BAD).effects(), plan.effects());
    world.pass(BAD);
    assert_eq!(world.bundles.len(), 3);
    assert!(world.pass(BAD).effects().is_empty());
}

#[test]
fn a_rollback_that_the_server_does_not_take_is_told_and_the_bundle_does_not_end_without_it() {
    let mut world = world();
    fail(&mut world, "dev", true);
    let plan = world.plan(BAD);
    let effect = plan.effects().into_iter().find(|effect| matches!(effect, Effect::CreateBundle(_))).unwrap();
    let answer = world.decide(BAD, |snapshot| refused(snapshot, effect, "exceeded quota: 10 Bundles"));
    assert!(answer.effects().is_empty());
    assert_eq!(answer.wake, Some(world.now + OFFER_AGAIN));
    assert!(answer.notes.iter().any(|note| note.warning && note.reason == "RollbackRefused"));
    world.bundle_mut(BAD).status = answer.status;
    let Effect::CreateBundle(back) = effect else { unreachable!() };
    assert_eq!(
        world.ready(BAD),
        format!(
            "False RollbackRefused: the API server does not take the Bundle `{}`, which rolls back: exceeded quota: 10 \
             Bundles",
            back.metadata.name.as_deref().unwrap()
        )
    );
    assert!(refusal(world.bundle(BAD)).is_some_and(|said| said.detail.contains("exceeded quota")));
    // What cannot be cleared away is offered again and changes no record.
    let left = Effect::DeleteGraph { name: "my-app".to_owned(), uid: "u".to_owned() };
    let kept = world.decide(BAD, |snapshot| refused(snapshot, &left, "forbidden"));
    assert!(kept.status.is_none() && kept.notes.is_empty() && kept.wake.is_some());
    // When it is taken, everything goes on as if nothing had been.
    assert_eq!(world.plan(BAD).effects(), plan.effects());
}

#[test]
fn a_rollback_of_the_same_second_is_not_superseded_by_what_it_takes_back() {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(BAD, "2", 5)];
    let mut world = World::new(line(&["dev"]), bundles);
    world.verify(GOOD, &["dev"]);
    world.pass(BAD);
    fail(&mut world, "dev", true);
    let back = created(&world.plan(BAD))[0].metadata.name.clone().unwrap();
    assert!(back.as_str() < BAD, "its name comes first");
    // The failure is not on record yet when the rollback is looked at.
    let status = world.bundle(BAD).status.clone();
    world.pass(BAD);
    world.bundle_mut(BAD).status = status;
    let made = world.bundle(BAD).metadata.creation_timestamp.clone();
    world.bundle_mut(&back).metadata.creation_timestamp = made;
    world.pass(&back);
    assert_ne!(world.phase(&back), Some(BundlePhase::Superseded));
}

#[test]
fn an_environment_that_never_received_it_is_left_alone() {
    let mut world = world();
    fail(&mut world, "dev", false);
    assert!(world.pass(BAD).effects().is_empty());
    let mut world = self::world();
    world.set(BAD, "dev", PromotionState::Verified);
    world.set(BAD, "staging", PromotionState::Verified);
    fail(&mut world, "prod", false);
    assert_eq!(targets(&world.pass(BAD)), ["staging"], "the last one that has it");
}

#[test]
fn every_line_of_environments_comes_back() {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(BAD, "2", 5)];
    let fan = "    - {name: dev}\n    - {name: eu, dependsOn: [dev]}\n    - {name: us, dependsOn: [dev]}\n    - {name: all, dependsOn: [eu, us]}\n";
    let mut world = World::new(pipeline(fan), bundles);
    world.verify(GOOD, &["dev", "eu", "us", "all"]);
    world.pass(BAD);
    for environment in ["dev", "eu", "us"] {
        world.set(BAD, environment, PromotionState::Verified);
    }
    fail(&mut world, "all", false);
    assert_eq!(targets(&world.pass(BAD)), ["eu", "us"]);
}

#[test]
fn who_does_not_want_it_does_not_get_it() {
    let mut world = world();
    world.pipeline.as_mut().unwrap().spec.auto_rollback = Some(false);
    fail(&mut world, "dev", true);
    assert!(world.pass(BAD).effects().is_empty());
    assert_eq!(world.phase(BAD), Some(BundlePhase::Failed));
}

#[test]
fn a_failed_rollback_is_not_rolled_back() {
    let mut world = world();
    let labels = world.bundle_mut(BAD).metadata.labels.get_or_insert_default();
    labels.insert("kardinal.io/rollback".to_owned(), "true".to_owned());
    fail(&mut world, "dev", true);
    assert!(world.pass(BAD).effects().is_empty());
}

#[test]
fn there_may_be_nothing_to_go_back_to() {
    let mut world = World::new(line(&["dev"]), vec![versioned(BAD, "2", 5)]);
    world.pass(BAD);
    fail(&mut world, "dev", true);
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty());
    assert!(plan.notes.iter().any(|note| note.reason == "NothingToRollBackTo" && note.warning));
    // The same content would change nothing.
    let mut world = self::world();
    world.bundle_mut(BAD).spec.artifacts.images[0].reference = "ghcr.io/myorg/my-app:1".to_owned();
    fail(&mut world, "dev", true);
    assert!(world.pass(BAD).effects().is_empty());
}

#[test]
fn the_last_good_one_is_chosen() {
    let bundles = vec![versioned("a", "0", 0), versioned(GOOD, "1", 1), versioned(BAD, "2", 5)];
    let mut world = World::new(line(&["dev"]), bundles);
    // The older one was verified later: it is what the environment had.
    world.verify(GOOD, &["dev"]);
    world.bundle_mut("a").metadata.annotations = None;
    world.set("a", "dev", PromotionState::Verified);
    let status = world.steps.last().unwrap().status.clone().unwrap();
    world.bundle_mut("a").status = Some(kardinal_api::kardinal::BundleStatus {
        phase: Some(BundlePhase::Verified),
        environments: std::iter::once((
            "dev".to_owned(),
            kardinal_api::kardinal::EnvironmentStatus {
                verified_at: status.verified_at,
                ..Default::default()
            },
        ))
        .collect(),
        ..Default::default()
    });
    world.pass(BAD);
    fail(&mut world, "dev", true);
    let plan = world.pass(BAD);
    assert_eq!(created(&plan)[0].spec.artifacts.images[0].reference, "ghcr.io/myorg/my-app:0");
}

/// The Pipeline writes down what its environments have.
fn note_down(world: &mut World) {
    let pipeline = world.pipeline.clone().unwrap();
    let bundles: Vec<&Bundle> = world.bundles.iter().collect();
    let plan = crate::pipeline::plan(&crate::pipeline::Snapshot {
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

#[test]
fn a_predecessor_that_was_deleted_is_told() {
    const GONE: &str = "my-app-v1-5-1712567900";
    // Before the bad one comes, after it came, and where there is nothing else.
    for (early, others) in [(true, true), (false, true), (false, false)] {
        let mut bundles = vec![versioned(GONE, "1.5", 3), versioned(BAD, "2", 5)];
        bundles.extend(others.then(|| versioned(GOOD, "1", 0)));
        let mut world = World::new(line(&["dev"]), bundles);
        if others {
            world.verify(GOOD, &["dev"]);
        }
        world.now += SignedDuration::from_secs(10);
        world.verify(GONE, &["dev"]);
        note_down(&mut world);
        let delete = |world: &mut World| {
            world.bundles.retain(|bundle| bundle.metadata.name.as_deref() != Some(GONE));
            note_down(world);
        };
        if early {
            delete(&mut world);
        }
        world.now += SignedDuration::from_secs(10);
        world.pass(BAD);
        world.set(BAD, "dev", PromotionState::HealthChecking);
        world.pass(BAD);
        note_down(&mut world);
        if !early {
            delete(&mut world);
        }
        world.set(BAD, "dev", PromotionState::Failed);
        let plan = world.pass(BAD);
        let brought: Vec<&str> =
            created(&plan).iter().map(|one| one.spec.artifacts.images[0].reference.as_str()).collect();
        assert_eq!(brought, if others { vec!["ghcr.io/myorg/my-app:1"] } else { vec![] });
        let end = if others { "goes back to `1` instead" } else { "keeps what has failed" };
        let words = format!(
            "`dev` cannot go back to `1.5`, which it had before, because the Bundle `{GONE}` was deleted: it {end}"
        );
        assert!(plan.notes.iter().any(|note| note.reason == "PredecessorDeleted"), "{:?}", plan.notes);
        assert!(world.ready(BAD).contains(&words), "{early} {others}: {}", world.ready(BAD));
    }
    // While it exists, nothing is told.
    let mut world = world();
    note_down(&mut world);
    fail(&mut world, "dev", true);
    let plan = world.pass(BAD);
    assert!(plan.notes.iter().all(|note| note.reason != "PredecessorDeleted"), "{:?}", plan.notes);
}

#[test]
fn what_was_taken_back_does_not_come_back_because_the_rollback_was_deleted() {
    const TAKEN_BACK: &str = "my-app-v1-5-1712567900";
    for same_version_is_there in [true, false] {
        let mut bundles = vec![versioned(TAKEN_BACK, "1.5", 3), versioned(BAD, "2", 9)];
        bundles.push(versioned(GOOD, "1", 0));
        let mut world = World::new(line(&["dev"]), bundles);
        world.verify(GOOD, &["dev"]);
        world.now += SignedDuration::from_secs(10);
        world.verify(TAKEN_BACK, &["dev"]);
        world.now += SignedDuration::from_secs(10);
        let back = take_back_to(&mut world, TAKEN_BACK, GOOD, "dev");
        note_down(&mut world);
        let is_gone = |name: Option<&str>| {
            name == Some(back.as_str()) || (!same_version_is_there && name == Some(GOOD))
        };
        world.bundles.retain(|bundle| !is_gone(bundle.metadata.name.as_deref()));
        note_down(&mut world);
        world.now += SignedDuration::from_secs(10);
        world.pass(BAD);
        world.set(BAD, "dev", PromotionState::HealthChecking);
        world.pass(BAD);
        note_down(&mut world);
        world.set(BAD, "dev", PromotionState::Failed);
        let plan = world.pass(BAD);
        let brought: Vec<&str> =
            created(&plan).iter().map(|one| one.spec.artifacts.images[0].reference.as_str()).collect();
        match same_version_is_there {
            true => assert_eq!(brought, ["ghcr.io/myorg/my-app:1"], "{}", world.ready(BAD)),
            false => assert!(
                brought.is_empty() && world.ready(BAD).contains("keeps what has failed"),
                "{brought:?}"
            ),
        }
    }
}

/// A verified rollback from one Bundle to the content of another; its name.
fn take_back_to(world: &mut World, from: &str, to: &str, environment: &str) -> String {
    let name = format!("{to}-rollback");
    let mut back = world.bundle(to).clone();
    back.status = None;
    back.metadata.name = Some(name.clone());
    back.metadata.uid = Some(format!("uid-{name}"));
    back.metadata.creation_timestamp = Some(Time(world.now));
    back.spec.provenance =
        Some(kardinal_api::kardinal::Provenance { rollback_of: Some(from.to_owned()), ..Default::default() });
    world.bundles.push(back);
    world.verify(&name, &[environment]);
    name
}

#[test]
fn a_fix_that_is_on_its_way_is_not_undone() {
    let mut world = world();
    world.bundles.push(versioned("my-app-v3-1712568999", "3", 9));
    world.pass("my-app-v3-1712568999");
    fail(&mut world, "dev", true);
    let plan = world.pass(BAD);
    assert!(plan.effects().is_empty());
    assert!(plan.notes.iter().any(|note| note.reason == "NewerOnItsWay"));
}

#[test]
fn the_rollback_runs_like_any_other() {
    let mut world = world();
    fail(&mut world, "dev", true);
    world.pass(BAD);
    let back = "my-app-v1-rollback-5269890a";
    world.pass(back);
    assert_eq!(world.phase(back), Some(BundlePhase::Promoting));
    world.set(back, "dev", PromotionState::Verified);
    world.pass(back);
    assert_eq!(world.phase(back), Some(BundlePhase::Verified));
}

#[test]
fn closing_a_pr_without_merging_rejects_the_bundle_there_and_leaves_healthy_upstream_environments_as_they_are()
 {
    for (wish, back) in [(None, 0), (Some(OnReject::Keep), 0), (Some(OnReject::Rollback), 1)] {
        let mut world = world();
        world.pipeline.as_mut().unwrap().spec.environments[1].on_reject = wish;
        world.set(BAD, "dev", PromotionState::Verified);
        let status = world.set(BAD, "staging", PromotionState::Failed);
        status.outputs.insert("rejected".to_owned(), "true".to_owned());
        status.message = Some("PR #7 was closed without merging".to_owned());
        let plan = world.plan(BAD);
        assert_eq!(targets(&plan), ["dev"][..back], "{wish:?}");
        let status = plan.status.unwrap();
        assert_eq!(status.phase, Some(BundlePhase::Failed));
        let ready = &status.conditions[0];
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("Rejected", "staging: PR #7 was closed without merging")
        );
    }
}

#[test]
fn a_rejection_beside_a_failure_does_not_keep_what_failed() {
    let mut world = world();
    world.set(BAD, "dev", PromotionState::Verified);
    let rejected = world.set(BAD, "prod", PromotionState::Failed);
    rejected.outputs.insert("rejected".to_owned(), "true".to_owned());
    fail(&mut world, "staging", true);
    let plan = world.plan(BAD);
    assert_eq!(targets(&plan), ["staging"]);
    let status = plan.status.unwrap();
    assert_eq!(status.conditions[0].reason, "StepFailed");
    let marks = ["dev", "staging", "prod"].map(|environment| status.environments[environment].rejected);
    assert_eq!(marks, [None, None, Some(true)], "each environment has its own mark");
}

#[test]
fn what_becomes_known_of_a_failure_is_told_also_where_another_environment_failed_later() {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(BAD, "2", 5)];
    let fan = "    - {name: dev}\n    - {name: eu, dependsOn: [dev]}\n    - {name: us, dependsOn: [dev]}\n";
    let mut world = World::new(pipeline(fan), bundles);
    world.verify(GOOD, &["dev", "eu", "us"]);
    world.pass(BAD);
    world.set(BAD, "dev", PromotionState::Verified);
    let eu = world.set(BAD, "eu", PromotionState::Failed);
    eu.outputs.insert("rejected".to_owned(), "true".to_owned());
    eu.message = Some("PR #7 was closed".to_owned());
    world.pass(BAD);
    assert_eq!(world.phase(BAD), Some(BundlePhase::Failed));
    world.set(BAD, "us", PromotionState::Failed).message = Some("it is not healthy".to_owned());
    world.pass(BAD);
    let eu = world.set(BAD, "eu", PromotionState::Failed);
    eu.outputs.remove("rejected");
    eu.message = Some("PR #7 was merged all the same".to_owned());
    world.pass(BAD);
    let said = world.bundle(BAD).status.as_ref().unwrap().conditions[0].message.clone();
    assert!(said.contains("eu: PR #7 was merged all the same"), "{said}");
}

#[test]
fn a_rejection_of_a_bundle_that_had_the_same_name_does_not_keep_what_failed() {
    let mut world = world();
    world.set(BAD, "dev", PromotionState::Verified);
    fail(&mut world, "staging", true);
    // The step of the deleted one waits for its forge, and counts as the one made last.
    let mut left = world.steps.last().unwrap().clone();
    left.metadata.name = Some(format!("{BAD}-staging-of-before"));
    let status = left.status.as_mut().unwrap();
    status.outputs.insert("rejected".to_owned(), "true".to_owned());
    status.outputs.insert("bundleUid".to_owned(), "that-of-the-deleted-one".to_owned());
    world.steps.push(left);
    let plan = world.plan(BAD);
    assert_eq!(targets(&plan), ["staging"]);
    assert_eq!(plan.status.unwrap().conditions[0].reason, "StepFailed");
}

/// Takes `BAD` back in an environment, by hand.
fn take_back(world: &mut World, environment: &str) -> String {
    let mut back = crate::intent::automatic_rollback(world.bundle(BAD), environment, world.bundle(GOOD), &[]);
    back.metadata.annotations = None;
    back.metadata.creation_timestamp = versioned(BAD, "2", 9).metadata.creation_timestamp;
    let name = back.metadata.name.clone().unwrap();
    world.bundles.push(back);
    world.pass(&name);
    name
}

#[test]
fn a_version_that_is_taken_back_goes_no_further() {
    for pinned in [false, true] {
        let mut world = world();
        for environment in ["dev", "staging"] {
            world.set(BAD, environment, PromotionState::Verified);
        }
        world.pass(BAD);
        assert_eq!(world.phase(BAD), Some(BundlePhase::Promoting), "prod waits for its gates");
        if pinned {
            let pin = [(kardinal_api::kardinal::PIN_ANNOTATION.to_owned(), "true".to_owned())];
            world.bundle_mut(BAD).metadata.annotations = Some(pin.into());
        }
        let back = take_back(&mut world, "staging");
        world.pass(BAD);
        assert_eq!(world.phase(BAD), Some(BundlePhase::Superseded), "pinned: {pinned}");
        let said = &world.bundle(BAD).status.as_ref().unwrap().conditions;
        let message = format!("`{back}` takes it back in an environment before");
        assert!(said.iter().any(|condition| condition.message == message), "{said:?}");
    }
}

#[test]
fn what_is_taken_back_beside_the_way_holds_nobody() {
    let bundles = vec![versioned(GOOD, "1", 0), versioned(BAD, "2", 5)];
    let fan = "    - {name: dev}\n    - {name: eu, dependsOn: [dev]}\n    - {name: us, dependsOn: [dev]}\n";
    let mut world = World::new(pipeline(fan), bundles);
    world.verify(GOOD, &["dev", "eu", "us"]);
    world.pass(BAD);
    for environment in ["dev", "eu"] {
        world.set(BAD, environment, PromotionState::Verified);
    }
    let mut back = crate::intent::automatic_rollback(world.bundle(BAD), "eu", world.bundle(GOOD), &[]);
    back.spec.intent.as_mut().unwrap().skip = vec!["dev".to_owned()];
    back.metadata.creation_timestamp = versioned(BAD, "2", 9).metadata.creation_timestamp;
    let name = back.metadata.name.clone().unwrap();
    world.bundles.push(back);
    world.pass(&name);
    world.pass(BAD);
    assert_eq!(world.phase(BAD), Some(BundlePhase::Promoting));
}
