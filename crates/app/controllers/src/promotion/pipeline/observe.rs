//! What a pass over one Pipeline is decided from. Only reads.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::kardinal::{Bundle, BundlePhase, Pipeline, PromotionStep};
use kardinal_promotion::bundle::phase_of;
use kardinal_promotion::pipeline::{self as planner, Snapshot};
use kube::Api;

use super::{Kind, Memory};
use crate::Context;
use crate::promotion::facets;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{get, list, lock};
use crate::reconcile::pass::{Observed, Remembered, sight};

/// What was seen of one Pipeline.
pub(crate) struct Observation {
    pipeline: Pipeline,
    steps: Vec<PromotionStep>,
    /// With those that are gone.
    bundles: Vec<Bundle>,
    promoting: bool,
    missing: Option<Vec<String>>,
    /// How many Bundles were remembered that are gone.
    pub(super) departed: usize,
    now: Timestamp,
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.pipeline.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

impl Observation {
    /// Asks for a decision.
    pub(super) fn ask<T>(&self, decide: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        decide(&Snapshot {
            pipeline: &self.pipeline,
            steps: &self.steps.iter().collect::<Vec<_>>(),
            bundles: &self.bundles.iter().collect::<Vec<_>>(),
            promoting: self.promoting,
            missing: self.missing.as_deref(),
            now: self.now,
        })
    }
}

/// Reads the Pipeline, its Bundles and their steps out of the watches, and looks for its Secrets.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
    remembered: &Remembered<Memory>,
) -> Result<Observation, Next> {
    let view = sight::<Kind>(context)?;
    let (namespace, name) = key;
    let pipeline: Pipeline = get(&view, namespace, name).ok_or(Next::Never)?;
    let steps = list(&view, namespace, facets::PIPELINE, name);
    let mut bundles: Vec<Bundle> = list(&view, namespace, facets::PIPELINE, name);
    drop(view);
    let promoting = bundles.iter().any(|bundle| phase_of(bundle) == Some(BundlePhase::Promoting));
    let gone = lock(remembered).departed.clone();
    let departed = gone.len();
    let is_there = |one: &Bundle| bundles.iter().any(|other| other.metadata.name == one.metadata.name);
    let gone: Vec<Bundle> = gone.into_iter().filter(|one| !is_there(one)).collect();
    bundles.extend(gone);
    let missing = missing_secrets(context, &pipeline, namespace).await;
    let now = context.clock.now();
    Ok(Observation { pipeline, steps, bundles, promoting, missing, departed, now })
}

/// The Secrets of a Pipeline that do not exist. Nothing: they need not be looked for, or could not be.
async fn missing_secrets(context: &Context, pipeline: &Pipeline, namespace: &str) -> Option<Vec<String>> {
    if !planner::wants_secrets(pipeline) {
        return None;
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
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
