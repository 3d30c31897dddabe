//! Which Repositories a change concerns.

use kardinal_api::forge::{PullRequest, Repository};
use kardinal_api::kardinal::PromotionStep;

use super::Kind;
use crate::forge::pushed_to;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, text};
use crate::reconcile::routes::{Heard, Hears, Need, itself};

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<Repository>, itself),
    // A merge moves its branches.
    Hears { need: Need::Told, ..Hears::read(gvk::<PullRequest>, of_pull_request) },
    // A forge may be all that a process runs.
    Hears { need: Need::Overheard, ..Hears::read(gvk::<PromotionStep>, of_step) },
];

fn of_pull_request(heard: &Heard<'_, Kind>) -> Vec<Key> {
    vec![(heard.key().0, text(heard.object, "/spec/repository").to_owned())]
}

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    pushed_to(heard, &heard.kind.local.url).into_iter().collect()
}
