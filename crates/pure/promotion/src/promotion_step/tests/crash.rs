//! The process may die between any effect and its record, and any effect may fail first: what the world looks like in
//! the end is the same.

use proptest::prelude::*;

use super::*;

/// A repository, a forge, an environment and a webhook, as small as they can be.
#[derive(Default)]
struct World {
    /// Branch and identity of every commit of ours.
    commits: Vec<(String, String)>,
    /// Head and marker of every pull request.
    pull_requests: Vec<(String, String, PullRequest)>,
    /// The ids of the calls that a custom task has seen, repetitions left out.
    calls: Vec<String>,
    finalizer: bool,
}

impl World {
    fn act(&mut self, effect: &Effect) -> Outcome {
        match effect {
            Effect::Step(StepEffect::AddFinalizer) => {
                self.finalizer = true;
                Outcome::Done
            }
            Effect::Git(GitEffect::Commit(order)) => {
                let own = (order.branch.clone(), order.identity.clone());
                if !self.commits.contains(&own) {
                    self.commits.push(own);
                }
                committed()
            }
            Effect::Forge(ForgeEffect::OpenPullRequest(order)) => {
                let own = |(head, marker, _): &&(String, String, PullRequest)| {
                    *head == order.head && order.body.starts_with(marker.as_str())
                };
                assert!(
                    self.commits.iter().any(|(branch, _)| *branch == order.head),
                    "no branch to open it from"
                );
                if self.pull_requests.iter().find(own).is_none() {
                    self.pull_requests.push((order.head.clone(), order.marker.clone(), open_pull_request()));
                }
                self.read()
            }
            Effect::Forge(ForgeEffect::ClosePullRequest { .. }) => {
                let (_, _, found) = self.pull_requests.first_mut().expect("a pull request");
                if found.state == PullRequestState::Merged {
                    return Outcome::Refused {
                        task: None,
                        barrier: Barrier::Other,
                        message: "it is merged".to_owned(),
                    };
                }
                found.state = PullRequestState::Closed;
                Outcome::Done
            }
            Effect::Git(GitEffect::DeleteBranch { branch, .. }) => {
                self.commits.retain(|(held, _)| held != branch);
                Outcome::Done
            }
            Effect::Step(StepEffect::RemoveFinalizer) => {
                self.finalizer = false;
                Outcome::Done
            }
            Effect::Forge(ForgeEffect::MergePullRequest { .. }) => {
                self.merge();
                self.read()
            }
            Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. }) => {
                self.read()
            }
            Effect::CallTask(call) => {
                let id = call.body["context"]["id"].as_str().unwrap().to_owned();
                if !self.calls.contains(&id) {
                    self.calls.push(id);
                }
                Outcome::TaskAnswer { success: true, message: "ok".to_owned() }
            }
            _ => Outcome::Done,
        }
    }

    fn read(&self) -> Outcome {
        self.pull_requests
            .first()
            .map_or(Outcome::NoPullRequest, |(_, _, found)| Outcome::PullRequest(found.clone()))
    }

    fn merge(&mut self) {
        for (_, _, pull_request) in &mut self.pull_requests {
            *pull_request = merged_pull_request();
        }
    }
}

/// What goes wrong around one effect.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Good,
    /// Done, and the process dies before it is written down.
    Forgotten,
    /// Not done: the world failed.
    Fault,
    /// Done, but the answer was lost.
    LostAnswer,
    /// Not done: not permitted for now.
    Blocked,
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        3 => Just(Luck::Good),
        2 => Just(Luck::Forgotten),
        1 => Just(Luck::Fault),
        1 => Just(Luck::LostAnswer),
        1 => Just(Luck::Blocked),
    ]
}

/// Drives a step to its end with the given luck; when that is used up, all goes well.
fn drive(scene: Scene, luck: &[Luck]) -> (Scene, World) {
    drive_until(scene, luck, usize::MAX)
}

