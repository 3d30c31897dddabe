//! What a pass over one step is decided from. Only reads.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::forge;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionState, PromotionStep};
use kardinal_cluster::View;
use kardinal_graph::Gvk;
use kardinal_planner::health::{self, HealthFacts, Target};
use kardinal_planner::policy_gate::Place;
use kardinal_planner::promotion_step::{
    PullRequest, Snapshot, gate_texts, hold, is_outside, promoted_commit, rollback_of,
};
use serde_json::Value;

use super::Controller;
use crate::driver::{Key, Next};
use crate::facets;
use crate::objects::{get, gvk, label, list};
use crate::policy_gate::{placed, previous};

/// The kinds that every step is decided from.
pub(super) fn kinds() -> [Gvk; 6] {
    [
        gvk::<PromotionStep>(),
        gvk::<Bundle>(),
        gvk::<Pipeline>(),
        gvk::<PolicyGate>(),
        gvk::<forge::PullRequest>(),
        gvk::<Graph>(),
    ]
}

/// What was seen of one step.
pub(super) struct Observation {
    pub(super) key: Key,
    pub(super) step: PromotionStep,
    pub(super) now: Timestamp,
    bundle: Option<Bundle>,
    others: Vec<PromotionStep>,
    hold: Option<String>,
    gates: Vec<(PolicyGate, Option<Place>)>,
    gate_texts: BTreeMap<String, String>,
    pull_request: Option<PullRequest>,
    health: Option<HealthFacts>,
    previous: Option<Bundle>,
    reverted: Option<Bundle>,
}

impl Observation {
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        let named = |gate: &PolicyGate| gate.metadata.name.clone().unwrap_or_default();
        Snapshot {
            step: &self.step,
            bundle: self.bundle.as_ref(),
            others: self.others.iter().collect(),
            hold: self.hold.clone(),
            gates: self.gates.iter().map(|(gate, _)| (named(gate), gate)).collect(),
            gate_texts: self.gate_texts.clone(),
            pull_request: self.pull_request.as_ref(),
            health: self.health.as_ref(),
            previous: self.previous.as_ref(),
            reverted: self.reverted.as_ref(),
            now: self.now,
        }
    }

    /// The Bundle, when it is there.
    pub(super) fn bundle(&self) -> Option<&Bundle> {
        self.bundle.as_ref()
    }
}

/// Reads the step and everything around it out of the watches.
pub(super) async fn observe(controller: &Controller, key: &Key) -> Result<Observation, Next> {
    let context = &controller.context;
    let view = context.watches.view(&kinds());
    if !view.synced() {
        return Err(Next::At(None));
    }
    let (namespace, name) = key;
    let step: PromotionStep = get(&view, namespace, name).ok_or(Next::Never)?;
    if !context.serves(&step) {
        return Err(Next::At(None));
    }
    let bundle: Option<Bundle> = get(&view, namespace, &step.spec.bundle_ref);
    let pipeline: Option<Pipeline> = get(&view, namespace, &step.spec.pipeline);
    let freezes: Vec<PolicyGate> = list(&view, namespace, facets::FREEZES, &step.spec.pipeline);
    let gates: Vec<(PolicyGate, Option<Place>)> =
        step.spec.required_gates.iter().filter_map(|gate| placed(&view, namespace, gate)).collect();
    let before =
        bundle.as_ref().and_then(|bundle| previous(&view, namespace, bundle, &step.spec.environment));
    let reverted = bundle.as_ref().and_then(rollback_of).and_then(|name| get(&view, namespace, name));
    let now = context.clock.now();
    let gate_texts = bundle
        .as_ref()
        .map(|bundle| gate_texts(&step, bundle, before.as_ref(), &gates, now))
        .unwrap_or_default();
    let hold = hold(pipeline.as_ref(), &freezes);
    let mut others: Vec<PromotionStep> = match is_outside(&step) {
        true => {
            let place = facets::place(&step.spec.pipeline, &step.spec.environment);
            list(&view, namespace, facets::MOVING_TO, &place)
        }
        false => Vec::new(),
    };
    others.retain(|other| other.metadata.name != step.metadata.name);
    drop(view);
    let health = match step.status.as_ref().and_then(|status| status.state) {
        Some(PromotionState::HealthChecking) => Some(look(controller, key, &step, now).await?),
        _ => {
            controller.following().forget(key);
            None
        }
    };
    let pull_request = controller.remember(key, |memory| memory.pull_request.clone());
    Ok(Observation {
        key: key.clone(),
        step,
        now,
        bundle,
        others,
        hold,
        gates,
        gate_texts,
        pull_request,
        health,
        previous: before,
        reverted,
    })
}

