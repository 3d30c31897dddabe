//! One situation, told in four places: the step, its Bundle, `kardinal explain` and the pull request say the same.

use kardinal_api::kardinal::{BUNDLE_LABEL, ENVIRONMENT_LABEL, PIPELINE_LABEL, Pipeline};
use kardinal_planner::condition;
use kardinal_planner::why::{Wait, WaitOn, Who};

use super::*;
use crate::bundle::{self, Commit, READY, translate};
use crate::explain::{Promotion, World, explain};
use crate::gate_context::Surroundings;

/// A Saturday.
const WEEKEND: &str = "2026-04-18T14:00:00Z";
/// When the gate opens.
const MONDAY: &str = "2026-04-20T00:00:00Z";
const GATE: &str = "my-app-no-weekends";

/// `prod` of `staging` and `prod`, with a gate that is closed on weekends.
fn scene(status: Value) -> Scene {
    let mut scene = Scene::reviewed().with_gate(GATE, status);
    let gate = scene.gates.get_mut(GATE).unwrap();
    gate.metadata.namespace = Some("default".to_owned());
    gate.spec.expression = "!schedule.isWeekend".to_owned();
    let bundle = scene.bundle.as_mut().unwrap();
    bundle.metadata.uid = Some("uid".to_owned());
    bundle.metadata.labels = Some([(PIPELINE_LABEL.to_owned(), "my-app".to_owned())].into());
    let labels = gate.metadata.labels.as_mut().unwrap();
    labels.insert("kardinal.io/scope".to_owned(), "team".to_owned());
    labels.insert(BUNDLE_LABEL.to_owned(), "my-app-v1-29-0".to_owned());
    labels.insert(ENVIRONMENT_LABEL.to_owned(), "prod".to_owned());
    scene
}

fn closed(now: &str) -> Value {
    json!({
        "ready": false, "reason": "schedule.isWeekend = true", "nextChangeAt": MONDAY, "lastEvaluatedAt": now,
    })
}

/// What is said of one situation in each place.
struct Statements {
    step: PromotionStepStatus,
    bundle: kardinal_api::kardinal::BundleStatus,
    explained: Promotion,
    /// The body of the pull request. Before there is one, what it would say if it were opened now.
    body: String,
}

impl Statements {
    fn bundle_says(&self) -> &str {
        &condition::find(&self.bundle.conditions, READY).unwrap().message
    }

    /// What the step, its Bundle and `explain` wait for of a kind.
    fn waits(&self, on: WaitOn) -> [&Wait; 3] {
        let all = [&self.step.waits, &self.bundle.waits, &self.explained.waits];
        all.map(|waits| waits.iter().find(|wait| wait.on == on).unwrap())
    }

    /// They all mean the same: the thing, how it stands, whose turn it is and until when. The pull request shows the gates
    /// that the step waits for, and no others, as closed, with the same values.
    #[track_caller]
    fn agree(&self, on: WaitOn) -> Wait {
        let [step, bundle, explained] = self.waits(on);
        for other in [bundle, explained] {
            assert_eq!((&other.reason, other.who, other.until), (&step.reason, step.who, step.until));
            assert_eq!(other.subject, step.subject);
            assert!(step.basis.is_none() || other.basis == step.basis, "{other:?}");
        }
        assert_eq!(bundle.detail, step.detail);
        let gates = self.step.waits.iter().filter(|wait| wait.on == WaitOn::Gate);
        let closed: Vec<String> =
            gates.map(|wait| format!("| {} | team | FAIL | {} |", wait.subject.name, wait.detail)).collect();
        let shown: Vec<&str> = self.body.lines().filter(|line| line.contains(" | FAIL | ")).collect();
        assert_eq!(shown, closed, "{}", self.body);
        step.clone()
    }
}

fn statements(scene: &Scene) -> Statements {
    let pipeline: Pipeline = from(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "my-app", "namespace": "default"},
        "spec": {
            "git": {"url": "https://github.com/myorg/gitops-repo"},
            "environments": [{"name": "staging"}, {"name": "prod", "approval": "pr-review"}],
        },
    }));
    let mut bundle = scene.bundle.clone().unwrap();
    let gates: Vec<PolicyGate> = scene.gates.values().cloned().collect();
    let gate_references: Vec<&PolicyGate> = gates.iter().collect();
    let graph = translate(&bundle, &pipeline, &[], &[], &[]).unwrap();
    let status = bundle::plan(&bundle::Snapshot {
        bundle: &bundle,
        pipeline: Some(&pipeline),
        around: &Surroundings::default(),
        gates: &gate_references,
        graphs: &[&graph],
        steps: &[&scene.step],
        policy_namespaces: &[],
        commit: &Commit::Found,
        key: Ok(&scene.key),
        now: scene.now,
    })
    .status
    .unwrap();
    bundle.status = Some(status.clone());
    let body = crate::promotion_step::body::body(&scene.snapshot(), &bundle, &scene.status());
    let explanation = explain(
        &World {
            bundles: &[bundle],
            steps: std::slice::from_ref(&scene.step),
            gates: &gates,
            graphs: &[graph],
            ..World::of(&pipeline, scene.now)
        },
        Some("prod"),
    );
    let explained = explanation.environments.into_iter().next().unwrap();
    Statements { step: scene.status(), bundle: status, explained, body }
}

