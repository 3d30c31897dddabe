//! The calls that GitHub and Gitea answer alike: Gitea has taken these over as they were.

use ::http::{Method, StatusCode};
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Api, named};
use crate::error::Error;
use crate::forge::{Changes, CommitStatus, word};

impl Api {
    /// The address of a pull request, or of something below it.
    pub(crate) fn pull(&self, number: u64, below: &[&str]) -> Url {
        let number = number.to_string();
        self.in_repository(&[&["pulls", &number], below].concat())
    }

    /// The address of the same as an issue: comments and labels are there.
    pub(crate) fn issue(&self, number: u64, below: &[&str]) -> Url {
        let number = number.to_string();
        self.in_repository(&[&["issues", &number], below].concat())
    }

    /// Reads a pull request.
    pub(crate) async fn read_pull<T: DeserializeOwned>(&self, number: u64) -> Result<T, Error> {
        let doing = "read pull requests";
        let answer = self.ask("get_pull_request", Method::GET, self.pull(number, &[]), None).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Err(self.missing(doing, &named(number)).await),
            status if status.is_success() => answer.json(),
            _ => Err(self.refused(doing, &answer)),
        }
    }

    /// Changes title and body as far as that is asked for.
    pub(crate) async fn rewrite_pull(&self, number: u64, changes: &Changes) -> Result<(), Error> {
        let mut body = Map::new();
        body.extend(changes.title.as_ref().map(|title| ("title".to_owned(), Value::from(title.as_str()))));
        body.extend(changes.body.as_ref().map(|text| ("body".to_owned(), Value::from(text.as_str()))));
        if body.is_empty() {
            return Ok(());
        }
        let (doing, url) = ("change pull requests", self.pull(number, &[]));
        self.must_on("update_pull_request", doing, &named(number), Method::PATCH, url, Some(body.into()))
            .await?;
        Ok(())
    }

    /// Closes a pull request.
    pub(crate) async fn close_pull(&self, number: u64) -> Result<(), Error> {
        let (doing, url) = ("close pull requests", self.pull(number, &[]));
        let body = json!({ "state": "closed" });
        self.must_on("close_pull_request", doing, &named(number), Method::PATCH, url, Some(body)).await?;
        Ok(())
    }

    /// Comments on a pull request.
    pub(crate) async fn say(&self, number: u64, body: &str) -> Result<(), Error> {
        let (doing, url) = ("comment on pull requests", self.issue(number, &["comments"]));
        let body = json!({ "body": body });
        self.must_on("create_comment", doing, &named(number), Method::POST, url, Some(body)).await?;
        Ok(())
    }

    /// Shows a status on a commit.
    pub(crate) async fn mark(&self, sha: &str, status: &CommitStatus) -> Result<(), Error> {
        let (doing, url) = ("set a commit status", self.in_repository(&["statuses", sha]));
        let mut body = json!({
            "context": status.context, "state": word(status.state), "description": status.description,
        });
        if let (Some(fields), Some(url)) = (body.as_object_mut(), &status.url) {
            fields.insert("target_url".to_owned(), url.as_str().into());
        }
        let what = format!("commit `{sha}`");
        match self.must_on("create_status", doing, &what, Method::POST, url, Some(body)).await {
            // Forges say it in many ways that they have no such commit.
            Err(Error::Problem { .. } | Error::Fault { .. }) if self.lacks_commit(sha).await => {
                Err(Error::Absent(format!("{what} is not there (yet) in {}", self.repository())))
            }
            answer => answer.map(drop),
        }
    }

    /// Whether the repository is there and has no such commit, as far as the forge says so.
    async fn lacks_commit(&self, sha: &str) -> bool {
        let url = self.in_repository(&["git", "commits", sha]);
        let (doing, what) = ("read a commit", format!("commit `{sha}`"));
        let answer = self.must_on("get_commit", doing, &what, Method::GET, url, None).await;
        matches!(answer, Err(Error::Absent(_)))
    }

    /// The repository as the forge describes it.
    pub(crate) async fn describe(&self) -> Result<Value, Error> {
        let url = self.in_repository(&[]);
        self.must("get_repository", "read the repository", Method::GET, url, None).await?.json()
    }
}
