//! What the REST APIs of all forges share: addresses below a repository, pages, and refusals put into words.

mod calls;

use ::http::{Method, StatusCode};
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::address::Address;
use crate::error::Error;
use crate::http::{Answer, Request, Session, authority};

/// More pages than any repository has: a server that never ends must not keep us for ever.
const PAGES: u32 = 2000;
/// More bytes than any list has that is kept whole: a server must not decide how much memory we take.
const KEPT: usize = 8 * 1024 * 1024;

/// The API of one forge, seen from one repository.
pub(crate) struct Api {
    pub(crate) session: Session,
    pub(crate) address: Address,
    pub(crate) root: Url,
    /// What a token needs, for messages.
    pub(crate) needs: &'static str,
    pub(crate) paging: Paging,
}

/// How a forge counts its pages.
#[derive(Clone, Copy)]
pub(crate) struct Paging {
    pub(crate) size_parameter: &'static str,
    pub(crate) size: u32,
    /// It says how many items there are; without that header, and without `Link`, only an empty page is the end.
    pub(crate) total_header: Option<&'static str>,
}

impl Api {
    /// The address of something in the repository.
    pub(crate) fn in_repository(&self, below: &[&str]) -> Url {
        let mut url = self.url(&["repos", &self.address.owner, &self.address.name]);
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(below);
        }
        url
    }

    /// The address of something on the forge.
    pub(crate) fn url(&self, below: &[&str]) -> Url {
        let mut url = self.root.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(below);
        }
        url
    }

    /// Makes a request and returns the answer, whatever it is.
    pub(crate) async fn ask(
        &self,
        endpoint: &'static str,
        method: Method,
        url: Url,
        body: Option<Value>,
    ) -> Result<Answer, Error> {
        let answer = self.session.send(&Request { endpoint, method, url, body }).await?;
        if answer.status.is_redirection() {
            let to = answer.headers.get("location").and_then(|to| Url::parse(to.to_str().ok()?).ok());
            let to = to.map(|url| format!(" to `{}`", authority(&url))).unwrap_or_default();
            return Err(Error::problem(format!(
                "`{}` redirects{to}, where the token must not go; set `spec.git.url` to where {} is now",
                authority(&self.root),
                self.repository()
            )));
        }
        Ok(answer)
    }

    /// Makes a request that must succeed; `doing` completes "may not …".
    pub(crate) async fn must(
        &self,
        endpoint: &'static str,
        doing: &str,
        method: Method,
        url: Url,
        body: Option<Value>,
    ) -> Result<Answer, Error> {
        let answer = self.ask(endpoint, method, url, body).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.refused(doing, &answer)) }
    }

    /// The same about one thing in the repository, which may not be there yet: `what` names it.
    pub(crate) async fn must_on(
        &self,
        endpoint: &'static str,
        doing: &str,
        what: &str,
        method: Method,
        url: Url,
        body: Option<Value>,
    ) -> Result<Answer, Error> {
        let answer = self.ask(endpoint, method, url, body).await?;
        match answer.status {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => Err(self.missing(doing, what).await),
            _ => Err(self.refused(doing, &answer)),
        }
    }

    /// Goes through all pages until `visit` has found what it wants. It must not keep more than a few items.
    pub(crate) async fn search<T: DeserializeOwned, R>(
        &self,
        endpoint: &'static str,
        doing: &str,
        url: &Url,
        visit: impl FnMut(T) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        self.pages(endpoint, doing, url, usize::MAX, visit).await
    }

    async fn pages<T: DeserializeOwned, R>(
        &self,
        endpoint: &'static str,
        doing: &str,
        url: &Url,
        limit: usize,
        mut visit: impl FnMut(T) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        let (mut seen, mut size) = (0_u64, 0_usize);
        for page in 1..=PAGES {
            let mut url = url.clone();
            url.query_pairs_mut()
                .append_pair(self.paging.size_parameter, &self.paging.size.to_string())
                .append_pair("page", &page.to_string());
            let answer = self.must(endpoint, doing, Method::GET, url, None).await?;
            size = size.saturating_add(answer.body.len());
            if size > limit {
                return Err(Error::fault(format!(
                    "`{}` has more than {} MiB to say when asked to {doing}",
                    authority(&self.root),
                    limit >> 20
                )));
            }
            let items: Vec<T> = answer.json()?;
            let count = items.len();
            seen += u64::try_from(count).unwrap_or(u64::MAX);
            if let Some(found) = items.into_iter().find_map(&mut visit) {
                return Ok(Some(found));
            }
            if count == 0 || !self.more_pages(&answer, seen) {
                return Ok(None);
            }
        }
        Err(Error::fault(format!("`{}` has more pages than can be read", authority(&self.root))))
    }

    fn more_pages(&self, answer: &Answer, seen: u64) -> bool {
        let Some(header) = self.paging.total_header else { return answer.has_next_page() };
        let total = answer.headers.get(header).and_then(|total| total.to_str().ok()?.parse::<u64>().ok());
        total.is_none_or(|total| seen < total)
    }

    /// Everything on all pages.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        endpoint: &'static str,
        doing: &str,
        url: &Url,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let nothing: Option<()> = self
            .pages(endpoint, doing, url, KEPT, |item| {
                all.push(item);
                None
            })
            .await?;
        debug_assert!(nothing.is_none());
        Ok(all)
    }

    /// A refusal in words that say what to do.
    pub(crate) fn refused(&self, doing: &str, answer: &Answer) -> Error {
        let (host, repository) = (authority(&self.root), self.repository());
        let said = format!("{}: {}", answer.status.as_u16(), self.session.said(answer));
        let secret = "the Secret that `spec.git.secretRef` names";
        let text = match answer.status {
            StatusCode::UNAUTHORIZED if self.session.is_anonymous() => format!(
                "`{host}` does not let strangers {doing} in {repository} ({said}); set `spec.git.secretRef` to a \
                 Secret with a token that has {}",
                self.needs
            ),
            StatusCode::UNAUTHORIZED => format!(
                "`{host}` does not accept the token ({said}): it is wrong, expired or revoked; put a valid token \
                 into {secret}"
            ),
            StatusCode::FORBIDDEN => format!(
                "the token may not {doing} in {repository} on `{host}` ({said}); give it {}, or put another token \
                 into {secret}",
                self.needs
            ),
            StatusCode::NOT_FOUND => format!(
                "cannot {doing}: {repository} does not exist on `{host}`, or the token may not see it or its pull requests ({said}); \
                 check `spec.git.url`, and that the token in {secret} has {}",
                self.needs
            ),
            _ => format!("`{host}` refused to {doing} in {repository} ({said})"),
        };
        match answer.status {
            // Whoever may not see a repository is told that there is none.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                Error::not_let_in(text)
            }
            _ => Error::problem(text),
        }
    }

    /// A missing thing in a repository that exists may appear in a moment; a missing repository does not.
    pub(crate) async fn missing(&self, doing: &str, what: &str) -> Error {
        match self.must("get_repository", doing, Method::GET, self.in_repository(&[]), None).await {
            Ok(_) => Error::Absent(format!(
                "{what} is not there (yet) in {} on `{}`",
                self.repository(),
                authority(&self.root)
            )),
            Err(error) => error,
        }
    }

    /// The repository in messages.
    pub(crate) fn repository(&self) -> String {
        format!("`{}`", self.address.full_name())
    }
}

/// A pull request in messages.
pub(crate) fn named(number: u64) -> String {
    format!("pull request #{number}")
}
