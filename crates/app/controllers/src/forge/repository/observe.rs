//! What there is of a repository on disk. Only reads.

use kardinal_forge::{Error, Store};
use kardinal_planner::forge::RepositoryFacts;

use crate::forge::Controller;
use crate::reconcile::driver::Key;

impl Controller {
    pub(super) async fn look_at_repository(&self, key: &Key) -> Result<Option<RepositoryFacts>, Error> {
        let (namespace, name) = key.clone();
        self.on_disk(move |store| facts_of(store, &namespace, &name)).await
    }
}

fn facts_of(store: &Store, namespace: &str, name: &str) -> Result<Option<RepositoryFacts>, Error> {
    if !store.exists(namespace, name) {
        return Ok(None);
    }
    let default_branch = store.default_branch(namespace, name)?.unwrap_or_default();
    let head = store.tip(namespace, name, &default_branch)?;
    Ok(Some(RepositoryFacts { default_branch, head }))
}
