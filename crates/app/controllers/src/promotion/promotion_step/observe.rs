//! What a pass over one step is decided from. Only reads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionState, PromotionStep};
use kardinal_cluster::View;
use kardinal_object::{Gvk, ObjectId};
use kardinal_promotion::bundle::{last_verified, takes_back, up_to_date};
use kardinal_promotion::gate_context::{Candidate, Surroundings};
use kardinal_promotion::health::{self, Chosen, HealthFacts, Sight, Target, Unknown};
use kardinal_promotion::policy_gate::Place;
use kardinal_promotion::promotion_step::{
    self as planner, Ground, Hold, Organisation, Snapshot, asks_gates, awaits_look, gate_texts, has_no_claim,
    hold, looks_before_push, promoted_commit, rollback_of, tells_people, undone,
};
use kardinal_promotion::seal::Key as SealKey;
use serde_json::Value;

use super::{Kind, Memory};
use crate::Context;
use crate::promotion::access;
use crate::promotion::clusters::{Reached, unreachable};
use crate::promotion::context::PromotionContext;
use crate::promotion::facets;
use crate::promotion::policy_gate::placed;
use crate::promotion::surroundings::around;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{self, get, gvk, label, list, list_all, list_others, lock};
use crate::reconcile::pass::{Observed, Remembered, sight};

/// What was seen of one step.
pub(crate) struct Observation {
    pub(super) key: Key,
    pub(super) step: PromotionStep,
    pub(super) now: Timestamp,
    bundle: Option<Bundle>,
    others: Vec<PromotionStep>,
    siblings: Vec<PromotionStep>,
    hold: Option<Hold>,
    gates: Vec<(PolicyGate, Option<Place>)>,
    gate_texts: BTreeMap<String, String>,
    pub(super) memory: planner::Memory,
    health: Option<HealthFacts>,
    previous: Option<Bundle>,
    reverted: Option<Bundle>,
    takes_back: bool,
    organisation: Result<Organisation, String>,
    key_to_seal: Option<SealKey>,
    /// What is remembered of the step by now.
    pub(super) remembered: Remembered<Memory>,
    /// What was seen last before the effect, where the effect looked once more: what allowed it is told from that.
    latest: Mutex<Option<Box<Observation>>>,
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.step.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

impl Observation {
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        let named = |gate: &PolicyGate| gate.metadata.name.clone().unwrap_or_default();
        Snapshot {
            step: &self.step,
            bundle: self.bundle.as_ref(),
            others: self.others.iter().collect(),
            siblings: self.siblings.iter().collect(),
            hold: self.hold.clone(),
            gates: self.gates.iter().map(|(gate, _)| (named(gate), gate)).collect(),
            gate_texts: self.gate_texts.clone(),
            pull_request: self.memory.pull_request.as_ref(),
            has_no_pull_request: self.memory.has_no_pull_request,
            heard_of_pull_request: self.memory.heard_of_pull_request,
            withdrawn: self.memory.withdrawn.as_deref(),
            has_shown: self.memory.has_shown(),
            shown: self.memory.shown.as_ref(),
            health: self.health.as_ref(),
            previous: self.previous.as_ref(),
            reverted: self.reverted.as_ref(),
            takes_back: self.takes_back,
            organisation: self.organisation.as_ref().map_err(String::as_str),
            key: self.key_to_seal.as_ref(),
            now: self.now,
        }
    }

    /// Where the step is.
    pub(super) fn id(&self) -> ObjectId {
        objects::id::<PromotionStep>(&self.key)
    }

    /// This is what allows the effect that is under way.
    pub(super) fn look_again(&self, now: Observation) {
        *lock(&self.latest) = Some(Box::new(now));
    }

    /// After the effect: from now on, what allowed it.
    pub(super) fn look_back(&mut self) {
        let latest = lock(&self.latest).take();
        if let Some(latest) = latest {
            *self = *latest;
        }
    }

    /// The Bundle, when it is there.
    pub(super) fn bundle(&self) -> Option<&Bundle> {
        self.bundle.as_ref()
    }
}

