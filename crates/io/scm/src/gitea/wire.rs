//! The parts of Gitea's answers that we read.

use jiff::Timestamp;
use kardinal_vcs::{PullRequest, PullRequestState};
use serde::Deserialize;

use crate::forge::{Review, Standing, Word};

#[derive(Deserialize)]
pub(super) struct PullRequestWire {
    pub(super) number: u64,
    html_url: String,
    state: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Option<Vec<LabelName>>,
    #[serde(default)]
    merged: bool,
    #[serde(default)]
    merged_at: Option<Timestamp>,
    #[serde(default)]
    merged_by: Option<User>,
    #[serde(default)]
    closed_at: Option<Timestamp>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    mergeable: bool,
    head: Branch,
    base: Branch,
}

#[derive(Deserialize)]
struct LabelName {
    name: String,
}

#[derive(Deserialize)]
struct User {
    login: String,
}

#[derive(Deserialize)]
struct Branch {
    #[serde(rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
    /// What the branch is called even after its deletion, when `ref` becomes `refs/pull/N/head`.
    #[serde(default)]
    label: String,
    repo_id: i64,
}

impl PullRequestWire {
    /// Between these branches of the repository itself, with our marker: in a fork anybody can copy both.
    pub(super) fn is_ours(&self, head: &str, base: &str, marker: &str) -> bool {
        let body = self.body.as_deref().unwrap_or_default();
        let from = self.head.name == head || self.head.label == head;
        from && self.is_at_home() && self.base.name == base && body.contains(marker)
    }

    /// The same without what nobody reads any more.
    pub(super) fn without_body(self) -> PullRequestWire {
        PullRequestWire { body: None, ..self }
    }

    fn is_at_home(&self) -> bool {
        self.head.repo_id == self.base.repo_id
    }

    /// The branch that it goes into.
    pub(super) fn base(&self) -> &str {
        &self.base.name
    }

    pub(super) fn labels_missing(&self, wanted: &[String]) -> Vec<String> {
        let has = |name: &String| self.labels.iter().flatten().any(|label| label.name == *name);
        wanted.iter().filter(|name| !has(name)).cloned().collect()
    }

    pub(super) fn head_sha(&self) -> &str {
        &self.head.sha
    }

    /// What tells whether it counts among several.
    pub(super) fn standing(&self) -> Standing<u64> {
        Standing { state: self.state(), ended_at: self.merged_at.or(self.closed_at), order: self.number }
    }

    pub(super) fn state(&self) -> PullRequestState {
        match (self.merged, self.state.as_str()) {
            (true, _) => PullRequestState::Merged,
            (false, "open") => PullRequestState::Open,
            (false, _) => PullRequestState::Closed,
        }
    }

    pub(super) fn into_pull_request(self) -> PullRequest {
        let state = self.state();
        let merged = state == PullRequestState::Merged;
        let at_home = self.is_at_home();
        let Branch { name, sha, label, .. } = self.head;
        let branch = if label.is_empty() { name } else { label };
        PullRequest {
            number: self.number,
            url: self.html_url,
            state,
            branch: if at_home { branch } else { String::new() },
            base: self.base.name,
            head: sha,
            merged_at: self.merged_at,
            merged_by: self.merged_by.map(|user| user.login),
            merge_commit: self.merge_commit_sha.filter(|_| merged),
            // `false` also means that Gitea has not looked yet.
            mergeable: self.mergeable.then_some(true),
            closed_at: self.closed_at.filter(|_| state == PullRequestState::Closed),
            closed_by: None,
            approved_by: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct ReviewWire {
    #[serde(default)]
    user: Option<User>,
    state: String,
    #[serde(default)]
    dismissed: bool,
    #[serde(default)]
    commit_id: Option<String>,
}

impl ReviewWire {
    /// Who said what, if it was more than a comment; a dismissed word is taken back.
    pub(super) fn into_word(self) -> Option<Word> {
        let author = self.user?.login;
        let approved = match self.state.as_str() {
            "APPROVED" => true,
            "REQUEST_CHANGES" => false,
            _ => return None,
        };
        if self.dismissed {
            return Some(Word::Dismissed { author });
        }
        // An empty id stands for none.
        let commit = self.commit_id.filter(|commit| !commit.is_empty());
        Some(Word::Said(Review { author, approved, commit }))
    }
}

/// One entry of the timeline of a pull request: only there Gitea tells who closed it.
#[derive(Deserialize)]
pub(super) struct EntryWire {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    user: Option<User>,
}

impl EntryWire {
    /// Who closed the pull request, if the entry is about that.
    pub(super) fn into_closed_by(self) -> Option<String> {
        self.user.filter(|_| self.kind == "close").map(|user| user.login)
    }
}
