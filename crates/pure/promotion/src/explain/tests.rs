//! Every waiting state, as people read it.

mod health;
mod present;
mod refused;

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, BundlePhase, Pipeline, PolicyGate, PromotionStep};
use kardinal_vcs::Barrier;
use serde_json::{Value, json};

use super::{
    Explanation, GateVerdict, Outcome, WaitOn, World, display_version, explain, remedy, roughly, schema,
};
use crate::bundle::translate;
use crate::promotion_step::why;

/// A Thursday.
const NOW: &str = "2026-04-09T10:30:00Z";

struct Scene {
    pipeline: Pipeline,
    bundles: Vec<Bundle>,
    steps: Vec<PromotionStep>,
    gates: Vec<PolicyGate>,
    policy_namespaces: Vec<String>,
    graphs: Vec<Graph>,
    agents: Vec<crate::shard::Agent>,
    now: Timestamp,
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn template(name: &str, scope: &str, expression: &str) -> PolicyGate {
    object(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": name, "namespace": if scope == "org" { "platform-policies" } else { "default" },
            "labels": {"kardinal.io/scope": scope, "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": expression, "message": format!("{name} says no")},
    }))
}

impl Scene {
    /// dev, staging, prod with the two gates of the specification, and one Bundle with its Graph.
    fn new() -> Scene {
        let pipeline: Pipeline = object(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {
                "git": {"url": "https://example.com/gitops"},
                "environments": [{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}],
            },
        }));
        let gates = vec![
            template("no-weekend-deploys", "org", "!schedule.isWeekend"),
            template("staging-soak", "org", "bundle.upstreamSoakMinutes >= 30"),
        ];
        let mut scene = Scene {
            pipeline,
            bundles: Vec::new(),
            steps: Vec::new(),
            gates,
            policy_namespaces: vec!["platform-policies".to_owned()],
            graphs: Vec::new(),
            agents: Vec::new(),
            now: NOW.parse().unwrap(),
        };
        scene.add_bundle("my-app-v1-29-0", "1.29.0", "2026-04-09T10:00:00Z");
        scene
    }

    fn add_bundle(&mut self, name: &str, tag: &str, created: &str) {
        let bundle: Bundle = object(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created,
                "labels": {"kardinal.io/pipeline": "my-app"}},
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": format!("ghcr.io/myorg/my-app:{tag}")}]}},
            "status": {"phase": "Promoting"},
        }));
        let gates: Vec<&PolicyGate> = self.gates.iter().collect();
        let graph =
            translate(&bundle, &self.pipeline, &gates, &["platform-policies".to_owned()], &[]).unwrap();
        self.graphs.push(graph);
        self.bundles.push(bundle);
    }

    /// Writes the record of an environment into the last Bundle.
    fn record(mut self, environment: &str, status: Value) -> Scene {
        let bundle = self.bundles.last_mut().unwrap();
        let entries = &mut bundle.status.as_mut().unwrap().environments;
        entries.insert(environment.to_owned(), object(status));
        self
    }

    /// dev and staging are verified, staging twelve minutes ago, and the gates exist.
    fn at_the_gates() -> Scene {
        Scene::new()
            .verified("dev", "2026-04-09T10:05:00Z")
            .verified("staging", "2026-04-09T10:18:00Z")
            .with_gates()
    }

    fn verified(self, environment: &str, at: &str) -> Scene {
        self.record(environment, json!({"state": "Verified", "verifiedAt": at, "seal": "of the controller"}))
    }

    /// Creates the gate instances that the Graph of the last Bundle declares.
    fn with_gates(mut self) -> Scene {
        let graph = self.graphs.last().unwrap();
        let of_gates = graph.spec.nodes.iter().filter_map(|node| node.template.clone());
        for mut gate in of_gates.filter(|template| template["kind"] == "PolicyGate") {
            gate["metadata"]["namespace"] = json!("default");
            gate["spec"]["upstreamEnvironment"] = json!("Verified");
            self.gates.push(object(gate));
        }
        self
    }

    /// Creates the step of an environment with this status.
    fn step(mut self, environment: &str, status: Value) -> Scene {
        let bundle = self.bundles.last().unwrap().metadata.name.clone();
        let approval = if environment == "prod" { "pr-review" } else { "auto" };
        self.steps.push(object(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
            "metadata": {"name": format!("step-{environment}"), "namespace": "default"},
            "spec": {"pipeline": "my-app", "environment": environment, "bundleRef": bundle, "approval": approval},
            "status": status,
        })));
        self
    }

    fn paused(mut self) -> Scene {
        self.gates.push(crate::intent::pause(&self.pipeline, "alice"));
        self
    }

    fn world(&self) -> World<'_> {
        World {
            bundles: &self.bundles,
            steps: &self.steps,
            gates: &self.gates,
            policy_namespaces: &self.policy_namespaces,
            graphs: &self.graphs,
            agents: &self.agents,
            ..World::of(&self.pipeline, self.now)
        }
    }

    fn explain(&self, environment: &str) -> Explanation {
        let explanation = explain(&self.world(), Some(environment));
        assert_eq!(explanation.environments.len(), 1, "{environment}");
        explanation
    }

    #[track_caller]
    fn says(&self, environment: &str, outcome: Outcome, lines: &[&str]) {
        let explanation = self.explain(environment);
        let text = explanation.render();
        for line in lines {
            assert!(text.contains(line), "`{line}` is missing in:\n{text}");
        }
        assert_eq!(explanation.environments[0].outcome, outcome, "{text}");
        let word = serde_json::to_value(outcome).unwrap();
        assert!(text.contains(&format!("RESULT: {}", word.as_str().unwrap())), "{text}");
        // Whoever waits is told what for, and until when or why nobody knows.
        let done = matches!(outcome, Outcome::Verified | Outcome::Failed | Outcome::Idle);
        assert_eq!(explanation.environments[0].waits.is_empty(), done, "{text}");
        assert!(done || text.contains("ETA: "), "{text}");
    }
}

