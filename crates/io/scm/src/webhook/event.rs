//! What a delivery says, in words that all forges share.

use serde::Deserialize;

use super::Rejected;

/// What happened. The repository is named by all its URLs; compare them with [`crate::same_repository`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pull request changed.
    PullRequest {
        /// Every URL by which the forge calls the repository.
        repository_urls: Vec<String>,
        /// The pull request.
        number: u64,
        /// What happened to it.
        action: Action,
    },
    /// A branch moved.
    Push {
        /// Every URL by which the forge calls the repository.
        repository_urls: Vec<String>,
        /// The branch, without `refs/heads/`.
        branch: String,
        /// Where it is now; `None` when it was deleted.
        commit: Option<String>,
    },
    /// Somebody reviewed a pull request.
    Review {
        /// Every URL by which the forge calls the repository.
        repository_urls: Vec<String>,
        /// The pull request.
        number: u64,
        /// What they said.
        verdict: Verdict,
        /// Who.
        author: String,
    },
    /// Something that no promotion cares about.
    Other,
}

/// What happened to a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opened or opened again.
    Opened,
    /// Its branch moved.
    Synchronized,
    /// Merged.
    Merged,
    /// Closed without merging.
    Closed,
    /// Title, body, labels, reviewers and the like.
    Edited,
}

/// What a reviewer said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Approved,
    /// No.
    ChangesRequested,
    /// Neither.
    Commented,
    /// An earlier word was taken back.
    Dismissed,
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    action: String,
    #[serde(default)]
    number: Option<u64>,
    #[serde(default)]
    pull_request: Option<PullRequest>,
    #[serde(default)]
    review: Option<Review>,
    #[serde(default)]
    repository: Option<Repository>,
    #[serde(default)]
    sender: Option<User>,
    #[serde(default, rename = "ref")]
    reference: String,
    #[serde(default)]
    after: String,
}

#[derive(Deserialize)]
struct PullRequest {
    #[serde(default)]
    number: Option<u64>,
    #[serde(default)]
    merged: Option<bool>,
}

#[derive(Deserialize)]
struct Review {
    /// GitHub's word.
    #[serde(default)]
    state: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Deserialize)]
struct Repository {
    #[serde(default)]
    clone_url: Option<String>,
    #[serde(default)]
    html_url: Option<String>,
    #[serde(default)]
    ssh_url: Option<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    login: String,
}

/// Reads the body of an event with this name.
pub(super) fn read(name: &str, body: &[u8]) -> Result<Event, Rejected> {
    let payload: Payload =
        serde_json::from_slice(body).map_err(|error| Rejected::Malformed(error.to_string()))?;
    match name {
        "pull_request" if payload.action == "reviewed" => review(payload, None),
        "pull_request" => pull_request(&payload),
        "pull_request_review" => review(payload, None),
        "pull_request_approved" => review(payload, Some(Verdict::Approved)),
        "pull_request_rejected" => review(payload, Some(Verdict::ChangesRequested)),
        "pull_request_comment" => review(payload, Some(Verdict::Commented)),
        "push" => push(payload),
        _ => Ok(Event::Other),
    }
}

fn pull_request(payload: &Payload) -> Result<Event, Rejected> {
    let merged = payload.pull_request.as_ref().and_then(|pull| pull.merged).unwrap_or(false);
    let action = match payload.action.as_str() {
        "opened" | "reopened" => Action::Opened,
        // GitHub and Gitea spell it differently.
        "synchronize" | "synchronized" => Action::Synchronized,
        "closed" if merged => Action::Merged,
        "closed" => Action::Closed,
        _ => Action::Edited,
    };
    Ok(Event::PullRequest { repository_urls: payload.urls()?, number: payload.number()?, action })
}

fn review(payload: Payload, known: Option<Verdict>) -> Result<Event, Rejected> {
    let (repository_urls, number) = (payload.urls()?, payload.number()?);
    let said = payload.review.as_ref().map(|review| review.state.to_lowercase()).unwrap_or_default();
    let verdict = known.unwrap_or(match said.as_str() {
        "approved" => Verdict::Approved,
        "changes_requested" => Verdict::ChangesRequested,
        "dismissed" => Verdict::Dismissed,
        _ => Verdict::Commented,
    });
    // Gitea's review names nobody: there the sender is the reviewer.
    let author = payload.review.and_then(|review| review.user).or(payload.sender);
    Ok(Event::Review {
        repository_urls,
        number,
        verdict,
        author: author.map(|user| user.login).unwrap_or_default(),
    })
}

fn push(payload: Payload) -> Result<Event, Rejected> {
    let repository_urls = payload.urls()?;
    let Some(branch) = payload.reference.strip_prefix("refs/heads/") else { return Ok(Event::Other) };
    let gone = payload.after.is_empty() || payload.after.bytes().all(|digit| digit == b'0');
    Ok(Event::Push { repository_urls, branch: branch.to_owned(), commit: (!gone).then_some(payload.after) })
}

impl Payload {
    fn urls(&self) -> Result<Vec<String>, Rejected> {
        let missing = || Rejected::Malformed("it names no repository".to_owned());
        let repository = self.repository.as_ref().ok_or_else(missing)?;
        let urls = [&repository.clone_url, &repository.html_url, &repository.ssh_url];
        let urls: Vec<String> = urls.into_iter().flatten().filter(|url| !url.is_empty()).cloned().collect();
        if urls.is_empty() { Err(missing()) } else { Ok(urls) }
    }

    fn number(&self) -> Result<u64, Rejected> {
        let number = self.pull_request.as_ref().and_then(|pull| pull.number).or(self.number);
        number.ok_or_else(|| Rejected::Malformed("it names no pull request".to_owned()))
    }
}
