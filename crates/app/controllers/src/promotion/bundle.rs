//! The Bundle controller.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{BUNDLE_LABEL, Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep};
use kardinal_cluster::{Answer, Change, View};
use kardinal_object::ObjectId;
use kardinal_promotion::bundle::{self as planner, Commit, Effect, Search, Snapshot};
use kardinal_promotion::seal::Key as SealKey;
use serde_json::Value;

use crate::forges::Trouble;
use crate::promotion::access;
use crate::reconcile::driver::{self, Key, Next};
use crate::reconcile::objects::{
    self, about, all_keys, before_and_after, get, gvk, key_of, keys, label, list, list_others, text,
};
use crate::{Context, facets};

/// Where a step stands.
const STATE: &str = "/status/state";
/// Set on an object that is being deleted.
const LEAVING: &str = "/metadata/deletionTimestamp";
/// The field manager of a Bundle's status and of what is made for it.
const MANAGER: &str = "kardinal-bundle-controller";

/// Sends Bundles on their way and keeps the record of where they have been.
pub(crate) struct Controller {
    context: Arc<Context>,
    /// What the API server has refused lately: what is written down about it must not itself bring the next try about.
    refusals: Mutex<BTreeMap<Key, Refusal>>,
}

/// Something that the API server did not take.
struct Refusal {
    what: Discriminant<Effect>,
    why: String,
    /// Until when it is not offered again.
    until: Timestamp,
    /// The Pipeline as it was: another one may lead to something that is taken.
    pipeline: Option<i64>,
}

impl Controller {
    /// Watches what every Bundle needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for kind in kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context, refusals: Mutex::default() }
    }

    fn view(&self) -> View {
        self.context.watches.view(&kinds())
    }

    /// Whether a Bundle is verified wherever its Graph leads.
    fn has_arrived(&self, namespace: &str, bundle: &str) -> bool {
        let view = self.view();
        let (Some(steps), Some(graphs)) = (view.kind(&gvk::<PromotionStep>()), view.kind(&gvk::<Graph>()))
        else {
            return true;
        };
        let verified = steps.filed(Some(namespace), (facets::VERIFIED, bundle.to_owned())).count();
        let graphs = graphs.filed(Some(namespace), (facets::BUNDLE, bundle.to_owned()));
        graphs.map(|(_, graph)| graph.filed_under(facets::MAKES_STEP).count()).all(|steps| steps <= verified)
    }

    fn bundles_of(&self, namespace: &str, pipeline: &str) -> Vec<Key> {
        keys::<Bundle>(&self.view(), Some(namespace), facets::PIPELINE, pipeline)
    }
}

fn kinds() -> [kardinal_object::Gvk; 5] {
    [gvk::<Bundle>(), gvk::<Pipeline>(), gvk::<PolicyGate>(), gvk::<PromotionStep>(), gvk::<Graph>()]
}

