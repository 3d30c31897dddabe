//! Makes repositories.

use kardinal_forge::Error;
use kardinal_planner::forge::RepositoryEffect;

use crate::forge::Controller;
use crate::reconcile::driver::Key;

impl Controller {
    pub(super) async fn act_on_repository(&self, key: &Key, effect: RepositoryEffect) -> Result<(), Error> {
        let RepositoryEffect::Create { default_branch } = effect;
        let (namespace, name) = key.clone();
        self.on_disk(move |store| store.create(&namespace, &name, &default_branch)).await.map(drop)
    }
}
