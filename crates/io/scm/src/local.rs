//! The local forge: its pull requests are objects, and whoever wants something of one writes it into its `spec`.
//!
//! The controller of the forge does the rest and answers in `status`. Until it has looked at a new pull request that one
//! has no number; asking for it then is a Fault that ends by itself.

use std::time::Duration;

use jiff::Timestamp;
use kardinal_api::forge::{self as wire, Check, CheckState, Comment, Desired, PullRequestSpec, Verdict};
use kardinal_vcs::{CommitState, NewPullRequest, PullRequest, PullRequestState};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::forge::{
    Changes, CommitStatus, Forge, Future, Review, Standing, counting, first_merge, redirected,
};

/// Who kardinal is on its own forge, and the field manager of what it writes.
const KARDINAL: &str = "kardinal";
/// How long the controller of the forge takes to look, roughly.
const SOON: Duration = Duration::from_millis(50);
/// How often a write is tried again when somebody else was faster.
const ATTEMPTS: usize = 8;
/// The longest readable part of an object's name.
const SLUG_LIMIT: usize = 180;
/// What a condition says that does not hold. The planners have a type for it; an adapter knows only what is on the wire.
const HOLDS_NOT: &str = "False";

/// One repository of the local forge.
pub struct Local {
    pull_requests: Api<wire::PullRequest>,
    repository: String,
}

impl Local {
    /// The repository behind `<anything>/git/<namespace>/<name>.git` or `file:///…/<namespace>/<name>.git`.
    pub fn new(client: kube::Client, url: &str) -> Result<Local, Error> {
        let (namespace, repository) = place(url).ok_or_else(|| {
            let shown = without_userinfo(url);
            Error::problem(format!(
                "`spec.git.url` is `{shown}`, which names no repository of the local forge; copy `status.cloneURL` of \
                 the Repository"
            ))
        })?;
        Ok(Local { pull_requests: Api::namespaced(client, &namespace), repository })
    }

    async fn all(&self) -> Result<Vec<wire::PullRequest>, Error> {
        let params = ListParams::default().fields(&format!("spec.repository={}", self.repository));
        Ok(self.pull_requests.list(&params).await.map_err(sort)?.items)
    }

    async fn between(&self, head: &str, base: &str) -> Result<Vec<wire::PullRequest>, Error> {
        let mut all = self.all().await?;
        all.retain(|pr| pr.spec.head == head && pr.spec.base == base);
        Ok(all)
    }

