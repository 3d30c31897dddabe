//! What stands in the way is told by what the forge answers, and by no word that happens to be in a message.

#![expect(clippy::panic, reason = "tests")]

use kardinal_api::kardinal::GitProvider;
use kardinal_reach::{Hosts, Policy};
use kardinal_scm::{Credentials, Error, Http, Secret, open};
use kardinal_vcs::Barrier;
use serde_json::json;

use crate::server::{MARKER, Say, Server, http, pull, settings, token};

/// The commit at the tip of what [`pull`] makes.
const SHA: &str = "1111111111111111111111111111111111111111";
/// What sounds like a refusal and is none.
const WORDS: &str = "not allowed: the token of token-service is forbidden";

fn barrier<T: std::fmt::Debug>(case: &str, answer: Result<T, Error>) -> Barrier {
    match answer {
        Err(Error::Problem { barrier, .. }) => barrier,
        other => panic!("{case}: {other:?}"),
    }
}

#[tokio::test]
async fn the_status_says_whether_we_are_let_in() {
    for (status, expected) in [
        (401, Barrier::NotLetIn),
        (403, Barrier::NotLetIn),
        (404, Barrier::NotLetIn),
        (400, Barrier::Other),
        (410, Barrier::Other),
        (422, Barrier::Other),
        (302, Barrier::Other),
    ] {
        for said in ["no", WORDS] {
            let server = Server::start(move |_, _| Say::json(status, &json!({ "message": said }))).await;
            for provider in [GitProvider::Github, GitProvider::Gitea] {
                for credentials in [token(), Credentials::None] {
                    let forge = open(provider, &server.repository(), &credentials, None, &http()).unwrap();
                    let case = format!("{provider:?} {credentials:?}: {status} {said}");
                    let answer = forge.find("token-service", "main", MARKER, None).await;
                    assert_eq!(barrier(&case, answer), expected, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_merge_that_this_user_may_not_make_is_told_from_one_that_nobody_may_make() {
    let (github, gitea) = (GitProvider::Github, GitProvider::Gitea);
    for (provider, status, said, expected) in [
        (
            github,
            405,
            "You're not authorized to push to this branch. Visit the documentation.",
            Barrier::NotLetIn,
        ),
        (github, 403, "Resource not accessible by personal access token", Barrier::NotLetIn),
        (github, 405, "At least 1 approving review is required.", Barrier::Other),
        (github, 405, "Merge commits are not allowed on this repository.", Barrier::Other),
        (github, 405, "Required status check \"token-permissions\" is expected.", Barrier::Other),
        (gitea, 405, "User not allowed to merge PR", Barrier::NotLetIn),
        (gitea, 403, "token does not have at least one of required scope(s)", Barrier::NotLetIn),
        (gitea, 405, "not allowed to merge [reason: Does not have enough approvals]", Barrier::Other),
        (gitea, 409, WORDS, Barrier::Other),
    ] {
        let mut found = pull(4, "token-service", MARKER);
        for side in ["head", "base"] {
            // As Gitea tells it.
            found[side]["repo_id"] = json!(1);
        }
        let server = Server::start(move |asked, _| match (asked.method.as_str(), asked.path.as_str()) {
            (_, path) if path.ends_with("/merge") => Say::json(status, &json!({ "message": said })),
            (_, path) if path.ends_with("/repos/acme/app") => Say::json(200, &json!({})),
            _ => Say::json(200, &found),
        })
        .await;
        let forge = open(provider, &server.repository(), &token(), None, &http()).unwrap();
        let case = format!("{provider:?}: {status} {said}");
        assert_eq!(barrier(&case, forge.merge(4, SHA, "main").await), expected, "{case}");
    }
}

#[tokio::test]
async fn what_is_wrong_before_anything_is_asked() {
    let url = "https://git.example/token/permission.git";
    let opened = |provider, url: &str, credentials: Credentials, ca: Option<&[u8]>| {
        open(provider, url, &credentials, ca, &http()).map(drop)
    };
    let broken = Credentials::Token(Secret::new("two\nlines"));
    for (case, answer, expected) in [
        ("a token that is none", opened(GitProvider::Gitea, url, broken, None), Barrier::NotLetIn),
        ("a forge without pull requests", opened(GitProvider::Gitlab, url, token(), None), Barrier::Other),
        ("no repository", opened(GitProvider::Github, "token", token(), None), Barrier::Other),
        ("a wrong CA", opened(GitProvider::Gitea, url, token(), Some(b"credentials")), Barrier::Other),
    ] {
        assert_eq!(barrier(case, answer), expected, "{case}");
    }
}

#[tokio::test]
async fn a_host_that_may_not_be_reached_is_the_operators_matter() {
    for (hosts, url, expected) in [
        ("", "http://127.0.0.1:1/acme/app", Barrier::HostNotAllowed),
        ("github.com", "https://git.example/acme/app", Barrier::HostNotAllowed),
    ] {
        let http = Http::reaching(settings(), None, Policy::cluster(Hosts::parse(hosts).unwrap()), None);
        let forge = open(GitProvider::Gitea, url, &token(), None, &http).unwrap();
        assert_eq!(barrier(url, forge.find("a", "main", MARKER, None).await), expected, "{url}");
    }
}