#[test]
fn a_closed_gate_is_told_alike_before_anything_has_begun() {
    let mut scene = scene(closed(WEEKEND));
    scene.now = time(WEEKEND);
    scene.plan();
    let said = statements(&scene);
    assert_eq!(scene.message(), "held by gate `no-weekends`: schedule.isWeekend = true");
    assert_eq!(said.bundle_says(), format!("`prod`: {}", scene.message()));
    assert_eq!(said.explained.result, "BLOCKED by no-weekends");
    let wait = said.agree(WaitOn::Gate);
    assert_eq!((wait.who, wait.until), (Who::Time, Some(time(MONDAY))));
    assert_eq!(said.waits(WaitOn::Gate)[2].detail, wait.detail);
}

#[test]
fn a_gate_that_closes_holds_the_pull_request_in_all_places_alike() {
    let mut scene = scene(json!({"ready": true, "lastEvaluatedAt": NOW})).opened();
    scene.now = time(WEEKEND);
    let status = scene.gates.get_mut(GATE).unwrap();
    status.status = from(closed(WEEKEND));
    let written = loop {
        match scene.effect() {
            Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) => break body,
            other => _ = scene.tell(&other, Outcome::Done),
        }
    };
    let mut scene = scene.kept();
    scene.plan();
    let said = statements(&scene);
    assert_eq!(said.body, written, "what stands on the forge");
    let url = scene.status().pr_url.unwrap();
    assert_eq!(scene.message(), "PR #7 waits: held by no-weekends");
    assert_eq!(said.bundle_says(), format!("`prod`: {} (the pull request {url})", scene.message()));
    assert_eq!(said.explained.result, "BLOCKED by no-weekends");
    let wait = said.agree(WaitOn::Gate);
    assert_eq!(wait.until, Some(time(MONDAY)));
    said.agree(WaitOn::PullRequest);
}

#[test]
fn a_pull_request_that_awaits_a_person_is_told_alike() {
    let mut scene = scene(json!({"ready": true, "lastEvaluatedAt": NOW})).opened().kept();
    scene.plan();
    let said = statements(&scene);
    let url = scene.status().pr_url.unwrap();
    assert_eq!(scene.message(), "waiting for PR #7 to be merged");
    assert_eq!(said.bundle_says(), format!("`prod`: {} (the pull request {url})", scene.message()));
    assert_eq!(said.explained.result, "WAITING for PR #7 to be merged");
    let wait = said.agree(WaitOn::PullRequest);
    assert_eq!((wait.who, wait.subject.url), (Who::Person, Some(url)));
    assert!(said.body.contains("| no-weekends | team | PASS | "), "{}", said.body);
}

#[test]
fn numbers_that_move_on_behind_a_closed_gate_are_not_written_while_people_look_at_the_pull_request() {
    let hour = |hour: u32| json!({"ready": false, "reason": format!("schedule.hour = {hour}"), "lastEvaluatedAt": NOW});
    let mut scene = scene(json!({"ready": true, "lastEvaluatedAt": NOW})).opened().kept();
    scene.gates.get_mut(GATE).unwrap().status = from(hour(3));
    let mut scene = scene.kept();
    assert_eq!(scene.status().waits[0].detail, "schedule.hour = 3");
    scene.gates.get_mut(GATE).unwrap().status = from(hour(4));
    let written = scene.plan().status;
    assert_eq!(written, None, "the gate itself tells the hour");
    scene.gates.get_mut(GATE).unwrap().status =
        from(json!({"ready": false, "reason": "schedule.isWeekend = true", "lastEvaluatedAt": NOW}));
    let mut scene = scene.kept();
    scene.plan();
    assert_eq!(scene.status().waits[0].detail, "schedule.isWeekend = true", "other words are news");
}

#[test]
fn no_more_waits_are_written_than_a_status_may_have() {
    let mut scene = scene(json!({"ready": true, "lastEvaluatedAt": NOW})).opened().kept();
    for number in 0..300 {
        scene = scene.with_gate(&format!("gate-{number}"), json!({"ready": false, "lastEvaluatedAt": NOW}));
    }
    let mut scene = scene.kept();
    scene.plan();
    assert_eq!(scene.status().waits.len(), 256);
    assert!(scene.message().starts_with("PR #7 waits: held by gate-0, gate-1, "), "{}", scene.message());
}
