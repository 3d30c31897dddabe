//! The Graph that is made, run by the engine that runs it: nothing starts before its time, and everything ends.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, BundlePhase, PromotionStep};
use kardinal_graph::{Action, Changed, Fence, NodeState, Observed, Outcome, Owner, Seen, Selector, Walker};
use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Value, json};

use super::world::{World, bundle, gate, intended, line, org_gate, pipeline};
use kardinal_planner::graph::check::compile_nodes;

const B: &str = "my-app-v1-1712567890";

#[derive(Default)]
struct Objects(BTreeMap<ObjectId, Value>);

impl Observed for Objects {
    fn scope_of(&self, _: &Gvk) -> Option<KindScope> {
        Some(KindScope::Namespaced)
    }
    fn object(&self, id: &ObjectId) -> Seen<'_> {
        self.0.get(id).map_or(Seen::Absent, Seen::Present)
    }
    fn select(&self, _: &Gvk, _: Option<&str>, _: &Selector) -> Option<Vec<&Value>> {
        Some(Vec::new())
    }
    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        Some(self.0.iter().map(|(id, object)| (id.clone(), object)).collect())
    }
}

/// A Bundle under way: our machine above, the Graph engine below.
struct Run {
    world: World,
    objects: Objects,
    walker: Option<Walker>,
    now: Timestamp,
}

impl Run {
    fn new(world: World) -> Run {
        let mut objects = Objects::default();
        for bundle in &world.bundles {
            let id = ObjectId {
                gvk: Gvk::parse("kardinal.io/v1alpha1", "Bundle").unwrap(),
                namespace: Some("default".to_owned()),
                name: bundle.metadata.name.clone().unwrap(),
            };
            objects.0.insert(id, serde_json::to_value(bundle).unwrap());
        }
        let now = world.now;
        Run { world, objects, walker: None, now }
    }

