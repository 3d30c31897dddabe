//! Which pull requests a change concerns.

use kardinal_api::forge::{PullRequest, Repository};
use kardinal_api::kardinal::PromotionStep;

use super::Kind;
use crate::forge::{facets, pushed_to};
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, keys, text};
use crate::reconcile::routes::{Heard, Hears, Need};

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<PullRequest>, of_pull_request),
    Hears::read(gvk::<Repository>, of_repository),
    // A forge may be all that a process runs.
    Hears { need: Need::Overheard, ..Hears::read(gvk::<PromotionStep>, of_step) },
];

/// It itself, and those that may want to go where it was merged.
fn of_pull_request(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let merge = |request| text(request, "/status/mergeCommit");
    let (before, now) = heard.both();
    let mut all = vec![heard.key()];
    if before.map(merge).unwrap_or_default() != now.map(merge).unwrap_or_default() {
        all.extend(of(heard, &(heard.key().0, text(heard.object, "/spec/repository").to_owned())));
    }
    all
}

fn of_repository(heard: &Heard<'_, Kind>) -> Vec<Key> {
    of(heard, &heard.key())
}

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    pushed_to(heard, &heard.kind.local.url).map(|repository| of(heard, &repository)).unwrap_or_default()
}

/// The pull requests of a repository.
fn of(heard: &Heard<'_, Kind>, (namespace, name): &Key) -> Vec<Key> {
    keys::<PullRequest>(&heard.view(), Some(namespace), facets::REPOSITORY, name)
}