/// Reads the step and everything around it out of the watches.
pub(super) async fn observe(
    kind: &Kind,
    key: &Key,
    remembered: &Remembered<Memory>,
) -> Result<Observation, Next> {
    let context = &kind.context;
    // Before the look at the objects, so that nothing is waited for between that and the decision.
    let seal = context.key().await.cloned();
    let view = sight::<Kind>(context)?;
    let (namespace, name) = key;
    let step: PromotionStep =
        get(&view, namespace, name).or_else(|| unreadable(&view, key)).ok_or(Next::Never)?;
    if !context.serves(&step) {
        return Err(Next::OnChange);
    }
    let bundle: Option<Bundle> = get(&view, namespace, &step.spec.bundle_ref);
    let pipeline: Option<Pipeline> = get(&view, namespace, &step.spec.pipeline);
    let freezes: Vec<PolicyGate> = list(&view, namespace, facets::FREEZES, &step.spec.pipeline);
    let gates: Vec<(PolicyGate, Option<Place>)> =
        step.spec.required_gates.iter().filter_map(|gate| placed(&view, namespace, gate)).collect();
    let around = bundle.as_ref().map(|bundle| around(&view, namespace, bundle)).unwrap_or_default();
    let bundles = &around.others;
    let before = last_verified(&bundles.iter().collect::<Vec<_>>(), &step.spec.environment).cloned();
    let reverted =
        bundle.as_ref().and_then(|bundle| undone_by(&view, (&step, bundle), pipeline.as_ref(), bundles));
    let now = context.clock.now();
    let gate_texts = bundle.as_ref().map(|bundle| {
        gate_texts(&step, &Candidate::written(bundle, &step.spec.environment, &around), &gates, now)
    });
    let hold = hold(pipeline.as_ref(), &freezes);
    let place = || facets::place(&step.spec.pipeline, &step.spec.environment);
    let others = match has_no_claim(&step) {
        true => other_steps(&view, &step, facets::MOVING_TO, &place()),
        false => Vec::new(),
    };
    let siblings = match &bundle {
        Some(bundle) if tells_people(&step, bundle) => {
            other_steps(&view, &step, facets::BUNDLE, &step.spec.bundle_ref)
        }
        _ => Vec::new(),
    };
    let instances: Vec<&PolicyGate> = gates.iter().map(|(gate, _)| gate).collect();
    let scene = Scene {
        step: &step,
        bundle: bundle.as_ref(),
        pipeline: pipeline.as_ref(),
        instances: &instances,
        now,
    };
    let organisation = ask(context, &view, seal.as_ref(), &scene, &around);
    let takes_back = bundle.as_ref().is_some_and(|bundle| takes_back(bundle, bundles));
    drop(view);
    let health = health((kind, remembered), key, (&step, bundle.as_ref()), now).await?;
    Ok(Observation {
        key: key.clone(),
        step,
        now,
        bundle,
        others,
        siblings,
        hold,
        gates,
        gate_texts: gate_texts.unwrap_or_default(),
        memory: lock(remembered).known.clone(),
        health,
        previous: before,
        reverted,
        takes_back,
        organisation,
        key_to_seal: seal.ok(),
        remembered: remembered.clone(),
        latest: Mutex::default(),
    })
}

/// A step whose status cannot be read, with another one in its place that nobody has written: it is taken away as any
/// status that is not ours.
fn unreadable(view: &View, key: &Key) -> Option<PromotionStep> {
    let mut object = view.kind(&gvk::<PromotionStep>())?.get(Some(&key.0), &key.1)?.tree().clone();
    let outputs = serde_json::json!({"outputs": {"status": "unreadable"}});
    object.as_object_mut()?.insert("status".to_owned(), outputs);
    serde_json::from_value(object).ok()
}

