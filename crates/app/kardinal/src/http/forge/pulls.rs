//! The local forge's side doors: who may push where, and what a pull request is about.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use kardinal_api::forge::{Check, PullRequest, PullRequestState};
use kardinal_forge::{Credentials, Identity, RefChange};
use kardinal_planner::review::{self, check_word, state_word};
use kardinal_promotion::intent::{check_name, check_namespace};
use kube::Api;
use kube::api::ListParams;

use super::sessions::cookie;
use crate::http::Web;
use crate::http::keys::bearer;

/// Nothing on the page is a script or comes from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem}\
    pre{background:#f4f4f4;padding:1rem;overflow:auto}small{color:#666}";

/// Asks our own objects who may do what.
pub(in crate::http) struct Guard {
    web: Arc<Web>,
}

impl Guard {
    pub(in crate::http) fn new(web: Arc<Web>) -> Guard {
        Guard { web }
    }
}

impl kardinal_forge::Guard for Guard {
    fn authenticate(&self, _: &str, _: &str, credentials: &Credentials) -> Option<Identity> {
        let name =
            credentials.user.clone().filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned());
        // Kardinal itself does not come this way, so nobody is trusted to push to protected branches.
        self.web.keys.is_git_token(&credentials.secret).then_some(Identity { name, trusted: false })
    }

    fn protected(&self, namespace: &str, name: &str, branch: &str) -> bool {
        self.web.controllers.protects(namespace, name, branch)
    }

    fn pushed(&self, namespace: &str, name: &str, _: &[RefChange]) {
        self.web.controllers.pushed(namespace, name);
    }
}

/// A refusal in words.
type Refusal = (StatusCode, String);

/// Which pull request: namespace, repository, number.
type Which = (String, String, u64);

/// The code in the URL that `kardinal pr open` gives to a browser.
#[derive(serde::Deserialize)]
pub(in crate::http) struct SignIn {
    code: Option<String>,
}

/// A code for one browser, for whoever has the token of Git.
pub(in crate::http) async fn sign_in(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    must_have_token(&web, &headers)?;
    Ok(Json(serde_json::json!({"code": web.sessions.code(Instant::now())})).into_response())
}

/// The page behind the URL that a pull request carries. Whoever is not signed in learns how to, and nothing else.
pub(in crate::http) async fn page(
    State(web): State<Arc<Web>>,
    Path(which): Path<Which>,
    Query(sign_in): Query<SignIn>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    check(&which)?;
    let (namespace, repository, number) = &which;
    if let Some(session) = sign_in.code.and_then(|code| web.sessions.redeem(&code, Instant::now())) {
        // The code is used up; it need not stay in the address.
        let location = format!("/forge/{namespace}/{repository}/pulls/{number}");
        let headers = [(header::LOCATION, location), (header::SET_COOKIE, cookie(&session))];
        return Ok((StatusCode::SEE_OTHER, headers).into_response());
    }
    if !web.sessions.admit(&headers, Instant::now()) && !has_token(&web, &headers) {
        return Ok(html(StatusCode::UNAUTHORIZED, signed_out(namespace, repository, *number)));
    }
    let request = find(&web, namespace, repository, *number).await?;
    let diff = read_diff(&web, namespace, &request).await?;
    Ok(html(StatusCode::OK, render(&request, *number, &diff)))
}

/// What a pull request changes, in the form of `git diff`.
pub(in crate::http) async fn diff(
    State(web): State<Arc<Web>>,
    Path(which): Path<Which>,
    headers: HeaderMap,
) -> Result<String, Refusal> {
    must_have_token(&web, &headers)?;
    check(&which)?;
    let (namespace, repository, number) = which;
    let request = find(&web, &namespace, &repository, number).await?;
    read_diff(&web, &namespace, &request).await
}

fn has_token(web: &Web, headers: &HeaderMap) -> bool {
    bearer(headers).is_some_and(|token| web.keys.is_git_token(token))
}

