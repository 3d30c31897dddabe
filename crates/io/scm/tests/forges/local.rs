//! The local forge through its objects, on a real API server in memory. The test plays the controller of the forge.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it fails"
)]

use std::sync::Arc;

use kardinal_api::forge as wire;
use kardinal_apiserver::{Options, Server, TokioClock};
use kardinal_scm::local::Local;
use kardinal_scm::{Changes, CommitState, CommitStatus, Error, Forge, NewPullRequest, PullRequestState};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const HEAD: &str = "1111111111111111111111111111111111111111";
const MARKER: &str = "<!-- kardinal-step: 1 -->";

struct World {
    _server: Server,
    objects: Api<wire::PullRequest>,
    forge: Local,
}

impl World {
    async fn new() -> World {
        let clock = Arc::new(TokioClock::starting_at("2030-01-01T00:00:00Z".parse().unwrap()));
        let server = Server::start(Options { clock, seed: Some(1), ..Options::default() }).await.unwrap();
        let client = server.client("default");
        let definitions: Api<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        > = Api::all(client.clone());
        for crd in kardinal_api::crds() {
            let created = definitions.create(&PostParams::default(), &crd).await;
            assert!(created.is_ok() || created.is_err_and(|error| error.to_string().contains("exists")));
        }
        let objects: Api<wire::PullRequest> = Api::namespaced(client.clone(), "default");
        while objects.list(&kube::api::ListParams::default()).await.is_err() {
            tokio::task::yield_now().await;
        }
        let forge = Local::new(client, "http://127.0.0.1:1/git/default/app.git").unwrap();
        World { _server: server, objects, forge }
    }

    /// What the controller of the forge would answer.
    async fn answer(&self, name: &str, status: Value) {
        let params = PatchParams::default();
        let patch = json!({ "status": status });
        self.objects.patch_status(name, &params, &Patch::Merge(&patch)).await.unwrap();
    }

    async fn only(&self) -> wire::PullRequest {
        let all = self.objects.list(&kube::api::ListParams::default()).await.unwrap().items;
        assert_eq!(all.len(), 1);
        all[0].clone()
    }

    /// A pull request that the controller has looked at.
    async fn opened(&self) -> String {
        let told = self.forge.create(&new()).await;
        assert!(matches!(told, Err(Error::Fault { retry_after: Some(_), .. })), "{told:?}");
        let name = self.only().await.metadata.name.unwrap();
        self.answer(&name, json!({ "number": 7, "state": "Open", "url": "http://f/7", "headCommit": HEAD, "mergeable": true }))
            .await;
        name
    }
}

fn new() -> NewPullRequest {
    NewPullRequest {
        head: "kardinal/v2/prod".to_owned(),
        base: "main".to_owned(),
        title: "Promote v2 to prod".to_owned(),
        body: format!("{MARKER}\nwhy"),
        labels: vec!["kardinal".to_owned()],
        marker: MARKER.to_owned(),
        since: None,
    }
}

