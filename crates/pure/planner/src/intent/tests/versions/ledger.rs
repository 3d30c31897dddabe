//! What an environment had before, where Bundles that tell of it are gone.

use super::*;

/// Writes down what the environments have, as the Pipeline's controller does.
fn note_down(life: &mut Life) {
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let all = ALL.iter().filter_map(|name| {
        let present = crate::intent::present(&life.pipeline, &bundles, name);
        Some(crate::intent::with_before(&life.pipeline, &bundles, present.first()?, name))
    });
    let environments = all.collect();
    let status = kardinal_api::kardinal::PipelineStatus { environments, ..Default::default() };
    life.pipeline.status = Some(status);
}

fn below(life: &Life) -> Vec<String> {
    let record = &life.pipeline.status.as_ref().unwrap().environments[2];
    record.before.iter().chain(&record.earlier).map(|one| one.version.clone()).collect()
}

#[test]
fn when_the_bundle_of_a_rollback_is_deleted_the_older_version_does_not_seem_to_be_back() {
    let mut life = Life::of(&["1", "2"]);
    assert_eq!(life.back("prod"), "1");
    let gone = life.bundles.pop().unwrap();
    let name = gone.metadata.name.unwrap();
    let entries = gone.status.unwrap().environments;
    let presence = |environment: &str| kardinal_api::kardinal::Presence {
        environment: environment.to_owned(),
        bundle: name.clone(),
        version: "1".to_owned(),
        promoted_at: entries[environment].promoted_at,
        verified_at: entries[environment].verified_at,
        ..Default::default()
    };
    let status = kardinal_api::kardinal::PipelineStatus {
        environments: ALL.map(presence).to_vec(),
        ..Default::default()
    };
    life.pipeline.status = Some(status);
    let lost = |environment: &str| {
        format!(
            "environment: `{environment}` has `1` now, which `{name}` brought, and that Bundle does not exist any more"
        )
    };
    assert_eq!(life.forward("prod", None, false), lost("staging"));
    let problem = life.wish("prod", None, false).unwrap_err();
    assert_eq!(format!("{}: {}", problem.field, problem.message), lost("prod"));
    assert_eq!(life.forward("prod", Some("2"), false), "new 2", "it is not there");
    // Where the record tells that it took something back, that needs to be meant.
    let mut told = life.pipeline.clone();
    std::mem::swap(&mut told, &mut life.pipeline);
    for one in &mut life.pipeline.status.as_mut().unwrap().environments {
        one.rollback_of = Some("2".to_owned());
    }
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: ") && refused.contains(&name), "{refused}");
    assert_eq!(life.forward("prod", Some("2"), true), "new 2");
    life.pipeline = told;
    // The same where it was the only one that ever came.
    let all = std::mem::take(&mut life.bundles);
    let problem = life.wish("prod", None, false).unwrap_err();
    assert_eq!(format!("{}: {}", problem.field, problem.message), lost("prod"));
    life.bundles = all;
    // What comes later is known again.
    life.release("3", &ALL);
    assert_eq!(life.forward("prod", None, false), "there 3");
}

#[test]
fn what_deleted_rollbacks_took_back_has_to_be_meant() {
    // 3 and then 2 were taken back, and both rollbacks were deleted.
    let mut life = Life::of(&["1", "2", "3"]);
    assert_eq!(life.back("prod"), "2");
    assert_eq!(life.back("prod"), "1");
    note_down(&mut life);
    life.bundles.truncate(life.bundles.len() - 2);
    for version in ["2", "3"] {
        let refused = life.forward("prod", Some(version), false);
        assert!(refused.starts_with("force: "), "{version}: {refused}");
        assert_eq!(life.forward("prod", Some(version), true), format!("new {version}"));
    }
}

#[test]
fn a_rollback_that_skips_a_deleted_version_has_to_be_meant() {
    let mut life = Life::of(&["1", "2", "3"]);
    note_down(&mut life);
    let before = |life: &Life| {
        let status = life.pipeline.status.as_ref().unwrap();
        status.environments[0].before.as_ref().unwrap().version.clone()
    };
    assert_eq!(before(&life), "2");
    let gone = life.bundles.remove(1);
    note_down(&mut life);
    assert_eq!(before(&life), "2", "the record outlives the Bundle");
    let problem = life.wish("prod", None, false).unwrap_err();
    assert_eq!(problem.field, FORCE);
    assert_eq!(
        problem.message,
        "`prod` had `2` before, which `2` brought, and that Bundle does not exist any more"
    );
    assert_eq!(
        problem.hint.as_deref(),
        Some("`--force` goes further back, to `1` of `1`; `--to` chooses another")
    );
    assert_eq!(kardinal_policy::version(&life.wish("prod", None, true).unwrap().spec), "1");
    assert_eq!(kardinal_policy::version(&life.wish("prod", Some("1"), false).unwrap().spec), "1");
    // Where nothing else is left, nobody can insist.
    let first = life.bundles.remove(0);
    for force in [false, true] {
        let problem = life.wish("prod", None, force).unwrap_err();
        assert!(problem.message.contains("`prod` had `2` before"), "{problem}");
    }
    // While the Bundles are there nothing is said, and after a rollback what lies below counts.
    life.bundles.splice(0..0, [first, gone]);
    assert_eq!(life.back("prod"), "2");
    note_down(&mut life);
    assert_eq!(before(&life), "1");
    let gone = life.bundles.remove(0);
    note_down(&mut life);
    assert_eq!(before(&life), "1", "a rollback's own record outlives it, too");
    life.bundles.insert(0, gone);
    assert_eq!(life.back("prod"), "1");
}

