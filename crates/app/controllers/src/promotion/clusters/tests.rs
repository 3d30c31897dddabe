//! Secrets that lead to clusters, and clusters that go away.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kardinal_apiserver::{Options, ServeHandle, Server};
use kardinal_promotion::health::Login;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
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
        Bench::with(Policy::machine(kardinal_reach::Hosts::default())).await
    }

    /// With what the operator permits to reach.
    async fn with(policy: Policy) -> Bench {
        let own = Server::start(Options::default()).await.unwrap();
        let clock = Arc::new(Hands(watch::Sender::new("2026-04-14T14:00:00Z".parse().unwrap())));
        let (sender, changes) = mpsc::unbounded_channel();
        let clusters =
            Clusters::new(own.client("default"), clock.clone(), policy, sender, CancellationToken::new());
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

    /// Says where the Secret may be sent.
    async fn annotate(&self, hosts: &str) {
        let patch = json!({"metadata": {"annotations": {"kardinal.io/hosts": hosts}}});
        self.secrets().patch("eu", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn reach(&self) -> Result<Arc<Remote>, Unknown> {
        self.clusters.reach("default", "eu").await
    }
}

async fn cluster() -> (Server, ServeHandle) {
    let server = Server::start(Options::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
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
        Err(Unknown::Problem { message, .. }) => message,
        Err(Unknown::Unreachable { why, .. }) => panic!("unreachable: {why}"),
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
    let listener = TcpListener::bind(address).await.unwrap();
    drop(in_time("its watch tries again", listener.accept()).await.unwrap());
    drop(listener);
    // What was seen is still there, and the watch says that it may be old.
    let view = remote.watches.view([&deployments()]);
    assert!(view.synced() && view.lost([&deployments()]).is_some());
    bench.pass(11);
    bench.told("it does not answer", || matches!(reached(), Reached::No(_))).await;
}

#[tokio::test]
async fn a_cluster_that_refuses_the_token_tells_its_code() {
    let bench = Bench::new().await;
    let (_server, handle) = cluster().await;
    let is_token = |line: &&str| line.trim_start().starts_with("token:");
    let token = handle.kubeconfig().lines().find(is_token).unwrap();
    bench.keep(&handle.kubeconfig().replace(token, "    token: another")).await;
    let remote = bench.reach().await.ok().unwrap();
    remote.watches.ensure(&deployments());
    let lost = || remote.watches.view([&deployments()]).lost([&deployments()]);
    bench.told("it is lost", || lost().is_some()).await;
    assert!(matches!(unreachable(lost().unwrap()), Unknown::Unreachable { code: Some(401), .. }));
    let reached = || remote.reached(&deployments(), "prod", bench.clock.now());
    let refuses = || matches!(reached(), Reached::No(Lost { code: Some(401), .. }));
    bench.told("it refuses when it is asked", refuses).await;
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
async fn what_keeps_us_from_a_cluster_is_told_with_the_way_to_mend_it() {
    let leads_to = |server: &str| {
        let config = json!({
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "it"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        });
        json!({"stringData": {"kubeconfig": config.to_string()}})
    };
    let not_named = json!({
        "metadata": {"annotations": {"kardinal.io/hosts": "other.example"}},
        "stringData": leads_to("https://eu.example")["stringData"],
    });
    let bench = Bench::with(Policy::cluster(kardinal_reach::Hosts::parse("eu.example").unwrap())).await;
    for (name, secret, expected) in [
        ("none", None, Barrier::NotLetIn),
        ("empty", Some(json!({"stringData": {"token": "it"}})), Barrier::NotLetIn),
        ("unreadable", Some(json!({"stringData": {"kubeconfig": "{"}})), Barrier::Other),
        ("elsewhere", Some(leads_to("https://us.example")), Barrier::HostNotAllowed),
        ("here", Some(leads_to("https://127.0.0.1:6443")), Barrier::HostNotAllowed),
        ("not-named", Some(not_named), Barrier::Other),
    ] {
        if let Some(mut secret) = secret {
            secret["apiVersion"] = json!("v1");
            secret["kind"] = json!("Secret");
            let params = PatchParams::apply("test").force();
            bench.secrets().patch(name, &params, &Patch::Apply(secret)).await.unwrap();
        }
        match bench.clusters.reach("default", name).await {
            Err(Unknown::Problem { barrier, message }) => assert_eq!(barrier, expected, "{name}: {message}"),
            Err(Unknown::Unreachable { why, .. }) => panic!("{name}: unreachable: {why}"),
            Ok(_) => panic!("{name}: it was reached"),
        }
    }
}

#[tokio::test]
async fn a_kubeconfig_is_not_used_for_a_server_that_its_secret_does_not_name() {
    let bench = Bench::new().await;
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let config = json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", stranger.local_addr().unwrap())}}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
    });
    bench.keep(&config.to_string()).await;
    bench.annotate("eu.example.com").await;
    let why = problem(bench.reach().await);
    for part in ["`eu`", "`127.0.0.1`", "kardinal.io/hosts", "`eu.example.com`"] {
        assert!(why.contains(part), "`{part}` is missing in: {why}");
    }
    assert!(!why.contains("s3cret") && lock(&bench.clusters.known).is_empty(), "{why}");
    assert!(stranger.accept().is_err(), "somebody called the stranger");
    // The cluster that it names is reached.
    let (_server, handle) = cluster().await;
    bench.keep(handle.kubeconfig()).await;
    bench.annotate("127.0.0.1").await;
    let remote = bench.reach().await.ok().unwrap();
    remote.watches.ensure(&deployments());
    bench.told("it is listed", || remote.watches.view([&deployments()]).synced()).await;
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

/// How a hostile server answers a list.
#[derive(Clone, Copy)]
enum Flood {
    /// With pages of which each promises another one.
    Pages,
    /// With one answer that never ends.
    Endless,
}

/// A server that says that it has Deployments and floods who lists them. Tells how much was taken from it.
async fn flood(how: Flood) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let counter = counter.clone();
            // It ends when the other side hangs up.
            tokio::spawn(async move { drown(BufReader::new(connection), how, &counter).await });
        }
    });
    (address, taken)
}

