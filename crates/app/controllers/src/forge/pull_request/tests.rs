//! Pull requests of several repositories, with the controller at work on an API server in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kardinal_api::forge::{PullRequest, PullRequestSpec};
use kube::Api;
use kube::api::PostParams;

use super::Kind;
use crate::LocalForge;
use crate::reconcile::routes::tests::bench::{AtWork, Bench, TEAM};

/// So many passes are made at a time in one namespace.
const PLACES: usize = 8;
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn pull_request(repository: &str, name: &str) -> PullRequest {
    let (base, head) = ("main".to_owned(), name.to_owned());
    let spec = PullRequestSpec {
        repository: repository.to_owned(),
        title: "t".to_owned(),
        base,
        head,
        ..PullRequestSpec::default()
    };
    PullRequest::new(name, spec)
}

/// Waits until as many pull requests as expected were heard of whose names begin like this and that are so.
async fn heard(
    at_work: &mut AtWork<Kind>,
    start: &str,
    expected: usize,
    is_so: impl Fn(&PullRequest) -> bool,
) -> Vec<PullRequest> {
    let mut all = BTreeMap::new();
    while all.len() < expected {
        let object = tokio::time::timeout(PATIENCE, at_work.heard()).await;
        let request: PullRequest = object.unwrap_or_else(|_| panic!("only {} of `{start}`", all.len()));
        let name = request.metadata.name.clone().unwrap();
        if name.starts_with(start) && is_so(&request) {
            all.insert(name, request);
        }
    }
    all.into_values().collect()
}

fn number(request: &PullRequest) -> Option<u64> {
    request.status.as_ref().and_then(|status| status.number)
}

#[tokio::test]
async fn a_busy_repository_keeps_no_other_one_of_its_namespace_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(kardinal_forge::Store::new(folder.path()));
    let local = LocalForge { store, url: "http://forge.test/git/".to_owned() };
    let mut at_work = Bench::new(|context| Kind::new(context, local)).await.start(PLACES);
    let api: Api<PullRequest> = Api::namespaced(at_work.client.clone(), TEAM);
    let open = async |repository: &str, name: &str| {
        api.create(&PostParams::default(), &pull_request(repository, name)).await.unwrap();
    };

    // Somebody works on `busy` and does not come to an end, and more wait for that than there are places.
    let issuer = at_work.kind().issuers.of((TEAM.to_owned(), "busy".to_owned()));
    let turn = issuer.turn().await;
    let many = 3 * PLACES;
    for at in 0..many {
        open("busy", &format!("busy-{at:02}")).await;
    }
    heard(&mut at_work, "busy", many, |_| true).await;
    open("web", "web").await;
    let web = heard(&mut at_work, "web", 1, |request| number(request).is_some()).await;
    let url = web[0].status.as_ref().and_then(|status| status.url.clone());
    assert_eq!(
        (number(&web[0]), url.as_deref()),
        (Some(1), Some("http://forge.test/forge/team/web/pulls/1"))
    );

    drop(turn);
    let busy = heard(&mut at_work, "busy", many, |request| number(request).is_some()).await;
    let mut numbers: Vec<Option<u64>> = busy.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=many as u64).map(Some).collect::<Vec<_>>());
}