#[test]
fn a_step_whose_agent_is_away_says_so() {
    let with_agent = |seconds: i64, state: &str| {
        let mut scene = Scene::at_the_gates().step("prod", json!({"state": state}));
        let labels = [(kardinal_api::kardinal::SHARD_LABEL.to_owned(), "eu-cluster".to_owned())];
        scene.steps[0].metadata.labels = Some(labels.into());
        let seen = scene.now - jiff::SignedDuration::from_secs(seconds);
        let holder =
            kardinal_planner::lease::Holder { seen: Some(seen), present: seconds < 15, version: None };
        let agent = |shard: &str, holder| crate::shard::Agent {
            shard: shard.to_owned(),
            lease: String::new(),
            holder,
        };
        let other = kardinal_planner::lease::Holder { seen: None, present: false, version: None };
        scene.agents = vec![agent("us-cluster", other), agent("eu-cluster", holder)];
        scene
    };
    let away = "agent of shard eu-cluster last seen 4 min ago";
    for state in ["Pending", "Promoting", "WaitingForMerge", "HealthChecking"] {
        let result = format!("RESULT: WAITING: {away}");
        with_agent(240, state).says(
            "prod",
            Outcome::Waiting,
            &[&result, "kardinal agent --shard eu-cluster"],
        );
        assert!(!with_agent(2, state).explain("prod").render().contains("agent"), "{state}");
    }
    for state in ["Verified", "Failed"] {
        assert!(!with_agent(240, state).explain("prod").render().contains("agent"), "{state}");
    }
    let mut unsharded = with_agent(240, "Pending");
    unsharded.steps[0].metadata.labels = None;
    assert!(!unsharded.explain("prod").render().contains("agent"));
}

#[test]
fn the_sample_of_the_specification_is_printed_to_the_letter() {
    let text = Scene::at_the_gates().explain("prod").render();
    assert_eq!(
        text,
        "\
PROMOTION: my-app / prod
  Bundle: v1.29.0

POLICY GATES:
  no-weekend-deploys  [org]   PASS   schedule.isWeekend = false
  staging-soak        [org]   FAIL   bundle.upstreamSoakMinutes = 12 (threshold: >= 30)
                                     ETA: ~18 minutes (based on staging verifiedAt)

RESULT: BLOCKED by staging-soak
"
    );
}

