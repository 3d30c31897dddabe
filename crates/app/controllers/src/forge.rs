//! The local forge: repositories on disk, and their pull requests.

pub(crate) mod dialect;
mod facets;
pub(crate) mod pull_request;
pub(crate) mod repository;

use std::sync::Arc;

use jiff::Timestamp;
use kardinal_forge::{Error, Store};
use kardinal_planner::forge as planner;

use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::text;
use crate::reconcile::routes::{Heard, Hearer};

/// Does something with the repositories, where blocking is allowed.
async fn on_disk<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.unwrap_or_else(|error| Err(Error::Fault(format!("work on a repository was cut short: {error}"))))
}

/// When an object is looked at again that could not be looked at.
fn look_again(object: &Key, error: &str, now: Timestamp) -> Next {
    warn(object, error);
    Next::At(now + planner::RETRY)
}

fn warn((namespace, name): &Key, error: &str) {
    tracing::warn!(namespace, name, error, "the forge tries again");
}

/// The repository of ours that a step has just pushed to, without asking the forge; `url` is what those of ours begin with.
fn pushed_to<K: Hearer>(heard: &Heard<'_, K>, url: &str) -> Option<Key> {
    let commit = |step| text(step, "/status/outputs/commit");
    let (before, _) = heard.both();
    if before.map(commit).unwrap_or_default() == commit(heard.object) {
        return None;
    }
    let place = text(heard.object, "/spec/git/url").strip_prefix(url)?;
    let (namespace, name) = place.trim_end_matches(".git").split_once('/')?;
    Some((namespace.to_owned(), name.to_owned()))
}