impl driver::Controller for Controller {
    const KIND: &'static str = "Bundle";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Vec<Key> {
        if let Change::Kind(_) = change {
            return all_keys::<Bundle>(&self.view());
        }
        if let Some(bundle) = about::<Bundle>(change) {
            let (namespace, name) = key_of(bundle);
            // A newer Bundle may take the place of older ones.
            let mut all = match concerns_others(change) {
                true => self.bundles_of(&namespace, label(bundle, PIPELINE_LABEL)),
                false => Vec::new(),
            };
            all.push((namespace, name));
            return all;
        }
        if let Some(step) = about::<PromotionStep>(change) {
            return vec![(key_of(step).0, text(step, "/spec/bundleRef").to_owned())];
        }
        if let Some(pipeline) = about::<Pipeline>(change) {
            let (namespace, name) = key_of(pipeline);
            return self.bundles_of(&namespace, &name);
        }
        if let Some(graph) = about::<Graph>(change) {
            let namespace = key_of(graph).0;
            return facets::carried_by(graph).map(|name| (namespace.clone(), name.to_owned())).collect();
        }
        match about::<PolicyGate>(change) {
            // Instances belong to one Bundle; templates matter only when a Graph is made.
            Some(gate) if !label(gate, BUNDLE_LABEL).is_empty() => {
                vec![(key_of(gate).0, label(gate, BUNDLE_LABEL).to_owned())]
            }
            _ => Vec::new(),
        }
    }

    fn patience(&self, change: &Change) -> SignedDuration {
        let step = about::<PromotionStep>(change);
        let (old, new) = match before_and_after(change) {
            // It has only been planned.
            (None, Some(_)) if step.is_some() => return crate::PACE,
            (Some(old), Some(new)) => (old, new),
            _ => return SignedDuration::ZERO,
        };
        // The record may follow at its own pace; an end must not wait.
        let ended = match step.map(|step| text(step, STATE)) {
            Some("Failed") => true,
            Some("Verified") => self.has_arrived(&key_of(new).0, text(new, "/spec/bundleRef")),
            _ => false,
        };
        let asked = ["/metadata/generation", "/metadata/labels", "/metadata/annotations", LEAVING]
            .iter()
            .any(|field| old.pointer(field) != new.pointer(field));
        if ended || asked || concerns_others(change) { SignedDuration::ZERO } else { crate::PACE }
    }

    async fn pass(&self, key: &Key) -> Next {
        // Before the look at the objects, so that nothing is waited for between that and the decision.
        let seal = self.context.key().await;
        let seal = seal.as_ref().copied().map_err(String::as_str);
        let view = self.view();
        if !view.synced() {
            return Next::At(None);
        }
        let policy_namespaces = &self.context.policy_namespaces;
        let Some(mut observation) = Observation::of(&view, key, policy_namespaces) else {
            return Next::Never;
        };
        drop(view);
        let now = self.context.clock.now();
        let mut plan = observation.plan(policy_namespaces, seal, now);
        if let Some(search) = &plan.search {
            observation.commit = look_for(&self.context, &key.0, search).await;
            plan = observation.plan(policy_namespaces, seal, now);
        }
        if plan.settles_gates() {
            if let Err(error) = self.context.read_gates(key, &observation.bundle).await {
                tracing::warn!(bundle = %key.1, error = %error, "the gates cannot be read; it is tried again");
                return Next::At(Some(now + crate::RETRY));
            }
            let Some(again) = Observation::of(&self.view(), key, policy_namespaces) else {
                return Next::Never;
            };
            observation = Observation { commit: observation.commit, ..again };
            plan = observation.plan(policy_namespaces, seal, now);
        }
        match self.carry_out(key, &observation, &plan, now).await {
            Ok(None) => {}
            Ok(Some((effect, why))) => {
                let told = |snapshot: &Snapshot<'_>| planner::refused(snapshot, effect, &why);
                let wake = lock(&self.refusals).get(key).map(|refusal| refusal.until);
                plan = planner::Plan { wake, ..observation.decide(policy_namespaces, seal, now, told) };
            }
            Err(message) => {
                tracing::warn!(bundle = %key.1, error = %message, "a write failed; it is tried again");
                return Next::At(Some(now + crate::RETRY));
            }
        }
        let Some(status) = &plan.status else {
            return match plan.effects.is_empty() {
                true => Next::At(plan.wake),
                false => Next::Now,
            };
        };
        let metadata = &observation.bundle.metadata;
        let id = objects::id::<Bundle>(key);
        if let Err(next) = self.context.report(MANAGER, &id, metadata, status, &plan.notes, now).await {
            return next;
        }
        self.context.metrics.bundle(&observation.bundle, status);
        match plan.notes.is_empty() && plan.effects.is_empty() {
            // Only the record has grown: nothing follows from that.
            true => Next::At(plan.wake),
            false => Next::Now,
        }
    }

    fn forget(&self, key: &Key) {
        lock(&self.refusals).remove(key);
        self.context.forget_gates(key);
    }
}

