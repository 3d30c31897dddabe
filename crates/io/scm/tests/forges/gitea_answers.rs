//! Answers of Gitea that the real one of the tests does not give.

use kardinal_api::kardinal::GitProvider;
use kardinal_scm::{CommitState, CommitStatus, Error, NewPullRequest, PullRequestState, open};
use serde_json::{Value, json};

use crate::server::{HEAD, MARKER, Say, Server, http, token};

fn pull(number: u64, state: &str, body: &str) -> Value {
    json!({
        "number": number,
        "html_url": format!("https://git.example/acme/app/pulls/{number}"),
        "state": state,
        "body": body,
        "labels": null,
        "merged": false,
        "mergeable": false,
        "head": { "label": HEAD, "ref": HEAD, "sha": "1111", "repo_id": 1 },
        "base": { "label": "main", "ref": "main", "sha": "2222", "repo_id": 1 },
    })
}

fn promotion() -> NewPullRequest {
    NewPullRequest {
        head: HEAD.to_owned(),
        base: "main".to_owned(),
        title: "title".to_owned(),
        body: MARKER.to_owned(),
        labels: Vec::new(),
        marker: MARKER.to_owned(),
        since: None,
    }
}

#[tokio::test]
async fn a_server_that_cannot_look_up_a_branch_is_listed() {
    let server = Server::start(|asked, _| match asked.what().as_str() {
        "GET /api/v1/repos/acme/app/pulls" if asked.path.ends_with("page=1") => {
            Say::json(200, &json!([pull(4, "closed", MARKER)]))
        }
        "GET /api/v1/repos/acme/app/pulls" => Say::json(200, &json!([])),
        _ => Say { status: 404, headers: Vec::new(), body: "404 page not found\n".to_owned() },
    })
    .await;
    let forge = open(GitProvider::Forgejo, &server.repository(), &token(), None, &http()).unwrap();
    let known = forge.create(&promotion()).await.unwrap();
    assert_eq!((known.number, known.state), (4, PullRequestState::Closed));
    assert_eq!(known.mergeable, None, "`false` also means that it has not looked yet");
    assert!(server.log().iter().all(|what| what.starts_with("GET ")), "{:?}", server.log());
}

#[tokio::test]
async fn pages_end_without_a_count_and_without_links() {
    let server = Server::start(|asked, _| {
        let page = |number| asked.path.ends_with(&format!("page={number}"));
        let items = match () {
            () if page(1) => json!([pull(3, "open", ""), pull(2, "open", "")]),
            () if page(2) => json!([pull(1, "open", MARKER)]),
            () => json!([]),
        };
        Say::json(200, &items)
    })
    .await;
    let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
    assert_eq!(forge.find(HEAD, "main", MARKER, None).await.unwrap().unwrap().number, 1);
    assert_eq!(forge.find(HEAD, "main", "another", None).await.unwrap(), None);
    assert_eq!(server.log().len(), 3 + 3);
}

#[tokio::test]
async fn a_merge_counts_before_what_is_open_and_the_first_before_later_ones() {
    let merged = |number| {
        let mut pull = pull(number, "closed", MARKER);
        pull["merged"] = json!(true);
        pull
    };
    let (open_one, closed) = (|number| pull(number, "open", MARKER), |number| pull(number, "closed", MARKER));
    for (first, second, counts) in [
        (json!([open_one(9)]), json!([merged(5), closed(4)]), 5),
        (json!([merged(9), open_one(8)]), json!([merged(5)]), 5),
        (json!([open_one(9)]), json!([open_one(8), closed(4)]), 8),
        (json!([closed(9)]), json!([closed(8)]), 8),
    ] {
        let server = Server::start(move |asked, _| match asked.path.rsplit("page=").next() {
            Some("1") => Say::json(200, &first),
            Some("2") => Say::json(200, &second),
            _ => Say::json(200, &json!([])),
        })
        .await;
        let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
        assert_eq!(forge.find(HEAD, "main", MARKER, None).await.unwrap().unwrap().number, counts);
        assert_eq!(forge.create(&promotion()).await.unwrap().number, counts);
        assert!(server.log().iter().all(|what| what.starts_with("GET ")), "{:?}", server.log());
    }
}

