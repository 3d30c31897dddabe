//! Gitea and Forgejo: the same API under two names.

mod labels;
mod wire;

use ::http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use kardinal_vcs::{Barrier, Credentials, NewPullRequest, PullRequest, PullRequestState};
use serde_json::{Value, json};

use self::wire::{EntryWire, PullRequestWire, ReviewWire};
use crate::address::Address;
use crate::api::{Api, Paging};
use crate::error::Error;
use crate::forge::{
    Changes, CommitStatus, Forge, Future, Review, counting, first_merge, last_words, redirected,
};
use crate::http::{Answer, Http, Session};

/// What a token needs.
const NEEDS: &str =
    "the scopes `write:repository` and `write:issue`, for a user who can write to the repository";

/// How many pages of what happened since a pull request was closed are read to learn who closed it.
const TIMELINE_PAGES: u32 = 10;
/// More pull requests of one step are not told apart: most have one.
const BETWEEN: usize = 50;

/// One repository on a Gitea or Forgejo server.
pub(crate) struct Gitea {
    api: Api,
}

impl Gitea {
    pub(crate) fn new(
        address: Address,
        credentials: &Credentials,
        ca: Option<&[u8]>,
        http: &Http,
    ) -> Result<Gitea, Error> {
        let root = address.api_root(&["api", "v1"])?;
        let session = Session::new(http, ca, credentials, "token", HeaderMap::new())?;
        let paging = Paging { size_parameter: "limit", size: 50, total_header: Some("x-total-count") };
        Ok(Gitea { api: Api { session, address, root, needs: NEEDS, paging } })
    }

    /// All between these branches with the marker. Gitea cannot filter by branch, so all pages are read: one that counts
    /// may be older than one that looks the same.
    async fn between(&self, head: &str, base: &str, marker: &str) -> Result<Vec<PullRequestWire>, Error> {
        let mut url = self.api.in_repository(&["pulls"]);
        url.query_pairs_mut().append_pair("state", "all");
        let mut found = Vec::new();
        let keep = |pull: PullRequestWire| {
            if pull.is_ours(head, base, marker) {
                found.push(pull.without_body());
            }
            (found.len() > BETWEEN).then_some(())
        };
        match self.api.search("list_pull_requests", "list pull requests", &url, keep).await? {
            None => Ok(found),
            Some(()) => Err(Error::problem(format!(
                "there are more than {BETWEEN} pull requests from `{head}` into `{base}` in {}: delete what nobody needs",
                self.api.repository()
            ))),
        }
    }

