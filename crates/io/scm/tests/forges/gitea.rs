//! Against a real Gitea, which the test kit builds and starts. Skipped, with a visible line, where there is no Go.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use kardinal_api::kardinal::GitProvider;
use kardinal_scm::webhook::{self, Action, Delivery, Event, Rejected, Seen, Verdict};
use kardinal_scm::{
    Changes, CommitState, CommitStatus, Credentials, Error, Forge, Http, NewPullRequest, PullRequest,
    PullRequestState, Secret, Settings, open, same_repository,
};
use kardinal_testkit::gitea::Gitea;
use serde_json::{Value, json};
use tokio::sync::mpsc;

const HEAD: &str = "kardinal/app-v2/prod";
const MARKER: &str = "<!-- kardinal-step: 1234 -->";
/// Long enough for the slowest machine; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

fn http() -> Http {
    Http::new(Settings { timeout: PATIENCE, burst: 1000, ..Settings::default() }, None)
}

fn credentials(token: &str) -> Credentials {
    Credentials::Token(Secret::new(token))
}

fn forge(url: &str, token: &str) -> Arc<dyn Forge> {
    open(GitProvider::Gitea, url, &credentials(token), None, &http()).unwrap()
}

fn promotion(head: &str) -> NewPullRequest {
    NewPullRequest {
        head: head.to_owned(),
        base: "main".to_owned(),
        title: "[kardinal] Promote app-v2 to prod".to_owned(),
        body: format!("{MARKER}\n| Artifact | Version |"),
        labels: vec!["kardinal".to_owned(), "kardinal/promotion".to_owned()],
        marker: MARKER.to_owned(),
        since: None,
    }
}

#[track_caller]
fn problem<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Problem { message, .. }) => message,
        Err(fault) => panic!("expected a Problem, got {fault:?}"),
        Ok(_) => panic!("expected a Problem, got success"),
    }
}

#[track_caller]
fn fault<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Fault { message, .. }) => message,
        Err(problem) => panic!("expected a Fault, got {problem:?}"),
        Ok(_) => panic!("expected a Fault, got success"),
    }
}

