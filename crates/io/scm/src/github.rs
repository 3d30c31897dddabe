//! GitHub and GitHub Enterprise.

mod wire;

use ::http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use kardinal_vcs::{Barrier, Credentials, NewPullRequest, PullRequest, PullRequestState};
use reqwest::Url;
use serde_json::{Value, json};

use self::wire::{IssueWire, PullRequestWire, ReviewWire};
use crate::address::Address;
use crate::api::{Api, Paging, named};
use crate::error::Error;
use crate::forge::{
    Changes, CommitStatus, Forge, Future, Review, counting, first_merge, last_words, redirected,
};
use crate::http::{Answer, Http, Session};

/// What a token needs.
const NEEDS: &str = "the permissions `Contents: write`, `Pull requests: write` and `Commit statuses: write` (or the \
                     classic scope `repo`)";
/// GitHub refuses longer descriptions of a commit status.
const DESCRIPTION: usize = 140;

/// One repository on GitHub.
pub(crate) struct Github {
    api: Api,
}

impl Github {
    pub(crate) fn new(
        address: Address,
        credentials: &Credentials,
        ca: Option<&[u8]>,
        http: &Http,
    ) -> Result<Github, Error> {
        let root = api_root(&address)?;
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_static("application/vnd.github+json"));
        headers.insert("x-github-api-version", HeaderValue::from_static("2022-11-28"));
        let session = Session::new(http, ca, credentials, "Bearer", headers)?;
        let paging = Paging { size_parameter: "per_page", size: 100, total_header: None };
        Ok(Github { api: Api { session, address, root, needs: NEEDS, paging } })
    }

    /// All pull requests from this branch.
    async fn of_branch(&self, head: &str) -> Result<Vec<PullRequestWire>, Error> {
        let mut url = self.api.in_repository(&["pulls"]);
        url.query_pairs_mut()
            .append_pair("state", "all")
            .append_pair("head", &format!("{}:{head}", self.api.address.owner))
            .append_pair("sort", "created")
            .append_pair("direction", "desc");
        let mut all: Vec<PullRequestWire> =
            self.api.all("list_pull_requests", "list pull requests", &url).await?;
        // An unknown filter is ignored by some servers, so ours is checked again.
        all.retain(|pull| pull.is_from(head));
        Ok(all)
    }

    /// The one of ours between these branches that counts.
    async fn own(
        &self,
        head: &str,
        base: &str,
        marker: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<PullRequestWire>, Error> {
        Ok(own(self.of_branch(head).await?, base, marker, since))
    }

    async fn merge_between(
        &self,
        head: &str,
        base: &str,
        since: Option<Timestamp>,
    ) -> Result<Option<PullRequest>, Error> {
        let all = self.of_branch(head).await?.into_iter().map(PullRequestWire::into_pull_request);
        Ok(first_merge(all.filter(|pull| pull.base == base), since))
    }

    async fn create_or_find(&self, new: &NewPullRequest) -> Result<PullRequest, Error> {
        if let Some(known) = self.own(&new.head, &new.base, &new.marker, new.since).await? {
            return self.with_labels(known, &new.labels).await;
        }
        let body = json!({ "head": new.head, "base": new.base, "title": new.title, "body": new.body });
        let url = self.api.in_repository(&["pulls"]);
        let answer = self.api.ask("create_pull_request", Method::POST, url, Some(body)).await?;
        match answer.status {
            status if status.is_success() => self.with_labels(answer.json()?, &new.labels).await,
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT => self.not_created(new, &answer).await,
            _ => Err(self.api.refused("create a pull request", &answer)),
        }
    }

    /// GitHub says 422 for many reasons: there is one already, or a branch is unknown, or nothing differs.
    async fn not_created(&self, new: &NewPullRequest, answer: &Answer) -> Result<PullRequest, Error> {
        let message = self.api.session.said(answer);
        let repository = self.api.repository();
        if message.contains("already exists") {
            let known = self.of_branch(&new.head).await?;
            let open =
                known.iter().find(|pull| pull.state() == PullRequestState::Open).map(|pull| pull.number);
            if let Some(ours) = own(known, &new.base, &new.marker, new.since) {
                return self.with_labels(ours, &new.labels).await;
            }
            return Err(match open {
                Some(number) => Error::problem(format!(
                    "pull request #{number} in {repository} comes from `{}` too and is not ours; close it, so that \
                     this promotion can open its own",
                    new.head
                )),
                None => Error::fault(format!(
                    "the pull request from `{}` is not visible yet: {message}",
                    new.head
                )),
            });
        }
        if wire::names_invalid_field(answer, "head") {
            return Err(Error::fault(format!("{repository} does not know the branch `{}` (yet)", new.head)));
        }
        if wire::names_invalid_field(answer, "base") {
            return Err(Error::problem(format!(
                "cannot create a pull request: {repository} has no branch `{}`; create it, or set `spec.git.branch` \
                 to one that exists",
                new.base
            )));
        }
        Err(self.api.refused("create a pull request", answer))
    }

    /// A pull request with its labels. Labels are an ornament: where the token may not add them, they are left out.
    async fn with_labels(&self, known: PullRequestWire, labels: &[String]) -> Result<PullRequest, Error> {
        let missing = known.labels_missing(labels);
        if known.state() == PullRequestState::Open {
            self.add_labels(known.number, &missing).await?;
        }
        Ok(known.into_pull_request())
    }

    /// Labels that do not exist are created by GitHub itself.
    async fn add_labels(&self, number: u64, names: &[String]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let url = self.api.issue(number, &["labels"]);
        let answer = self.api.ask("add_labels", Method::POST, url, Some(json!({ "labels": names }))).await?;
        if answer.status.is_success() {
            return Ok(());
        }
        if answer.status == StatusCode::NOT_FOUND {
            // Right after creation the number is not known everywhere yet.
            return Err(self.api.missing("add labels", &named(number)).await);
        }
        let problem = self.api.refused("add labels", &answer);
        tracing::warn!(labels = %names.join(", "), %problem, "labels are left out");
        Ok(())
    }

    async fn read(&self, number: u64) -> Result<PullRequestWire, Error> {
        self.api.read_pull(number).await
    }

    async fn all_reviews(&self, number: u64) -> Result<Vec<Review>, Error> {
        let url = self.api.pull(number, &["reviews"]);
        let all: Vec<ReviewWire> = self.api.all("list_reviews", "read reviews", &url).await?;
        Ok(last_words(all.into_iter().filter_map(ReviewWire::into_word)))
    }

    /// Who closed it. A token that may not read it as an issue leaves it open who that was.
    async fn closed_by(&self, number: u64) -> Result<Option<String>, Error> {
        let answer = self.api.ask("get_issue", Method::GET, self.api.issue(number, &[]), None).await?;
        match answer.status.is_success() {
            true => Ok(answer.json::<IssueWire>()?.into_closed_by()),
            false => Ok(None),
        }
    }

    async fn edit(&self, number: u64, changes: &Changes) -> Result<(), Error> {
        self.api.rewrite_pull(number, changes).await?;
        if let Some(labels) = &changes.labels {
            self.add_labels(number, labels).await?;
        }
        Ok(())
    }

    async fn merge_at(&self, number: u64, head_sha: &str, base: &str) -> Result<PullRequest, Error> {
        let body = json!({ "sha": head_sha, "merge_method": self.merge_method().await? });
        // Read last: between this and the merge nothing else is asked.
        let before = self.read(number).await?;
        if before.state() == PullRequestState::Merged {
            return Ok(before.into_pull_request());
        }
        if before.base() != base {
            return Err(redirected(number, base, before.base()));
        }
        let url = self.api.pull(number, &["merge"]);
        let answer = self.api.ask("merge_pull_request", Method::PUT, url, Some(body)).await?;
        let now = self.read(number).await?;
        if now.state() == PullRequestState::Merged {
            return Ok(now.into_pull_request());
        }
        let what = format!("pull request #{number} in {}", self.api.repository());
        let message = self.api.session.said(&answer);
        Err(match answer.status {
            status if status.is_success() => Error::fault(format!("{what} is being merged")),
            StatusCode::CONFLICT => {
                Error::fault(format!("{what} was not merged, its branch has moved: {message}"))
            }
            StatusCode::METHOD_NOT_ALLOWED if message.contains("try the merge again") => {
                Error::fault(format!("{what} cannot be merged yet: {message}"))
            }
            // Rules of the base branch do not count there.
            StatusCode::METHOD_NOT_ALLOWED if now.mergeable() == Some(false) => Error::Conflict {
                message: format!(
                    "{what} cannot be merged ({message}); resolve the conflict, or close it and promote again"
                ),
                certain: true,
            },
            StatusCode::METHOD_NOT_ALLOWED => Error::Problem {
                barrier: barrier(&message),
                message: format!(
                    "{what} cannot be merged ({message}); fulfil the rules of its base branch, or merge it by hand"
                ),
            },
            _ => self.api.refused("merge pull requests", &answer),
        })
    }

    /// A way to merge that the repository allows.
    async fn merge_method(&self) -> Result<&'static str, Error> {
        let repository = self.api.describe().await?;
        let forbidden = |what: &str| repository.get(what).and_then(Value::as_bool) == Some(false);
        let methods = [
            ("allow_merge_commit", "merge"),
            ("allow_squash_merge", "squash"),
            ("allow_rebase_merge", "rebase"),
        ];
        Ok(methods.into_iter().find(|(field, _)| !forbidden(field)).map_or("merge", |(_, method)| method))
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

    async fn mark(&self, sha: &str, status: &CommitStatus) -> Result<(), Error> {
        let description = status.description.chars().take(DESCRIPTION).collect();
        self.api.mark(sha, &CommitStatus { description, ..status.clone() }).await
    }
}

