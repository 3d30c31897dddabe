//! What a pass over one gate is decided from. Only reads.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use kardinal_cluster::View;
use kardinal_object::{created_at, label_of};
use kardinal_policy::{is_template, shows_organisation, speaks_for_organisation};
use kardinal_promotion::bundle::{
    GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, pipeline_name, template_of,
};
use kardinal_promotion::gate_context::{Candidate, Surroundings};
use kardinal_promotion::policy_gate::{self as planner, Authority, Place, Snapshot};
use kardinal_promotion::seal::Door;

use super::Kind;
use crate::graph;
use crate::promotion::context::PromotionContext;
use crate::promotion::facets;
use crate::promotion::surroundings::around;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{get, gvk, list, list_all};
use crate::reconcile::pass::{Observed, sight};

/// Looks at a gate and where it stands, and finds out what is proven.
pub(super) async fn observe(context: &PromotionContext, key: &Key) -> Result<Observation, Next> {
    let view = sight::<Kind>(context)?;
    let mut observation = Observation::of(&view, key, context).ok_or(Next::Never)?;
    drop(view);
    if let Err(problem) = observation.consult(context).await {
        tracing::warn!(gate = %key.1, error = %problem, "the gate cannot be asked; it is tried again");
        return Err(Next::At(context.clock.now() + crate::RETRY));
    }
    observation.now = context.clock.now();
    Ok(observation)
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.gate.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

/// What was seen of one gate.
pub(crate) struct Observation {
    pub(super) gate: PolicyGate,
    template: Option<PolicyGate>,
    is_withdrawn: bool,
    pipelines: Vec<Pipeline>,
    place: Option<Place>,
    bundle: Option<Bundle>,
    around: Surroundings,
    /// What is proven of the Bundle, when the template is the organisation's.
    proven: Option<Candidate<'static>>,
    now: Timestamp,
}

impl Observation {
    fn of(view: &View, key: &Key, context: &PromotionContext) -> Option<Observation> {
        let policy_namespaces = &context.policy_namespaces;
        let (gate, place) = placed(view, &key.0, &key.1)?;
        let template = template(view, &gate);
        let bundle: Option<Bundle> = place.as_ref().and_then(|place| get(view, &key.0, &place.bundle));
        // A Bundle can have many gates, and each of them reads all of these: once is enough.
        let around = bundle.as_ref().map(|bundle| around(view, &key.0, bundle)).unwrap_or_default();
        let pipelines = match is_template(&gate) && place.is_none() {
            true => counting(view, &key.0, policy_namespaces),
            false => Vec::new(),
        };
        let is_withdrawn =
            template.is_none() && shows_organisation(&gate, policy_namespaces) && all_read(view, &gate);
        Some(Observation {
            gate,
            template,
            is_withdrawn,
            pipelines,
            place,
            bundle,
            around,
            proven: None,
            now: context.clock.now(),
        })
    }

    /// Finds out what is proven, when the gate shows one of the organisation's.
    async fn consult(&mut self, context: &PromotionContext) -> Result<(), String> {
        let (Some(template), Some(bundle), Some(place)) = (&self.template, &self.bundle, &self.place) else {
            return Ok(());
        };
        if !speaks_for_organisation(template, &context.policy_namespaces, created_at(&bundle.metadata)) {
            return Ok(());
        }
        let key = context.key().await?;
        let pipeline = pipeline_name(bundle).unwrap_or_default();
        let door = Door { pipeline, environment: &place.environment, place: None };
        self.proven = Some(Candidate::proven(key, &door, bundle, &[], &self.around));
        Ok(())
    }

    fn authority(&self) -> Option<Authority<'_>> {
        Some(Authority { template: self.template.as_ref()?, candidate: self.proven.as_ref()? })
    }

    /// Asks for a decision.
    pub(super) fn ask<T>(&self, decide: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        decide(&Snapshot {
            pipelines: &self.pipelines.iter().collect::<Vec<_>>(),
            authority: self.authority(),
            gate: &self.gate,
            template: self.template.as_ref(),
            is_withdrawn: self.is_withdrawn,
            place: self.place.clone(),
            bundle: self.bundle.as_ref(),
            around: &self.around,
            now: self.now,
        })
    }
}

/// The template that a gate was made from, as it is now.
fn template(view: &View, gate: &PolicyGate) -> Option<PolicyGate> {
    let labels = gate.metadata.labels.as_ref()?;
    let (namespace, name) = (labels.get(GATE_TEMPLATE_NAMESPACE_LABEL)?, labels.get(GATE_TEMPLATE_LABEL)?);
    // Mostly the label holds the whole name.
    get(view, namespace, name).or_else(|| {
        let all: Vec<PolicyGate> = list(view, namespace, facets::BUNDLE, "");
        template_of(gate, &all).cloned()
    })
}

/// Whether every template of the namespace that a gate was made in can be read: one that cannot is not deleted.
fn all_read(view: &View, gate: &PolicyGate) -> bool {
    let namespace = label_of(&gate.metadata, GATE_TEMPLATE_NAMESPACE_LABEL).unwrap_or_default();
    list_all::<PolicyGate>(view, namespace, facets::BUNDLE, "").is_ok()
}

/// The Pipelines that count the templates of a namespace.
fn counting(view: &View, namespace: &str, policy_namespaces: &[String]) -> Vec<Pipeline> {
    let Some(store) = view.kind(&gvk::<Pipeline>()) else { return Vec::new() };
    let is_organisations = policy_namespaces.iter().any(|name| name == namespace);
    // A team has many templates, and other teams many Pipelines that do not matter to them.
    let own = store.list(if is_organisations { None } else { Some(namespace) });
    let elsewhere = store.filed(None, (facets::SEARCHES, namespace.to_owned()));
    let elsewhere = elsewhere.filter(|(name, _)| !is_organisations && name.0 != namespace);
    own.chain(elsewhere).filter_map(|(_, object)| object.read::<Pipeline>().ok()).collect()
}

/// A gate and where it stands: its labels tell that, or the Graph that somebody wrote it into.
pub(crate) fn placed(view: &View, namespace: &str, name: &str) -> Option<(PolicyGate, Option<Place>)> {
    let gate: PolicyGate = get(view, namespace, name)?;
    let own = view.kind(&gvk::<PolicyGate>())?.get(Some(namespace), name)?;
    let place = planner::place_by_labels(&gate).or_else(|| {
        let uids = own.filed_under(graph::facets::MANAGED_BY);
        let mut graphs = uids.flat_map(|uid| list::<Graph>(view, namespace, graph::facets::UID, uid));
        graphs.find_map(|graph| planner::place_in_graph(&graph, &gate))
    });
    Some((gate, place))
}
