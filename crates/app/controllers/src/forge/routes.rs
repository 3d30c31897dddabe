//! Which repositories a change concerns.

use kardinal_api::forge::{PullRequest, Repository};
use kardinal_api::kardinal::PromotionStep;

use super::Controller;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, text};
use crate::reconcile::routes::{Heard, Hears, Need, itself};

pub(super) const HEARS: &[Hears<Controller>] = &[
    Hears::read(gvk::<Repository>, itself),
    Hears::read(gvk::<PullRequest>, of_pull_request),
    // A forge may be all that a process runs.
    Hears { need: Need::Overheard, ..Hears::read(gvk::<PromotionStep>, of_step) },
];

fn of_pull_request(heard: &Heard<'_, Controller>) -> Vec<Key> {
    vec![(heard.key().0, text(heard.object, "/spec/repository").to_owned())]
}

/// The repository of ours that a step has just pushed to, without asking the forge.
fn of_step(heard: &Heard<'_, Controller>) -> Vec<Key> {
    let commit = |step| text(step, "/status/outputs/commit");
    let (before, _) = heard.both();
    if before.map(commit).unwrap_or_default() == commit(heard.object) {
        return Vec::new();
    }
    let place = text(heard.object, "/spec/git/url").strip_prefix(&heard.kind.local.url);
    let found = place.and_then(|place| place.trim_end_matches(".git").split_once('/'));
    found.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).into_iter().collect()
}