/// What keeps a pull request from being merged: a rule for everybody, or one that names who may. GitHub tells the two apart in
/// words alone.
fn barrier(message: &str) -> Barrier {
    match message.contains("not authorized to push to this branch") {
        true => Barrier::NotLetIn,
        false => Barrier::Other,
    }
}

/// `api.github.com` for GitHub itself, `api.NAME.ghe.com` for its hosted enterprises, `/api/v3` for servers.
fn api_root(address: &Address) -> Result<Url, Error> {
    let host = match address.host.as_str() {
        "github.com" | "www.github.com" | "ssh.github.com" => "api.github.com".to_owned(),
        host if host.ends_with(".ghe.com") => format!("api.{host}"),
        _ => return address.api_root(&["api", "v3"]),
    };
    let hosted =
        Address { scheme: "https".to_owned(), host, port: None, prefix: Vec::new(), ..address.clone() };
    hosted.api_root(&[])
}

/// The one of ours that counts.
fn own(
    all: Vec<PullRequestWire>,
    base: &str,
    marker: &str,
    since: Option<Timestamp>,
) -> Option<PullRequestWire> {
    let ours = all.into_iter().filter(|pull| pull.is_ours(base, marker));
    counting(ours, since, PullRequestWire::standing)
}

impl Forge for Github {
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
            if pull.state == PullRequestState::Closed {
                pull.closed_by = self.closed_by(number).await?;
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
        Box::pin(self.mark(sha, status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_found_from_the_repository() {
        let cases = [
            ("https://github.com/acme/app.git", "https://api.github.com/"),
            ("http://github.com/acme/app", "https://api.github.com/"),
            ("git@github.com:acme/app.git", "https://api.github.com/"),
            ("ssh://git@ssh.github.com:443/acme/app.git", "https://api.github.com/"),
            ("https://acme.ghe.com/acme/app", "https://api.acme.ghe.com/"),
            ("https://github.acme.example/acme/app", "https://github.acme.example/api/v3"),
            ("git@github.acme.example:acme/app.git", "https://github.acme.example/api/v3"),
            ("https://github.com.evil.example/acme/app", "https://github.com.evil.example/api/v3"),
        ];
        for (url, root) in cases {
            assert_eq!(api_root(&Address::parse(url).unwrap()).unwrap().as_str(), root);
        }
    }
}