    /// The one of ours between these branches that counts.
    async fn own(
        &self,
        head: &str,
        base: &str,
        marker: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<PullRequestWire>, Error> {
        let all = self.between(head, base, marker).await?;
        Ok(counting(all, since, PullRequestWire::standing))
    }

    async fn merge_between(
        &self,
        head: &str,
        base: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<PullRequest>, Error> {
        let all = self.between(head, base, "").await?.into_iter();
        Ok(first_merge(all.map(PullRequestWire::into_pull_request), since))
    }

    /// Whether there may be a pull request between these branches, in any state: one request instead of all pages.
    async fn may_exist(&self, base: &str, head: &str) -> Result<bool, Error> {
        if base.contains('/') {
            // Such a base cannot be told from the head in the path.
            return Ok(true);
        }
        let mut below = vec!["pulls", base];
        below.extend(head.split('/'));
        let url = self.api.in_repository(&below);
        let answer = self.api.ask("find_pull_request", Method::GET, url, None).await?;
        match answer.status {
            // Servers that are too old for this question say so without JSON.
            StatusCode::NOT_FOUND => Ok(!answer.json::<Value>().is_ok_and(|said| said.is_object())),
            status if status.is_success() => Ok(true),
            _ => Err(self.api.refused("read pull requests", &answer)),
        }
    }

    async fn create_or_find(&self, new: &NewPullRequest) -> Result<PullRequest, Error> {
        if self.may_exist(&new.base, &new.head).await?
            && let Some(known) = self.own(&new.head, &new.base, &new.marker, new.since).await?
        {
            return self.with_labels(known, &new.labels).await;
        }
        let labels = self.label_ids(&new.labels).await?;
        let body = json!({
            "head": new.head, "base": new.base, "title": new.title, "body": new.body, "labels": labels,
        });
        let doing = "create a pull request";
        let url = self.api.in_repository(&["pulls"]);
        let answer = self.api.ask("create_pull_request", Method::POST, url, Some(body)).await?;
        match answer.status {
            status if status.is_success() => Ok(answer.json::<PullRequestWire>()?.into_pull_request()),
            StatusCode::CONFLICT => match self.own(&new.head, &new.base, &new.marker, new.since).await? {
                Some(known) => self.with_labels(known, &new.labels).await,
                None => Err(Error::problem(format!(
                    "there is an open pull request from `{}` into `{}` in {} that is not ours ({}); close it, so that \
                     this promotion can open its own",
                    new.head,
                    new.base,
                    self.api.repository(),
                    self.api.session.said(&answer)
                ))),
            },
            StatusCode::NOT_FOUND => Err(self.not_found(doing, new, &answer).await?),
            _ => Err(self.api.refused(doing, &answer)),
        }
    }

    /// A found pull request, with the labels that an earlier life did not get to.
    async fn with_labels(&self, known: PullRequestWire, labels: &[String]) -> Result<PullRequest, Error> {
        let missing = known.labels_missing(labels);
        let number = known.number;
        if !missing.is_empty() && known.state() == PullRequestState::Open {
            self.add_labels(number, &missing).await?;
        }
        Ok(known.into_pull_request())
    }

    /// Gitea says 404 about either branch, the repository, and pull requests that are switched off.
    async fn not_found(&self, doing: &str, new: &NewPullRequest, answer: &Answer) -> Result<Error, Error> {
        self.api.must("get_repository", doing, Method::GET, self.api.in_repository(&[]), None).await?;
        let repository = self.api.repository();
        if !self.has_branch(&new.base).await? {
            return Ok(Error::problem(format!(
                "cannot {doing}: {repository} has no branch `{}`; create it, or set `spec.git.branch` to one that \
                 exists",
                new.base
            )));
        }
        if !self.has_branch(&new.head).await? {
            return Ok(Error::fault(format!("{repository} does not know the branch `{}` (yet)", new.head)));
        }
        Ok(self.api.refused(doing, answer))
    }

    async fn has_branch(&self, branch: &str) -> Result<bool, Error> {
        let below: Vec<&str> = std::iter::once("branches").chain(branch.split('/')).collect();
        let url = self.api.in_repository(&below);
        Ok(self.api.ask("get_branch", Method::GET, url, None).await?.status.is_success())
    }

    async fn read(&self, number: u64) -> Result<PullRequestWire, Error> {
        self.api.read_pull(number).await
    }

    async fn all_reviews(&self, number: u64) -> Result<Vec<Review>, Error> {
        let url = self.api.pull(number, &["reviews"]);
        let all: Vec<ReviewWire> = self.api.all("list_reviews", "read reviews", &url).await?;
        Ok(last_words(all.into_iter().filter_map(ReviewWire::into_word)))
    }

    /// Who closed it last, by what its timeline says since then. Servers without a timeline leave it open who that was.
    async fn closed_by(&self, number: u64, closed_at: Timestamp) -> Result<Option<String>, Error> {
        let mut last = None;
        // How many entries there are in all is not told: only an empty page is the end.
        for page in 1..=TIMELINE_PAGES {
            let mut url = self.api.issue(number, &["timeline"]);
            url.query_pairs_mut()
                .append_pair("since", &closed_at.to_string())
                .append_pair(self.api.paging.size_parameter, &self.api.paging.size.to_string())
                .append_pair("page", &page.to_string());
            let answer = self.api.ask("get_timeline", Method::GET, url, None).await?;
            if !answer.status.is_success() {
                break;
            }
            let entries: Vec<EntryWire> = answer.json::<Option<Vec<EntryWire>>>()?.unwrap_or_default();
            if entries.is_empty() {
                break;
            }
            last = entries.into_iter().filter_map(EntryWire::into_closed_by).next_back().or(last);
        }
        Ok(last)
    }

    async fn edit(&self, number: u64, changes: &Changes) -> Result<(), Error> {
        self.api.rewrite_pull(number, changes).await?;
        if let Some(labels) = &changes.labels {
            let known = self.read(number).await?;
            self.add_labels(number, &known.labels_missing(labels)).await?;
        }
        Ok(())
    }

    async fn merge_at(&self, number: u64, head_sha: &str, base: &str) -> Result<PullRequest, Error> {
        let style = self.merge_style().await?;
        // Read last: between this and the merge nothing else is asked.
        let before = self.read(number).await?;
        if before.state() == PullRequestState::Merged {
            return Ok(before.into_pull_request());
        }
        if before.base() != base {
            return Err(redirected(number, base, before.base()));
        }
        let body = json!({ "Do": style, "head_commit_id": head_sha });
        let url = self.api.pull(number, &["merge"]);
        let answer = self.api.ask("merge_pull_request", Method::POST, url, Some(body)).await?;
        let now = self.read(number).await?;
        if now.state() == PullRequestState::Merged {
            return Ok(now.into_pull_request());
        }
        if answer.status.is_success() {
            return Err(Error::fault(format!("pull request #{number} is being merged")));
        }
        Err(self.merge_refused(number, head_sha, &answer, &now))
    }

    fn merge_refused(&self, number: u64, head_sha: &str, answer: &Answer, now: &PullRequestWire) -> Error {
        let message = self.api.session.said(answer);
        let what = format!("pull request #{number} in {}", self.api.repository());
        if now.head_sha() != head_sha {
            return Error::fault(format!(
                "{what} was not merged: its branch moved from `{head_sha}` to `{}`",
                now.head_sha()
            ));
        }
        match answer.status {
            // Gitea checks for conflicts in the background after every push, and says the same when it has found some.
            StatusCode::METHOD_NOT_ALLOWED if message.contains("try again later") => {
                Error::Conflict { message: format!("{what} cannot be merged yet: {message}"), certain: false }
            }
            StatusCode::METHOD_NOT_ALLOWED => Error::Problem {
                barrier: barrier(&message),
                message: format!(
                    "{what} cannot be merged ({message}); fulfil the rules of its base branch, or merge it by hand"
                ),
            },
            // What git printed is told of merges that did not work; other refusals have a message.
            StatusCode::CONFLICT if printed_by_git(answer) => Error::Conflict {
                message: format!(
                    "{what} cannot be merged ({message}); resolve the conflict, or close it and promote again"
                ),
                certain: true,
            },
            StatusCode::CONFLICT if message.contains("out of date") => {
                Error::fault(format!("{what} was not merged, a branch has moved: {message}"))
            }
            StatusCode::CONFLICT => Error::problem(format!(
                "{what} cannot be merged ({message}); do what is asked, or merge it by hand"
            )),
            _ => self.api.refused("merge pull requests", answer),
        }
    }

    /// The repository's own choice, so that a rule like "squash only" is kept.
    async fn merge_style(&self) -> Result<String, Error> {
        let repository = self.api.describe().await?;
        let style = repository.get("default_merge_style").and_then(Value::as_str);
        Ok(style.filter(|style| !style.is_empty()).unwrap_or("merge").to_owned())
    }

    async fn close_with(&self, number: u64, comment: Option<&str>) -> Result<(), Error> {
        if self.read(number).await?.state() != PullRequestState::Open {
            return Ok(());
        }
        if let Some(comment) = comment {
            self.api.say(number, comment).await?;
        }
        self.api.close_pull(number).await
    }
}

/// What keeps a pull request from being merged: a rule for everybody, or one that names who may. Gitea tells the two apart in
/// words alone.
fn barrier(message: &str) -> Barrier {
    match message == "User not allowed to merge PR" {
        true => Barrier::NotLetIn,
        false => Barrier::Other,
    }
}

fn printed_by_git(answer: &Answer) -> bool {
    let body = answer.json::<Value>();
    body.is_ok_and(|body| ["StdOut", "StdErr"].iter().any(|field| body.get(field).is_some()))
}

impl Forge for Gitea {
    fn find<'a>(
        &'a self,
        head: &'a str,
        base: &'a str,
        marker: &'a str,
        since: Option<Timestamp>,
    ) -> Future<'a, Option<PullRequest>> {
        Box::pin(async move {
            Ok(self.own(head, base, marker, since).await?.map(PullRequestWire::into_pull_request))
        })
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
        Box::pin(self.create_or_find(new))
    }

