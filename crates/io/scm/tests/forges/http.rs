//! Limits, failures and hostile answers, the same for every forge.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use kardinal_api::kardinal::GitProvider;
use kardinal_scm::{Credentials, Error, Forge, Http, Secret, Settings, open};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::server::{HEAD, MARKER, Notes, Say, Server, TOKEN, fault, http, pull, settings, token};

fn with(http: &Http, server: &Server) -> Arc<dyn Forge> {
    open(GitProvider::Github, &server.repository(), &token(), None, http).unwrap()
}

fn forge(server: &Server) -> Arc<dyn Forge> {
    with(&http(), server)
}

#[tokio::test]
async fn a_limited_token_waits_without_asking_and_others_go_on() {
    let limited = [
        (429, "retry-after", "30", "slow down", 30),
        (403, "retry-after", "45", "You have exceeded a secondary rate limit.", 45),
        (403, "x-other", "1", "You have exceeded a secondary rate limit.", 1),
    ];
    for (status, name, value, message, seconds) in limited {
        let server = Server::start(move |asked, _| {
            if asked.authorization.contains(TOKEN) {
                Say::json(status, &json!({ "message": message })).with(name, value)
            } else {
                Say::json(200, &json!([]))
            }
        })
        .await;
        let http = http();
        let forge = with(&http, &server);
        let (_, wait) = fault(forge.find(HEAD, "main", MARKER, None).await.unwrap_err());
        // Where it names no time, a little is added by chance.
        let (wait, least) = (wait.unwrap(), Duration::from_secs(seconds));
        assert!(wait >= least && wait < least * 3 / 2, "{wait:?}");
        assert_eq!(server.asked().len(), 1, "a limit is not answered by asking again");
        // A short time is waited for within the call.
        if wait > Duration::from_secs(10) {
            let (message, wait) = fault(forge.find(HEAD, "main", MARKER, None).await.unwrap_err());
            assert!(wait.unwrap() <= Duration::from_secs(seconds), "{message}");
            assert_eq!(server.asked().len(), 1, "the host is left alone until then");
        }
        let other = Credentials::Token(Secret::new("another"));
        let other = open(GitProvider::Github, &server.repository(), &other, None, &http).unwrap();
        assert!(other.find(HEAD, "main", MARKER, None).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_last_request_of_a_window_is_used_and_then_we_wait() {
    let reset = jiff::Timestamp::now().as_second() + 600;
    let server = Server::start(move |_, _| {
        Say::json(200, &json!([]))
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-reset", reset.to_string())
    })
    .await;
    let forge = forge(&server);
    assert!(forge.find(HEAD, "main", MARKER, None).await.unwrap().is_none());
    let (_, wait) = fault(forge.find(HEAD, "main", MARKER, None).await.unwrap_err());
    assert!(wait.unwrap() > Duration::from_secs(500), "{wait:?}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn reading_is_repeated_twice_and_creating_never() {
    let broken = |status| Server::start(move |_, _| Say::json(status, &json!({ "message": "broken" })));
    for status in [500, 502, 503, 504] {
        let server = broken(status).await;
        let (message, wait) = fault(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err());
        assert!(message.contains(&status.to_string()) && wait.is_none(), "{message}");
        assert_eq!(server.asked().len(), 3);
        let server = broken(status).await;
        fault(forge(&server).comment(5, "hello").await.unwrap_err());
        assert_eq!(server.asked().len(), 1);
    }
    let server = Server::start(|_, before| match before {
        0 | 1 => Say::json(502, &json!({})),
        _ => Say::json(200, &json!([])),
    })
    .await;
    assert!(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap().is_none());
}

#[tokio::test]
async fn a_host_that_asks_for_a_pause_gets_it() {
    let server = Server::start(|_, _| Say::json(503, &json!({})).with("retry-after", "20")).await;
    let (_, wait) = fault(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err());
    assert_eq!(wait, Some(Duration::from_secs(20)));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn every_request_is_counted() {
    let server = Server::start(|asked, _| match asked.method.as_str() {
        "GET" => Say::json(200, &json!([])),
        _ => Say::json(403, &json!({ "message": "no" })),
    })
    .await;
    let notes = Arc::new(Notes::default());
    let http = Http::new(settings(), Some(Arc::clone(&notes) as _));
    let forge = with(&http, &server);
    forge.find(HEAD, "main", MARKER, None).await.unwrap();
    forge.comment(5, "hello").await.unwrap_err();
    let nobody = open(GitProvider::Gitea, "http://127.0.0.1:1/a/b", &token(), None, &http).unwrap();
    nobody.comment(5, "hello").await.unwrap_err();
    let noted = notes.0.lock().unwrap().clone();
    assert_eq!(noted[..2], [("list_pull_requests", 200), ("create_comment", 403)]);
    assert_eq!(noted[2..], [("create_comment", 0); 3], "what never arrived may be repeated");
}

#[tokio::test]
async fn nobody_there_is_a_fault() {
    let forge = open(GitProvider::Gitea, "http://127.0.0.1:1/a/b", &token(), None, &http()).unwrap();
    let (message, _) = fault(forge.get(1).await.unwrap_err());
    assert!(message.contains("`127.0.0.1:1` cannot be reached"), "{message}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/acme/app", listener.local_addr().unwrap());
    let accepted = tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
        }
    });
    let http = Http::new(Settings { timeout: Duration::from_millis(100), ..settings() }, None);
    let forge = open(GitProvider::Gitea, &url, &token(), None, &http).unwrap();
    fault(forge.get(1).await.unwrap_err());
    accepted.abort();
}

#[tokio::test]
async fn an_answer_that_is_too_large_or_no_json_is_a_fault() {
    let server = Server::start(|_, _| Say::json(200, &json!([pull(5, HEAD, &"x".repeat(20_000))]))).await;
    let http = Http::new(Settings { body_limit: 10_000, ..settings() }, None);
    let (message, _) = fault(with(&http, &server).find(HEAD, "main", MARKER, None).await.unwrap_err());
    assert!(message.contains("larger than 10000 bytes"), "{message}");
    assert_eq!(server.asked().len(), 1);
    for body in ["<html>Please sign in</html>", "", "{\"a\":1}", "[{\"number\":-1}]"] {
        let body = body.to_owned();
        let server =
            Server::start(move |_, _| Say { status: 200, headers: Vec::new(), body: body.clone() }).await;
        fault(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_token_never_follows_to_another_host() {
    let thief = Server::start(|_, _| Say::json(200, &json!([]))).await;
    let elsewhere = thief.url.clone();
    let server =
        Server::start(move |_, _| Say::json(307, &json!({})).with("location", format!("{elsewhere}/x")))
            .await;
    for error in [
        forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err(),
        forge(&server).comment(5, "hello").await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Problem { message, .. } if message.contains("spec.git.url")),
            "{error:?}"
        );
    }
    assert_eq!(thief.asked().len(), 0);
}

#[tokio::test]
async fn a_renamed_repository_on_the_same_host_is_followed() {
    let server =
        Server::start(|asked, _| match (asked.method.as_str(), asked.path.contains("/repositories/7/")) {
            ("GET", false) => Say::json(301, &json!({})).with("location", "/api/v3/repositories/7/pulls"),
            ("POST", false) => Say::json(307, &json!({})).with("location", "/api/v3/repositories/7/comments"),
            _ => Say::json(200, &json!([])),
        })
        .await;
    assert!(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap().is_none());
    forge(&server).comment(5, "hello").await.unwrap();
    let last = server.asked().pop().unwrap();
    assert_eq!((last.method.as_str(), &last.body), ("POST", &json!({ "body": "hello" })));
    assert!(last.authorization.contains(TOKEN));
}

#[tokio::test]
async fn creating_is_never_turned_into_reading_and_circles_end() {
    let server = Server::start(|_, _| Say::json(301, &json!({})).with("location", "/elsewhere")).await;
    forge(&server).comment(5, "hello").await.unwrap_err();
    assert_eq!(server.log(), ["POST /repos/acme/app/issues/5/comments"]);
    let (message, _) = fault(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err());
    assert!(message.contains("circles"), "{message}");
}

#[tokio::test]
async fn many_calls_at_once_share_the_connections_of_a_host() {
    let server = Server::start(|_, _| Say::json(200, &json!([]))).await;
    let http = Http::new(Settings { concurrency: 2, burst: 1000, ..settings() }, None);
    let forge = with(&http, &server);
    let all = futures::future::join_all((0..50).map(|_| forge.find(HEAD, "main", MARKER, None))).await;
    assert!(all.into_iter().all(|found| found.is_ok_and(|found| found.is_none())));
}

#[test]
fn a_token_with_a_line_break_is_a_problem_that_does_not_show_it() {
    let broken = Credentials::Token(Secret::new("abc\ndef"));
    let error = open(GitProvider::Gitea, "https://git.example/a/b", &broken, None, &http()).err().unwrap();
    assert!(matches!(&error, Error::Problem { .. }) && !error.to_string().contains("abc"), "{error:?}");
}

/// A server with a certificate that no system trusts; returns its URL and the authority in PEM.
async fn https() -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = certified.cert.pem();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/acme/app", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]")
                .await;
            let _ = stream.shutdown().await;
        }
    });
    (url, pem)
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_where_it_is_named() {
    let (url, pem) = https().await;
    let http = http();
    let trusting = open(GitProvider::Github, &url, &token(), Some(pem.as_bytes()), &http).unwrap();
    assert!(trusting.find(HEAD, "main", MARKER, None).await.unwrap().is_none());
    let other = open(GitProvider::Github, &url, &token(), None, &http).unwrap();
    let (message, _) = fault(other.find(HEAD, "main", MARKER, None).await.unwrap_err());
    assert!(message.contains("certificate"), "{message}");
    for broken in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let error = open(GitProvider::Github, &url, &token(), Some(broken.as_bytes()), &http).err().unwrap();
        assert!(matches!(&error, Error::Problem { message, .. } if message.contains("ca.crt")), "{error:?}");
    }
}

#[tokio::test]
async fn on_a_cluster_a_forge_on_loopback_is_not_asked() {
    let server = Server::start(|_, _| Say::json(200, &json!([]))).await;
    let policy = kardinal_reach::Policy::cluster(kardinal_reach::Hosts::default());
    let forge = with(&Http::reaching(settings(), None, policy, None), &server);
    match forge.find(HEAD, "main", MARKER, None).await.unwrap_err() {
        Error::Problem { message, .. } => assert!(message.contains("--allowed-hosts"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert!(server.asked().is_empty());
    let named = kardinal_reach::Hosts::parse("127.0.0.1").unwrap();
    let forge =
        with(&Http::reaching(settings(), None, kardinal_reach::Policy::cluster(named), None), &server);
    assert!(forge.find(HEAD, "main", MARKER, None).await.unwrap().is_none());
}