#[test]
fn what_a_deleted_rollback_took_back_stays_so_however_many_versions_come_since() {
    let mut life = Life::of(&["1", "2"]);
    note_down(&mut life);
    assert_eq!(life.back("prod"), "1");
    note_down(&mut life);
    for version in ["3", "4", "5"] {
        life.release(version, &ALL);
        note_down(&mut life);
    }
    assert_eq!(below(&life), ["4", "3", "1"]);
    // The history ends with what lies between: the rollback, and a version that was good.
    life.bundles.retain(|one| {
        let name = one.metadata.name.as_deref().unwrap();
        !name.contains("rollback") && name != "3"
    });
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: `2` was taken back in `"), "{refused}");
    assert_eq!(life.forward("prod", Some("4"), false), "new 4", "that was not taken back");
    assert_eq!(life.back("prod"), "4");
    note_down(&mut life);
    assert_eq!(below(&life), ["3", "1"]);
    let problem = life.wish("prod", None, false).unwrap_err();
    assert!(problem.message.contains("`prod` had `3` before"), "{problem}");
    assert!(problem.hint.as_ref().unwrap().contains("to `1` of `1`"), "never to 2: {problem}");
    assert_eq!(kardinal_policy::version(&life.wish("prod", None, true).unwrap().spec), "1");
}

#[test]
fn a_bundle_that_gets_the_name_of_a_deleted_one_is_not_what_the_environment_has() {
    let mut life = Life::of(&["1", "2"]);
    note_down(&mut life);
    let gone = life.bundles.pop().unwrap();
    let at = life.create("3");
    life.bundles[at].metadata.name.clone_from(&gone.metadata.name);
    life.verify(at, &["dev"]);
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let has = |environment: &str| {
        let present = crate::intent::present(&life.pipeline, &bundles, environment);
        present.iter().map(|one| one.recorded(environment).version).collect::<Vec<_>>()
    };
    assert_eq!((has("dev"), has("prod")), (vec!["3".to_owned()], vec!["2".to_owned()]));
    life.verify(at, &ALL);
    note_down(&mut life);
    assert_eq!(below(&life), ["2", "1"]);
}

#[test]
fn what_lies_below_is_the_same_whether_each_arrival_was_written_down_or_not() {
    for every in [1, 2, 3] {
        let mut life = Life::of(&["1", "2", "3"]);
        let mut count = 0;
        let mut sometimes = |life: &mut Life| {
            count += 1;
            if count % every == 0 {
                note_down(life);
            }
        };
        sometimes(&mut life);
        assert_eq!(life.back("prod"), "2");
        sometimes(&mut life);
        life.release("4", &ALL);
        sometimes(&mut life);
        life.release("5", &ALL);
        sometimes(&mut life);
        assert_eq!(life.back("prod"), "4");
        note_down(&mut life);
        assert_eq!(below(&life), ["2", "1"], "every {every}");
        // The same version once more changes nothing.
        let broken = life.break_in("6", "prod");
        note_down(&mut life);
        assert_eq!(life.recover(broken, "prod"), "4");
        note_down(&mut life);
        assert_eq!(below(&life), ["2", "1"], "every {every}");
    }
}

#[test]
fn a_forge_whose_clock_is_behind_takes_nothing_off_the_record() {
    let mut life = Life::of(&["1", "2"]);
    note_down(&mut life);
    // Merged by the forge's clock before the version that it replaces was verified, by ours.
    let at = life.create("3");
    life.verify(at, &["dev", "staging"]);
    life.finish(at, BundlePhase::Promoting);
    life.set(at, "prod", PromotionState::HealthChecking, true);
    let before = life.record(1, "prod").verified_at.unwrap();
    life.bundles[at].metadata.creation_timestamp = None;
    life.record(at, "prod").promoted_at = Some(before - SignedDuration::from_mins(2));
    note_down(&mut life);
    assert_eq!(below(&life), ["2", "1"]);
    life.set(at, "prod", PromotionState::Verified, true);
    note_down(&mut life);
    assert_eq!(below(&life), ["2", "1"]);
}