    /// The one of ours between these branches that counts.
    async fn own(
        &self,
        head: &str,
        base: &str,
        marker: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<wire::PullRequest>, Error> {
        let mut all = self.between(head, base).await?;
        all.retain(|pr| pr.spec.body.contains(marker));
        Ok(counting(all, since, |pr| {
            let created = pr.metadata.creation_timestamp.as_ref().map(|time| time.0);
            let status = pr.status.as_ref();
            Standing {
                state: state(pr),
                ended_at: status.and_then(|status| status.merged_at.or(status.closed_at)),
                order: (created, status.and_then(|status| status.number)),
            }
        }))
    }

    async fn merge_between(
        &self,
        head: &str,
        base: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<PullRequest>, Error> {
        let all = self.between(head, base).await?;
        let merged = all.iter().filter(|pr| state(pr) == PullRequestState::Merged);
        let merged: Vec<PullRequest> = merged.map(read).collect::<Result<_, _>>()?;
        Ok(first_merge(merged, since))
    }

    async fn numbered(&self, number: u64) -> Result<wire::PullRequest, Error> {
        let all = self.all().await?.into_iter();
        let mut found = all.filter(|pr| pr.status.as_ref().and_then(|status| status.number) == Some(number));
        found.next().ok_or_else(|| {
            Error::Absent(format!("repository `{}` has no pull request #{number} (yet)", self.repository))
        })
    }

    async fn create_once(&self, new: &NewPullRequest) -> Result<PullRequest, Error> {
        if let Some(found) = self.own(&new.head, &new.base, &new.marker, new.since).await? {
            return read(&found);
        }
        let name = object_name(&self.repository, &new.head, &new.marker);
        let spec = PullRequestSpec {
            repository: self.repository.clone(),
            head: new.head.clone(),
            base: new.base.clone(),
            title: new.title.clone(),
            body: new.body.clone(),
            author: Some(KARDINAL.to_owned()),
            labels: new.labels.clone(),
            ..PullRequestSpec::default()
        };
        let params = PostParams { field_manager: Some(KARDINAL.to_owned()), ..PostParams::default() };
        match self.pull_requests.create(&params, &wire::PullRequest::new(&name, spec)).await {
            Ok(created) => read(&created),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let there = self.pull_requests.get(&name).await.map_err(sort)?;
                if there.spec.body.contains(&new.marker) && there.spec.base == new.base {
                    return read(&there);
                }
                Err(Error::problem(format!(
                    "PullRequest `{name}` has lost the line `{}` of its body, or its base `{}`; put it back, or delete \
                     the object",
                    new.marker, new.base
                )))
            }
            Err(error) => Err(sort(error)),
        }
    }

    /// Changes a spec, unless it says so already. Whoever writes in between is not overwritten: the change is made
    /// again on what they wrote.
    async fn edit(
        &self,
        number: u64,
        change: impl Fn(&wire::PullRequest, &mut PullRequestSpec) + Send + Sync,
    ) -> Result<wire::PullRequest, Error> {
        let mut pr = self.numbered(number).await?;
        for _ in 0..ATTEMPTS {
            let mut spec = pr.spec.clone();
            change(&pr, &mut spec);
            if spec == pr.spec {
                return Ok(pr);
            }
            let name = pr.metadata.name.clone().unwrap_or_default();
            let version = &pr.metadata.resource_version;
            let patch = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
            let params = PatchParams { field_manager: Some(KARDINAL.to_owned()), ..PatchParams::default() };
            match self.pull_requests.patch(&name, &params, &Patch::Merge(&patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    pr = self.pull_requests.get(&name).await.map_err(sort)?;
                }
                done => return done.map_err(sort),
            }
        }
        Err(soon(format!("pull request #{number} is being changed by somebody else")))
    }

    async fn merge_at(&self, number: u64, head_sha: &str, base: &str) -> Result<PullRequest, Error> {
        let before = self.numbered(number).await?;
        if state(&before) == PullRequestState::Merged {
            return read(&before);
        }
        if before.spec.base != base {
            return Err(redirected(number, base, &before.spec.base));
        }
        let pr = self
            .edit(number, |_, spec| {
                spec.desired = Some(Desired::Merged);
                spec.expected_head = Some(head_sha.to_owned());
                spec.merged_by.get_or_insert_with(|| KARDINAL.to_owned());
            })
            .await?;
        if state(&pr) == PullRequestState::Merged {
            return read(&pr);
        }
        Err(obstacle(&pr).unwrap_or_else(|| soon(format!("pull request #{number} is being merged"))))
    }

    async fn close_with(&self, number: u64, comment: Option<&str>) -> Result<(), Error> {
        let now = Timestamp::now();
        let pr = self
            .edit(number, |pr, spec| {
                let given_up = spec.desired() == Desired::Closed || state(pr) != PullRequestState::Open;
                if given_up {
                    return;
                }
                spec.desired = Some(Desired::Closed);
                spec.closed_by = Some(KARDINAL.to_owned());
                if let Some(body) = comment {
                    say(spec, body, now);
                }
            })
            .await?;
        match state(&pr) {
            PullRequestState::Open => Err(soon(format!("pull request #{number} is being closed"))),
            PullRequestState::Merged | PullRequestState::Closed => Ok(()),
        }
    }

    async fn change(&self, number: u64, changes: &Changes) -> Result<(), Error> {
        self.edit(number, |_, spec| {
            if let Some(title) = &changes.title {
                spec.title.clone_from(title);
            }
            if let Some(body) = &changes.body {
                spec.body.clone_from(body);
            }
            for label in changes.labels.iter().flatten() {
                if !spec.labels.contains(label) {
                    spec.labels.push(label.clone());
                }
            }
        })
        .await?;
        Ok(())
    }

    /// A status belongs to a commit, and shows on every pull request whose head is at that commit. One that nobody has
    /// looked at yet may be at that commit, too; it keeps no other from being marked, for a green check must not stay
    /// because of it, and is waited for only if no other is there.
    async fn mark(&self, sha: &str, status: &CommitStatus) -> Result<(), Error> {
        let all = self.all().await?;
        let head = |pr: &wire::PullRequest| pr.status.as_ref().and_then(|status| status.head_commit.clone());
        let check = Check {
            context: status.context.clone(),
            state: check_state(status.state),
            description: (!status.description.is_empty()).then(|| status.description.clone()),
            url: status.url.clone(),
            commit: Some(sha.to_owned()),
        };
        let numbers: Vec<u64> = all
            .iter()
            .filter(|pr| head(pr).as_deref() == Some(sha))
            .filter_map(|pr| pr.status.as_ref().and_then(|status| status.number))
            .collect();
        for number in &numbers {
            self.edit(*number, |_, spec| {
                match spec.checks.iter_mut().find(|known| known.context == check.context) {
                    Some(known) => known.clone_from(&check),
                    None => spec.checks.push(check.clone()),
                }
            })
            .await?;
        }
        if numbers.is_empty() && all.iter().any(|pr| pr.status.is_none()) {
            return Err(soon(format!(
                "repository `{}` has a pull request that nobody has looked at",
                self.repository
            )));
        }
        Ok(())
    }
}

impl Forge for Local {
    fn find<'a>(
        &'a self,
        head: &'a str,
        base: &'a str,
        marker: &'a str,
        since: Option<Timestamp>,
    ) -> Future<'a, Option<PullRequest>> {
        Box::pin(async move { self.own(head, base, marker, since).await?.as_ref().map(read).transpose() })
    }

    fn find_merge<'a>(
        &'a self,
        head: &'a str,
        base: &'a str,
        since: Option<Timestamp>,
    ) -> Future<'a, Option<PullRequest>> {
        Box::pin(self.merge_between(head, base, since))
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> Future<'a, PullRequest> {
        Box::pin(self.create_once(new))
    }

    fn get<'a>(&'a self, number: u64) -> Future<'a, PullRequest> {
        Box::pin(async move { read(&self.numbered(number).await?) })
    }

    fn update<'a>(&'a self, number: u64, changes: &'a Changes) -> Future<'a, ()> {
        Box::pin(self.change(number, changes))
    }

    fn merge<'a>(&'a self, number: u64, head_sha: &'a str, base: &'a str) -> Future<'a, PullRequest> {
        Box::pin(self.merge_at(number, head_sha, base))
    }

    fn close<'a>(&'a self, number: u64, comment: Option<&'a str>) -> Future<'a, ()> {
        Box::pin(self.close_with(number, comment))
    }

    fn comment<'a>(&'a self, number: u64, body: &'a str) -> Future<'a, ()> {
        let now = Timestamp::now();
        Box::pin(async move { self.edit(number, |_, spec| say(spec, body, now)).await.map(|_| ()) })
    }

    fn set_status<'a>(&'a self, sha: &'a str, status: &'a CommitStatus) -> Future<'a, ()> {
        Box::pin(self.mark(sha, status))
    }
}