/// The same, but the step is deleted before the given pass.
fn drive_until(mut scene: Scene, luck: &[Luck], deleted: usize) -> (Scene, World) {
    let mut world = World::default();
    let mut luck = luck.iter().copied();
    for pass in 0..500 {
        if pass == deleted {
            scene.step.metadata.deletion_timestamp = from(json!(NOW));
        }
        scene.step.metadata.finalizers = world.finalizer.then(|| vec![FINALIZER.to_owned()]);
        scene.health = (scene.status().state == Some(PromotionState::HealthChecking))
            .then(|| facts(vec![deployment("1.29.0")]));
        let plan = scene.plan();
        let Some(effect) = plan.effect() else {
            if pass >= deleted {
                if plan.status.is_none() && plan.wake.is_none() {
                    return (scene, world);
                }
                scene.pass(SignedDuration::from_secs(10));
                continue;
            }
            match scene.state() {
                PromotionState::Verified | PromotionState::Failed if deleted == usize::MAX => {
                    return (scene, world);
                }
                // Nothing is left to do: now somebody merges.
                PromotionState::WaitingForMerge if plan.status.is_none() => {
                    world.merge();
                    scene.pull_request = None;
                }
                _ => {}
            }
            continue;
        };
        if matches!(effect, Effect::Git(GitEffect::Commit(ref order)) if order.branch != order.base) {
            assert!(world.finalizer, "a branch that nobody would clear away");
        }
        match luck.next().unwrap_or(Luck::Good) {
            Luck::Good => {
                let outcome = world.act(&effect);
                scene.tell(&effect, outcome);
                // As the controller remembers it.
                match effect {
                    Effect::Forge(ForgeEffect::ClosePullRequest { .. }) => scene.pull_request = None,
                    Effect::Forge(ForgeEffect::SetCommitStatus { sha, state, .. }) => {
                        scene.withdrawn = (state == CommitState::Pending).then_some(sha);
                    }
                    _ => {}
                }
            }
            Luck::Forgotten => {
                world.act(&effect);
                scene.pull_request = None;
            }
            // A custom task gives up after three faults by design, so it meets none here.
            Luck::Fault | Luck::LostAnswer if matches!(effect, Effect::CallTask(_)) => {}
            Luck::Fault => {
                scene.tell(&effect, fault());
            }
            Luck::LostAnswer => {
                world.act(&effect);
                scene.tell(&effect, fault());
            }
            Luck::Blocked => {
                scene.tell(
                    &effect,
                    Outcome::Blocked { barrier: Barrier::Other, message: "no token".to_owned() },
                );
            }
        }
    }
    panic!("no end: {:?}", scene.status());
}

/// What must be the same whatever happened on the way.
fn ending(scene: &Scene) -> Value {
    let mut status = serde_json::to_value(scene.status()).unwrap();
    status["conditions"] = json!(status["conditions"].as_array().unwrap().len());
    status
}

fn scenes() -> [fn() -> Scene; 4] {
    [
        || Scene::new(json!({})),
        || Scene::reviewed().with_gate("soak", ready()),
        || Scene::new(json!({"pr": true})),
        || {
            Scene::new(json!({"approval": "pr-review", "steps": [
                {"uses": "git-clone"}, {"uses": "kustomize-set-image"},
                {"uses": "test", "config": {"url": "https://x"}},
                {"uses": "git-commit"}, {"uses": "git-push"}, {"uses": "open-pr"}, {"uses": "wait-for-merge"},
                {"uses": "health-check"}, {"uses": "tell", "config": {"url": "https://y"}},
            ]}))
        },
    ]
}

proptest! {
    #[test]
    fn whatever_happens_there_is_one_commit_and_one_pull_request(
        which in 0usize..4,
        luck in proptest::collection::vec(luck(), 0..40),
    ) {
        let scene = scenes()[which];
        let (calm, quiet) = drive(scene(), &[]);
        let (ended, world) = drive(scene(), &luck);
        prop_assert_eq!(ended.state(), PromotionState::Verified);
        prop_assert_eq!(ending(&ended), ending(&calm));
        prop_assert_eq!(world.commits.len(), 1);
        prop_assert_eq!(&world.commits, &quiet.commits);
        prop_assert_eq!(world.pull_requests.len(), quiet.pull_requests.len());
        prop_assert_eq!(world.pull_requests.len(), usize::from(which != 0));
        prop_assert_eq!(&world.calls, &quiet.calls);
    }
    #[test]
    fn a_step_that_is_deleted_leaves_nothing_behind(
        which in 1usize..4,
        deleted in 0usize..30,
        luck in proptest::collection::vec(luck(), 0..40),
    ) {
        let (_, world) = drive_until(scenes()[which](), &luck, deleted);
        prop_assert!(!world.finalizer);
        prop_assert_eq!(&world.commits, &Vec::new(), "the branch is gone");
        let open = world.pull_requests.iter().any(|(_, _, found)| found.state == PullRequestState::Open);
        prop_assert!(!open);
    }
}
