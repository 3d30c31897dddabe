//! What gates see around a Bundle, read for all who ask them: the controllers of Bundles, gates and steps.

use kardinal_api::kardinal::Bundle;
use kardinal_cluster::View;
use kardinal_promotion::bundle::pipeline_name;
use kardinal_promotion::gate_context::Surroundings;

use crate::promotion::facets;
use crate::reconcile::objects::list_others;

/// Reads it. Whoever calls this hears of every kind that it reads.
pub(crate) fn around(view: &View, namespace: &str, bundle: &Bundle) -> Surroundings {
    let Some(pipeline) = pipeline_name(bundle) else { return Surroundings::default() };
    Surroundings {
        others: list_others(view, namespace, facets::PIPELINE, pipeline, bundle.metadata.name.as_deref()),
    }
}