impl Controller {
    /// Carries the effects out until one is refused or fails; what is done already is no failure. Answers the effect that
    /// is refused, and why: lately, or now.
    async fn carry_out<'p>(
        &self,
        key: &Key,
        observation: &Observation,
        plan: &'p planner::Plan,
        now: Timestamp,
    ) -> Result<Option<(&'p Effect, String)>, String> {
        let pipeline = observation.pipeline.as_ref().and_then(|pipeline| pipeline.metadata.generation);
        if let Some(effect) = plan.effects.first()
            && let Some(refusal) = lock(&self.refusals).get(key)
            && refusal.what == discriminant(effect)
            && refusal.until > now
            && refusal.pipeline == pipeline
        {
            return Ok(Some((effect, refusal.why.clone())));
        }
        for effect in &plan.effects {
            match write(&self.context, &key.0, effect).await {
                // A name that is taken is seen in the next pass, which knows what it means.
                Answer::Done(()) | Answer::Gone(_) | Answer::Conflict(_) => {}
                Answer::Refused(why) => {
                    let until = now + planner::OFFER_AGAIN;
                    let refusal = Refusal { what: discriminant(effect), why: why.clone(), until, pipeline };
                    lock(&self.refusals).insert(key.clone(), refusal);
                    return Ok(Some((effect, why)));
                }
                Answer::Fault(message) => return Err(message),
            }
        }
        if !plan.effects.is_empty() {
            lock(&self.refusals).remove(key);
        }
        Ok(None)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a change of one Bundle may matter to the others of its Pipeline, and not only to its own record.
fn concerns_others(change: &Change) -> bool {
    let Change::Object { id, .. } = change else { return true };
    if !objects::is::<Bundle>(&id.gvk) {
        return false;
    }
    let place = |bundle: &Value| {
        let environments = bundle.pointer("/status/environments").and_then(Value::as_object);
        let all = ["/status/phase", "/metadata/labels", "/metadata/annotations", LEAVING]
            .map(|field| bundle.pointer(field).cloned());
        (all, environments.map(serde_json::Map::len))
    };
    let (old, new) = before_and_after(change);
    old.map(place) != new.map(place)
}

/// What was seen of one Bundle and everything around it.
struct Observation {
    bundle: Bundle,
    pipeline: Option<Pipeline>,
    siblings: Vec<Bundle>,
    gates: Vec<PolicyGate>,
    graphs: Vec<Graph>,
    steps: Vec<PromotionStep>,
    /// Looked for only when the plan asks.
    commit: Commit,
}

impl Observation {
    fn of(view: &View, key: &Key, policy_namespaces: &[String]) -> Option<Observation> {
        let (namespace, name) = key;
        let bundle: Bundle = get(view, namespace, name)?;
        let pipeline_name = planner::pipeline_name(&bundle).unwrap_or_default().to_owned();
        let pipeline: Option<Pipeline> = get(view, namespace, &pipeline_name);
        let siblings = list_others(view, namespace, facets::PIPELINE, &pipeline_name, Some(name));
        let namespaces: BTreeSet<&str> =
            planner::searched(pipeline.as_ref(), namespace, policy_namespaces).collect();
        let mut graphs: Vec<Graph> = list(view, namespace, facets::BUNDLE, name);
        for wanted in planner::graph_names(&bundle) {
            if !graphs.iter().any(|graph| graph.metadata.name.as_ref() == Some(&wanted)) {
                graphs.extend(get::<Graph>(view, namespace, &wanted));
            }
        }
        // Templates matter until the Bundle has a Graph, after that the instances that were made for it, and at its end
        // neither. A team can have very many of them, and every change of a Bundle looks here for all of its Pipeline.
        let ended = planner::phase_of(&bundle).is_some_and(planner::is_finished);
        let has_graph = graphs.iter().any(|graph| planner::carries(graph, &bundle));
        let wanted = if has_graph { vec![name.as_str()] } else { vec!["", name] };
        let gates = namespaces
            .iter()
            .filter(|_| !ended)
            .flat_map(|place| wanted.iter().map(move |of| list(view, place, facets::BUNDLE, of)))
            .flatten()
            .collect();
        let steps = list(view, namespace, facets::BUNDLE, name);
        Some(Observation { bundle, pipeline, siblings, gates, graphs, steps, commit: Commit::Unknown })
    }

    fn plan(
        &self,
        policy_namespaces: &[String],
        key: Result<&SealKey, &str>,
        now: Timestamp,
    ) -> planner::Plan {
        self.decide(policy_namespaces, key, now, planner::plan)
    }

    fn decide(
        &self,
        policy_namespaces: &[String],
        key: Result<&SealKey, &str>,
        now: Timestamp,
        decide: impl FnOnce(&Snapshot<'_>) -> planner::Plan,
    ) -> planner::Plan {
        decide(&Snapshot {
            bundle: &self.bundle,
            pipeline: self.pipeline.as_ref(),
            siblings: &self.siblings.iter().collect::<Vec<_>>(),
            gates: &self.gates.iter().collect::<Vec<_>>(),
            graphs: &self.graphs.iter().collect::<Vec<_>>(),
            steps: &self.steps.iter().collect::<Vec<_>>(),
            policy_namespaces,
            commit: &self.commit,
            key,
            now,
        })
    }
}

/// Looks for a commit with the credentials of a step that will take it over.
async fn look_for(context: &Context, namespace: &str, search: &Search) -> Commit {
    let Some(step) = search.steps.iter().find(|step| context.serves(step)) else { return Commit::Elsewhere };
    let remote = async { context.remote(&access::of_step(namespace, step)?).await };
    let remote = match remote.await {
        Ok(remote) => remote,
        Err(Trouble::Problem(message) | Trouble::Fault(message)) => return Commit::Unreachable(message),
    };
    let source = match context.source(namespace, &remote, &search.commit.repository) {
        Ok(source) => source,
        // Whose repository it is does not change by itself.
        Err(Trouble::Problem(message) | Trouble::Fault(message)) => return Commit::Missing(message),
    };
    let repositories = &context.repositories;
    let found = async {
        let id = repositories.resolve(&source, &search.commit.sha).await?;
        // A whole id is taken as it is: only who reads the commit knows that it is there.
        repositories.contains(&source, &id, &id).await
    };
    match found.await {
        Ok(_) => Commit::Found,
        Err(kardinal_git::Error::NoCommit(message)) => Commit::Missing(message),
        Err(error) => Commit::Unreachable(error.to_string()),
    }
}

async fn write(context: &Context, namespace: &str, effect: &Effect) -> Answer<()> {
    let place = |kind: &kardinal_object::Gvk, name: &str| ObjectId {
        gvk: kind.clone(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    match effect {
        Effect::CreateGraph(graph) => {
            create(context, &place(&gvk::<Graph>(), name(&graph.metadata)), graph).await
        }
        Effect::CreateBundle(bundle) => {
            create(context, &place(&gvk::<Bundle>(), name(&bundle.metadata)), bundle).await
        }
        Effect::DeleteGraph { name, uid } => {
            context.writer.delete(&place(&gvk::<Graph>(), name), uid).await.map(drop)
        }
        Effect::DeleteBundle { name, uid } => {
            context.writer.delete(&place(&gvk::<Bundle>(), name), uid).await.map(drop)
        }
    }
}

fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

async fn create<T: serde::Serialize>(context: &Context, id: &ObjectId, object: &T) -> Answer<()> {
    let body = serde_json::to_value(object).unwrap_or_default();
    let answer = match context.writer.create(id, &body, MANAGER).await {
        // Not every conflict is about the name: a quota that moves answers the same. Only what is there is done.
        Answer::Conflict(message) => match context.writer.get(id).await {
            Answer::Gone(_) => Answer::Fault(message),
            found => found,
        },
        answer => answer,
    };
    context.remember(id, answer)
}
