//! Order, target, skip and what each node refers to.

use kardinal_api::graph::{Graph, Node};
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use serde_json::{Value, json};

use super::world::{bundle, fixture, gate, intended, line, org, org_gate, pipeline};
use crate::bundle::{export_graph, translate};
use kardinal_planner::graph::check::compile_nodes;

const B: &str = "b-1712567890";

pub(super) fn make(bundle: &Bundle, pipeline: &Pipeline, gates: &[&PolicyGate]) -> Graph {
    let graph = translate(bundle, pipeline, gates, &org(), &[]).unwrap();
    compile_nodes(&graph.spec.nodes).unwrap();
    graph
}

pub(super) fn node<'a>(graph: &'a Graph, id: &str) -> &'a Node {
    graph.spec.nodes.iter().find(|node| node.id == id).unwrap_or_else(|| panic!("no node `{id}`"))
}

fn spec(graph: &Graph, id: &str) -> Value {
    node(graph, id).template.as_ref().unwrap()["spec"].clone()
}

/// Each node with what it comes after: `dev; staging<dev; …`, the Bundle left out.
pub(super) fn edges(graph: &Graph) -> String {
    let ids: Vec<&str> = graph.spec.nodes.iter().map(|node| node.id.as_str()).collect();
    let mut lines = Vec::new();
    for node in &graph.spec.nodes {
        if node.id == "bundle" {
            continue;
        }
        let text = serde_json::to_string(node.template.as_ref().unwrap()).unwrap();
        let mut after: Vec<&str> =
            ids.iter().copied().filter(|id| *id != "bundle" && text.contains(&format!("${{{id}."))).collect();
        after.extend(node.depends_on.iter().map(String::as_str).filter(|id| *id != "bundle"));
        after.sort_unstable();
        match after.is_empty() {
            true => lines.push(node.id.clone()),
            false => lines.push(format!("{}<{}", node.id, after.join(","))),
        }
    }
    lines.join("; ")
}

fn check(environments: &str, intent: &str, wanted: &str) {
    let graph = make(&intended(B, intent), &pipeline(environments), &[]);
    assert_eq!(edges(&graph), wanted);
}

const FAN: &str = "    - {name: dev}\n    - {name: staging}\n    - {name: prod-us-east, dependsOn: [staging]}\n    - {name: prod-eu-west, dependsOn: [staging]}\n    - {name: done, dependsOn: [prod-us-east, prod-eu-west]}\n";

#[test]
fn environments_follow_each_other() {
    check("    - {name: dev}\n    - {name: staging}\n", "{}", "dev; staging<dev");
    check(FAN, "{}", "dev; staging<dev; prodUsEast<staging; prodEuWest<staging; done<prodEuWest,prodUsEast");
    // Listed in any order; without upstreams on purpose.
    check(
        "    - {name: c, dependsOn: [b]}\n    - {name: b, dependsOn: [a]}\n    - {name: a, dependsOn: []}\n    - {name: d, dependsOn: []}\n",
        "{}",
        "a; b<a; c<b; d",
    );
}

#[test]
fn the_first_upstream_is_a_field_and_the_others_are_edges() {
    let graph = make(&bundle(B), &pipeline(FAN), &[]);
    assert_eq!(spec(&graph, "done")["upstreamVerified"], "${prodUsEast.status.state}");
    assert_eq!(node(&graph, "done").depends_on, ["prodEuWest"]);
    let gate = org_gate("slow", "done");
    let graph = make(&bundle(B), &pipeline(FAN), &[&gate]);
    assert_eq!(spec(&graph, "slow")["upstreamEnvironment"], "${prodUsEast.status.state}");
    assert_eq!(node(&graph, "slow").depends_on, ["prodEuWest", "bundle"]);
    let done = spec(&graph, "done");
    assert_eq!(done["requiredGates"], json!(["${slow.metadata.name}"]));
    assert_eq!(done.get("upstreamVerified"), None);
    assert!(node(&graph, "done").depends_on.is_empty());
}

#[test]
fn the_target_cuts_what_is_not_before_it() {
    check(FAN, "{target: staging}", "dev; staging<dev");
    check(FAN, "{target: prod-eu-west}", "dev; staging<dev; prodEuWest<staging");
    check(FAN, "{target: dev}", "dev");
}

