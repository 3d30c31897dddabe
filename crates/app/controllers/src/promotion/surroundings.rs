//! What gates see around a Bundle, read for all who ask them: the controllers of Bundles, gates and steps.

use kardinal_api::kardinal::Bundle;
use kardinal_cluster::View;
use kardinal_object::Gvk;
use kardinal_promotion::bundle::pipeline_name;
use kardinal_promotion::gate_context::Surroundings;

use crate::promotion::facets;
use crate::reconcile::objects::{gvk, list_others};

/// The kinds that it is read from. The controllers of Bundles, gates and steps read all of them; those of gates hear of a
/// change, and tell the others by what the gate says.
pub(crate) const KINDS: &[fn() -> Gvk] = &[gvk::<Bundle>];

/// Reads it.
pub(crate) fn around(view: &View, namespace: &str, bundle: &Bundle) -> Surroundings {
    let Some(pipeline) = pipeline_name(bundle) else { return Surroundings::default() };
    Surroundings {
        others: list_others(view, namespace, facets::PIPELINE, pipeline, bundle.metadata.name.as_deref()),
    }
}
