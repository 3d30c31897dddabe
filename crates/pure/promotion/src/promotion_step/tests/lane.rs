//! One Bundle at a time in an environment.

use super::*;

/// A step of another Bundle into the same environment.
fn other(state: &str, outputs: Value) -> PromotionStep {
    let mut step = Scene::new(json!({"bundleRef": "my-app-v1-28-0"})).step;
    step.metadata.name = Some("my-app-v1-28-0-prod".to_owned());
    step.status = from(json!({"state": state, "outputs": outputs}));
    step
}

fn beside(other: PromotionStep) -> Scene {
    let mut scene = Scene::new(json!({}));
    scene.others = vec![other];
    scene
}

#[test]
fn a_step_waits_for_the_one_before_it_and_says_so() {
    let open = json!({"prNumber": "3", "prState": "open"});
    let cases = [
        (
            other("Promoting", json!({})),
            "waiting for `my-app-v1-28-0` to leave `prod`: its change is being written",
        ),
        (
            other("WaitingForMerge", open.clone()),
            "waiting for `my-app-v1-28-0` to leave `prod`: its PR #3 is open",
        ),
        (
            other("HealthChecking", json!({})),
            "waiting for `my-app-v1-28-0` to leave `prod`: its health is being checked",
        ),
        (other("Failed", open), "waiting for `my-app-v1-28-0` to leave `prod`: its PR #3 is being closed"),
    ];
    for (other, message) in cases {
        let mut scene = beside(other);
        scene.plan();
        assert_eq!((scene.state(), scene.message().as_str()), (PromotionState::Pending, message));
    }
}

#[test]
fn whoever_is_through_or_has_not_begun_is_in_nobodys_way() {
    for other in [
        other("Pending", json!({})),
        other("Verified", json!({"prNumber": "3", "prState": "merged"})),
        other("Failed", json!({"prNumber": "3", "prState": "closed"})),
    ] {
        let mut scene = beside(other);
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Promoting);
    }
}

#[test]
fn a_rollback_does_not_wait_for_the_health_of_what_it_takes_back() {
    let mut scene = beside(other("HealthChecking", json!({})));
    let labels = [("kardinal.io/rollback".to_owned(), "true".to_owned())];
    scene.bundle.as_mut().unwrap().metadata.labels = Some(labels.into());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Promoting);
    scene = beside(other("WaitingForMerge", json!({})));
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Pending, "two open pull requests would be in each other's way");
}

#[test]
fn a_step_that_has_begun_goes_on() {
    let mut scene = Scene::reviewed().opened();
    scene.others = vec![other("Promoting", json!({}))];
    scene.plan();
    assert_eq!(scene.state(), PromotionState::WaitingForMerge);
}

/// Two steps of the same second, seen by themselves at any later time than their own last word.
#[derive(Clone)]
struct Race {
    /// Everything that was ever written, in order.
    log: Vec<(usize, PromotionStep)>,
    pushed: [bool; 2],
}

impl Race {
    fn seen(&self, who: usize, until: usize) -> Option<&PromotionStep> {
        self.log.iter().take(until).rev().find(|(writer, _)| *writer == who).map(|(_, step)| step)
    }

    /// How much of the log a step has read at least: its own last word.
    fn own(&self, who: usize) -> usize {
        self.log.iter().rposition(|(writer, _)| *writer == who).map_or(0, |at| at + 1)
    }

    /// One pass of one step that has read so much of the log.
    fn turn(&mut self, names: [&str; 2], who: usize, until: usize) {
        let Some(own) = self.seen(who, until) else {
            let mut step = Scene::new(json!({"bundleRef": names[who]})).step;
            step.metadata.name = Some(names[who].to_owned());
            self.log.push((who, step));
            return;
        };
        let mut scene = Scene::new(json!({}));
        scene.step = own.clone();
        scene.others = self.seen(1 - who, until).cloned().into_iter().collect();
        let plan = scene.plan();
        if let Some(effect) = plan.effect() {
            assert!(!self.pushed[1 - who], "both have pushed: {:#?}", self.log);
            self.pushed[who] = true;
            scene.tell(&effect, committed());
            self.log.push((who, scene.step));
        } else if plan.status.is_some() {
            self.log.push((who, scene.step));
        }
    }

    fn explore(&self, names: [&str; 2], depth: usize) {
        if depth == 0 {
            let mut end = self.clone();
            for _ in 0..6 {
                for who in [0, 1] {
                    end.turn(names, who, end.log.len());
                }
            }
            assert!(end.pushed[0] != end.pushed[1], "exactly one goes on: {:#?}", end.log);
            return;
        }
        for who in [0, 1] {
            for until in self.own(who)..=self.log.len() {
                let mut next = self.clone();
                next.turn(names, who, until);
                next.explore(names, depth - 1);
            }
        }
    }
}

#[test]
fn of_two_at_the_same_time_one_goes_first_however_late_they_hear_of_each_other() {
    for names in [["a", "b"], ["b", "a"]] {
        Race { log: Vec::new(), pushed: [false; 2] }.explore(names, 6);
    }
}