    /// Lets the Graph and the Bundle do all they can, at the present time.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.world.steps = self.steps();
            self.world.pass(B);
            self.tell();
            let Some(graph) = self.world.graphs.first() else { continue };
            let owner = Owner {
                name: "g".to_owned(),
                namespace: "default".to_owned(),
                uid: "g-1".to_owned(),
                parents: Vec::new(),
            };
            let walker = self.walker.get_or_insert_with(|| {
                Walker::new(compile_nodes(&graph.spec.nodes).unwrap().into(), owner, Fence::Namespace)
            });
            let step = walker.step(&Changed::All, &self.objects, self.now);
            for action in &step.actions {
                let Action::Apply { id, object, .. } = action else { panic!("{action:?}") };
                let mut object = object.clone();
                object["metadata"]["uid"] = id.name.clone().into();
                if let Some(status) = self.objects.0.get(id).and_then(|old| old.get("status")) {
                    object["status"] = status.clone();
                }
                self.objects.0.insert(id.clone(), object.clone());
                walker.record(action, Outcome::Done(object), self.now);
            }
        }
    }

    /// Lets the Graph see what the Bundle says.
    fn tell(&mut self) {
        let status = serde_json::to_value(&self.world.bundle(B).status).unwrap();
        let found = self.objects.0.iter_mut().find(|(id, _)| id.gvk.kind == "Bundle");
        found.unwrap().1["status"] = status;
    }

    fn of_kind(&self, kind: &str) -> Vec<(&ObjectId, &Value)> {
        self.objects.0.iter().filter(|(id, _)| id.gvk.kind == kind).collect()
    }

    fn steps(&self) -> Vec<PromotionStep> {
        let steps = self.of_kind("PromotionStep");
        steps.into_iter().map(|(_, object)| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    /// The names of all steps and gates that exist, without the Bundle's.
    fn exist(&self) -> String {
        let all = self.of_kind("PromotionStep").into_iter().chain(self.of_kind("PolicyGate"));
        all.map(|(id, _)| id.name.trim_start_matches("my-app-v1-")).collect::<Vec<_>>().join(" ")
    }

    fn set(&mut self, kind: &str, name: &str, status: Value) {
        let found = self
            .objects
            .0
            .iter_mut()
            .find(|(id, _)| id.gvk.kind == kind && id.name == format!("my-app-v1-{name}"));
        found.unwrap_or_else(|| panic!("no {kind} `{name}`")).1["status"] = status;
        self.settle();
    }

    fn verify(&mut self, environment: &str) {
        let now = self.now.to_string();
        self.set(
            "PromotionStep",
            environment,
            json!({"state": "Verified", "verifiedAt": now, "promotedAt": now}),
        );
    }

    /// The nodes of the Graph that are not ready.
    fn unready(&self) -> Vec<&str> {
        let reports = self.walker.iter().flat_map(Walker::reports);
        reports.filter(|(_, report)| report.state != NodeState::Ready).map(|(id, _)| id).collect()
    }

    fn open(&mut self, gate: &str) {
        let now = self.now.to_string();
        self.set("PolicyGate", gate, json!({"ready": true, "lastEvaluatedAt": now}));
    }
}

fn run(world: World) -> Run {
    let mut run = Run::new(world);
    run.settle();
    run
}

#[test]
fn a_guarded_line_runs_to_its_end() {
    let mut world = World::new(line(&["dev", "staging", "prod"]), vec![bundle(B)]);
    world.gates = vec![org_gate("slow", "prod"), org_gate("first", "dev")];
    let mut run = run(world);
    assert_eq!(run.exist(), "first", "even the first environment waits for its gate");
    run.open("first");
    assert_eq!(run.exist(), "dev first");
    run.verify("dev");
    assert_eq!(run.exist(), "dev staging first");
    run.verify("staging");
    assert_eq!(run.exist(), "dev staging first slow");
    // An answer that is too old counts for nothing.
    run.set("PolicyGate", "slow", json!({"ready": true, "lastEvaluatedAt": "2026-04-09T09:00:00Z"}));
    assert_eq!(run.exist(), "dev staging first slow");
    run.set("PolicyGate", "slow", json!({"ready": false, "lastEvaluatedAt": run.now.to_string()}));
    assert_eq!(run.exist(), "dev staging first slow");
    run.open("slow");
    assert_eq!(run.exist(), "dev prod staging first slow");
    assert_eq!(run.world.phase(B), Some(BundlePhase::Promoting));
    run.now += SignedDuration::from_mins(60);
    run.settle();
    run.verify("prod");
    assert_eq!(run.world.phase(B), Some(BundlePhase::Verified));
    let prod = run.steps().into_iter().find(|step| step.spec.environment == "prod").unwrap();
    assert_eq!(prod.spec.bundle_ref, B);
    assert_eq!(prod.spec.required_gates, ["my-app-v1-slow"]);
}

#[test]
fn a_fan_in_waits_for_all_with_and_without_gates() {
    let fan = "    - {name: dev}\n    - {name: eu, dependsOn: [dev]}\n    - {name: us, dependsOn: [dev]}\n    - {name: all, dependsOn: [eu, us]}\n";
    for guarded in [false, true] {
        let mut world = World::new(pipeline(fan), vec![bundle(B)]);
        world.gates.extend(guarded.then(|| org_gate("slow", "all")));
        let mut run = run(world);
        run.verify("dev");
        assert_eq!(run.exist(), "dev eu us");
        run.verify("us");
        assert_eq!(run.exist(), "dev eu us", "eu is missing");
        run.verify("eu");
        if guarded {
            assert_eq!(run.exist(), "dev eu us slow");
            run.open("slow");
            assert_eq!(run.exist(), "all dev eu us slow");
        } else {
            assert_eq!(run.exist(), "all dev eu us");
        }
        run.verify("all");
        assert_eq!(run.world.phase(B), Some(BundlePhase::Verified));
    }
}

#[test]
fn a_gate_behind_an_environment_holds_the_next() {
    let mut world = World::new(line(&["dev", "prod"]), vec![bundle(B)]);
    world.gates = vec![gate(
        "default",
        "smoke",
        "{kardinal.io/applies-to: dev}",
        "{expression: 'true', when: post-deploy}",
    )];
    let mut run = run(world);
    assert_eq!(run.exist(), "dev");
    run.verify("dev");
    assert_eq!(run.exist(), "dev smoke");
    run.open("smoke");
    assert_eq!(run.exist(), "dev prod smoke");
}

#[test]
fn a_finished_graph_is_ready_whatever_its_gates_say() {
    let mut world = World::new(line(&["dev", "prod"]), vec![bundle(B)]);
    let behind = "{expression: 'true', when: post-deploy}";
    world.gates =
        vec![org_gate("slow", "prod"), gate("default", "smoke", "{kardinal.io/applies-to: prod}", behind)];
    let mut run = run(world);
    run.verify("dev");
    run.open("slow");
    assert_eq!(run.unready(), ["prod", "smoke"]);
    // The gate closes before somebody merges the pull request all the same.
    let closed = json!({"ready": false, "lastEvaluatedAt": run.now.to_string()});
    run.set("PolicyGate", "slow", closed.clone());
    assert_eq!(run.unready(), ["slow", "prod", "smoke"]);
    run.verify("prod");
    assert_eq!(run.world.phase(B), Some(BundlePhase::Verified));
    run.set("PolicyGate", "smoke", closed);
    assert_eq!(run.unready(), [""; 0]);
}

#[test]
fn a_failure_stops_what_follows() {
    let mut run = run(World::new(line(&["dev", "prod"]), vec![bundle(B)]));
    run.set("PromotionStep", "dev", json!({"state": "Failed", "message": "no"}));
    assert_eq!(run.exist(), "dev");
    assert_eq!(run.world.phase(B), Some(BundlePhase::Failed));
}

#[test]
fn a_skipped_environment_never_appears() {
    let bundle: Bundle = intended(B, "{skip: [staging]}");
    let mut run = run(World::new(line(&["dev", "staging", "prod"]), vec![bundle]));
    run.verify("dev");
    assert_eq!(run.exist(), "dev prod");
    run.verify("prod");
    assert_eq!(run.world.phase(B), Some(BundlePhase::Verified));
}
