//! The Pipeline controller: tells how a Pipeline stands.

use std::sync::Arc;

use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PromotionStep};
use kardinal_cluster::{Change, View};
use kardinal_graph::Gvk;
use kardinal_planner::pipeline::{self as planner, Snapshot};

use crate::Context;
use crate::driver::{self, Key, Next};
use crate::objects::{self, about, get, gvk, key_of, keys, label, list, text};

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
            return keys::<Pipeline>(&self.view(), None, |_| true);
        }
        if let Some(step) = about(change, &gvk::<PromotionStep>()) {
            return vec![(key_of(step).0, text(step, "/spec/pipeline").to_owned())];
        }
        if let Some(bundle) = about(change, &gvk::<Bundle>()) {
            return vec![(key_of(bundle).0, label(bundle, PIPELINE_LABEL).to_owned())];
        }
        about(change, &gvk::<Pipeline>()).map(key_of).into_iter().collect()
    }

    async fn pass(&self, key: &Key) -> Next {
        let view = self.view();
        if !view.synced() {
            return Next::At(None);
        }
        let Some(pipeline) = get::<Pipeline>(&view, &key.0, &key.1) else { return Next::Never };
        let steps: Vec<PromotionStep> =
            list(&view, Some(&key.0), |step| text(step, "/spec/pipeline") == key.1);
        let promoting = keys::<Bundle>(&view, Some(&key.0), |bundle| {
            label(bundle, PIPELINE_LABEL) == key.1 && text(bundle, "/status/phase") == "Promoting"
        });
        let promoting = !promoting.is_empty();
        let now = self.context.clock.now();
        let steps: Vec<&PromotionStep> = steps.iter().collect();
        let plan = planner::plan(&Snapshot { pipeline: &pipeline, steps: &steps, promoting, now });
        let Some(status) = &plan.status else { return Next::At(None) };
        let id = objects::id::<Pipeline>(key);
        let told = self.context.report(MANAGER, &id, &pipeline.metadata, status, &plan.notes, now).await;
        told.map_or_else(|next| next, |()| Next::At(None))
    }

    fn forget(&self, _: &Key) {}
}
