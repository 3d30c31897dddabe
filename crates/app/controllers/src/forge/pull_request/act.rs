//! Merges pull requests.

use kardinal_api::forge::PullRequest;
use kardinal_forge::{Author, Error, MergeOrder};
use kardinal_planner::forge::PullRequestEffect;

use crate::forge::Controller;

impl Controller {
    pub(super) async fn act_on_pull_request(
        &self,
        namespace: &str,
        request: &PullRequest,
        effect: PullRequestEffect,
    ) -> Result<(), Error> {
        let (namespace, name) = (namespace.to_owned(), request.spec.repository.clone());
        self.on_disk(move |store| store.merge(&namespace, &name, &merge_order(effect))).await.map(drop)
    }
}

fn merge_order(effect: PullRequestEffect) -> MergeOrder {
    let PullRequestEffect::Merge { base, head, expected_base, expected_head, message, author, email, time } =
        effect;
    MergeOrder {
        base,
        head,
        expected_base: Some(expected_base),
        expected_head: Some(expected_head),
        message,
        author: Author { name: author, email },
        time,
    }
}
