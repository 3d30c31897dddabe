//! GitHub, by answers as it gives them.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kardinal_api::kardinal::GitProvider;
use kardinal_scm::{
    Changes, CommitState, CommitStatus, Error, Forge, NewPullRequest, PullRequestState, open,
};
use serde_json::{Value, json};

use crate::server::{HEAD, MARKER, Say, Server, TOKEN, fault, http, pull, token};

/// The commit at the tip of what [`pull`] makes.
const SHA: &str = "1111111111111111111111111111111111111111";

fn forge(server: &Server) -> Arc<dyn Forge> {
    open(GitProvider::Github, &server.repository(), &token(), None, &http()).unwrap()
}

fn new_pull_request() -> NewPullRequest {
    NewPullRequest {
        head: HEAD.to_owned(),
        base: "main".to_owned(),
        title: "[kardinal] Promote app-v2 to prod".to_owned(),
        body: format!("{MARKER}\nbody"),
        labels: vec!["kardinal".to_owned(), "kardinal/promotion".to_owned()],
        marker: MARKER.to_owned(),
        since: None,
    }
}

fn ours(number: u64) -> Value {
    pull(number, HEAD, &format!("{MARKER}\nbody"))
}

fn with(mut value: Value, changes: &[(&str, Value)]) -> Value {
    for (key, change) in changes {
        value[key] = change.clone();
    }
    value
}

fn refused(status: u16, message: &str) -> Say {
    Say::json(status, &json!({ "message": message, "documentation_url": "https://docs.github.com/rest" }))
}

fn already_exists() -> Say {
    Say::json(
        422,
        &json!({
            "message": "Validation Failed",
            "errors": [{ "resource": "PullRequest", "code": "custom",
                         "message": format!("A pull request already exists for acme:{HEAD}.") }],
        }),
    )
}

#[track_caller]
fn problem(error: Error) -> String {
    match error {
        Error::Problem { message, .. } => message,
        other => panic!("expected a Problem, got {other:?}"),
    }
}

#[tokio::test]
async fn find_reads_all_pages_and_takes_the_one_of_ours_that_counts() {
    let server = Server::start(|asked, _| {
        let page = if asked.path.contains("page=3") {
            3
        } else if asked.path.contains("page=2") {
            2
        } else {
            1
        };
        let items = match page {
            1 => json!([pull(90, HEAD, "by hand"), pull(89, "other", MARKER)]),
            2 => json!([pull(80, HEAD, "<!-- kardinal-step: 9999 -->")]),
            _ => json!([
                with(ours(60), &[("state", json!("closed"))]),
                with(ours(70), &[("state", json!("closed")), ("merged_at", json!("2026-11-02T10:00:00Z"))]),
            ]),
        };
        let say = Say::json(200, &items);
        // Another host: the page is asked from where we are, never from where a header points.
        let link = format!(r#"<https://elsewhere.example/?page={}>; rel="next""#, page + 1);
        if page < 3 {
            say.with("link", link)
        } else {
            say.with("link", r#"<https://x/?page=1>; rel="first""#)
        }
    })
    .await;
    let found = forge(&server).find(HEAD, "main", MARKER, None).await.unwrap().unwrap();
    assert_eq!((found.number, found.state), (70, PullRequestState::Merged));
    assert_eq!(found.merged_at, Some("2026-11-02T10:00:00Z".parse().unwrap()));
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].authorization, format!("Bearer {TOKEN}"));
    for part in ["state=all", "head=acme%3Akardinal%2Fapp-v2%2Fprod", "per_page=100"] {
        assert!(asked[0].path.contains(part), "{}", asked[0].path);
    }
    assert!(forge(&server).find("other-branch", "main", MARKER, None).await.unwrap().is_none());
}

#[tokio::test]
async fn a_merge_counts_before_what_is_open_and_the_first_before_later_ones() {
    let closed = |number| with(ours(number), &[("state", json!("closed"))]);
    let merged = |number| with(closed(number), &[("merged_at", json!("2026-11-02T10:00:00Z"))]);
    for (all, counts) in [
        (json!([ours(9), merged(5), closed(4)]), 5),
        (json!([merged(9), ours(8), merged(5)]), 5),
        (json!([ours(9), ours(8), closed(4)]), 8),
        (json!([closed(9), closed(8)]), 8),
    ] {
        let server = Server::start(move |_, _| Say::json(200, &all)).await;
        let found = forge(&server).find(HEAD, "main", MARKER, None).await.unwrap().unwrap();
        assert_eq!(found.number, counts);
        assert_eq!(
            forge(&server).create(&new_pull_request()).await.map(|found| found.number).ok(),
            Some(counts)
        );
    }
}

