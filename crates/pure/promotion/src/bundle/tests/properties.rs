//! Any Pipeline, any intent, any course of events.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, BundlePhase, Environment, Pipeline, PolicyGate, PromotionState};
use proptest::prelude::*;
use proptest::sample::Index;

use super::world::{World, bundle, gate, line, org, org_gate};
use crate::bundle::{Route, is_finished, translate};
use kardinal_planner::graph::check::compile_nodes;

const NAMES: [&str; 8] = ["dev", "qa", "staging", "prod-us", "prod-eu", "namespace", "bundle", "prodUs"];

/// A Pipeline whose environments depend on some of those listed before them, or on the one before.
fn pipelines() -> impl Strategy<Value = Pipeline> {
    let environment = prop_oneof![Just(None), proptest::collection::vec(any::<Index>(), 0..3).prop_map(Some)];
    proptest::collection::vec(environment, 1..NAMES.len()).prop_map(|wishes| {
        let mut pipeline = line(&["x"]);
        pipeline.spec.environments = wishes
            .iter()
            .enumerate()
            .map(|(at, wish)| {
                let mut upstreams: BTreeSet<String> = BTreeSet::new();
                if at > 0 {
                    upstreams.extend(wish.iter().flatten().map(|index| NAMES[index.index(at)].to_owned()));
                }
                Environment {
                    name: NAMES[at].to_owned(),
                    depends_on: wish.as_ref().map(|_| upstreams.into_iter().collect()),
                    ..Environment::default()
                }
            })
            .collect();
        pipeline
    })
}

/// Gates of the organisation and of the team, before and after, for any of the environments.
fn gates() -> impl Strategy<Value = Vec<PolicyGate>> {
    let one = (any::<bool>(), any::<bool>(), proptest::collection::btree_set(0..NAMES.len(), 1..3));
    proptest::collection::vec(one, 0..4).prop_map(|wishes| {
        let made = wishes.into_iter().enumerate().map(|(at, (org, after, environments))| {
            let (namespace, scope) = if org { ("platform-policies", "org") } else { ("default", "team") };
            let environments: Vec<&str> = environments.into_iter().map(|at| NAMES[at]).collect();
            let when = if after { "post-deploy" } else { "pre-deploy" };
            gate(
                namespace,
                ["dev", "slow", "in", "no-weekend"][at],
                &format!("{{kardinal.io/scope: {scope}}}"),
                &format!("{{expression: 'true', when: {when}, appliesTo: [{}]}}", environments.join(", ")),
            )
        });
        made.collect()
    })
}

/// An intent for the Pipeline: perhaps a target, and some environments to skip.
fn intend(pipeline: &Pipeline, target: Option<Index>, skip: &[Index]) -> Bundle {
    let names: Vec<&str> = pipeline.spec.environments.iter().map(|e| e.name.as_str()).collect();
    let mut bundle = bundle("b-1712567890");
    let target = target.map(|index| names[index.index(names.len())].to_owned());
    let skip: BTreeSet<String> = skip
        .iter()
        .map(|index| names[index.index(names.len())].to_owned())
        .filter(|name| Some(name) != target.as_ref())
        .collect();
    bundle.spec.intent =
        Some(kardinal_api::kardinal::BundleIntent { target, skip: skip.into_iter().collect() });
    bundle
}

/// What each node comes after, read from the compiled Graph.
fn before(graph: &Graph) -> BTreeMap<String, BTreeSet<String>> {
    let compiled = compile_nodes(&graph.spec.nodes).unwrap();
    let mut before: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in &graph.spec.nodes {
        before.entry(node.id.clone()).or_default();
    }
    for edge in compiled.edges() {
        before.entry(edge.to.to_owned()).or_default().insert(edge.from.to_owned());
    }
    before
}

fn ancestors(before: &BTreeMap<String, BTreeSet<String>>, id: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![id.to_owned()];
    while let Some(id) = open.pop() {
        for upstream in &before[&id] {
            if found.insert(upstream.clone()) {
                open.push(upstream.clone());
            }
        }
    }
    found
}