/// Says something once: a comment of ours with the same words is there already when a call is repeated.
fn say(spec: &mut PullRequestSpec, body: &str, now: Timestamp) {
    let said = |comment: &Comment| comment.author == KARDINAL && comment.body == body;
    if !spec.comments.iter().any(said) {
        spec.comments.push(Comment { author: KARDINAL.to_owned(), body: body.to_owned(), at: Some(now) });
    }
}

fn reviews(pr: &wire::PullRequest) -> Vec<Review> {
    let review = |review: &wire::Review| Review {
        author: review.author.clone(),
        approved: review.verdict == Verdict::Approved,
        commit: review.commit.clone(),
    };
    pr.spec.reviews.iter().map(review).collect()
}

fn state(pr: &wire::PullRequest) -> PullRequestState {
    match pr.status.as_ref().and_then(|status| status.state).unwrap_or_default() {
        wire::PullRequestState::Open => PullRequestState::Open,
        wire::PullRequestState::Merged => PullRequestState::Merged,
        wire::PullRequestState::Closed => PullRequestState::Closed,
    }
}

fn check_state(state: CommitState) -> CheckState {
    match state {
        CommitState::Pending => CheckState::Pending,
        CommitState::Success => CheckState::Success,
    }
}

/// What the controller of the forge answered to the newest wish, if it cannot be fulfilled.
fn obstacle(pr: &wire::PullRequest) -> Option<Error> {
    let status = pr.status.as_ref()?;
    let condition = status.conditions.iter().find(|condition| condition.type_ == wire::MERGEABLE)?;
    if status.observed_generation != pr.metadata.generation || condition.status != HOLDS_NOT {
        return None;
    }
    let number = status.number.unwrap_or_default();
    let message = format!("pull request #{number} cannot be merged: {}", condition.message);
    Some(match condition.reason.as_str() {
        // A branch that moved is looked at again.
        "HeadMoved" => soon(message),
        "Conflicts" => Error::Conflict { message, certain: true },
        // Everything else is for people.
        _ => Error::problem(message),
    })
}