/// As callers do: a Fault is tried again. Gitea looks for conflicts in the background before it merges.
async fn merge(forge: &Arc<dyn Forge>, number: u64, sha: &str) -> anyhow::Result<PullRequest> {
    let tries = async {
        loop {
            match forge.merge(number, sha, "main").await {
                Err(Error::Fault { .. } | Error::Conflict { certain: false, .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                other => return other,
            }
        }
    };
    Ok(tokio::time::timeout(PATIENCE, tries).await??)
}

/// The `app` repository with one change waiting on its branch.
fn repository(gitea: &Gitea) -> anyhow::Result<(String, String)> {
    let url =
        gitea.create_repository("app", &[("prod/version.yaml", "tag: v1\n"), ("README.md", "An app\n")])?;
    let sha = gitea.commit("app", HEAD, Some("main"), &[("prod/version.yaml", "tag: v2\n")])?;
    Ok((url, sha))
}

fn names(value: &Value, field: &str) -> Vec<String> {
    let all = value.as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|item| item.get(field)?.as_str().map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_lives_from_creation_to_merge() -> anyhow::Result<()> {
    let Some(gitea) = Gitea::start()? else { return Ok(()) };
    let (url, sha) = repository(&gitea)?;
    let forge = forge(&url, &gitea.token);
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?, None);

    let first = forge.create(&promotion(HEAD)).await?;
    let second = forge.create(&promotion(HEAD)).await?;
    assert_eq!((first.number, first.state, first.head.as_str()), (1, PullRequestState::Open, sha.as_str()));
    assert_eq!(second.number, 1);
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?.unwrap().number, 1);
    assert_eq!(
        forge.find(HEAD, "main", "<!-- kardinal-step: 9999 -->", None).await?,
        None,
        "another step's marker"
    );
    assert_eq!(forge.find("main", "main", MARKER, None).await?, None, "another branch");
    let all = gitea.get_json("/repos/operator/app/pulls?state=all")?;
    assert_eq!(all.as_array().unwrap().len(), 1);
    let labels = gitea.get_json("/repos/operator/app/issues/1/labels")?;
    assert_eq!(names(&labels, "name"), ["kardinal", "kardinal/promotion"]);

    let changes = Changes {
        title: None,
        body: Some(format!("{MARKER}\nnew")),
        labels: Some(vec!["kardinal".to_owned(), "kardinal/emergency".to_owned()]),
    };
    forge.update(1, &changes).await?;
    forge.comment(1, "All gates are open.").await?;
    let labels = gitea.get_json("/repos/operator/app/issues/1/labels")?;
    assert_eq!(names(&labels, "name"), ["kardinal", "kardinal/emergency", "kardinal/promotion"]);
    let comments = gitea.get_json("/repos/operator/app/issues/1/comments")?;
    assert_eq!(names(&comments, "body"), ["All gates are open."]);

    gitea.create_user("alice")?;
    gitea.add_collaborator("app", "alice", "write")?;
    gitea.review("app", 1, "alice", "REQUEST_CHANGES")?;
    assert_eq!(forge.get(1).await?.approved_by, Vec::<String>::new());
    gitea.approve("app", 1, "alice")?;
    assert_eq!(forge.get(1).await?.approved_by, ["alice"]);
    let now = gitea.get_json("/repos/operator/app/pulls/1")?;
    assert_eq!(now.get("body").and_then(Value::as_str), Some(format!("{MARKER}\nnew").as_str()));

    let status = CommitStatus {
        context: "kardinal/prod".to_owned(),
        state: CommitState::Success,
        description: "2 gates passed".to_owned(),
        url: None,
    };
    forge.set_status(&sha, &CommitStatus { state: CommitState::Pending, ..status.clone() }).await?;
    forge.set_status(&sha, &status).await?;
    let combined = gitea.get_json(&format!("/repos/operator/app/commits/{sha}/status"))?;
    assert_eq!(combined.get("state").and_then(Value::as_str), Some("success"));

    assert!(fault(forge.merge(1, &"0".repeat(40), "main").await).contains("moved"));
    let merged = merge(&forge, 1, &sha).await?;
    assert_eq!((merged.state, merged.merged_by.as_deref()), (PullRequestState::Merged, Some("operator")));
    assert!(merged.merged_at.is_some() && merged.merge_commit.is_some());
    assert_eq!(gitea.file("app", "main", "prod/version.yaml")?.as_deref(), Some("tag: v2\n"));
    assert_eq!(forge.merge(1, &sha, "main").await?.state, PullRequestState::Merged, "merging twice is fine");
    forge.close(1, Some("too late")).await?;
    gitea.delete_branch("app", HEAD)?;
    let found = forge.find(HEAD, "main", MARKER, None).await?.unwrap();
    assert_eq!((found.state, found.head), (PullRequestState::Merged, sha), "found without its branch");
    assert_eq!(forge.create(&promotion(HEAD)).await?.number, 1, "what is merged is not opened again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_ones_are_found_on_any_page_and_each_step_finds_its_own() -> anyhow::Result<()> {
    let Some(gitea) = Gitea::start_with("[api]\nMAX_RESPONSE_ITEMS = 2\n")? else { return Ok(()) };
    let (url, _) = repository(&gitea)?;
    let forge = forge(&url, &gitea.token);
    let mut new = promotion(HEAD);
    new.labels = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    forge.create(&new).await?;
    forge.close(1, Some("superseded by app-v3")).await?;
    let closed = forge.get(1).await?;
    assert_eq!((closed.state, closed.merge_commit), (PullRequestState::Closed, None));
    assert!(closed.closed_at.is_some(), "{:?}", closed.closed_at);
    assert_eq!(closed.closed_by.as_deref(), Some("operator"));
    let comments = gitea.get_json("/repos/operator/app/issues/1/comments")?;
    assert_eq!(names(&comments, "body"), ["superseded by app-v3"]);
    // Five more from other branches push the first one to the last page; they use the labels that are there.
    for number in 2..=6 {
        let branch = format!("kardinal/app-v{number}/uat");
        gitea.commit("app", &branch, Some("main"), &[("prod/version.yaml", &format!("tag: w{number}\n"))])?;
        assert_eq!(forge.create(&NewPullRequest { head: branch, ..new.clone() }).await?.number, number);
    }
    let labels = gitea.get_json("/repos/operator/app/labels?limit=1")?;
    assert_eq!(labels.as_array().unwrap().len(), 1);
    assert_eq!(
        names(&gitea.get_json("/repos/operator/app/issues/6/labels")?, "name"),
        ["a", "b", "c", "d", "e"]
    );
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?.unwrap().number, 1);
    // The same branch again, for another step: each finds its own.
    let second =
        NewPullRequest { marker: "<!-- second -->".to_owned(), body: "<!-- second -->".to_owned(), ..new };
    assert_eq!(forge.create(&second).await?.number, 7);
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?.unwrap().number, 1);
    assert_eq!(forge.find(HEAD, "main", "<!-- second -->", None).await?.unwrap().number, 7);
    // One that somebody opened by hand from our branch is not ours.
    let third =
        NewPullRequest { marker: "<!-- third -->".to_owned(), body: "<!-- third -->".to_owned(), ..second };
    let message = problem(forge.create(&third).await);
    assert!(message.contains("not ours") && message.contains(HEAD), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_copies_branch_and_marker_is_not_ours() -> anyhow::Result<()> {
    let Some(gitea) = Gitea::start()? else { return Ok(()) };
    let (url, _) = repository(&gitea)?;
    let forge = forge(&url, &gitea.token);
    gitea.create_user("mallory")?;
    gitea.post_as("mallory", "/repos/operator/app/forks", &json!({}))?;
    // A fork has all the branches.
    let change = json!({
        "branch": HEAD, "message": "Take over",
        "files": [{ "operation": "create", "path": "evil", "content": "ZXZpbA==" }],
    });
    gitea.post_as("mallory", "/repos/mallory/app/contents", &change)?;
    let forged = json!({ "head": format!("mallory:{HEAD}"), "base": "main", "title": "x", "body": MARKER });
    gitea.post_as("mallory", "/repos/operator/app/pulls", &forged)?;
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?, None);
    assert_eq!(forge.create(&promotion(HEAD)).await?.number, 2);
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await?.unwrap().number, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_say_what_to_do() -> anyhow::Result<()> {
    let Some(gitea) = Gitea::start()? else { return Ok(()) };
    let (url, sha) = repository(&gitea)?;

    let token = gitea.create_token("operator", "short-lived", &["write:repository", "write:issue"])?;
    let short_lived = forge(&url, &token);
    assert_eq!(short_lived.find(HEAD, "main", MARKER, None).await?, None);
    gitea.delete_token("operator", "short-lived")?;
    for message in [
        problem(short_lived.find(HEAD, "main", MARKER, None).await),
        problem(short_lived.create(&promotion(HEAD)).await),
    ] {
        assert!(message.contains("revoked") && message.contains("spec.git.secretRef"), "{message}");
        assert!(!message.contains(&token), "{message}");
    }

    let reader = gitea.create_token("operator", "reader", &["read:repository", "read:issue"])?;
    let message = problem(forge(&url, &reader).create(&promotion(HEAD)).await);
    assert!(message.contains("write:repository"), "{message}");
    let operator = forge(&url, &gitea.token);
    let message =
        problem(operator.create(&NewPullRequest { base: "prod".to_owned(), ..promotion(HEAD) }).await);
    assert!(message.contains("`prod`"), "{message}");
    fault(operator.create(&promotion("kardinal/not-pushed-yet/prod")).await);
    assert!(matches!(operator.get(77).await, Err(Error::Absent(_))));
    let nowhere = format!("{}/operator/nothing.git", gitea.url);
    for message in [
        problem(forge(&nowhere, &gitea.token).get(1).await),
        problem(forge(&nowhere, &gitea.token).create(&promotion(HEAD)).await),
    ] {
        assert!(message.contains("`operator/nothing`") && message.contains("spec.git.url"), "{message}");
    }

    // A user who may propose changes but has no say about labels still gets a pull request.
    gitea.create_user("bob")?;
    gitea.add_collaborator("app", "bob", "read")?;
    let bob = gitea.create_token("bob", "t", &["write:repository", "write:issue"])?;
    let unknown = vec!["kardinal/rollback".to_owned()];
    let number =
        forge(&url, &bob).create(&NewPullRequest { labels: unknown, ..promotion(HEAD) }).await?.number;
    assert_eq!(
        names(&gitea.get_json("/repos/operator/app/labels")?, "name"),
        ["kardinal", "kardinal/promotion"]
    );
    assert_eq!(gitea.get_json(&format!("/repos/operator/app/issues/{number}/labels"))?, json!([]));

    gitea.protect_branch("app", "main", 2)?;
    let refused = tokio::time::timeout(PATIENCE, async {
        loop {
            match operator.merge(number, &sha, "main").await {
                Err(Error::Fault { .. } | Error::Conflict { certain: false, .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                other => return other,
            }
        }
    });
    let message = problem(refused.await?);
    assert!(message.contains("approval"), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_a_fault_and_afterwards_all_is_as_before() -> anyhow::Result<()> {
    let Some(mut gitea) = Gitea::start()? else { return Ok(()) };
    let (url, _) = repository(&gitea)?;
    let forge = forge(&url, &gitea.token);
    let number = forge.create(&promotion(HEAD)).await?.number;
    gitea.stop();
    assert!(fault(forge.get(number).await).contains("cannot be reached"));
    fault(forge.create(&promotion(HEAD)).await);
    gitea.start_again()?;
    assert_eq!(forge.create(&promotion(HEAD)).await?.number, number);
    Ok(())
}

/// Everything that was posted to a listener.
async fn listener() -> anyhow::Result<(String, mpsc::UnboundedReceiver<(HeaderMap, Bytes)>)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let service = axum::Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let _ = sender.send((headers, body));
        async { StatusCode::NO_CONTENT }
    });
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/webhooks", socket.local_addr()?);
    tokio::spawn(async move { axum::serve(socket, service).await });
    Ok((url, receiver))
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_delivered_and_only_real_ones_count() -> anyhow::Result<()> {
    let Some(gitea) = Gitea::start()? else { return Ok(()) };
    let (hook, mut posted) = listener().await?;
    let (url, sha) = repository(&gitea)?;
    gitea.add_webhook("app", &hook, "a shared secret")?;
    let forge = forge(&url, &gitea.token);
    gitea.create_user("alice")?;
    gitea.add_collaborator("app", "alice", "write")?;

    let number = forge.create(&promotion(HEAD)).await?.number;
    gitea.approve("app", number, "alice")?;
    merge(&forge, number, &sha).await?;

    let mut seen = Seen::new(100, Duration::from_secs(3600));
    let mut events: Vec<Event> = Vec::new();
    let is_merge = |event: &Event| matches!(event, Event::PullRequest { action: Action::Merged, .. });
    let is_push = |event: &Event| matches!(event, Event::Push { branch, .. } if branch == "main");
    while !(events.iter().any(is_merge) && events.iter().any(is_push)) {
        let (headers, body) = tokio::time::timeout(PATIENCE, posted.recv()).await?.unwrap();
        let delivery = webhook::verify(&headers, &body, b"a shared secret")?;
        assert_eq!(delivery.provider, GitProvider::Gitea);
        assert!(seen.is_new(&delivery, Timestamp::now()));
        refuses_forgeries(&headers, &body, &delivery, &mut seen);
        events.push(delivery.event);
    }
    let opened = |event: &Event| match event {
        Event::PullRequest { repository_urls, number: 1, action: Action::Opened } => {
            repository_urls.iter().any(|known| same_repository(known, &url))
        }
        _ => false,
    };
    let approved = |event: &Event| match event {
        Event::Review { number: 1, verdict: Verdict::Approved, author, .. } => author == "alice",
        _ => false,
    };
    assert!(events.iter().any(opened), "{events:?}");
    assert!(events.iter().any(approved), "{events:?}");
    Ok(())
}

/// The same delivery, changed in the ways an attacker can.
fn refuses_forgeries(headers: &HeaderMap, body: &[u8], delivery: &Delivery, seen: &mut Seen) {
    let secret: &[u8] = b"a shared secret";
    assert_eq!(webhook::verify(headers, body, b"another secret"), Err(Rejected::BadSignature));
    let forged = String::from_utf8_lossy(body).replace("operator", "attacker");
    assert_eq!(webhook::verify(headers, forged.as_bytes(), secret), Err(Rejected::BadSignature));
    let mut unsigned = headers.clone();
    for name in ["x-gitea-signature", "x-hub-signature-256"] {
        unsigned.remove(name);
    }
    assert_eq!(webhook::verify(&unsigned, body, secret), Err(Rejected::Unsigned));
    let oversized = vec![b' '; webhook::MAX_BODY + 1];
    assert_eq!(webhook::verify(headers, &oversized, secret), Err(Rejected::TooLarge));
    // Played back as it was, and under a new number.
    assert!(!seen.is_new(delivery, Timestamp::now()));
    let mut renumbered = headers.clone();
    renumbered.insert("x-gitea-delivery", "another".parse().unwrap());
    let renumbered = webhook::verify(&renumbered, body, secret).unwrap();
    assert_eq!(renumbered.id, "another");
    assert!(!seen.is_new(&renumbered, Timestamp::now()));
}