/// The Bundle whose configuration a rollback undoes in the environment of its step.
fn undone_by(
    view: &View,
    (step, bundle): (&PromotionStep, &Bundle),
    pipeline: Option<&Pipeline>,
    others: &[Bundle],
) -> Option<Bundle> {
    let namespace = step.metadata.namespace.as_deref().unwrap_or_default();
    let reverted: Bundle = get(view, namespace, rollback_of(bundle)?)?;
    if bundle.spec.artifacts.git_commit.is_none() {
        return Some(reverted);
    }
    // The records of Bundles may be a moment behind their steps.
    let steps: Vec<PromotionStep> = list(view, namespace, facets::PIPELINE, &step.spec.pipeline);
    let others: Vec<Bundle> = others.iter().map(|other| up_to_date(other, &steps)).collect();
    let others: Vec<&Bundle> = others.iter().collect();
    undone(bundle, &step.spec.environment, pipeline, Some(&reverted), &others).cloned()
}

/// The steps with this facet in the namespace of a step, other than itself.
fn other_steps(view: &View, step: &PromotionStep, facet: &'static str, value: &str) -> Vec<PromotionStep> {
    let namespace = step.metadata.namespace.as_deref().unwrap_or_default();
    list_others(view, namespace, facet, value, step.metadata.name.as_deref())
}

/// What stands round a step.
struct Scene<'a> {
    step: &'a PromotionStep,
    bundle: Option<&'a Bundle>,
    pipeline: Option<&'a Pipeline>,
    instances: &'a [&'a PolicyGate],
    now: Timestamp,
}

/// Asks the organisation's gates, as long as their answer counts. Without the key nothing is known.
fn ask(
    context: &PromotionContext,
    view: &View,
    seal: Result<&SealKey, &String>,
    scene: &Scene<'_>,
    around: &Surroundings,
) -> Result<Organisation, String> {
    let key = seal.map_err(Clone::clone)?;
    let Scene { step, bundle, pipeline, instances, now } = *scene;
    let Some(bundle) = bundle.filter(|_| asks_gates(step)) else {
        return Ok(Organisation::default());
    };
    let namespace = step.metadata.namespace.as_deref().unwrap_or_default();
    let kind = gvk::<PolicyGate>();
    if let Some(lost) = view.lost([&kind]) {
        return Err(format!("nothing is heard of PolicyGates: {}", lost.why));
    }
    if view.kind(&kind).is_none() {
        return Err("PolicyGates cannot be listed".to_owned());
    }
    let policies = context.policy_namespaces.iter();
    let gates: Result<Vec<Vec<PolicyGate>>, String> =
        policies.map(|place| list_all(view, place, facets::BUNDLE, "")).collect();
    // One that cannot be read may be the one that is closed.
    let gates: Vec<PolicyGate> = gates?.into_iter().flatten().collect();
    let steps = || list(view, namespace, facets::BUNDLE, &step.spec.bundle_ref);
    let (gates, policy_namespaces) = (gates.as_slice(), context.policy_namespaces.as_slice());
    let ground = Ground {
        step,
        bundle,
        pipeline,
        gates,
        instances,
        policy_namespaces,
        around,
        steps: &steps,
        key,
        now,
    };
    Ok(Organisation::of(&ground))
}

/// What is seen of the environment, where the step wants to know it.
async fn health(
    place: (&Kind, &Remembered<Memory>),
    key: &Key,
    (step, bundle): (&PromotionStep, Option<&Bundle>),
    now: Timestamp,
) -> Result<Option<HealthFacts>, Next> {
    if step.status.as_ref().and_then(|status| status.state) == Some(PromotionState::HealthChecking) {
        return look(place, key, step, now).await.map(Some);
    }
    if bundle.is_some_and(|bundle| looks_before_push(step, bundle)) {
        return match look(place, key, step, now).await {
            Err(next) if awaits_look(step, now) => Err(next),
            looked => Ok(looked.ok()),
        };
    }
    place.0.followed().forget(key);
    Ok(None)
}