#[test]
fn a_closed_gate_has_its_exact_time() {
    let explanation = Scene::at_the_gates().explain("prod");
    let promotion = &explanation.environments[0];
    let soak = &promotion.gates[1];
    assert_eq!(soak.verdict, GateVerdict::Fail);
    assert_eq!(soak.eta, Some("2026-04-09T10:48:00Z".parse().unwrap()));
    assert_eq!(promotion.waits[0].on, WaitOn::Gate);
    assert_eq!(promotion.waits[0].until, soak.eta);
    assert_eq!(explanation.next_change, soak.eta, "before the weekend begins");
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["environments"][0]["gates"][1]["verdict"], "FAIL");
    assert_eq!(json["environments"][0]["gates"][1]["eta"], "2026-04-09T10:48:00Z");
    assert_eq!(json["environments"][0]["outcome"], "BLOCKED");
}

#[test]
fn a_time_follows_from_what_the_expression_reads_and_not_from_its_words() {
    let soak = "ETA: ~18 minutes (based on staging verifiedAt)";
    let both = "ETA: ~18 minutes (based on staging verifiedAt and the schedule in UTC)";
    for (expression, expected) in [
        ("bundle.upstreamSoakMinutes >= 30 && bundle.labels.plan != \"schedule\"", soak),
        ("bundle[\"upstream\" + \"SoakMinutes\"] >= 30", soak),
        ("bundle.upstreamSoakMinutes >= 30 && !schedule.isWeekend", both),
        (
            "now() >= timestamp(\"2026-04-09T10:48:00Z\") && bundle.labels.plan != \"schedule\"",
            "ETA: ~18 minutes (based on the clock)",
        ),
    ] {
        let mut scene = Scene::at_the_gates();
        for gate in scene.gates.iter_mut().filter(|gate| gate.spec.expression.contains("Soak")) {
            expression.clone_into(&mut gate.spec.expression);
        }
        scene.says("prod", Outcome::Blocked, &[expected]);
    }
}

#[test]
fn an_override_of_an_organisation_gate_counts_in_the_policy_namespace_only() {
    let given = json!({"reason": "outage", "createdBy": "alice", "expiresAt": "2026-04-09T11:00:00Z"});
    for (namespace, counts) in [("default", false), ("platform-policies", true)] {
        let mut scene = Scene::at_the_gates();
        let is_soak = |gate: &&mut PolicyGate| {
            gate.metadata.namespace.as_deref() == Some(namespace) && gate.spec.expression.contains("Soak")
        };
        let gate = scene.gates.iter_mut().find(is_soak).unwrap();
        gate.spec.overrides.push(object(given.clone()));
        let text = scene.explain("prod").render();
        assert_eq!(text.contains("PASS   overridden by alice: outage"), counts, "{namespace}: {text}");
    }
}

#[test]
fn a_broken_gate_needs_a_person() {
    let mut scene = Scene::at_the_gates();
    for gate in &mut scene.gates {
        gate.spec.expression = gate.spec.expression.replace("isWeekend", "isHoliday");
    }
    scene.says("prod", Outcome::Blocked, &["isHoliday", "no ETA: needs a person to correct the expression"]);
}

#[test]
fn a_weekend_ends_by_itself() {
    let mut scene = Scene::at_the_gates();
    scene.now = "2026-04-11T15:00:00Z".parse().unwrap();
    let lines = [
        "schedule.isWeekend = true",
        "ETA: ~33 hours, Monday 2026-04-13 00:00 UTC (based on the schedule in UTC)",
    ];
    scene.says("prod", Outcome::Blocked, &lines);
    assert!(scene.explain("prod").render().ends_with("RESULT: BLOCKED by no-weekend-deploys\n"));
}

#[test]
fn gates_to_come_are_pending_and_the_environment_before_is_named() {
    let scene =
        Scene::new().step("dev", json!({"state": "Promoting", "message": "pushing the change to `main`"}));
    let lines = [
        "staging-soak        [org]   PENDING   is asked when staging is verified",
        "RESULT: WAITING for staging to be verified",
    ];
    scene.says("prod", Outcome::Waiting, &lines);
    scene.says(
        "staging",
        Outcome::Waiting,
        &["dev  PROMOTING: pushing the change to `main`", "no ETA: follows when dev is verified"],
    );
    scene.says("dev", Outcome::Promoting, &["RESULT: PROMOTING: pushing the change to `main`"]);
}

