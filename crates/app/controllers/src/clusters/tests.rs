//! Secrets that lead to clusters, and clusters that go away.

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kardinal_apiserver::{Options, ServeHandle, Server};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::*;

/// A clock that stands still until it is told to move.
struct Hands(watch::Sender<Timestamp>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
        let mut hands = self.0.subscribe();
        Box::pin(async move {
            // A clock that is gone moves no more.
            if hands.wait_for(|now| *now >= instant).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

struct Bench {
    own: Server,
    clock: Arc<Hands>,
    clusters: Clusters,
    changes: tokio::sync::Mutex<UnboundedReceiver<Change>>,
}

impl Bench {
    async fn new() -> Bench {
        let own = Server::start(Options::default()).await.unwrap();
        let clock = Arc::new(Hands(watch::Sender::new("2026-04-14T14:00:00Z".parse().unwrap())));
        let (sender, changes) = mpsc::unbounded_channel();
        let clusters = Clusters::new(
            own.client("default"),
            clock.clone(),
            Policy::machine(kardinal_reach::Hosts::default()),
            sender,
            CancellationToken::new(),
        );
        Bench { own, clock, clusters, changes: tokio::sync::Mutex::new(changes) }
    }

    fn pass(&self, seconds: i64) {
        self.clock.0.send_modify(|now| *now += SignedDuration::from_secs(seconds));
    }

    /// Looks again whenever a change is told, until it is so.
    async fn told(&self, what: &str, mut so: impl FnMut() -> bool) {
        let mut changes = self.changes.lock().await;
        let told = async {
            while !so() {
                changes.recv().await.unwrap();
            }
        };
        in_time(what, told).await;
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.own.client("default"), "default")
    }

    async fn keep(&self, kubeconfig: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": kubeconfig}});
        let params = PatchParams::apply("test").force();
        self.secrets().patch("eu", &params, &Patch::Apply(secret)).await.unwrap();
    }

    async fn reach(&self) -> Result<Arc<Remote>, Unknown> {
        self.clusters.reach("default", "eu").await
    }
}

async fn cluster() -> (Server, ServeHandle) {
    let server = Server::start(Options::default()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle = server.serve(listener).await.unwrap();
    (server, handle)
}

fn deployments() -> Gvk {
    Gvk::parse("apps/v1", "Deployment").unwrap()
}

/// Waits for something. Only a failing test waits long.
async fn in_time<T>(what: &str, event: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(60);
    tokio::time::timeout(bound, event).await.unwrap_or_else(|_| panic!("{what}: still not so"))
}

fn problem(found: Result<Arc<Remote>, Unknown>) -> String {
    match found {
        Err(Unknown::Problem(problem)) => problem,
        Err(Unknown::Unreachable(why)) => panic!("unreachable: {why}"),
        Ok(_) => panic!("it was reached"),
    }
}

#[tokio::test]
async fn a_changed_kubeconfig_secret_is_used_without_a_restart_and_the_watches_of_one_that_is_gone_end() {
    let bench = Bench::new().await;
    assert!(problem(bench.reach().await).contains("create it with the key `kubeconfig`"));
    let ((_one, first), (_two, second)) = (cluster().await, cluster().await);
    bench.keep(first.kubeconfig()).await;
    let old = bench.reach().await.ok().unwrap();
    old.watches.ensure(&deployments());
    bench.told("the first cluster is listed", || old.watches.view([&deployments()]).synced()).await;
    assert!(Arc::ptr_eq(&old, &bench.reach().await.ok().unwrap()), "it is kept");
    // The Secret leads elsewhere now.
    bench.keep(second.kubeconfig()).await;
    bench.pass(11);
    let new = bench.reach().await.ok().unwrap();
    assert!(!Arc::ptr_eq(&old, &new) && old.stop.is_cancelled() && !new.stop.is_cancelled());
    bench.pass(11);
    assert!(
        Arc::ptr_eq(&new, &bench.reach().await.ok().unwrap()),
        "the same Secret leads to the same watches"
    );
    // The Secret is gone.
    bench.secrets().delete("eu", &DeleteParams::default()).await.unwrap();
    bench.pass(11);
    problem(bench.reach().await);
    assert!(new.stop.is_cancelled() && lock(&bench.clusters.known).is_empty());
    // Nobody looks any more.
    bench.keep(first.kubeconfig()).await;
    let idle = bench.reach().await.ok().unwrap();
    bench.pass(301);
    in_time("idle watches end", idle.stop.cancelled()).await;
    assert!(lock(&bench.clusters.known).is_empty());
}

#[tokio::test]
async fn a_cluster_that_went_away_is_known_to_be_lost() {
    let bench = Bench::new().await;
    let (server, handle) = cluster().await;
    bench.keep(handle.kubeconfig()).await;
    let remote = bench.reach().await.ok().unwrap();
    remote.watches.ensure(&deployments());
    bench.told("it is listed", || remote.watches.view([&deployments()]).synced()).await;
    let reached = || remote.reached(&deployments(), "prod", bench.clock.now());
    bench.told("the cluster answers", || matches!(reached(), Reached::Yes)).await;
    assert_eq!(remote.watches.view([&deployments()]).lost([&deployments()]), None);
    let address = handle.local_addr();
    handle.stop().await;
    server.shutdown().await;
    // Whoever calls now is the watch, which has found out and tries again.
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    drop(in_time("its watch tries again", listener.accept()).await.unwrap());
    drop(listener);
    // What was seen is still there, and the watch says that it may be old.
    let view = remote.watches.view([&deployments()]);
    assert!(view.synced() && view.lost([&deployments()]).is_some());
    bench.pass(11);
    bench.told("it does not answer", || matches!(reached(), Reached::No(_))).await;
}

#[tokio::test]
async fn a_kubeconfig_from_a_secret_runs_nothing_and_reads_no_file() {
    let bench = Bench::new().await;
    let dir = tempfile::tempdir().unwrap();
    let (touched, token) = (dir.path().join("touched"), dir.path().join("token"));
    std::fs::write(&token, "a secret of the controller").unwrap();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let server = format!("https://{}", stranger.local_addr().unwrap());
    let users = [
        (
            "exec",
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch",
            "args": [&touched], "interactiveMode": "Never"}}),
        ),
        ("tokenFile", json!({"tokenFile": &token})),
        ("client-key", json!({"client-certificate-data": "QQ==", "client-key": &token})),
    ];
    for (field, user) in users {
        let config = json!({
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        });
        bench.keep(&config.to_string()).await;
        let why = problem(bench.reach().await);
        assert!(why.contains(&format!("`users[0].user.{field}` is not permitted")), "{why}");
        assert!(!why.contains("touched") && !why.contains("a secret"), "{why}");
    }
    assert!(!touched.exists(), "the command was run");
    assert!(stranger.accept().is_err(), "somebody called the stranger");
}

#[tokio::test]
async fn a_server_whose_name_leads_elsewhere_by_now_is_not_connected_to() {
    let bench = Bench::new().await;
    let (_server, handle) = cluster().await;
    let port = handle.kubeconfig().split("https://127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let moved = handle.kubeconfig().replace(&format!("127.0.0.1:{port}"), &format!("localhost:{port}"));
    bench.keep(&moved).await;
    let way =
        read(&bench.own.client("default"), &("default".to_owned(), "eu".to_owned())).await.ok().unwrap();
    let on_a_cluster = Policy::cluster(kardinal_reach::Hosts::default());
    // The name was judged when it led somewhere else; only the connection can tell.
    let error = connect(&way, &on_a_cluster).await.unwrap().apiserver_version().await.unwrap_err();
    let refused = Refused::within(&error).unwrap_or_else(|| panic!("{error:?}"));
    assert!(refused.to_string().contains("this machine itself"), "{refused}");
}