#[tokio::test]
async fn what_ended_before_a_time_is_not_ours_whatever_its_body_says() {
    let ended =
        |number, at: &str| with(ours(number), &[("state", json!("closed")), ("closed_at", json!(at))]);
    let merged = |number, at: &str| with(ended(number, at), &[("merged_at", json!(at))]);
    let all = json!([ours(9), merged(5, "2026-11-02T10:00:00Z"), ended(4, "2026-11-01T10:00:00Z")]);
    let server = Server::start(move |_, _| Say::json(200, &all)).await;
    for (since, counts) in [(None, 5), (Some("2026-11-02T10:00:00Z"), 5), (Some("2026-11-02T10:00:01Z"), 9)] {
        let since = since.map(|since| since.parse().unwrap());
        let found = forge(&server).find(HEAD, "main", MARKER, since).await.unwrap().unwrap();
        assert_eq!(found.number, counts);
        let new = NewPullRequest { since, ..new_pull_request() };
        assert_eq!(forge(&server).create(&new).await.map(|found| found.number).ok(), Some(counts));
    }
}

#[tokio::test]
async fn the_first_merge_since_a_time_is_found_whatever_its_body_says() {
    let merged = |number, at: &str| {
        with(pull(number, HEAD, "by hand"), &[("state", json!("closed")), ("merged_at", json!(at))])
    };
    let all = json!([
        ours(9),
        merged(8, "2026-11-04T10:00:00Z"),
        merged(7, "2026-11-03T10:00:00Z"),
        merged(6, "2026-11-01T10:00:00Z"),
    ]);
    let server = Server::start(move |_, _| Say::json(200, &all)).await;
    for (since, first) in
        [(None, Some(6)), (Some("2026-11-03T10:00:00Z"), Some(7)), (Some("2026-11-05T10:00:00Z"), None)]
    {
        let since = since.map(|since| since.parse().unwrap());
        let found = forge(&server).find_merge(HEAD, "main", since).await.unwrap();
        assert_eq!(found.map(|found| found.number), first);
    }
    assert_eq!(forge(&server).find_merge(HEAD, "other", None).await.unwrap(), None);
}

#[tokio::test]
async fn a_fork_that_copies_branch_and_marker_is_not_ours() {
    for copied in [json!({ "id": 2, "full_name": "acme/fork" }), Value::Null] {
        let server = Server::start(move |_, _| {
            let mut forged = ours(99);
            forged["head"]["repo"] = copied.clone();
            Say::json(200, &json!([forged, ours(5)]))
        })
        .await;
        assert_eq!(forge(&server).find(HEAD, "main", MARKER, None).await.unwrap().unwrap().number, 5);
    }
}

#[tokio::test]
async fn create_twice_gives_one_pull_request_with_labels() {
    let created = Arc::new(AtomicU64::new(0));
    let memory = Arc::clone(&created);
    let server = Server::start(move |asked, _| match asked.what().as_str() {
        "GET /repos/acme/app/pulls" if memory.load(Ordering::SeqCst) == 0 => Say::json(200, &json!([])),
        "GET /repos/acme/app/pulls" => {
            let labels = json!([{ "name": "kardinal" }, { "name": "Kardinal/Promotion" }]);
            Say::json(200, &json!([with(ours(5), &[("labels", labels)])]))
        }
        "POST /repos/acme/app/pulls" => {
            memory.fetch_add(1, Ordering::SeqCst);
            Say::json(201, &ours(5))
        }
        "POST /repos/acme/app/issues/5/labels" => Say::json(200, &json!([])),
        other => refused(500, other),
    })
    .await;
    let forge = forge(&server);
    let first = forge.create(&new_pull_request()).await.unwrap();
    let second = forge.create(&new_pull_request()).await.unwrap();
    assert_eq!(first, second);
    assert_eq!((first.number, first.state, first.merge_commit), (5, PullRequestState::Open, None));
    assert_eq!(created.load(Ordering::SeqCst), 1);
    let asked = server.asked();
    assert_eq!(
        server.log(),
        [
            "GET /repos/acme/app/pulls",
            "POST /repos/acme/app/pulls",
            "POST /repos/acme/app/issues/5/labels",
            "GET /repos/acme/app/pulls"
        ]
    );
    assert_eq!(asked[1].body["head"], HEAD);
    assert_eq!(asked[2].body, json!({ "labels": ["kardinal", "kardinal/promotion"] }));
}