/// Looks at what the adapter looks at, on the cluster that the step names.
async fn look(
    (kind, remembered): (&Kind, &Remembered<Memory>),
    key: &Key,
    step: &PromotionStep,
    now: Timestamp,
) -> Result<HealthFacts, Next> {
    let context = &kind.context;
    let cluster = step.spec.health.as_ref().and_then(|health| health.cluster.as_deref());
    let remote = match cluster {
        None => None,
        Some(secret) => match context.clusters.reach(&key.0, secret).await {
            Ok(remote) => Some(remote),
            Err(why) => return Ok(health::unknown(&step.spec, why)),
        },
    };
    let watches = remote.as_ref().map_or(&context.workloads, |remote| &remote.watches);
    let kinds = health::kinds(&step.spec);
    for one in &kinds {
        watches.ensure(one);
    }
    let installed = |api_version: &str, kind: &str| {
        let view = watches.view(&kinds);
        Gvk::parse(api_version, kind).is_some_and(|gvk| view.scope(&gvk).is_some())
    };
    let chosen = health::choose(&step.spec, &installed);
    let chosen = match remote {
        Some(_) => chosen,
        None => match limit(context, &key.0, step, chosen) {
            Ok(chosen) => chosen,
            Err(why) => return Ok(health::unknown(&step.spec, Unknown::problem(why))),
        },
    };
    // Listen first, then look: nothing that happens in between is missed.
    let candidates: Vec<Target> = std::iter::once(&chosen.target).chain(&chosen.fallbacks).cloned().collect();
    kind.followed().follow(key, candidates.clone());
    for target in candidates.iter().filter(|_| remote.is_some()) {
        let Some(kind) = gvk_of(target).filter(|kind| watches.view([kind]).kind(kind).is_some()) else {
            continue;
        };
        match remote.as_ref().map(|remote| remote.reached(&kind, &target.namespace, now)) {
            Some(Reached::No(lost)) => return Ok(health::unknown(&step.spec, unreachable(lost))),
            Some(Reached::NotKnown) => return Err(Next::At(now + crate::RETRY)),
            Some(Reached::Yes) | None => {}
        }
    }
    let view = watches.view(&kinds);
    let looked_at: Vec<Gvk> = match view.known() {
        true => candidates.iter().filter_map(gvk_of).collect(),
        false => kinds,
    };
    if let Some(lost) = view.lost(&looked_at) {
        return Ok(health::unknown(&step.spec, unreachable(lost)));
    }
    if !view.known() {
        return Err(Next::At(now + crate::RETRY));
    }
    let mut facts = health::facts(chosen, |target| select(&view, target));
    drop(view);
    facts.contains = ancestry((context, remembered), key, step, &facts).await;
    Ok(facts)
}

/// Keeps what a step looks at on this cluster within the namespaces that it may see.
fn limit(
    context: &PromotionContext,
    own: &str,
    step: &PromotionStep,
    chosen: Chosen,
) -> Result<Chosen, String> {
    let pipelines = gvk::<Pipeline>();
    let view = context.watches.view([&pipelines]);
    let is_home =
        |namespace: &str| view.kind(&pipelines).is_some_and(|all| all.list(Some(namespace)).next().is_some());
    let (environment, named) = (step.spec.environment.as_str(), context.health_namespaces.as_deref());
    Sight { own, environment, named, is_home: &is_home }.limit(chosen)
}

fn gvk_of(target: &Target) -> Option<Gvk> {
    Gvk::parse(&target.api_version, &target.kind)
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
    (context, remembered): (&Context, &Remembered<Memory>),
    key: &Key,
    step: &PromotionStep,
    facts: &HealthFacts,
) -> BTreeMap<String, bool> {
    let mut known = lock(remembered).contains.clone();
    let Some(commit) = step.status.as_ref().and_then(promoted_commit) else { return known };
    let seen = facts.objects.iter().filter_map(|object| health::revision_of(&facts.target, object));
    for revision in seen.filter(|revision| revision != commit) {
        // A revision that does not contain the commit never will; one that is not known yet may be asked for again.
        if known.contains_key(&revision) {
            continue;
        }
        let Ok(access) = access::of_step(&key.0, step) else { continue };
        let Ok(remote) = context.remote(&access).await else { continue };
        if let Ok(answer) = context.repositories.contains(&remote, &revision, commit).await {
            known.insert(revision, answer);
        }
    }
    lock(remembered).contains.clone_from(&known);
    known
}
