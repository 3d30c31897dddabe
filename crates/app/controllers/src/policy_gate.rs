//! The PolicyGate controller.

use std::sync::Arc;

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PolicyGate};
use kardinal_cluster::{Change, View};
use kardinal_graph::Gvk;
use kardinal_planner::bundle::last_verified;
use kardinal_planner::policy_gate::{self as planner, MANAGER, Place, Snapshot};

use crate::driver::{self, Key, Next};
use crate::objects::{self, about, all_keys, get, gvk, key_of, keys, label, list};
use crate::{Context, facets};

/// Asks the gates, at the right time.
pub(crate) struct Controller {
    context: Arc<Context>,
}

impl Controller {
    /// Watches what every gate needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for kind in kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context }
    }

    fn view(&self) -> View {
        self.context.watches.view(&kinds())
    }

    /// The instances made from a template.
    fn instances(&self, (namespace, name): &Key) -> Vec<Key> {
        keys::<PolicyGate>(&self.view(), None, facets::TEMPLATE, &facets::place(namespace, name))
    }
}

fn kinds() -> [Gvk; 3] {
    [gvk::<PolicyGate>(), gvk::<Bundle>(), gvk::<Graph>()]
}

impl driver::Controller for Controller {
    const KIND: &'static str = "PolicyGate";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Vec<Key> {
        if let Change::Kind(_) = change {
            return all_keys::<PolicyGate>(&self.view());
        }
        if let Some(gate) = about(change, &gvk::<PolicyGate>()) {
            let key = key_of(gate);
            let mut all = self.instances(&key);
            all.push(key);
            return all;
        }
        let Some(bundle) = about(change, &gvk::<Bundle>()) else { return Vec::new() };
        let (namespace, name) = key_of(bundle);
        let view = self.view();
        let found = |facet, value: &str| keys::<PolicyGate>(&view, Some(&namespace), facet, value);
        found(facets::BUNDLE, &name).into_iter().chain(found(facets::BY_HAND, "")).collect()
    }

    async fn pass(&self, key: &Key) -> Next {
        let view = self.view();
        if !view.synced() {
            return Next::At(None);
        }
        let Some(observation) = Observation::of(&view, key) else { return Next::Never };
        drop(view);
        let now = self.context.clock.now();
        let plan = planner::plan(&observation.snapshot(now));
        let Some(status) = &plan.status else { return Next::At(plan.wake) };
        let id = objects::id::<PolicyGate>(key);
        let metadata = &observation.gate.metadata;
        if let Err(next) = self.context.report(MANAGER, &id, metadata, status, &plan.notes, now).await {
            return next;
        }
        self.context.metrics.gate(&observation.gate, status);
        Next::At(plan.wake)
    }

    fn forget(&self, _: &Key) {}
}

/// What was seen of one gate.
struct Observation {
    gate: PolicyGate,
    template: Option<PolicyGate>,
    place: Option<Place>,
    bundle: Option<Bundle>,
    previous: Option<Bundle>,
}

impl Observation {
    fn of(view: &View, key: &Key) -> Option<Observation> {
        let (gate, place) = placed(view, &key.0, &key.1)?;
        let own = view.kind(&gvk::<PolicyGate>())?.get(Some(&key.0), &key.1)?.tree();
        let template = get(
            view,
            label(own, "kardinal.io/gate-template-namespace"),
            label(own, "kardinal.io/gate-template"),
        );
        let bundle: Option<Bundle> = place.as_ref().and_then(|place| get(view, &key.0, &place.bundle));
        let previous = match (&place, &bundle) {
            (Some(place), Some(bundle)) => previous(view, &key.0, bundle, &place.environment),
            _ => None,
        };
        Some(Observation { gate, template, place, bundle, previous })
    }

    fn snapshot(&self, now: jiff::Timestamp) -> Snapshot<'_> {
        Snapshot {
            gate: &self.gate,
            template: self.template.as_ref(),
            place: self.place.clone(),
            bundle: self.bundle.as_ref(),
            previous: self.previous.as_ref(),
            now,
        }
    }
}

/// A gate and where it stands: its labels tell that, or the Graph that somebody wrote it into.
pub(crate) fn placed(view: &View, namespace: &str, name: &str) -> Option<(PolicyGate, Option<Place>)> {
    let gate: PolicyGate = get(view, namespace, name)?;
    let own = view.kind(&gvk::<PolicyGate>())?.get(Some(namespace), name)?;
    let place = planner::place_by_labels(&gate).or_else(|| {
        let uids = own.filed_under(facets::MANAGED_BY);
        let mut graphs = uids.flat_map(|uid| list::<Graph>(view, namespace, facets::UID, uid));
        graphs.find_map(|graph| planner::place_in_graph(&graph, &gate))
    });
    Some((gate, place))
}

/// The Bundle of the same Pipeline that was verified last in an environment, other than this one.
pub(crate) fn previous(view: &View, namespace: &str, bundle: &Bundle, environment: &str) -> Option<Bundle> {
    let pipeline = bundle.metadata.labels.as_ref()?.get("kardinal.io/pipeline")?;
    let mut others: Vec<Bundle> = list(view, namespace, facets::PIPELINE, pipeline);
    others.retain(|other| other.metadata.name != bundle.metadata.name);
    last_verified(&others.iter().collect::<Vec<_>>(), environment).cloned()
}