#[tokio::test]
async fn one_that_exists_already_is_found() {
    // The list is behind: it shows the pull request only after the refusal.
    let server = Server::start(|asked, before| match asked.what().as_str() {
        "GET /repos/acme/app/pulls" if before == 0 => Say::json(200, &json!([])),
        "GET /repos/acme/app/pulls" => Say::json(200, &json!([ours(5)])),
        "POST /repos/acme/app/pulls" => already_exists(),
        _ => Say::json(200, &json!([])),
    })
    .await;
    assert_eq!(forge(&server).create(&new_pull_request()).await.unwrap().number, 5);
}

#[tokio::test]
async fn one_that_is_not_ours_is_a_problem_and_one_that_is_not_visible_yet_is_a_fault() {
    let server = Server::start(|asked, before| match asked.what().as_str() {
        "GET /repos/acme/app/pulls" if before == 0 => Say::json(200, &json!([])),
        "GET /repos/acme/app/pulls" => Say::json(200, &json!([pull(9, HEAD, "by hand")])),
        _ => already_exists(),
    })
    .await;
    let message = problem(forge(&server).create(&new_pull_request()).await.unwrap_err());
    assert!(message.contains("#9") && message.contains("close it"), "{message}");

    let server = Server::start(|asked, _| match asked.method.as_str() {
        "GET" => Say::json(200, &json!([])),
        _ => already_exists(),
    })
    .await;
    fault(forge(&server).create(&new_pull_request()).await.unwrap_err());
}

#[tokio::test]
async fn an_unknown_head_may_appear_and_an_unknown_base_does_not() {
    for (field, is_fault) in [("head", true), ("base", false)] {
        let server = Server::start(move |asked, _| match asked.method.as_str() {
            "GET" => Say::json(200, &json!([])),
            _ => Say::json(
                422,
                &json!({ "message": "Validation Failed",
                         "errors": [{ "resource": "PullRequest", "field": field, "code": "invalid" }] }),
            ),
        })
        .await;
        let error = forge(&server).create(&new_pull_request()).await.unwrap_err();
        if is_fault {
            fault(error);
        } else {
            assert!(problem(error).contains("`main`"));
        }
    }
}

#[tokio::test]
async fn labels_that_may_not_be_added_do_not_stop_the_pull_request() {
    let server = Server::start(|asked, _| match asked.what().as_str() {
        "GET /repos/acme/app/pulls" => Say::json(200, &json!([])),
        "POST /repos/acme/app/pulls" => Say::json(201, &ours(5)),
        _ => refused(403, "Resource not accessible by personal access token"),
    })
    .await;
    assert_eq!(forge(&server).create(&new_pull_request()).await.unwrap().number, 5);
}

#[tokio::test]
async fn a_number_that_is_not_known_yet_is_a_fault_but_a_missing_repository_is_a_problem() {
    let server = Server::start(|asked, _| match asked.what().as_str() {
        "GET /repos/acme/app" => Say::json(200, &json!({ "full_name": "acme/app" })),
        _ => refused(404, "Not Found"),
    })
    .await;
    let (message, _) = fault(forge(&server).get(5).await.unwrap_err());
    assert!(message.contains("#5"), "{message}");
    fault(forge(&server).comment(5, "hello").await.unwrap_err());
    fault(forge(&server).close(5, None).await.unwrap_err());
    fault(
        forge(&server)
            .update(5, &Changes { title: Some("t".to_owned()), ..Changes::default() })
            .await
            .unwrap_err(),
    );
    let server = Server::start(|_, _| refused(404, "Not Found")).await;
    let message = problem(forge(&server).get(5).await.unwrap_err());
    assert!(message.contains("`acme/app`") && message.contains("spec.git.url"), "{message}");
}