fn read(pr: &wire::PullRequest) -> Result<PullRequest, Error> {
    let name = pr.metadata.name.as_deref().unwrap_or_default();
    let unseen = || soon(format!("the local forge has not looked at PullRequest `{name}` yet"));
    let status = pr.status.as_ref().ok_or_else(unseen)?;
    let number = status.number.ok_or_else(unseen)?;
    let head_sha = match (&status.head_commit, state(pr)) {
        (Some(commit), _) => commit.clone(),
        // Given up before its branch was ever pushed.
        (None, PullRequestState::Closed | PullRequestState::Merged) => String::new(),
        (None, PullRequestState::Open) => {
            let branch = &pr.spec.head;
            let message =
                format!("the local forge has not seen branch `{branch}` of pull request #{number} yet");
            return Err(soon(message));
        }
    };
    let approved_by = Review::approvers(reviews(pr), &head_sha);
    Ok(PullRequest {
        number,
        url: status.url.clone().unwrap_or_default(),
        state: state(pr),
        branch: pr.spec.head.clone(),
        base: pr.spec.base.clone(),
        head: head_sha,
        merged_at: status.merged_at,
        merged_by: status.merged_by.clone(),
        merge_commit: status.merge_commit.clone(),
        mergeable: status.mergeable,
        closed_at: status.closed_at,
        closed_by: status.closed_by.clone(),
        approved_by,
    })
}

fn soon(message: String) -> Error {
    Error::Fault { message, retry_after: Some(SOON) }
}

fn sort(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => match status.code {
            408 | 409 | 429 => soon(status.message.clone()),
            404 => Error::problem(format!("{}; is the local forge installed?", status.message)),
            401 | 403 => Error::not_let_in(&status.message),
            code if (400..500).contains(&code) => Error::problem(&status.message),
            _ => Error::fault(status.message.clone()),
        },
        other => Error::fault(format!("the API server did not answer: {other}")),
    }
}

/// The same pull request has the same name whenever it is made, so making it twice makes one.
fn object_name(repository: &str, head: &str, marker: &str) -> String {
    let mut hash = Sha256::new();
    for part in [repository, head, marker] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let hash: String = hash.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    let readable = format!("{repository}-{head}").to_lowercase();
    let slug: String =
        readable.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(SLUG_LIMIT).collect();
    format!("{}-{hash}", slug.trim_matches('-'))
}

/// The namespace of a repository, out of its clone URL.
pub fn home(url: &str) -> Option<String> {
    place(url).map(|(namespace, _)| namespace)
}

/// The same for a forge whose URLs begin with this prefix, however the rest is written.
pub fn home_below(prefix: &str, url: &str) -> Option<String> {
    let url = without_userinfo(url.trim());
    let rest = url.strip_prefix(prefix.trim_end_matches('/'))?.strip_prefix('/')?;
    Some(rest.split('/').next().unwrap_or_default().to_owned())
}

