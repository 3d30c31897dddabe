//! Which Pipelines a change concerns.

use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PromotionStep};
use kardinal_promotion::pipeline as planner;

use super::Kind;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{get, gvk, label, lock, text};
use crate::reconcile::routes::{Heard, Hears, Pace, itself};

/// So many Bundles of a Pipeline that are gone are kept in mind.
const DEPARTED: usize = 64;

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<Pipeline>, itself),
    // How it stands follows from its steps, many of which may get on at once.
    Hears::read(gvk::<PromotionStep>, of_step).paced(Pace::Within(crate::PACE)),
    Hears::read(gvk::<Bundle>, of_bundle),
];

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    vec![(heard.key().0, text(heard.object, "/spec/pipeline").to_owned())]
}

fn of_bundle(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let pipeline = (heard.key().0, label(heard.object, PIPELINE_LABEL).to_owned());
    remember(heard, &pipeline);
    vec![pipeline]
}

/// Keeps a Bundle that is gone until what it brought is on record.
fn remember(heard: &Heard<'_, Kind>, pipeline: &Key) {
    let (Some(old), None) = heard.both() else { return };
    // Without the Pipeline nobody writes down anything, and its label can be any word.
    if get::<Pipeline>(&heard.view(), &pipeline.0, &pipeline.1).is_none() {
        return;
    }
    if let Some(bundle) = serde_json::from_value(old.clone()).ok().and_then(planner::arrivals_only) {
        let remembered = heard.memories.of(pipeline);
        let gone = &mut lock(&remembered).departed;
        // What came first is on record long before.
        if gone.len() >= DEPARTED {
            gone.remove(0);
        }
        gone.push(bundle);
    }
}
