//! The Pipeline controller: tells how a Pipeline stands.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleStatus, PIPELINE_LABEL, Pipeline, PromotionStep};
use kardinal_cluster::{Change, View};
use kardinal_graph::Gvk;
use kardinal_planner::pipeline::{self as planner, Snapshot};
use kube::Api;

use crate::driver::{self, Key, Next};
use crate::objects::{self, about, all_keys, get, gvk, key_of, label, list, text};
use crate::{Context, facets};

const MANAGER: &str = "kardinal-pipeline-controller";

/// Tells how Pipelines stand.
pub(crate) struct Controller {
    context: Arc<Context>,
}

impl Controller {
    /// Watches what every Pipeline needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for kind in kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context }
    }

    fn view(&self) -> View {
        self.context.watches.view(&kinds())
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
            return vec![(key_of(bundle).0, label(bundle, PIPELINE_LABEL).to_owned())];
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
        let bundles: Vec<Bundle> = list(&view, &key.0, facets::PIPELINE, &key.1);
        let is_promoting = |bundle: &Bundle| {
            matches!(&bundle.status, Some(BundleStatus { phase: Some(BundlePhase::Promoting), .. }))
        };
        let promoting = bundles.iter().any(is_promoting);
        drop(view);
        let missing = self.missing_secrets(&pipeline, &key.0).await;
        let now = self.context.clock.now();
        let steps: Vec<&PromotionStep> = steps.iter().collect();
        let missing = missing.as_deref();
        let bundles: Vec<&Bundle> = bundles.iter().collect();
        let snapshot =
            Snapshot { pipeline: &pipeline, steps: &steps, bundles: &bundles, promoting, missing, now };
        let plan = planner::plan(&snapshot);
        let Some(status) = &plan.status else { return Next::At(plan.wake) };
        let id = objects::id::<Pipeline>(key);
        let told = self.context.report(MANAGER, &id, &pipeline.metadata, status, &plan.notes, now).await;
        told.map_or_else(|next| next, |()| Next::At(plan.wake))
    }

    fn forget(&self, _: &Key) {}
}