#[tokio::test]
async fn switched_off_pull_requests_are_a_problem() {
    let server = Server::start(|asked, _| match asked.path.contains("/pulls") {
        true => Say::json(404, &json!({ "message": "not found" })),
        false => Say::json(200, &json!({})),
    })
    .await;
    let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
    let error = forge.create(&promotion()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message, .. } if message.contains("pull requests")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_conflict_is_told_apart_from_other_refusals_to_merge() {
    let later = json!({ "message": "Please try again later" });
    let git = json!({ "Style": "merge", "StdOut": "CONFLICT (content)", "StdErr": "", "Err": {} });
    let moved = json!({ "message": "merge push out of date" });
    let hook = json!({ "message": "remote: no conflict-x here" });
    let is = |error: &Error| match error {
        Error::Conflict { certain: true, .. } => "conflict",
        Error::Conflict { certain: false, .. } => "perhaps",
        Error::Fault { .. } => "fault",
        Error::Problem { .. } => "problem",
        Error::Limited { .. } => "limited",
        Error::Absent(_) => "absent",
    };
    for (status, said, wanted) in [
        (405, later, "perhaps"),
        (405, json!({ "message": "User not allowed to merge PR" }), "problem"),
        (409, git, "conflict"),
        (409, moved, "fault"),
        (409, hook, "problem"),
    ] {
        let server = Server::start(move |asked, _| match asked.what().as_str() {
            "GET /api/v1/repos/acme/app" => Say::json(200, &json!({})),
            "POST /api/v1/repos/acme/app/pulls/4/merge" => Say::json(status, &said),
            _ => Say::json(200, &pull(4, "open", MARKER)),
        })
        .await;
        let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
        let error = forge.merge(4, "1111", "main").await.unwrap_err();
        assert_eq!(is(&error), wanted, "{error:?}");
    }
}

#[tokio::test]
async fn a_forge_that_never_ends_does_not_decide_how_much_memory_we_take() {
    // Each page is within the limit of one answer, and there is always another one.
    let name = "x".repeat(3 << 20);
    let server = Server::start(move |asked, _| match asked.what().as_str() {
        "GET /api/v1/repos/acme/app/labels" => Say::json(200, &json!([{ "id": 1, "name": name }])),
        "GET /api/v1/repos/acme/app/pulls" => Say::json(200, &json!([])),
        _ => Say { status: 404, headers: Vec::new(), body: "404 page not found\n".to_owned() },
    })
    .await;
    let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
    let new = NewPullRequest { labels: vec!["kardinal".to_owned()], ..promotion() };
    let error = forge.create(&new).await.unwrap_err();
    let Error::Fault { message, .. } = &error else { panic!("{error:?}") };
    assert!(message.contains("has more than 8 MiB to say"), "{message}");
    let pages = server.log().iter().filter(|what| what.ends_with("/labels")).count();
    assert_eq!(pages, 3, "{:?}", server.log());
}

#[tokio::test]
async fn a_commit_that_the_forge_does_not_have_is_absent_however_the_forge_says_it() {
    for (status, lacks) in [(422, true), (500, true), (404, true), (422, false), (403, true)] {
        let server = Server::start(move |asked, _| match asked.what().as_str() {
            "POST /api/v1/repos/acme/app/statuses/1111" => Say::json(status, &json!({ "message": "no" })),
            "GET /api/v1/repos/acme/app/git/commits/1111" if lacks && status != 403 => {
                Say::json(404, &json!({}))
            }
            "GET /api/v1/repos/acme/app/git/commits/1111" if status == 403 => Say::json(403, &json!({})),
            _ => Say::json(200, &json!({})),
        })
        .await;
        let forge = open(GitProvider::Gitea, &server.repository(), &token(), None, &http()).unwrap();
        let shown = CommitStatus {
            context: "kardinal/gates/main".to_owned(),
            state: CommitState::Pending,
            description: "no".to_owned(),
            url: None,
        };
        let error = forge.set_status("1111", &shown).await.unwrap_err();
        let absent = matches!(error, Error::Absent(_));
        assert_eq!(absent, lacks && status != 403, "{status} {lacks}: {error:?}");
    }
}