#[test]
fn what_comes_after_a_skipped_environment_comes_after_its_upstreams() {
    check(FAN, "{skip: [staging]}", "dev; prodUsEast<dev; prodEuWest<dev; done<prodEuWest,prodUsEast");
    check(FAN, "{skip: [staging, prod-us-east]}", "dev; prodEuWest<dev; done<dev,prodEuWest");
    check(FAN, "{skip: [dev, staging], target: done}", "prodUsEast; prodEuWest; done<prodEuWest,prodUsEast");
    check(
        FAN,
        "{skip: [dev]}",
        "staging; prodUsEast<staging; prodEuWest<staging; done<prodEuWest,prodUsEast",
    );
    // Not on the way: nothing to leave out.
    check(FAN, "{skip: [prod-us-east], target: staging}", "dev; staging<dev");
}

fn refuse(environments: &str, intent: &str, wanted: &str) {
    let problem = translate(&intended(B, intent), &pipeline(environments), &[], &org(), &[]).unwrap_err();
    assert_eq!(problem.to_string(), wanted);
}

#[test]
fn impossible_ways_are_refused() {
    refuse(
        FAN,
        "{target: pord}",
        "spec.intent.target: the Pipeline has no environment `pord` (it has `dev`, `staging`, `prod-us-east`, `prod-eu-west` and `done`)",
    );
    refuse(
        "    - {name: dev}\n",
        "{skip: [x]}",
        "spec.intent.skip[0]: the Pipeline has no environment `x` (it has `dev`)",
    );
    refuse(
        FAN,
        "{target: done, skip: [dev, done]}",
        "spec.intent.skip[1]: `done` is also `spec.intent.target` (a Bundle cannot skip the environment it is meant for; choose another target)",
    );
    refuse(
        "    - {name: dev}\n",
        "{skip: [dev]}",
        "spec.intent.skip: leaves no environment to promote to (keep at least one environment)",
    );
    refuse(
        "    - {name: x}\n    - {name: a, dependsOn: [c]}\n    - {name: b, dependsOn: [a]}\n    - {name: c, dependsOn: [b]}\n",
        "{}",
        "spec.environments: environments depend on each other in a circle: a → b → c → a (remove one of these from `dependsOn`)",
    );
}

#[test]
fn gates_without_an_upstream_depend_on_the_bundle() {
    let gate = org_gate("slow", "dev");
    let graph = make(&bundle(B), &line(&["dev"]), &[&gate]);
    assert_eq!(node(&graph, "slow").depends_on, ["bundle"]);
    assert_eq!(spec(&graph, "slow").get("upstreamEnvironment"), None);
}

#[test]
fn a_gate_after_an_environment_holds_what_follows() {
    let after = gate(
        "default",
        "smoke",
        "{kardinal.io/applies-to: staging}",
        "{expression: 'bundle.upstreamSoakMinutes >= 5', when: post-deploy}",
    );
    let graph = make(&bundle(B), &line(&["dev", "staging", "prod"]), &[&after]);
    assert_eq!(edges(&graph), "dev; staging<dev; smoke<staging; prod<smoke,staging");
    assert_eq!(spec(&graph, "prod")["requiredGates"], json!(["${smoke.metadata.name}"]));
    let metadata = &node(&graph, "smoke").template.as_ref().unwrap()["metadata"];
    assert_eq!(metadata["annotations"]["kardinal.io/upstreams"], "staging");
    assert_eq!(metadata["labels"]["kardinal.io/environment"], "staging");
    // Together with a gate before prod both hold it.
    let before = org_gate("slow", "prod");
    let graph = make(&bundle(B), &line(&["dev", "staging", "prod"]), &[&after, &before]);
    assert_eq!(edges(&graph), "dev; staging<dev; smoke<staging; slow<smoke,staging; prod<slow,smoke");
    // At the end it holds nothing.
    let graph = make(&intended(B, "{target: staging}"), &line(&["dev", "staging", "prod"]), &[&after]);
    assert_eq!(edges(&graph), "dev; staging<dev; smoke<staging");
}