async fn drown(mut connection: BufReader<TcpStream>, how: Flood, taken: &AtomicUsize) -> std::io::Result<()> {
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if connection.read_line(&mut request).await? == 0 {
                return Ok(());
            }
        }
        if !request.contains("/deployments") {
            write(&mut connection, &kinds()).await?;
            continue;
        }
        match how {
            Flood::Pages => {
                let page = page();
                write(&mut connection, &page).await?;
                taken.fetch_add(page.len(), Ordering::Relaxed);
            }
            Flood::Endless => {
                connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
                loop {
                    connection.write_all(&[b' '; 64 << 10]).await?;
                }
            }
        }
    }
}

async fn write(connection: &mut BufReader<TcpStream>, body: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await
}

fn kinds() -> String {
    let deployments = json!({"name": "deployments", "singularName": "deployment", "namespaced": true,
        "kind": "Deployment", "verbs": ["list", "watch"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [deployments]})
        .to_string()
}

/// A page of about a MiB that promises another one.
fn page() -> String {
    let item = |at: usize| {
        json!({"metadata": {"namespace": "prod", "name": format!("d{at}"), "resourceVersion": "1"},
            "spec": {"filler": "x".repeat(10_000)}})
    };
    let items: Vec<_> = (0..100).map(item).collect();
    json!({"metadata": {"resourceVersion": "1", "continue": "more"}, "items": items}).to_string()
}

/// Waits until the Deployments of the cluster at an address are lost; says why.
async fn lost(bench: &Bench, address: SocketAddr) -> String {
    // Kubeconfigs name no server without TLS, but nothing here depends on it.
    let way = RemoteCluster {
        server: format!("http://{address}"),
        certificate_authority: None,
        tls_server_name: None,
        login: Login::Token("it".to_owned()),
    };
    let key = ("default".to_owned(), "eu".to_owned());
    let remote = bench.clusters.follow(key, way, bench.clock.now()).await.ok().unwrap();
    remote.watches.ensure(&deployments());
    let why = || remote.watches.view([&deployments()]).lost([&deployments()]).map(|lost| lost.why);
    bench.told("it is lost", || why().is_some()).await;
    assert!(!remote.watches.view([&deployments()]).synced(), "nothing is made of what was seen");
    why().unwrap()
}

#[tokio::test]
async fn a_cluster_whose_list_never_ends_is_lost_when_its_room_is_full() {
    let bench = Bench::new().await;
    let (address, taken) = flood(Flood::Pages).await;
    let why = lost(&bench, address).await;
    assert!(why.contains("more than the 64 MiB that are kept"), "{why}");
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 2 * ROOM_BYTES, "{taken} bytes were read");
}

