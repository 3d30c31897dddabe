//! What an environment had before, where Bundles that tell of it are gone.

use super::*;

/// Writes down what the environments have, as the Pipeline's controller does.
pub(super) fn note_down(life: &mut Life) {
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let all = ALL.iter().filter_map(|name| {
        let present = crate::intent::present(&life.pipeline, &bundles, name);
        Some(crate::intent::with_before(&life.pipeline, &bundles, present.first()?, name))
    });
    let environments = all.collect();
    let status = kardinal_api::kardinal::PipelineStatus { environments, ..Default::default() };
    life.pipeline.status = Some(status);
}

/// The records as a program wrote them that did not know these fields yet.
pub(super) fn without(life: &mut Life, fields: &[&str]) {
    let mut status = serde_json::to_value(&life.pipeline.status).unwrap();
    for record in status["environments"].as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.retain(|field, _| !fields.contains(&field.as_str()));
        for list in ["before", "earlier"] {
            let entries = match record.get_mut(list) {
                Some(serde_json::Value::Array(entries)) => entries.as_mut_slice(),
                Some(entry) => std::slice::from_mut(entry),
                None => &mut [],
            };
            for entry in entries {
                entry.as_object_mut().unwrap().retain(|field, _| !fields.contains(&field.as_str()));
            }
        }
    }
    life.pipeline.status = serde_json::from_value(status).unwrap();
}

/// Deletes the Bundles of rollbacks.
pub(super) fn delete_rollbacks(life: &mut Life) {
    life.bundles.retain(|one| !one.metadata.name.as_deref().unwrap().contains("rollback"));
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
    assert_eq!(crate::gate_context::version(&life.wish("prod", None, true).unwrap().spec), "1");
    assert_eq!(crate::gate_context::version(&life.wish("prod", Some("1"), false).unwrap().spec), "1");
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
    assert_eq!(crate::gate_context::version(&life.wish("prod", None, true).unwrap().spec), "1");
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

#[test]
fn rollback_and_promote_refuse_alike_what_a_deleted_rollback_took_back() {
    let mut life = Life::of(&["1", "2"]);
    note_down(&mut life);
    assert_eq!(life.back("prod"), "1");
    note_down(&mut life);
    for version in ["3", "4"] {
        life.release(version, &ALL);
        note_down(&mut life);
    }
    delete_rollbacks(&mut life);
    for environment in ALL {
        let problem = life.wish(environment, Some("2"), false).unwrap_err();
        let forward = life.forward(environment, Some("2"), false);
        assert_eq!((problem.field.as_str(), forward.starts_with("force: ")), (FORCE, true), "{forward}");
        assert!(problem.message.starts_with("`2` was taken back in `"), "{problem}");
        assert_eq!(crate::gate_context::version(&life.wish(environment, Some("2"), true).unwrap().spec), "2");
        for good in ["1", "3"] {
            let back = life.wish(environment, Some(good), false).unwrap();
            assert_eq!(crate::gate_context::version(&back.spec), good);
        }
    }
}

#[test]
fn what_has_left_the_record_is_not_told_to_be_taken_back() {
    let mut life = Life::new();
    for version in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        life.release(version, &ALL);
        note_down(&mut life);
    }
    assert_eq!(below(&life), ["7", "6", "5", "4", "3"]);
    let back = life.wish("prod", Some("6"), false).unwrap();
    assert_eq!(life.bring(back, "prod"), "6");
    note_down(&mut life);
    assert_eq!(below(&life), ["5", "4", "3"]);
    let check = |life: &Life| {
        for version in ["1", "2", "3", "5"] {
            assert_eq!(life.forward("prod", Some(version), false), format!("new {version}"));
            let back = life.wish("prod", Some(version), false).unwrap();
            assert_eq!(crate::gate_context::version(&back.spec), version);
        }
        for version in ["7", "8"] {
            let refused = life.forward("prod", Some(version), false);
            assert!(refused.starts_with(&format!("force: `{version}` was taken back in")), "{refused}");
        }
    };
    check(&life);
    // The same where only the record tells of the rollback.
    life.release("9", &ALL);
    note_down(&mut life);
    delete_rollbacks(&mut life);
    check(&life);
}