#[tokio::test]
async fn get_knows_who_approves() {
    let server = Server::start(|asked, _| match asked.what().as_str() {
        "GET /repos/acme/app/pulls/5" => Say::json(200, &with(ours(5), &[("mergeable", json!(true))])),
        _ => {
            let of = |user: &str, state: &str, at: &str, commit: &str| {
                json!({ "user": { "login": user }, "state": state, "submitted_at": at, "commit_id": commit })
            };
            let review = |user: &str, state: &str, at: &str| of(user, state, at, SHA);
            Say::json(
                200,
                &json!([
                    review("alice", "APPROVED", "2026-11-01T10:00:00Z"),
                    review("alice", "COMMENTED", "2026-11-01T11:00:00Z"),
                    review("bob", "APPROVED", "2026-11-01T10:00:00Z"),
                    review("bob", "CHANGES_REQUESTED", "2026-11-01T12:00:00Z"),
                    review("carol", "DISMISSED", "2026-11-01T10:00:00Z"),
                    of("dave", "APPROVED", "2026-11-01T10:00:00Z", "0".repeat(40).as_str()),
                    { "user": { "login": "erin" }, "state": "APPROVED", "commit_id": null },
                    { "user": null, "state": "APPROVED", "submitted_at": "2026-11-01T10:00:00Z" },
                ]),
            )
        }
    })
    .await;
    let forge = forge(&server);
    let found = forge.get(5).await.unwrap();
    assert_eq!((found.approved_by, found.mergeable), (vec!["alice".to_owned()], Some(true)));
}

#[tokio::test]
async fn get_knows_who_closed_it_where_the_token_may_read_that() {
    for (issue, who) in [(200, Some("bob")), (403, None)] {
        let server = Server::start(move |asked, _| match asked.what().as_str() {
            "GET /repos/acme/app/pulls/5" => {
                let closed = [("state", json!("closed")), ("closed_at", json!("2026-11-02T10:00:00Z"))];
                Say::json(200, &with(ours(5), &closed))
            }
            "GET /repos/acme/app/issues/5" => Say::json(
                issue,
                &json!({ "closed_by": { "login": "bob" }, "message": "Resource not accessible" }),
            ),
            _ => Say::json(200, &json!([])),
        })
        .await;
        let found = forge(&server).get(5).await.unwrap();
        assert_eq!(found.closed_at, "2026-11-02T10:00:00Z".parse().ok());
        assert_eq!(found.closed_by.as_deref(), who);
    }
}

#[tokio::test]
async fn a_merge_names_the_commit_and_a_way_that_the_repository_allows() {
    let is_merged = AtomicBool::new(false);
    let server = Server::start(move |asked, _| match asked.what().as_str() {
        "GET /repos/acme/app" => {
            Say::json(200, &json!({ "allow_merge_commit": false, "allow_squash_merge": true }))
        }
        "PUT /repos/acme/app/pulls/5/merge" => {
            is_merged.store(true, Ordering::SeqCst);
            Say::json(200, &json!({ "merged": true }))
        }
        _ if is_merged.load(Ordering::SeqCst) => {
            let merged = [
                ("state", json!("closed")),
                ("merged_at", json!("2026-11-02T10:00:00Z")),
                ("merged_by", json!({ "login": "alice" })),
            ];
            Say::json(200, &with(ours(5), &merged))
        }
        _ => Say::json(200, &ours(5)),
    })
    .await;
    let merged = forge(&server).merge(5, "1111", "main").await.unwrap();
    assert_eq!((merged.state, merged.merged_by.as_deref()), (PullRequestState::Merged, Some("alice")));
    assert!(merged.merge_commit.is_some());
    let asked = server.asked();
    assert_eq!(
        asked[1].what(),
        "GET /repos/acme/app/pulls/5",
        "where it goes is read right before the merge"
    );
    assert_eq!(asked[2].body, json!({ "sha": "1111", "merge_method": "squash" }));
}

#[tokio::test]
async fn a_pull_request_that_was_pointed_at_another_branch_is_not_merged() {
    let server = Server::start(|asked, _| match asked.what().as_str() {
        "GET /repos/acme/app" => Say::json(200, &json!({})),
        _ => Say::json(200, &ours(5)),
    })
    .await;
    let refusal = forge(&server).merge(5, "1111", "release").await.unwrap_err().to_string();
    assert!(refusal.contains("goes into `main` by now instead of `release`"), "{refusal}");
    assert!(server.asked().iter().all(|asked| !asked.what().starts_with("PUT")));
}

