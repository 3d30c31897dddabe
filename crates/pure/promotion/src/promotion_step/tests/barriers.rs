//! What stands in the way is told as it was found out, whatever words it comes with.

use kardinal_planner::condition;

use super::*;

/// Words that sound like every obstacle at once.
const WORDS: &str =
    "`token-service` has no `permissions/forbidden.yaml`: not allowed, see --allowed-hosts (401)";

const CASES: [(Barrier, &str); 3] = [
    (Barrier::NotLetIn, "NotLetIn"),
    (Barrier::HostNotAllowed, "HostNotAllowed"),
    (Barrier::Other, "ActionNeeded"),
];

/// The reason of a condition that holds.
fn reason(scene: &Scene, type_: &str) -> Option<String> {
    condition::find(&scene.status().conditions, type_).map(|found| found.reason.clone())
}

#[test]
fn wait_and_condition_have_the_reason_that_was_found_out() {
    for (barrier, expected) in CASES {
        for said in [WORDS, "no"] {
            let mut scene = Scene::new(json!({}));
            let commit = scene.effect();
            scene.tell(&commit, Outcome::Blocked { barrier, message: said.to_owned() });
            let waits = scene.status().waits;
            let [wait] = waits.as_slice() else { panic!("{waits:?}") };
            assert_eq!((wait.reason.as_str(), wait.detail.as_str()), (expected, said), "{barrier:?}");
            assert_eq!(reason(&scene, "Blocked").as_deref(), Some(expected), "{barrier:?}");
            assert_eq!(why::barrier(expected), barrier);
        }
    }
}

#[test]
fn a_cluster_that_nobody_may_look_at_tells_what_stands_in_the_way() {
    for (barrier, expected) in CASES {
        let mut scene = Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
        let unknown = Some(Unknown::Problem { message: WORDS.to_owned(), barrier });
        scene.health = Some(HealthFacts { unknown, ..facts(Vec::new()) });
        scene.plan();
        let wait = scene.status().waits[0].clone();
        assert_eq!((wait.reason.as_str(), wait.detail.as_str()), (expected, WORDS), "{barrier:?}");
        assert_eq!(reason(&scene, "Blocked").as_deref(), Some(expected), "{barrier:?}");
        let remedy = match barrier {
            Barrier::HostNotAllowed => "needs the operator",
            Barrier::NotLetIn | Barrier::Other => {
                "needs a person to correct the Secret `eu` of `health.cluster`"
            }
        };
        assert!(wait.basis.as_deref().is_some_and(|basis| basis.starts_with(remedy)), "{wait:?}");
    }
}

#[test]
fn a_rebuilt_change_that_is_refused_tells_it_too() {
    for (barrier, expected) in CASES {
        let mut scene = Scene::reviewed().opened().kept();
        let request = scene.pull_request.take().unwrap();
        scene.pull_request = Some(PullRequest { mergeable: Some(false), ..request });
        let rebuild = scene.effect();
        assert!(matches!(&rebuild, Effect::Git(GitEffect::Commit(order)) if order.replaces.is_some()));
        scene.tell(&rebuild, Outcome::Refused { task: Some(1), barrier, message: WORDS.to_owned() });
        assert_eq!(scene.status().waits[0].reason, expected, "{barrier:?}");
    }
}

#[test]
fn a_step_that_is_over_keeps_the_reason_in_its_condition() {
    for (barrier, expected) in CASES {
        let mut scene = Scene::new(json!({}));
        let commit = scene.effect();
        let wrong = Outcome::Refused { task: None, barrier: Barrier::Other, message: "no image".to_owned() };
        scene.tell(&commit, wrong);
        assert_eq!(scene.state(), PromotionState::Failed);
        let close = Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment: String::new() });
        scene.tell(&close, Outcome::Blocked { barrier, message: WORDS.to_owned() });
        assert!(scene.status().waits.is_empty());
        assert_eq!(reason(&scene, "Blocked").as_deref(), Some(expected), "{barrier:?}");
    }
}

#[test]
fn a_cluster_is_told_by_the_code_that_it_answers_with_and_not_by_its_words() {
    for (code, expected, answered) in [
        (Some(401), "Unauthorized", Some("401")),
        (Some(403), "Forbidden", Some("403")),
        (Some(503), "Unreachable", None),
        (None, "Unreachable", None),
    ] {
        for said in ["403 Forbidden: pods is forbidden", "401 Unauthorized", "no route to host"] {
            let mut scene = Scene::new(json!({"health": {"cluster": "eu"}})).pushed();
            let unknown = Some(Unknown::Unreachable { why: said.to_owned(), code });
            scene.health = Some(HealthFacts { unknown, ..facts(Vec::new()) });
            scene.plan();
            let wait = &scene.status().waits[0];
            assert_eq!((wait.reason.as_str(), why::code(wait)), ("Unreachable", answered), "{code:?} {said}");
            assert_eq!(reason(&scene, "ClusterUnreachable").as_deref(), Some(expected), "{code:?} {said}");
            assert_eq!(why::unreachable_code(expected).map(|code| code.to_string()).as_deref(), answered);
        }
    }
}