fn must_have_token(web: &Web, headers: &HeaderMap) -> Result<(), Refusal> {
    match has_token(web, headers) {
        true => Ok(()),
        false => Err((StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong\n".to_owned())),
    }
}

/// Nothing but names becomes part of a question to the API server.
fn check((namespace, repository, _): &Which) -> Result<(), Refusal> {
    let checked = check_namespace("namespace", namespace).and_then(|()| check_name("repository", repository));
    checked.map_err(|problem| (StatusCode::NOT_FOUND, format!("{problem}\n")))
}

fn html(code: StatusCode, page: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (code, headers, page).into_response()
}

/// All that somebody learns who is not signed in. The names come from the address, so they have been checked.
fn signed_out(namespace: &str, repository: &str, number: u64) -> String {
    let elsewhere = match namespace {
        "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>kardinal</title>\
         <style>{STYLE}</style></head><body>\n<h1>Sign in</h1>\n\
         <p>This browser is not signed in, or no longer. In a terminal where <code>kardinal up</code> runs:</p>\n\
         <pre>kardinal pr open {number} --repo {repository}{elsewhere}</pre>\n</body></html>\n"
    )
}

async fn find(web: &Web, namespace: &str, repository: &str, number: u64) -> Result<PullRequest, Refusal> {
    let api: Api<PullRequest> = Api::namespaced(web.client.clone(), namespace);
    let of_repository = ListParams::default().fields(&format!("spec.repository={repository}"));
    let all = api.list(&of_repository).await.map_err(|error| {
        tracing::warn!(error = %error, "pull requests cannot be listed");
        (StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer; try again\n".to_owned())
    })?;
    let found = all.items.into_iter().find(|request| review::number(request) == Some(number));
    found.ok_or_else(|| {
        (StatusCode::NOT_FOUND, format!("there is no pull request #{number} in `{namespace}/{repository}`\n"))
    })
}

async fn read_diff(web: &Web, namespace: &str, request: &PullRequest) -> Result<String, Refusal> {
    let Some(forge) = web.forge.clone() else {
        return Err((StatusCode::NOT_FOUND, "no forge is served here\n".to_owned()));
    };
    let (base, head) = review::compared(request);
    let (base, head) = (base.to_owned(), head.to_owned());
    let (namespace, repository) = (namespace.to_owned(), request.spec.repository.clone());
    let read = tokio::task::spawn_blocking(move || forge.store.diff(&namespace, &repository, &base, &head));
    let failed = |error: &dyn std::fmt::Display| {
        tracing::warn!(error = %error, "a diff cannot be read");
        (StatusCode::INTERNAL_SERVER_ERROR, "the diff cannot be read\n".to_owned())
    };
    let files = read.await.map_err(|error| failed(&error))?.map_err(|error| match error {
        kardinal_forge::Error::Problem(message) => (StatusCode::NOT_FOUND, format!("{message}\n")),
        kardinal_forge::Error::Fault(message) => failed(&message),
    })?;
    Ok(files.into_iter().map(|file| file.unified).collect())
}

fn render(request: &PullRequest, number: u64, diff: &str) -> String {
    let spec = &request.spec;
    let status = request.status.clone().unwrap_or_default();
    let state = review::state(request);
    let merged = status.merged_by.map(|who| format!(" by {}", escape(&who))).unwrap_or_default();
    let title = escape(&spec.title);
    let (head, base, repository) = (escape(&spec.head), escape(&spec.base), escape(&spec.repository));
    let checks: String = spec.checks.iter().map(shown_check).collect();
    let more = format!(
        "{checks}<pre>{}</pre>\n<pre>{}</pre>\n",
        escape(review::visible_body(request)),
        escape(diff)
    );
    let verbs: &[&str] = match state {
        PullRequestState::Open => &["show", "diff", "merge"],
        PullRequestState::Merged | PullRequestState::Closed => &["show", "diff"],
    };
    let commands: Vec<String> =
        verbs.iter().map(|verb| format!("kardinal pr {verb} {number} --repo {repository}")).collect();
    let (commands, state) = (commands.join("\n"), state_word(state));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>#{number} {title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>#{number} {title}</h1>\n\
         <p><b>{state}</b>{merged} <small>{repository}: {head} → {base}</small></p>\n{more}\
         <pre>{commands}</pre>\n</body></html>\n"
    )
}

/// One check, and what it says.
fn shown_check(check: &Check) -> String {
    let state = check_word(check.state);
    let description =
        check.description.as_deref().map(|text| format!(": {}", escape(text))).unwrap_or_default();
    format!("<p>{} <b>{state}</b>{description}</p>\n", escape(&check.context))
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_text_as_text() {
        let mut request: PullRequest = serde_json::from_value(serde_json::json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "x"},
            "spec": {"repository": "demo", "head": "h", "base": "main", "title": "<script>alert(1)</script>",
                     "body": "<!-- kardinal-step: 1 -->\nsecret & body",
                     "checks": [{"context": "kardinal/gates/main", "state": "pending", "description": "held by <soak>"}]},
            "status": {"number": 3, "state": "Open"},
        }))
        .unwrap();
        let page = render(&request, 3, "-a\n+<b>\n");
        assert!(page.contains("#3 &lt;script&gt;") && !page.contains("<script>"), "{page}");
        assert!(page.contains("kardinal/gates/main <b>pending</b>: held by &lt;soak&gt;"), "{page}");
        assert!(!page.contains("kardinal-step"), "{page}");
        assert!(page.contains("secret &amp; body") && page.contains("+&lt;b&gt;"), "{page}");
        assert!(page.contains("kardinal pr merge 3 --repo demo"), "{page}");
        request.status.as_mut().unwrap().state = Some(PullRequestState::Closed);
        let page = render(&request, 3, "");
        assert!(page.contains("kardinal pr show 3") && !page.contains("pr merge"), "it is closed: {page}");
    }
}