#[test]
fn a_record_that_begins_in_the_middle_tells_nothing_of_the_time_before() {
    for fields in [&["earlier", "content", "forgottenUntil"] as &[&str], &["before", "earlier", "content"]] {
        let mut life = Life::of(&["1", "2", "3", "4"]);
        note_down(&mut life);
        without(&mut life, fields);
        for version in ["5", "6"] {
            life.release(version, &ALL);
            note_down(&mut life);
        }
        for version in ["1", "2", "3", "4", "5"] {
            assert_eq!(life.forward("prod", Some(version), false), format!("new {version}"), "{fields:?}");
        }
        assert_eq!(life.back("prod"), "5");
        life.release("7", &ALL);
        note_down(&mut life);
        delete_rollbacks(&mut life);
        let refused = life.forward("prod", Some("6"), false);
        assert!(refused.starts_with("force: `6` was taken back in"), "{fields:?}: {refused}");
    }
}

#[test]
fn a_rollback_to_what_has_left_the_record_goes_further_back_from_there() {
    for is_noted in [true, false] {
        let mut life = Life::new();
        for version in ["0", "1", "2", "3", "4", "5", "6", "7", "8"] {
            life.release(version, &ALL);
            note_down(&mut life);
        }
        let back = life.wish("prod", Some("2"), false).unwrap();
        assert_eq!(life.bring(back, "prod"), "2");
        if is_noted {
            note_down(&mut life);
        }
        assert_eq!(life.back("prod"), "1", "never forward");
        note_down(&mut life);
        assert_eq!(life.back("prod"), "0");
    }
}

#[test]
fn a_deleted_version_that_was_gone_back_to_brings_nothing_back_that_was_taken_back() {
    let mut life = Life::of(&["1", "2", "3"]);
    note_down(&mut life);
    let back = life.wish("prod", Some("1"), false).unwrap();
    life.bring(back, "prod");
    note_down(&mut life);
    life.bundles.remove(0);
    let problem = life.wish("prod", None, false).unwrap_err();
    assert!(problem.message.contains("no Bundle was verified in `prod` before"), "{problem}");
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: `2` was taken back in"), "{refused}");
}

#[test]
fn where_the_present_version_is_deleted_the_record_tells_what_was_taken_back() {
    // The rollback is gone, and so is the version that came after it.
    let mut life = Life::of(&["1", "2"]);
    assert_eq!(life.back("prod"), "1");
    life.release("3", &ALL);
    note_down(&mut life);
    delete_rollbacks(&mut life);
    life.bundles.pop();
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: `2` was taken back in"), "{refused}");
    assert_eq!(life.forward("prod", Some("1"), false), "new 1");
    // The rollback is gone, and so is the version that it brought back.
    let mut life = Life::of(&["0", "1", "2"]);
    assert_eq!(life.back("prod"), "1");
    note_down(&mut life);
    delete_rollbacks(&mut life);
    life.bundles.remove(1);
    assert_eq!(life.forward("prod", Some("0"), false), "new 0");
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: `2` was taken back in"), "{refused}");
}

#[test]
fn a_version_that_comes_again_and_is_replaced_before_it_is_verified_stays_good() {
    for is_rollback in [false, true] {
        let mut life = Life::of(&["1", "2"]);
        note_down(&mut life);
        let again = match is_rollback {
            false => life.bundles[1].clone(),
            true => {
                life.release("broken", &ALL);
                note_down(&mut life);
                life.wish("prod", None, false).unwrap()
            }
        };
        let at = life.add(Bundle { metadata: Default::default(), ..again });
        life.bundles[at].metadata.name = Some("again".to_owned());
        for environment in ALL {
            life.set(at, environment, PromotionState::HealthChecking, true);
        }
        note_down(&mut life);
        life.finish(at, BundlePhase::Superseded);
        life.release("3", &ALL);
        note_down(&mut life);
        assert_eq!(below(&life), ["2", "1"]);
        assert_eq!(life.forward("prod", Some("2"), false), "new 2");
        assert_eq!(life.back("prod"), "2", "a rollback: {is_rollback}");
        assert_eq!(life.back("prod"), "1");
    }
}
