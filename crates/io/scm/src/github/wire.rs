//! The parts of GitHub's answers that we read.

use jiff::Timestamp;
use kardinal_vcs::{PullRequest, PullRequestState};
use serde::Deserialize;
use serde_json::Value;

use crate::forge::{Review, Standing, Word};
use crate::http::Answer;

#[derive(Deserialize)]
pub(super) struct PullRequestWire {
    pub(super) number: u64,
    html_url: String,
    state: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<LabelName>,
    #[serde(default)]
    merged_at: Option<Timestamp>,
    #[serde(default)]
    merged_by: Option<User>,
    #[serde(default)]
    closed_at: Option<Timestamp>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    mergeable: Option<bool>,
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
    sha: String,
    /// `None` when it was deleted.
    #[serde(default)]
    repo: Option<Repository>,
}

#[derive(Deserialize, PartialEq, Eq)]
struct Repository {
    id: u64,
}

impl PullRequestWire {
    /// From this branch of the repository itself: in a fork anybody can copy a branch's name and our marker.
    pub(super) fn is_from(&self, head: &str) -> bool {
        self.head.name == head && self.is_at_home()
    }

    fn is_at_home(&self) -> bool {
        self.head.repo.is_some() && self.head.repo == self.base.repo
    }

    pub(super) fn is_ours(&self, base: &str, marker: &str) -> bool {
        self.base.name == base && self.body.as_deref().unwrap_or_default().contains(marker)
    }

    /// The branch that it goes into.
    pub(super) fn base(&self) -> &str {
        &self.base.name
    }

    /// Whether it can be merged without conflict, where that is known.
    pub(super) fn mergeable(&self) -> Option<bool> {
        self.mergeable
    }

    pub(super) fn labels_missing(&self, wanted: &[String]) -> Vec<String> {
        let has = |name: &String| self.labels.iter().any(|label| label.name.eq_ignore_ascii_case(name));
        wanted.iter().filter(|name| !has(name)).cloned().collect()
    }

    /// What tells whether it counts among several.
    pub(super) fn standing(&self) -> Standing<u64> {
        Standing { state: self.state(), ended_at: self.merged_at.or(self.closed_at), order: self.number }
    }

    /// Lists have no `merged` field: a merge has a time.
    pub(super) fn state(&self) -> PullRequestState {
        match (self.merged_at, self.state.as_str()) {
            (Some(_), _) => PullRequestState::Merged,
            (None, "open") => PullRequestState::Open,
            (None, _) => PullRequestState::Closed,
        }
    }

    pub(super) fn into_pull_request(self) -> PullRequest {
        let (state, at_home) = (self.state(), self.is_at_home());
        PullRequest {
            number: self.number,
            url: self.html_url,
            state,
            branch: if at_home { self.head.name } else { String::new() },
            base: self.base.name,
            head: self.head.sha,
            merged_at: self.merged_at,
            merged_by: self.merged_by.map(|user| user.login),
            // While it is open this is a commit that only tries the merge.
            merge_commit: self.merge_commit_sha.filter(|_| state == PullRequestState::Merged),
            mergeable: self.mergeable,
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
    commit_id: Option<String>,
}

impl ReviewWire {
    /// Who said what, if it was more than a comment; a dismissed word is taken back.
    pub(super) fn into_word(self) -> Option<Word> {
        let author = self.user?.login;
        let approved = match self.state.as_str() {
            "APPROVED" => true,
            "CHANGES_REQUESTED" => false,
            "DISMISSED" => return Some(Word::Dismissed { author }),
            _ => return None,
        };
        Some(Word::Said(Review { author, approved, commit: self.commit_id }))
    }
}

/// A pull request as an issue: only there GitHub tells who closed it.
#[derive(Deserialize)]
pub(super) struct IssueWire {
    #[serde(default)]
    closed_by: Option<User>,
}

impl IssueWire {
    pub(super) fn into_closed_by(self) -> Option<String> {
        self.closed_by.map(|user| user.login)
    }
}

/// Whether a 422 blames this field of the request.
pub(super) fn names_invalid_field(answer: &Answer, field: &str) -> bool {
    let Ok(body) = answer.json::<Value>() else { return false };
    let errors = body.get("errors").and_then(Value::as_array);
    errors.into_iter().flatten().any(|error| {
        error.get("field").and_then(Value::as_str) == Some(field)
            && error.get("code").and_then(Value::as_str) == Some("invalid")
    })
}