#[test]
fn a_step_is_a_frozen_copy() {
    let graph = make(
        &bundle(B),
        &pipeline(
            "    - name: prod\n      path: env/prod\n      approval: pr-review\n      pr: true\n      update: {strategy: helm, helm: {valuesFile: v.yaml}}\n      health: {type: flux, flux: {name: my-app}}\n      delivery: {delegate: flagger}\n      steps: [{uses: open-pr, config: {a: 1}}]\n",
        ),
        &[],
    );
    assert_eq!(
        spec(&graph, "prod"),
        json!({
            "pipeline": "my-app", "environment": "prod", "bundleRef": "${bundle.metadata.name}", "path": "env/prod",
            "git": {"url": "https://github.com/myorg/gitops-repo"},
            "update": {"strategy": "helm", "helm": {"valuesFile": "v.yaml"}},
            "approval": "pr-review", "pr": true,
            "health": {"type": "flux", "flux": {"name": "my-app"}},
            "delivery": {"delegate": "flagger"},
            "steps": [{"uses": "open-pr", "config": {"a": 1}}],
        })
    );
    let mut other = line(&["dev"]);
    other.spec.git.branch = Some("release".to_owned());
    other.spec.git.layout = Some(kardinal_api::kardinal::GitLayout::Branch);
    let graph = make(&bundle(B), &other, &[]);
    assert_eq!(spec(&graph, "dev")["git"]["branch"], "release");
    assert_eq!(spec(&graph, "dev")["git"]["layout"], "branch");
    assert_eq!(spec(&graph, "dev")["path"], "environments/dev");
    assert_eq!(spec(&graph, "dev")["approval"], "auto");
}

#[test]
fn what_users_write_is_never_evaluated() {
    for text in ["${bundle.metadata.name}", "$${x}", "a ${b", "${", "$$$${'", "cost: $5 {x} $", "${\"}"] {
        let quoted = Value::from(text).to_string();
        let strange = gate(
            "default",
            "g",
            "{kardinal.io/applies-to: dev}",
            &format!("{{expression: 'true', message: {quoted}}}"),
        );
        let pipeline = pipeline(&format!(
            "    - {{name: dev, steps: [{{uses: hook, config: {{url: {quoted}, deep: [{{k: {quoted}}}]}}}}]}}\n"
        ));
        let graph = make(&bundle(B), &pipeline, &[&strange]);
        for (id, pointer) in
            [("dev", "/steps/0/config/url"), ("dev", "/steps/0/config/deep/0/k"), ("g", "/message")]
        {
            let written = spec(&graph, id).pointer(pointer).unwrap().clone();
            assert_eq!(rendered(&written), Value::from(text), "{text} as {written}");
        }
    }
}

/// What the Graph makes of a template value when nothing is in scope.
fn rendered(written: &Value) -> Value {
    struct Nothing;
    impl kardinal_cel::Scope for Nothing {
        fn get(&self, _: &str) -> Option<&Value> {
            None
        }
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }
    let template = kardinal_cel::Template::compile(&kardinal_cel::Env::standard(), written).unwrap();
    template.render(&Nothing, &kardinal_cel::Limits::default()).unwrap()
}

#[test]
fn automatic_rollbacks_leave_a_record_in_auto_environments() {
    let pipeline = pipeline("    - {name: dev}\n    - {name: prod, approval: pr-review}\n");
    let mut back = bundle(B);
    let pr = |bundle: &Bundle, id: &str| spec(&make(bundle, &pipeline, &[]), id).get("pr").cloned();
    assert_eq!(pr(&back, "dev"), None);
    back.metadata.labels.get_or_insert_default().insert("kardinal.io/rollback".to_owned(), "true".to_owned());
    assert_eq!(pr(&back, "dev"), None, "people asked for it");
    back.metadata
        .annotations
        .get_or_insert_default()
        .insert("kardinal.io/automatic".to_owned(), "true".to_owned());
    assert_eq!(pr(&back, "dev"), Some(json!(true)));
    assert_eq!(pr(&back, "prod"), None, "it is a pull request anyway");
}

#[test]
fn a_pipeline_can_be_exported() {
    let pipeline: Pipeline = fixture!("pipeline-fan-out-3-9");
    let gate = org_gate("slow", "prod-eu-west");
    let graph = export_graph(&pipeline, &[&gate], &org(), "my-app-v1").unwrap();
    assert_eq!(edges(&graph), "staging; prodUsEast<staging; slow<staging; prodEuWest<slow");
    assert_eq!(graph.metadata.owner_references, None);
    assert_eq!(graph.metadata.name.as_deref(), Some("my-app-v1"));
    assert_eq!(node(&graph, "bundle").template.as_ref().unwrap()["metadata"]["name"], "my-app-v1");
    compile_nodes(&graph.spec.nodes).unwrap();
}