#[test]
fn a_pull_request_needs_a_person() {
    let status = json!({
        "state": "WaitingForMerge", "prURL": "http://127.0.0.1:8440/forge/default/gitops/pulls/3",
        "outputs": {"prNumber": "3", "commit": "abc"}, "message": "waiting for PR #3 to be merged",
    });
    let mut scene = Scene::at_the_gates().step("prod", status);
    scene.now = "2026-04-09T10:50:00Z".parse().unwrap();
    let lines = [
        "staging-soak        [org]   PASS",
        "WAITING FOR:\n  PR #3  http://127.0.0.1:8440/forge/default/gitops/pulls/3\n",
        "no ETA: needs a person to merge PR #3",
        "RESULT: WAITING for PR #3 to be merged",
    ];
    scene.says("prod", Outcome::Waiting, &lines);
}

#[test]
fn while_a_gate_is_closed_and_a_pull_request_open_the_result_is_blocked_by_the_gate() {
    let status = json!({
        "state": "WaitingForMerge", "prURL": "https://example.com/pull/3",
        "outputs": {"prNumber": "3", "commit": "abc"}, "message": "waiting for PR #3 to be merged",
    });
    let scene = Scene::at_the_gates().step("prod", status);
    let lines = ["staging-soak        [org]   FAIL", "PR #3", "RESULT: BLOCKED by staging-soak"];
    scene.says("prod", Outcome::Blocked, &lines);
}

#[test]
fn a_time_without_a_seal_does_not_count_for_the_organisation() {
    let forged = json!({"state": "Verified", "verifiedAt": "2020-01-01T00:00:00Z"});
    let scene = Scene::at_the_gates().record("staging", forged);
    scene.says(
        "prod",
        Outcome::Blocked,
        &["bundle.upstreamSoakMinutes = 0", "RESULT: BLOCKED by staging-soak"],
    );
}

#[test]
fn a_pull_request_with_commits_of_others_is_not_said_to_be_merged_by_kardinal() {
    let said = "PR #3 waits for a person to look at it: its newest commit `5trange` is not kardinal's";
    let status = json!({
        "state": "WaitingForMerge", "prURL": "https://example.com/pull/3", "message": said,
        "waits": [why::pull_request(Some(3), None, why::reason::FOREIGN).detail(said)],
        "outputs": {"prNumber": "3", "prHead": "5trange", "commit": "c0ffee"},
    });
    let mut scene = Scene::at_the_gates().step("prod", status);
    scene.now = "2026-04-09T10:50:00Z".parse().unwrap();
    scene.says(
        "prod",
        Outcome::Waiting,
        &[said, "no ETA: needs a person to look at PR #3, and to merge or close it"],
    );
}

#[test]
fn a_pull_request_with_conflicts_says_so() {
    let said = "PR #3 has conflicts with `main`: resolve them, then merge it";
    let waits = [why::pull_request(Some(3), None, why::reason::CONFLICT).detail(said)];
    let url = "https://example.com/pull/3";
    let status = json!({"state": "WaitingForMerge", "prURL": url, "message": said, "waits": waits});
    let mut scene = Scene::at_the_gates().step("prod", status);
    scene.now = "2026-04-09T10:50:00Z".parse().unwrap();
    scene.says(
        "prod",
        Outcome::Waiting,
        &[
            said,
            "no ETA: needs a person to resolve the conflicts or to close PR #3",
            "RESULT: WAITING for PR #3",
        ],
    );
}

#[test]
fn a_health_wait_says_what_is_wanted_what_runs_and_until_when() {
    let status = json!({
        "state": "HealthChecking", "promotedAt": "2026-04-09T10:24:00Z",
        "waits": [why::health("prod", why::reason::CHECKING, "Deployment `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app")],
    });
    let scene = Scene::at_the_gates().step("prod", status);
    let lines = [
        "prod  wants v1.29.0: Deployment `my-app` still runs 1.28.0 of ghcr.io/myorg/my-app",
        "no ETA: no later than 2026-04-09T10:34:00Z, or it fails (in 4 minutes)",
        "RESULT: WAITING for prod to become healthy",
    ];
    scene.says("prod", Outcome::Waiting, &lines);
    assert_eq!(scene.explain("prod").next_change, Some("2026-04-09T10:34:00Z".parse().unwrap()));
}

