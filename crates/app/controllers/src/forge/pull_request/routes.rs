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
        let repository = (heard.key().0, text(heard.object, "/spec/repository").to_owned());
        all.extend(of(heard, &repository, facets::COMPARED));
    }
    all
}

/// When it comes to be on disk, or is there no more, also those that are over: their numbers are kept beside it.
fn of_repository(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let is_on_disk = |repository| !text(repository, "/status/cloneURL").is_empty();
    let (before, now) = heard.both();
    let is_moved = before.is_some_and(is_on_disk) != now.is_some_and(is_on_disk);
    of(heard, &heard.key(), if is_moved { facets::REPOSITORY } else { facets::COMPARED })
}

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    pushed_to(heard, &heard.kind.local.url)
        .map(|repository| of(heard, &repository, facets::COMPARED))
        .unwrap_or_default()
}

/// The pull requests of a repository: all, or those that are not over.
fn of(heard: &Heard<'_, Kind>, (namespace, name): &Key, facet: &'static str) -> Vec<Key> {
    keys::<PullRequest>(&heard.view(), Some(namespace), facet, name)
}