fn label<'a>(template: &'a serde_json::Value, key: &str) -> &'a str {
    template["metadata"]["labels"][key].as_str().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_graph_keeps_the_order_and_the_gates(
        pipeline in pipelines(),
        gates in gates(),
        target in proptest::option::of(any::<Index>()),
        skip in proptest::collection::vec(any::<Index>(), 0..3),
    ) {
        let bundle = intend(&pipeline, target, &skip);
        let gates: Vec<&PolicyGate> = gates.iter().collect();
        let Ok(route) = Route::intended(&pipeline.spec, bundle.spec.intent.as_ref()) else {
            // Only skipping everything is impossible here.
            prop_assert!(translate(&bundle, &pipeline, &gates, &org(), &[]).is_err());
            return Ok(());
        };
        let graph = translate(&bundle, &pipeline, &gates, &org(), &[]).unwrap();
        prop_assert_eq!(&graph, &translate(&bundle, &pipeline, &gates, &org(), &[]).unwrap());
        let before = before(&graph);

        let mut steps: BTreeMap<&str, &str> = BTreeMap::new();
        let mut guards: BTreeMap<(&str, &str, bool), &str> = BTreeMap::new();
        let mut objects = BTreeSet::new();
        for node in graph.spec.nodes.iter().filter(|node| node.id != "bundle") {
            let template = node.template.as_ref().unwrap();
            let name = template["metadata"]["name"].as_str().unwrap();
            prop_assert!(name.len() <= 63 && objects.insert((template["kind"].to_string(), name)), "{}", name);
            let environment = label(template, "kardinal.io/environment");
            if template["kind"] == "PromotionStep" {
                steps.insert(environment, &node.id);
            } else {
                let after = template["spec"]["when"] == "post-deploy";
                guards.insert((label(template, "kardinal.io/gate-template"), environment, after), &node.id);
            }
        }
        prop_assert_eq!(steps.keys().copied().collect::<BTreeSet<_>>(), route.names().collect::<BTreeSet<_>>());

        let whole = Route::whole(&pipeline.spec).unwrap();
        for stop in route.stops() {
            let name = stop.environment.name.as_str();
            let above = ancestors(&before, steps[name]);
            // Nothing is reached earlier than in the Pipeline, and nothing waits for what it did not wait for.
            let wanted: BTreeSet<&str> =
                whole.ancestors(name).into_iter().filter(|other| route.contains(other)).collect();
            let found: BTreeSet<&str> =
                steps.iter().filter(|(_, id)| above.contains(**id)).map(|(name, _)| *name).collect();
            prop_assert_eq!(found, wanted);
            for gate in &gates {
                let template = gate.metadata.name.as_deref().unwrap();
                let is_after = gate.spec.when == Some(kardinal_api::kardinal::GateStage::PostDeploy);
                if gate.spec.applies_to.iter().any(|environment| environment == name) {
                    let id = guards.get(&(template, name, is_after));
                    prop_assert!(id.is_some(), "{} is missing for {}", template, name);
                    prop_assert!(is_after || above.contains(*id.unwrap()), "{} does not hold {}", template, name);
                }
                // Gates behind what comes directly before hold it as well.
                for upstream in &stop.upstreams {
                    if is_after && gate.spec.applies_to.iter().any(|environment| environment == upstream) {
                        prop_assert!(above.contains(guards[&(template, *upstream, true)]));
                    }
                }
            }
        }
    }

    #[test]
    fn a_finished_phase_is_the_end(
        events in proptest::collection::vec((0..3_usize, 0..3_usize, 0..6_usize, any::<bool>()), 1..40),
    ) {
        const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
        const STATES: [PromotionState; 6] = [
            PromotionState::Pending, PromotionState::Promoting, PromotionState::WaitingForMerge,
            PromotionState::HealthChecking, PromotionState::Verified, PromotionState::Failed,
        ];
        let names = ["a-1712567890", "b-1712567890", "c-1712567890"];
        let mut world = World::new(line(&ENVIRONMENTS), names.iter().map(|name| bundle(name)).collect());
        world.gates = vec![org_gate("slow", "prod")];
        let mut ended: BTreeMap<String, BundlePhase> = BTreeMap::new();
        for (who, environment, state, lose) in events {
            if lose {
                world.graphs.retain(|graph| !graph.metadata.name.as_deref().unwrap().starts_with(&names[who][..1]));
            } else if world.bundles.iter().any(|b| b.metadata.name.as_deref() == Some(names[who])) {
                world.set(names[who], ENVIRONMENTS[environment], STATES[state]);
            }
            let all: Vec<String> = world.bundles.iter().filter_map(|b| b.metadata.name.clone()).collect();
            for name in all {
                let recorded = environments(&world, &name);
                world.pass(&name);
                if world.bundles.iter().all(|b| b.metadata.name.as_deref() != Some(&name)) {
                    continue;
                }
                prop_assert!(recorded.is_subset(&environments(&world, &name)), "a record was lost");
                let phase = world.phase(&name).unwrap();
                if let Some(end) = ended.get(&name) {
                    prop_assert_eq!(*end, phase);
                }
                if is_finished(phase) {
                    ended.insert(name.clone(), phase);
                }
                let again = world.plan(&name);
                prop_assert!(again.status.is_none(), "a second pass changes nothing: {:?}", again);
                prop_assert!(!world.ready(&name).ends_with(": "), "it always says why");
            }
        }
    }
}

/// The environments that a Bundle has a record of.
fn environments(world: &World, name: &str) -> BTreeSet<String> {
    let status = world.bundle(name).status.as_ref();
    status.map(|status| status.environments.keys().cloned().collect()).unwrap_or_default()
}