#[test]
fn a_pause_is_a_closed_gate_that_a_person_opens() {
    let scene = Scene::at_the_gates().paused();
    let lines =
        ["freeze-my-app", "paused by alice", "no ETA: needs a person to run `kardinal resume my-app`"];
    scene.says("prod", Outcome::Blocked, &lines);
    assert!(scene.explain("prod").render().ends_with("RESULT: BLOCKED by freeze-my-app, staging-soak\n"));
    let mut by_spec = Scene::at_the_gates();
    by_spec.pipeline.spec.paused = Some(true);
    by_spec.says(
        "prod",
        Outcome::Blocked,
        &["RESULT: BLOCKED by spec.paused, staging-soak", "kardinal resume my-app"],
    );
}

#[test]
fn ends_are_told_with_their_reasons() {
    let passed =
        json!([{"name": "staging-soak", "result": "pass", "reason": "bundle.upstreamSoakMinutes = 45"}]);
    let verified = json!({"state": "Verified", "verifiedAt": "2026-04-09T10:29:00Z", "evidence": {"policyGates": passed}});
    let scene = Scene::at_the_gates().record("prod", verified);
    let lines = ["PASS   bundle.upstreamSoakMinutes = 45", "RESULT: VERIFIED at 2026-04-09T10:29:00Z"];
    scene.says("prod", Outcome::Verified, &lines);
    let failed = json!({"state": "Failed", "message": "PR #3 was closed without merging"});
    Scene::at_the_gates().record("prod", failed).says(
        "prod",
        Outcome::Failed,
        &["RESULT: FAILED: PR #3 was closed"],
    );
}

#[test]
fn the_newest_bundle_on_its_way_counts_and_refused_ones_are_noted() {
    let mut scene = Scene::at_the_gates().verified("prod", "2026-04-09T10:20:00Z");
    scene.bundles[0].status.as_mut().unwrap().phase = Some(BundlePhase::Verified);
    scene.says("prod", Outcome::Verified, &["Bundle: v1.29.0"]);
    scene.add_bundle("my-app-v1-30-0", "1.30.0", "2026-04-09T10:25:00Z");
    scene.says("prod", Outcome::Waiting, &["Bundle: v1.30.0", "WAITING for staging"]);
    let status = scene.bundles[1].status.as_mut().unwrap();
    *status = object(json!({"phase": "SkipDenied", "conditions": [{
        "type": "Ready", "status": "False", "reason": "SkipDenied", "message": "`staging` may not be skipped",
        "lastTransitionTime": "2026-04-09T10:25:00Z",
    }]}));
    let lines = [
        "Bundle: v1.29.0",
        "Note: v1.30.0 (my-app-v1-30-0) does not come here: `staging` may not be skipped",
    ];
    scene.says("prod", Outcome::Verified, &lines);
}

#[test]
fn without_a_bundle_there_is_nothing_to_wait_for() {
    let mut scene = Scene::new();
    scene.bundles.clear();
    scene.says("prod", Outcome::Idle, &["RESULT: IDLE: no Bundle is on its way to prod"]);
    assert_eq!(explain(&scene.world(), None).environments.len(), 3);
    assert!(explain(&scene.world(), Some("qa")).environments.is_empty());
}

#[test]
fn a_bundle_nobody_has_looked_at_says_what_it_waits_for() {
    let mut scene = Scene::new();
    scene.graphs.clear();
    scene.bundles[0].status = None;
    scene.says("dev", Outcome::Promoting, &["no controller has looked at the Bundle yet", "kardinal doctor"]);
}

#[test]
fn durations_round_up_to_one_unit() {
    let table = [
        (0, "0 seconds"),
        (1, "1 second"),
        (90, "90 seconds"),
        (91, "2 minutes"),
        (1061, "18 minutes"),
        (1080, "18 minutes"),
        (7199, "120 minutes"),
        (7200, "2 hours"),
        (172_800, "2 days"),
    ];
    for (seconds, text) in table {
        assert_eq!(roughly(jiff::SignedDuration::from_secs(seconds)), text);
    }
    let table = [
        ("1.29.0", "v1.29.0"),
        ("v1.2", "v1.2"),
        ("12345678", "12345678"),
        ("latest", "latest"),
        ("1.29-rc", "v1.29-rc"),
    ];
    for (version, text) in table {
        assert_eq!(display_version(version), text);
    }
}