#[tokio::test]
async fn a_cluster_that_never_ends_one_answer_is_lost() {
    let bench = Bench::new().await;
    let (address, _) = flood(Flood::Endless).await;
    let why = lost(&bench, address).await;
    assert!(why.contains("longer than what is read"), "{why}");
}

#[tokio::test]
async fn an_ordinary_cluster_with_large_objects_is_read_in_pages_that_fit() {
    let bench = Bench::new().await;
    let (server, handle) = cluster().await;
    let api: Api<ConfigMap> = Api::namespaced(server.client("default"), "default");
    let write = async |range: std::ops::Range<usize>| {
        for at in range {
            let object =
                json!({"metadata": {"name": format!("c{at}")}, "data": {"a": "x".repeat(200 << 10)}});
            api.create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    };
    write(0..30).await;
    bench.keep(handle.kubeconfig()).await;
    let remote = bench.reach().await.ok().unwrap();
    let maps = Gvk::parse("v1", "ConfigMap").unwrap();
    remote.watches.ensure(&maps);
    let count =
        || remote.watches.view([&maps]).kind(&maps).map_or(0, |kind| kind.list(Some("default")).count());
    bench.told("the list is complete", || count() == 30).await;
    // So much in events is more than one answer, too.
    write(30..60).await;
    bench.told("the watch has gone on", || count() == 60).await;
    assert_eq!(remote.watches.view([&maps]).lost([&maps]), None);
}

#[tokio::test]
async fn a_namespace_has_no_more_clusters_when_all_are_reached_at_once() {
    let bench = Bench::new().await;
    let (_server, handle) = cluster().await;
    // A name has to be looked up, which takes a moment in which others come.
    let kubeconfig = handle.kubeconfig().replace("127.0.0.1", "localhost");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": kubeconfig}});
    let params = PatchParams::apply("test").force();
    let names: Vec<String> = (0..CLUSTERS + 8).map(|at| format!("eu-{at}")).collect();
    for name in &names {
        bench.secrets().patch(name, &params, &Patch::Apply(&secret)).await.unwrap();
    }
    let reached = names.iter().map(|name| bench.clusters.reach("default", name));
    let reached = futures::future::join_all(reached).await;
    assert_eq!(reached.iter().filter(|found| found.is_ok()).count(), CLUSTERS);
    assert_eq!(lock(&bench.clusters.known).len(), CLUSTERS);
}

#[tokio::test]
async fn a_namespace_has_so_many_clusters_and_no_more() {
    let bench = Bench::new().await;
    let (_server, handle) = cluster().await;
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"kubeconfig": handle.kubeconfig()}});
    let params = PatchParams::apply("test").force();
    for at in 0..=CLUSTERS {
        bench.secrets().patch(&format!("eu-{at}"), &params, &Patch::Apply(&secret)).await.unwrap();
    }
    for at in 0..CLUSTERS {
        assert!(bench.clusters.reach("default", &format!("eu-{at}")).await.is_ok());
    }
    let why = problem(bench.clusters.reach("default", &format!("eu-{CLUSTERS}")).await);
    assert!(why.contains("16 other clusters are watched for the namespace `default`"), "{why}");
}