    fn get<'a>(&'a self, number: u64) -> Future<'a, PullRequest> {
        Box::pin(async move {
            let mut pull = self.read(number).await?.into_pull_request();
            if let Some(closed_at) = pull.closed_at {
                pull.closed_by = self.closed_by(number, closed_at).await?;
            }
            pull.approved_by = Review::approvers(self.all_reviews(number).await?, &pull.head);
            Ok(pull)
        })
    }

    fn update<'a>(&'a self, number: u64, changes: &'a Changes) -> Future<'a, ()> {
        Box::pin(self.edit(number, changes))
    }

    fn merge<'a>(&'a self, number: u64, head_sha: &'a str, base: &'a str) -> Future<'a, PullRequest> {
        Box::pin(self.merge_at(number, head_sha, base))
    }

    fn close<'a>(&'a self, number: u64, comment: Option<&'a str>) -> Future<'a, ()> {
        Box::pin(self.close_with(number, comment))
    }

    fn comment<'a>(&'a self, number: u64, body: &'a str) -> Future<'a, ()> {
        Box::pin(self.api.say(number, body))
    }

    fn set_status<'a>(&'a self, sha: &'a str, status: &'a CommitStatus) -> Future<'a, ()> {
        Box::pin(self.api.mark(sha, status))
    }
}