#[test]
fn whoever_waits_for_another_bundle_is_told_which() {
    let mut scene = Scene::new()
        .step("dev", json!({"state": "WaitingForMerge", "outputs": {"prNumber": "3", "prState": "open"}}));
    scene.steps[0].metadata.name = Some("older".to_owned());
    scene.add_bundle("my-app-v1-30-0", "1.30.0", "2026-04-09T10:20:00Z");
    let scene = scene.step("dev", json!({"state": "Pending", "message": "waiting"}));
    scene.says(
        "dev",
        Outcome::Waiting,
        &[
            "Bundle: v1.30.0",
            "my-app-v1-29-0",
            "its PR #3 is open",
            "follows when my-app-v1-29-0 is through in dev",
            "RESULT: WAITING for my-app-v1-29-0 to leave dev",
        ],
    );
}

#[test]
fn what_others_write_makes_no_line_of_its_own() {
    let forged = "gone\nRESULT: VERIFIED at 2026-04-09T10:00:00Z";
    let waits = json!([{
        "on": "outside", "reason": "TryingAgain", "who": "outside",
        "subject": {"name": forged}, "detail": forged, "basis": forged,
    }]);
    let scene = Scene::new().step("dev", json!({"state": "Promoting", "waits": waits}));
    let text = scene.explain("dev").render();
    assert_eq!(text.matches("\nRESULT: ").count(), 1, "{text}");
    assert!(text.contains("gone RESULT: VERIFIED"), "{text}");
    let mut scene = Scene::at_the_gates().paused();
    scene.gates.last_mut().unwrap().spec.message = Some(forged.to_owned());
    let text = scene.explain("prod").render();
    assert_eq!(text.matches("\nRESULT: ").count(), 1, "{text}");
}

#[test]
fn while_a_pipeline_is_paused_and_a_pull_request_open_the_result_is_blocked_by_the_pause() {
    let status = json!({
        "state": "WaitingForMerge", "prURL": "https://example.com/pull/3",
        "outputs": {"prNumber": "3", "commit": "abc"}, "message": "held: paused; PR #3 waits",
    });
    let mut scene = Scene::at_the_gates().step("prod", status).paused();
    scene.now = "2026-04-09T10:50:00Z".parse().unwrap();
    scene.says("prod", Outcome::Blocked, &["PR #3", "RESULT: BLOCKED by freeze-my-app\n"]);
    scene.gates.pop();
    scene.pipeline.spec.paused = Some(true);
    scene.says("prod", Outcome::Blocked, &["PR #3", "RESULT: BLOCKED by spec.paused\n"]);
}

#[test]
fn a_step_that_nobody_has_touched_does_not_show_the_expressions_of_its_graph() {
    let mut scene = Scene::new();
    let raw = "waits until `${stepDev.status.?state.orValue(\"\") == \"Verified\"}` is true";
    let node = json!({"id": "dev", "state": "Pending", "message": raw});
    let graph = scene.graphs.last_mut().unwrap();
    let id = graph
        .spec
        .nodes
        .iter()
        .find(|node| node.template.as_ref().is_some_and(|template| template["kind"] == "PromotionStep"));
    let mut node = node;
    node["id"] = json!(id.unwrap().id);
    graph.status = Some(object(json!({"nodes": [node]})));
    let mut scene = scene.step("dev", json!({}));
    scene.says("dev", Outcome::Promoting, &["RESULT: PROMOTING: the step is about to begin"]);
    let labels = [(kardinal_api::kardinal::SHARD_LABEL.to_owned(), "eu-cluster".to_owned())];
    scene.steps[0].metadata.labels = Some(labels.into());
    scene.says("dev", Outcome::Promoting, &["the agent of shard eu-cluster is about to begin"]);
    assert!(!scene.explain("dev").render().contains("${"));
}

/// The only gate of the organisation, which guards prod unless it is told otherwise.
fn guarded_by(expression: &str) -> Scene {
    let mut scene = Scene::new();
    scene.gates = vec![template("word", "org", expression)];
    scene.graphs.clear();
    scene
}