#[tokio::test]
async fn a_refused_merge_is_told_apart() {
    let cases = [
        (405, "At least 1 approving review is required.", false),
        (405, "Base branch was modified. Review and try the merge again.", true),
        (409, "Head branch was modified. Review and try the merge again.", true),
        (403, "Resource not accessible by personal access token", false),
    ];
    for (status, message, is_fault) in cases {
        let server = Server::start(move |asked, _| match asked.what().as_str() {
            "GET /repos/acme/app" => Say::json(200, &json!({})),
            "PUT /repos/acme/app/pulls/5/merge" => refused(status, message),
            _ => Say::json(200, &ours(5)),
        })
        .await;
        let error = forge(&server).merge(5, "1111", "main").await.unwrap_err();
        assert_eq!(matches!(error, Error::Fault { .. }), is_fault, "{error:?}");
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[tokio::test]
async fn a_conflict_is_what_the_forge_has_found_and_not_a_word() {
    for (mergeable, message, is_conflict) in [
        (json!(false), "Pull Request is not mergeable", true),
        (json!(true), "Required status check \"conflict-check\" is expected.", false),
        (json!(null), "Required status check \"conflict-check\" is expected.", false),
    ] {
        let server = Server::start(move |asked, _| match asked.what().as_str() {
            "GET /repos/acme/app" => Say::json(200, &json!({})),
            "PUT /repos/acme/app/pulls/5/merge" => refused(405, message),
            _ => Say::json(200, &with(ours(5), &[("mergeable", mergeable.clone())])),
        })
        .await;
        let error = forge(&server).merge(5, "1111", "main").await.unwrap_err();
        assert_eq!(matches!(error, Error::Conflict { certain: true, .. }), is_conflict, "{error:?}");
        assert!(is_conflict || matches!(error, Error::Problem { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn update_close_comment_and_status_say_what_they_should() {
    let server = Server::start(|asked, _| match asked.method.as_str() {
        "GET" => Say::json(200, &ours(5)),
        _ => Say::json(200, &json!({})),
    })
    .await;
    let forge = forge(&server);
    forge.update(5, &Changes { body: Some("new".to_owned()), ..Changes::default() }).await.unwrap();
    forge.update(5, &Changes::default()).await.unwrap();
    forge.close(5, Some("superseded")).await.unwrap();
    let status = CommitStatus {
        context: "kardinal/prod".to_owned(),
        state: CommitState::Success,
        description: "ä".repeat(200),
        url: None,
    };
    forge.set_status("1111", &status).await.unwrap();
    assert_eq!(
        server.log(),
        [
            "PATCH /repos/acme/app/pulls/5",
            "GET /repos/acme/app/pulls/5",
            "POST /repos/acme/app/issues/5/comments",
            "PATCH /repos/acme/app/pulls/5",
            "POST /repos/acme/app/statuses/1111",
        ]
    );
    let asked = server.asked();
    assert_eq!(asked[0].body, json!({ "body": "new" }));
    assert_eq!(asked[2].body, json!({ "body": "superseded" }));
    assert_eq!(asked[3].body, json!({ "state": "closed" }));
    assert_eq!(asked[4].body["state"], "success");
    assert_eq!(asked[4].body["description"].as_str().unwrap().chars().count(), 140);
}

#[tokio::test]
async fn one_that_is_closed_already_is_left_alone() {
    let server = Server::start(|_, _| Say::json(200, &with(ours(5), &[("state", json!("closed"))]))).await;
    forge(&server).close(5, Some("superseded")).await.unwrap();
    assert_eq!(server.log(), ["GET /repos/acme/app/pulls/5"]);
}

#[tokio::test]
async fn a_refused_token_is_a_problem_that_names_the_secret() {
    let server = Server::start(|_, _| refused(401, "Bad credentials")).await;
    let message = problem(forge(&server).get(5).await.unwrap_err());
    assert!(message.contains("Bad credentials") && message.contains("spec.git.secretRef"), "{message}");

    let server = Server::start(|_, _| refused(403, "Resource not accessible by personal access token")).await;
    let message = problem(forge(&server).create(&new_pull_request()).await.unwrap_err());
    assert!(message.contains("Pull requests: write"), "{message}");
}

#[tokio::test]
async fn a_token_never_shows_even_if_the_server_repeats_it() {
    for status in [401, 403, 404, 422, 500] {
        let server = Server::start(move |_, _| refused(status, &format!("no good: {TOKEN}"))).await;
        for error in [
            forge(&server).find(HEAD, "main", MARKER, None).await.unwrap_err(),
            forge(&server).create(&new_pull_request()).await.unwrap_err(),
            forge(&server).merge(5, "1111", "main").await.unwrap_err(),
        ] {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(TOKEN), "{shown}");
        }
    }
}

#[test]
fn providers_without_pull_requests_here_are_named() {
    let error = open(GitProvider::Bitbucket, "https://b.example/a/b", &token(), None, &http()).err().unwrap();
    assert!(problem(error).contains("`bitbucket`"));
}
