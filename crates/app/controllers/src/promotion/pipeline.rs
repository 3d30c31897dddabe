//! The Pipeline controller: tells how a Pipeline stands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleStatus, PIPELINE_LABEL, Pipeline, PromotionStep};
use kardinal_cluster::{Change, View};
use kardinal_object::Gvk;
use kardinal_promotion::pipeline::{self as planner, Snapshot};
use kube::Api;

use crate::reconcile::driver::{self, Key, Next};
use crate::reconcile::objects::{
    self, about, all_keys, before_and_after, get, gvk, key_of, label, list, text,
};
use crate::{Context, facets};

const MANAGER: &str = "kardinal-pipeline-controller";
/// So many Bundles of a Pipeline that are gone are kept in mind.
const DEPARTED: usize = 64;

/// Tells how Pipelines stand.
pub(crate) struct Controller {
    context: Arc<Context>,
    /// Bundles that were deleted and whose arrivals may not be on record yet, by Pipeline: nothing else tells of them.
    departed: Mutex<BTreeMap<Key, Vec<Bundle>>>,
}

impl Controller {
    /// Watches what every Pipeline needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for kind in kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context, departed: Mutex::default() }
    }

    fn view(&self) -> View {
        self.context.watches.view(&kinds())
    }

    fn departed(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Bundle>>> {
        self.departed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a Bundle that is gone until what it brought is on record.
    fn remember(&self, pipeline: &Key, change: &Change) {
        let (Some(old), None) = before_and_after(change) else { return };
        // Without the Pipeline nobody writes down anything, and its label can be any word.
        if get::<Pipeline>(&self.view(), &pipeline.0, &pipeline.1).is_none() {
            return;
        }
        if let Some(bundle) = serde_json::from_value(old.clone()).ok().and_then(planner::arrivals_only) {
            let mut departed = self.departed();
            let gone = departed.entry(pipeline.clone()).or_default();
            // What came first is on record long before.
            if gone.len() >= DEPARTED {
                gone.remove(0);
            }
            gone.push(bundle);
        }
    }

    /// The first so many of the Bundles that are gone are on record.
    fn forget_departed(&self, key: &Key, known: usize) {
        let mut departed = self.departed();
        if let Some(gone) = departed.get_mut(key) {
            gone.drain(..known.min(gone.len()));
            if gone.is_empty() {
                departed.remove(key);
            }
        }
    }

    /// The Secrets of a Pipeline that do not exist. Nothing: they need not be looked for, or could not be.
    async fn missing_secrets(&self, pipeline: &Pipeline, namespace: &str) -> Option<Vec<String>> {
        if !planner::wants_secrets(pipeline) {
            return None;
        }
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), namespace);
        let mut missing = Vec::new();
        for name in planner::secrets(pipeline) {
            match api.get_metadata_opt(name).await {
                Ok(Some(_)) => {}
                Ok(None) => missing.push(name.to_owned()),
                Err(error) => {
                    tracing::debug!(%error, name, namespace, "whether a Secret exists is not known");
                    return None;
                }
            }
        }
        Some(missing)
    }
}

fn kinds() -> [Gvk; 3] {
    [gvk::<Pipeline>(), gvk::<PromotionStep>(), gvk::<Bundle>()]
}

impl driver::Controller for Controller {
    const KIND: &'static str = "Pipeline";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Vec<Key> {
        if let Change::Kind(_) = change {
            return all_keys::<Pipeline>(&self.view());
        }
        if let Some(step) = about::<PromotionStep>(change) {
            return vec![(key_of(step).0, text(step, "/spec/pipeline").to_owned())];
        }
        if let Some(bundle) = about::<Bundle>(change) {
            let pipeline = (key_of(bundle).0, label(bundle, PIPELINE_LABEL).to_owned());
            self.remember(&pipeline, change);
            return vec![pipeline];
        }
        about::<Pipeline>(change).map(key_of).into_iter().collect()
    }

    fn patience(&self, change: &Change) -> SignedDuration {
        // How it stands follows from its steps, many of which may get on at once.
        match about::<PromotionStep>(change) {
            Some(_) => crate::PACE,
            None => SignedDuration::ZERO,
        }
    }

    async fn pass(&self, key: &Key) -> Next {
        let view = self.view();
        if !view.synced() {
            return Next::At(None);
        }
        let Some(pipeline) = get::<Pipeline>(&view, &key.0, &key.1) else { return Next::Never };
        let steps: Vec<PromotionStep> = list(&view, &key.0, facets::PIPELINE, &key.1);
        let mut bundles: Vec<Bundle> = list(&view, &key.0, facets::PIPELINE, &key.1);
        let is_promoting = |bundle: &Bundle| {
            matches!(&bundle.status, Some(BundleStatus { phase: Some(BundlePhase::Promoting), .. }))
        };
        let promoting = bundles.iter().any(is_promoting);
        drop(view);
        let gone = self.departed().get(key).cloned().unwrap_or_default();
        let known = gone.len();
        let is_there = |one: &Bundle| bundles.iter().any(|other| other.metadata.name == one.metadata.name);
        let gone: Vec<Bundle> = gone.into_iter().filter(|one| !is_there(one)).collect();
        bundles.extend(gone);
        let missing = self.missing_secrets(&pipeline, &key.0).await;
        let now = self.context.clock.now();
        let steps: Vec<&PromotionStep> = steps.iter().collect();
        let missing = missing.as_deref();
        let bundles: Vec<&Bundle> = bundles.iter().collect();
        let snapshot =
            Snapshot { pipeline: &pipeline, steps: &steps, bundles: &bundles, promoting, missing, now };
        let plan = planner::plan(&snapshot);
        let Some(status) = &plan.status else {
            if plan.has_all {
                self.forget_departed(key, known);
            }
            return Next::At(plan.wake);
        };
        let id = objects::id::<Pipeline>(key);
        let told = self.context.report(MANAGER, &id, &pipeline.metadata, status, &plan.notes, now).await;
        told.map_or_else(
            |next| next,
            |()| {
                if plan.has_all {
                    self.forget_departed(key, known);
                }
                Next::At(plan.wake)
            },
        )
    }

    fn forget(&self, key: &Key) {
        self.departed().remove(key);
    }
}
