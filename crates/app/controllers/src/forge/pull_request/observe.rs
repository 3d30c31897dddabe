//! What a repository says about the branches of a pull request. Only reads.

use kardinal_api::forge::{FileStatus, PullRequest, PullRequestFile};
use kardinal_forge::{Comparison, Error, FileChange};
use kardinal_planner::forge::{Merge, RepoFacts, is_compared};

use crate::forge::Controller;

impl Controller {
    pub(super) async fn compare(
        &self,
        namespace: &str,
        request: &PullRequest,
    ) -> Result<Option<RepoFacts>, Error> {
        if !is_compared(request) {
            return Ok(None);
        }
        let (namespace, spec) = (namespace.to_owned(), request.spec.clone());
        let last_head = request.status.as_ref().and_then(|status| status.head_commit.clone());
        self.on_disk(move |store| {
            if !store.exists(&namespace, &spec.repository) {
                return Ok(None);
            }
            let seen =
                store.compare(&namespace, &spec.repository, &spec.base, &spec.head, last_head.as_deref())?;
            Ok(Some(repo_facts(seen)))
        })
        .await
    }
}

fn repo_facts(seen: Comparison) -> RepoFacts {
    let file = |file: &kardinal_forge::FileDiff| PullRequestFile {
        path: file.path.clone(),
        status: match file.change {
            FileChange::Added => FileStatus::Added,
            FileChange::Modified => FileStatus::Modified,
            FileChange::Removed => FileStatus::Removed,
        },
    };
    RepoFacts {
        head_tip: seen.head,
        base_tip: seen.base,
        contained: seen.contained,
        merged: seen.merge_commit.map(|commit| Merge { commit, at: seen.merged_at }),
        conflicts: seen.conflicts,
        additions: seen.files.iter().map(|file| file.additions).sum(),
        deletions: seen.files.iter().map(|file| file.deletions).sum(),
        files: seen.files.iter().map(file).collect(),
    }
}