/// Namespace and name of a repository, out of its clone URL.
fn place(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let path: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let [before @ .., namespace, name] = path.as_slice() else { return None };
    let served = match scheme {
        "file" => true,
        "http" | "https" => before.len() >= 2 && before.last() == Some(&"git"),
        _ => false,
    };
    let name = name.strip_suffix(".git")?;
    let label = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let good = served && label(namespace) && name.split('.').all(label);
    good.then(|| ((*namespace).to_owned(), name.to_owned()))
}

/// A URL as it may be shown: without user and password.
fn without_userinfo(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
        None => url.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kardinal_vcs::Barrier;
    use kube::core::Status;

    use super::{home_below, object_name, place, sort, without_userinfo};
    use crate::error::Error;

    #[test]
    fn the_code_of_the_api_server_says_whether_we_are_let_in() {
        for (code, expected) in [
            (401, Some(Barrier::NotLetIn)),
            (403, Some(Barrier::NotLetIn)),
            (404, Some(Barrier::Other)),
            (422, Some(Barrier::Other)),
            (409, None),
            (500, None),
        ] {
            for message in ["", "spec.base: Forbidden: the token is not allowed to change"] {
                let status = Status { code, message: message.to_owned(), ..Status::default() };
                let found = match sort(kube::Error::Api(Box::new(status))) {
                    Error::Problem { barrier, .. } => Some(barrier),
                    _ => None,
                };
                assert_eq!(found, expected, "{code} {message}");
            }
        }
    }

    #[test]
    fn places() {
        let found = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
        for (url, expected) in [
            ("http://127.0.0.1:8080/git/default/app.git", found("default", "app")),
            ("https://x:token@forge/sub/git/team-a/app.v2.git/", found("team-a", "app.v2")),
            ("file:///var/lib/forge/default/app.git", found("default", "app")),
            ("http://127.0.0.1/default/app.git", None),
            ("http://git/default/app.git", None),
            ("http://127.0.0.1/git/default/app", None),
            ("http://127.0.0.1/git/Default/app.git", None),
            ("http://127.0.0.1/git/../app.git", None),
            ("http://127.0.0.1/git/default/...git", None),
            ("ssh://git@forge/git/default/app.git", None),
            ("git@forge:default/app.git", None),
            ("app.git", None),
            ("", None),
        ] {
            assert_eq!(place(url), expected, "{url}");
        }
    }

    #[test]
    fn the_home_of_a_repository_is_found_however_its_url_is_written() {
        for url in [
            "http://h:1/git/a/app.git",
            "http://h:1/git/a/app",
            "http://u:p@h:1/git/a/x/",
            " http://h:1/git/a ",
        ] {
            assert_eq!(home_below("http://h:1/git/", url).as_deref(), Some("a"), "{url}");
        }
        for url in ["http://h:1/gitx/a/app.git", "http://other:1/git/a/app.git", "http://h:1/git", ""] {
            assert_eq!(home_below("http://h:1/git/", url), None, "{url}");
        }
    }

    #[test]
    fn names_are_stable_readable_and_valid() {
        let name = object_name("app", "kardinal/v2/prod", "<!-- kardinal-step: 1 -->");
        assert!(name.starts_with("app-kardinal-v2-prod-"), "{name}");
        assert_eq!(name, object_name("app", "kardinal/v2/prod", "<!-- kardinal-step: 1 -->"));
        assert_ne!(name, object_name("app", "kardinal/v2/prod", "<!-- kardinal-step: 2 -->"));
        assert_ne!(object_name("a", "b-c", "m"), object_name("a-b", "c", "m"));
        for head in ["Ünï/côdé", "---", &"x".repeat(500), "a.b_c"] {
            let name = object_name("app", head, "m");
            assert!(name.len() <= 253, "{name}");
            assert!(
                name.starts_with('a') && !name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-'),
                "{name}"
            );
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for url in ["http://u:s3cret@h/p", "u:s3cret@h:p", "http://u:s3cret@h"] {
            assert!(!without_userinfo(url).contains("s3cret"), "{url}");
        }
    }
}