fn fault<T: std::fmt::Debug>(told: Result<T, Error>) -> String {
    match told {
        Err(Error::Fault { message, retry_after: Some(_) }) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn creating_twice_makes_one_and_it_is_found() {
    let world = World::new().await;
    assert_eq!(world.forge.find("kardinal/v2/prod", "main", MARKER, None).await, Ok(None));
    world.opened().await;
    let created = world.forge.create(&new()).await.unwrap();
    assert_eq!((created.number, created.head.as_str()), (7, HEAD));
    assert_eq!((created.state, created.mergeable), (PullRequestState::Open, Some(true)));
    assert_eq!(world.forge.get(7).await.unwrap(), created);
    assert_eq!(world.forge.find("kardinal/v2/prod", "main", MARKER, None).await.unwrap(), Some(created));
    assert_eq!(world.forge.find("other", "main", MARKER, None).await, Ok(None));
    assert_eq!(
        world.forge.find("kardinal/v2/prod", "main", "<!-- kardinal-step: 2 -->", None).await,
        Ok(None)
    );
    assert!(matches!(world.forge.get(8).await, Err(Error::Absent(_))));
    let spec = world.only().await.spec;
    assert_eq!((spec.author.as_deref(), spec.desired()), (Some("kardinal"), wire::Desired::Open));
}

#[tokio::test]
async fn a_body_without_our_marker_is_not_ours() {
    let world = World::new().await;
    world.opened().await;
    let changes = Changes { body: Some("mine now".to_owned()), ..Changes::default() };
    world.forge.update(7, &changes).await.unwrap();
    let told = world.forge.create(&new()).await;
    assert!(
        matches!(&told, Err(Error::Problem { message, .. }) if message.contains("has lost the line")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_merge_is_asked_for_and_waited_for() {
    let world = World::new().await;
    let name = world.opened().await;
    assert!(fault(world.forge.merge(7, HEAD, "main").await).contains("is being merged"));
    let asked = world.only().await;
    assert_eq!(asked.spec.desired(), wire::Desired::Merged);
    assert_eq!(asked.spec.expected_head.as_deref(), Some(HEAD));
    assert_eq!(asked.spec.merged_by.as_deref(), Some("kardinal"));
    // Asking again writes nothing.
    fault(world.forge.merge(7, HEAD, "main").await);
    assert_eq!(world.only().await.metadata.resource_version, asked.metadata.resource_version);
    let conflict = json!({ "observedGeneration": asked.metadata.generation, "conditions": [{
        "type": "Mergeable", "status": "False", "reason": "Conflicts", "message": "both changed `a`",
        "lastTransitionTime": "2030-01-01T00:00:00Z" }] });
    world.answer(&name, conflict).await;
    let told = world.forge.merge(7, HEAD, "main").await;
    assert!(
        matches!(&told, Err(Error::Conflict { message, certain: true }) if message.contains("both changed `a`")),
        "{told:?}"
    );
    let merged = json!({ "state": "Merged", "mergeCommit": "abc", "mergedBy": "alice", "mergedAt": "2030-01-01T00:00:01Z" });
    world.answer(&name, merged).await;
    let told = world.forge.merge(7, HEAD, "main").await.unwrap();
    assert_eq!(told.state, PullRequestState::Merged);
    assert_eq!((told.merge_commit.as_deref(), told.merged_by.as_deref()), (Some("abc"), Some("alice")));
    // What is merged cannot be closed, and nothing is said.
    world.forge.close(7, Some("bye")).await.unwrap();
    assert_eq!(world.only().await.spec.comments, []);
}

#[tokio::test]
async fn closing_says_why_once() {
    let world = World::new().await;
    let name = world.opened().await;
    for _ in 0..2 {
        assert!(fault(world.forge.close(7, Some("superseded")).await).contains("is being closed"));
    }
    world.answer(&name, json!({ "state": "Closed" })).await;
    world.forge.close(7, Some("superseded")).await.unwrap();
    let spec = world.only().await.spec;
    assert_eq!((spec.desired(), spec.comments.len()), (wire::Desired::Closed, 1));
    assert_eq!(spec.comments[0].body, "superseded");
}

#[tokio::test]
async fn labels_are_added_and_comments_said_once() {
    let world = World::new().await;
    let name = world.opened().await;
    let theirs = json!({ "spec": { "labels": ["kardinal", "urgent"] } });
    world.objects.patch(&name, &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    let labels = Some(vec!["kardinal".to_owned(), "kardinal/rollback".to_owned()]);
    let changes = Changes { title: Some("t".to_owned()), labels, ..Changes::default() };
    for _ in 0..2 {
        world.forge.update(7, &changes).await.unwrap();
        world.forge.comment(7, "hello").await.unwrap();
    }
    world.forge.comment(7, "again").await.unwrap();
    let spec = world.only().await.spec;
    assert_eq!(spec.labels, ["kardinal", "urgent", "kardinal/rollback"]);
    assert_eq!((spec.title.as_str(), spec.body.as_str()), ("t", "<!-- kardinal-step: 1 -->\nwhy"));
    assert_eq!(
        spec.comments.iter().map(|comment| comment.body.as_str()).collect::<Vec<_>>(),
        ["hello", "again"]
    );
}

#[tokio::test]
async fn approvals_are_read() {
    let world = World::new().await;
    let name = world.opened().await;
    let reviews = json!({ "spec": { "reviews": [
        { "author": "alice", "verdict": "approved", "at": "2030-01-01T00:00:00Z", "commit": HEAD },
        { "author": "bob", "verdict": "approved", "commit": "2".repeat(40) },
        { "author": "carol", "verdict": "approved" },
        { "author": "other", "verdict": "changes-requested", "commit": HEAD },
    ] } });
    world.objects.patch(&name, &PatchParams::default(), &Patch::Merge(&reviews)).await.unwrap();
    let approved_by = world.forge.get(7).await.unwrap().approved_by;
    assert_eq!(approved_by, ["alice"], "bob's was for another commit; carol's for nobody knows which");
}

#[tokio::test]
async fn the_newest_status_of_a_context_counts() {
    let world = World::new().await;
    world.opened().await;
    let status = |state| CommitStatus {
        context: "kardinal/gates".to_owned(),
        state,
        description: "d".to_owned(),
        url: None,
    };
    world.forge.set_status(HEAD, &status(CommitState::Pending)).await.unwrap();
    world.forge.set_status(HEAD, &status(CommitState::Success)).await.unwrap();
    world.forge.set_status(&"2".repeat(40), &status(CommitState::Pending)).await.unwrap();
    let checks = world.only().await.spec.checks;
    assert_eq!((checks.len(), checks[0].state), (1, wire::CheckState::Success));
    assert_eq!(checks[0].commit.as_deref(), Some(HEAD));
}

/// A check that is green must be taken back, whatever else there is in the repository.
#[tokio::test]
async fn a_pull_request_that_nobody_has_looked_at_keeps_no_other_from_being_marked() {
    let world = World::new().await;
    let name = world.opened().await;
    let spec = wire::PullRequestSpec {
        repository: "app".to_owned(),
        head: "a..b".to_owned(),
        base: "main".to_owned(),
        title: "t".to_owned(),
        ..wire::PullRequestSpec::default()
    };
    world.objects.create(&PostParams::default(), &wire::PullRequest::new("odd", spec)).await.unwrap();
    let pending = CommitStatus {
        context: "kardinal/gates".to_owned(),
        state: CommitState::Pending,
        description: String::new(),
        url: None,
    };
    world.forge.set_status(HEAD, &pending).await.unwrap();
    let checks = world.objects.get(&name).await.unwrap().spec.checks;
    assert_eq!((checks.len(), checks[0].state), (1, wire::CheckState::Pending));
    // Where nobody is at the commit, it may be the one: it is waited for.
    assert!(fault(world.forge.set_status(&"2".repeat(40), &pending).await).contains("nobody has looked at"));
}

/// Many writers at once: each word is kept.
#[tokio::test]
async fn nobody_is_overwritten() {
    let world = World::new().await;
    world.opened().await;
    let words: Vec<String> = (0..6).map(|n| format!("word {n}")).collect();
    let said = futures::future::join_all(words.iter().map(|word| world.forge.comment(7, word))).await;
    let kept = world.only().await.spec.comments.len();
    assert_eq!(said.iter().filter(|told| told.is_ok()).count(), kept);
    for word in &words {
        world.forge.comment(7, word).await.unwrap();
    }
    assert_eq!(world.only().await.spec.comments.len(), words.len());
}

#[tokio::test]
async fn an_address_that_is_no_place_is_refused_without_its_password() {
    let world = World::new().await;
    let client = world.objects.clone().into_client();
    let told = Local::new(client, "https://u:s3cret@github.com/o/r.git").err().expect("refused");
    assert!(matches!(&told, Error::Problem { message, .. } if !message.contains("s3cret")), "{told:?}");
}