#[test]
fn what_a_bundle_says_of_itself_opens_no_gate_of_the_organisation() {
    for expression in
        ["bundle.provenance.rollbackOf != ''", "bundle.labels['kardinal.io/emergency'] == 'true'"]
    {
        let mut scene = guarded_by(expression)
            .verified("dev", "2026-04-09T10:05:00Z")
            .verified("staging", "2026-04-09T10:18:00Z")
            .step("prod", json!({"state": "Pending"}));
        let bundle = &mut scene.bundles[0];
        bundle.spec.provenance = Some(object(json!({"rollbackOf": "my-app-v1-28-0"})));
        let labels = bundle.metadata.labels.get_or_insert_default();
        labels.insert("kardinal.io/emergency".to_owned(), "true".to_owned());
        scene.says("prod", Outcome::Blocked, &["word", "FAIL", "RESULT: BLOCKED by word"]);
    }
}

#[test]
fn a_gate_behind_the_environment_before_holds_a_step_that_no_graph_made() {
    let mut scene = guarded_by("false")
        .verified("dev", "2026-04-09T10:05:00Z")
        .verified("staging", "2026-04-09T10:18:00Z")
        .step("prod", json!({"state": "Pending"}));
    let gate = &mut scene.gates[0];
    gate.metadata.labels.as_mut().unwrap().insert("kardinal.io/applies-to".to_owned(), "staging".to_owned());
    gate.spec.when = Some(kardinal_api::kardinal::GateStage::PostDeploy);
    scene.says("prod", Outcome::Blocked, &["word", "FAIL", "RESULT: BLOCKED by word"]);
}

#[test]
fn the_upstreams_on_an_instance_do_not_change_what_the_organisation_says() {
    let mut scene = Scene::at_the_gates().step("prod", json!({"state": "Pending"}));
    for gate in scene.gates.iter_mut().filter(|gate| gate.metadata.namespace.as_deref() == Some("default")) {
        let annotations = gate.metadata.annotations.get_or_insert_default();
        annotations.insert("kardinal.io/upstreams".to_owned(), "dev".to_owned());
    }
    scene.now = "2026-04-09T10:40:00Z".parse().unwrap();
    scene.says(
        "prod",
        Outcome::Blocked,
        &["bundle.upstreamSoakMinutes = 22", "RESULT: BLOCKED by staging-soak"],
    );
}

#[test]
fn a_gate_with_a_name_that_no_label_holds_is_asked_as_its_template_is_now() {
    let name = format!("no-{}-deploys", "very-".repeat(14));
    let mut scene = Scene::new();
    scene.gates = vec![template(&name, "org", "false")];
    (scene.bundles, scene.graphs) = (Vec::new(), Vec::new());
    scene.add_bundle("my-app-v1-29-0", "1.29.0", "2026-04-09T10:00:00Z");
    let mut scene = scene
        .verified("dev", "2026-04-09T10:05:00Z")
        .verified("staging", "2026-04-09T10:18:00Z")
        .with_gates()
        .step("prod", json!({"state": "Pending"}));
    // The instance is the team's to edit.
    scene.gates[1].spec.expression = "true".to_owned();
    let explanation = scene.explain("prod");
    let rows: Vec<(&str, GateVerdict)> =
        explanation.environments[0].gates.iter().map(|gate| (gate.name.as_str(), gate.verdict)).collect();
    assert_eq!(rows, [(name.as_str(), GateVerdict::Fail)]);
}

#[test]
fn the_schema_is_fresh_and_describes_what_is_printed() {
    let written = include_str!("../../../../../docs/reference/explain.schema.json");
    assert_eq!(schema().unwrap(), written, "docs/reference/explain.schema.json is old: run `make crds`");
    let schema: Value = serde_json::from_str(written).unwrap();
    let scene = Scene::at_the_gates();
    let mut printed = vec![(serde_json::to_value(scene.explain("prod")).unwrap(), &schema)];
    // Every field that is printed is described, and every field that is required is printed.
    while let Some((value, described)) = printed.pop() {
        let described = match described["$ref"].as_str() {
            Some(name) => schema.pointer(name.trim_start_matches('#')).unwrap(),
            None => described,
        };
        match value {
            Value::Object(fields) => {
                for name in described["required"].as_array().into_iter().flatten() {
                    assert!(fields.contains_key(name.as_str().unwrap()), "{name} is missing in {fields:?}");
                }
                for (name, field) in fields {
                    let described = &described["properties"][&name];
                    assert!(described.is_object(), "{name} is not described");
                    printed.push((field, described));
                }
            }
            Value::Array(items) => printed.extend(items.into_iter().map(|item| (item, &described["items"]))),
            _ => {}
        }
    }
}