/// Looks at what the adapter looks at, on the cluster that the step names.
async fn look(
    controller: &Controller,
    key: &Key,
    step: &PromotionStep,
    now: Timestamp,
) -> Result<HealthFacts, Next> {
    let context = &controller.context;
    let cluster = step.spec.health.as_ref().and_then(|health| health.cluster.as_deref());
    let watches = match cluster {
        None => context.watches.clone(),
        Some(secret) => match context.clusters.watches(context, &key.0, secret).await {
            Ok(watches) => watches,
            Err(problem) => return Ok(health::unreachable(&step.spec, problem)),
        },
    };
    let kinds = health::kinds(&step.spec);
    for kind in &kinds {
        watches.ensure(kind);
    }
    let installed = |api_version: &str, kind: &str| {
        let view = watches.view(&kinds);
        Gvk::parse(api_version, kind).is_some_and(|gvk| view.scope(&gvk).is_some())
    };
    let chosen = health::choose(&step.spec, &installed);
    // Listen first, then look: nothing that happens in between is missed.
    let candidates = std::iter::once(&chosen.target).chain(&chosen.fallbacks).cloned().collect();
    controller.following().follow(key, candidates);
    let view = watches.view(&kinds);
    if !view.known() {
        return Err(Next::At(Some(now + crate::RETRY)));
    }
    let mut facts = health::facts(chosen, |target| select(&view, target));
    drop(view);
    facts.contains = ancestry(controller, key, step, &facts).await;
    Ok(facts)
}

fn select(view: &View, target: &Target) -> Vec<Value> {
    let store = Gvk::parse(&target.api_version, &target.kind).and_then(|gvk| view.kind(&gvk));
    let Some(store) = store else { return Vec::new() };
    match &target.name {
        Some(name) => {
            store.get(Some(&target.namespace), name).map(|object| object.tree().clone()).into_iter().collect()
        }
        None => {
            let all = store.list(Some(&target.namespace)).map(|(_, object)| object.tree());
            all.filter(|object| target.labels.iter().all(|(name, value)| label(object, name) == value))
                .cloned()
                .collect()
        }
    }
}

/// Whether the revisions that were seen contain the promoted commit: asked once for each.
async fn ancestry(
    controller: &Controller,
    key: &Key,
    step: &PromotionStep,
    facts: &HealthFacts,
) -> BTreeMap<String, bool> {
    let mut known = controller.remember(key, |memory| memory.contains.clone());
    let Some(commit) = step.status.as_ref().and_then(promoted_commit) else { return known };
    let seen = facts.objects.iter().filter_map(|object| health::revision_of(&facts.target, object));
    for revision in seen.filter(|revision| revision != commit) {
        // A revision that does not contain the commit never will; one that is not known yet may be asked for again.
        if known.contains_key(&revision) {
            continue;
        }
        let Ok(remote) = controller.context.remote(&key.0, step).await else { continue };
        if let Ok(answer) = controller.context.repositories.contains(&remote, &revision, commit).await {
            known.insert(revision, answer);
        }
    }
    controller.remember(key, |memory| memory.contains.clone_from(&known));
    known
}
