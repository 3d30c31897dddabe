use kardinal_apiserver::{Options, Server};
use kardinal_planner::lease::LEASE_DURATION;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::clock::SystemClock;
use crate::leadership::NotLeading;
use crate::{Answer, Kinds, Writer, install};

const NAMESPACE: &str = "kardinal-system";

/// A server in virtual time, on which replicas compete.
async fn server() -> Server {
    let server = Server::start(Options::default()).await.unwrap();
    install::ensure_namespace(&server.client("default"), NAMESPACE).await;
    server
}

fn office(identity: &str) -> Office {
    Office {
        namespace: NAMESPACE.to_owned(),
        name: "kardinal-controller".to_owned(),
        labels: BTreeMap::new(),
        identity: identity.to_owned(),
        version: "1.2.3".to_owned(),
    }
}

fn candidate(server: &Server, identity: &str) -> Candidate {
    // The wall clock stands still in these tests: only the monotonic one, which tokio moves, counts.
    Candidate::new(server.client("default"), Arc::new(SystemClock), office(identity))
}

async fn lease(server: &Server) -> Lease {
    let api: Api<Lease> = Api::namespaced(server.client("default"), NAMESPACE);
    api.get("kardinal-controller").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_when_the_leader_is_silent_for_15_seconds() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let term = a.elected().await;
    let held = lease(&server).await;
    let spec = held.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("a"), Some(15)));
    assert_eq!(held.metadata.annotations.unwrap()["kardinal.io/version"], "1.2.3");
    // It leads as long as it renews.
    let while_renewed = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::select! { () = a.keep(&term) => {}, _ = b.elected() => {} }
    });
    assert!(while_renewed.await.is_err(), "the leader is not replaced while it renews");
    // It falls silent: it may not write long before the other one may.
    let silent = Instant::now();
    let (_, until) = tokio::join!(
        async {
            let _next = b.elected().await;
            assert!(term.left().is_err(), "two lead at the same time");
        },
        async {
            term.over().await;
            silent.elapsed()
        }
    );
    assert!(until <= plain(RENEW_DEADLINE), "it stops writing after {until:?}");
    let taken = silent.elapsed();
    assert!(taken <= plain(LEASE_DURATION + RETRY_PERIOD), "it is replaced after {taken:?}");
    let spec = lease(&server).await.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("b"), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_over_at_once() {
    let server = server().await;
    let (a, b) = (candidate(&server, "a"), candidate(&server, "b"));
    let term = a.elected().await;
    let stopped = Instant::now();
    tokio::join!(b.elected(), a.release(&term));
    assert!(stopped.elapsed() <= plain(RETRY_PERIOD), "{:?}", stopped.elapsed());
    assert_eq!(term.left(), Err(NotLeading));
    // Whoever has lost it does not take it from the next one by giving it back.
    a.release(&term).await;
    assert_eq!(lease(&server).await.spec.unwrap().holder_identity.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_knows_at_the_next_renewal() {
    let server = server().await;
    let a = candidate(&server, "a");
    let term = a.elected().await;
    let api: Api<Lease> = Api::namespaced(server.client("default"), NAMESPACE);
    let mut stolen = lease(&server).await;
    stolen.spec.as_mut().unwrap().holder_identity = Some("thief".to_owned());
    api.replace("kardinal-controller", &PostParams::default(), &stolen).await.unwrap();
    let begun = Instant::now();
    a.keep(&term).await;
    assert!(begun.elapsed() <= plain(RETRY_PERIOD));
    assert_eq!(term.left(), Err(NotLeading));
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing() {
    let server = server().await;
    let a = candidate(&server, "a");
    let term = a.elected().await;
    let client = term.fence(server.client("default"));
    let kinds = Arc::new(Kinds::new(client.clone()));
    let writer = Writer::new(client, kinds);
    let gvk = kardinal_object::Gvk::parse("v1", "ConfigMap").unwrap();
    let id = |name: &str| kardinal_object::ObjectId {
        gvk: gvk.clone(),
        namespace: Some("default".to_owned()),
        name: name.to_owned(),
    };
    let body = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let write = async |name: &str| writer.create(&id(name), &body(name), "test").await;
    assert!(matches!(write("before").await, Answer::Done(_)));
    tokio::time::advance(plain(RENEW_DEADLINE) - Duration::from_millis(1)).await;
    assert!(matches!(write("in-time").await, Answer::Done(_)));
    tokio::time::advance(Duration::from_millis(1)).await;
    let Answer::Fault(message) = write("late").await else { panic!("a deposed leader has written") };
    assert!(message.contains("does not lead any more"), "{message}");
    let Answer::Done(seen) = writer.get(&id("in-time")).await else { panic!("reading is free") };
    for answer in [
        writer.apply(&id("in-time"), None, &body("in-time"), "test", true).await,
        writer.merge(&id("in-time"), None, &json!({"data": {"a": "b"}}), "test").await,
        writer.delete(&id("in-time"), seen["metadata"]["uid"].as_str().unwrap()).await,
    ] {
        assert!(matches!(&answer, Answer::Fault(_)), "{answer:?}");
    }
    // A renewal that arrives late does not bring the right back.
    term.renew(Moment::now(&SystemClock));
    assert!(matches!(write("later").await, Answer::Fault(_)));
    assert!(matches!(writer.get(&id("late")).await, Answer::Gone(_)));
}

#[tokio::test(start_paused = true)]
async fn an_effect_is_given_up_when_the_term_is_over() {
    let server = server().await;
    let a = candidate(&server, "a");
    let term = a.elected().await;
    let begun = Instant::now();
    // One that is renewed on the way goes on.
    let renewed = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        term.renew(Moment::now(&SystemClock));
    };
    let (done, ()) = tokio::join!(term.guard(tokio::time::sleep(Duration::from_secs(12))), renewed);
    assert_eq!(done, Ok(()));
    let never = term.guard(std::future::pending::<()>()).await;
    assert_eq!(never, Err(NotLeading));
    assert!(begun.elapsed() <= Duration::from_secs(19), "{:?}", begun.elapsed());
    assert_eq!(term.guard(std::future::ready(())).await, Err(NotLeading), "nothing is begun any more");
    assert_eq!(
        Leadership::default().guard(std::future::ready(1)).await,
        Ok(1),
        "who is alone needs no Lease"
    );
}

#[tokio::test(start_paused = true)]
async fn agents_are_known_by_their_leases() {
    let server = server().await;
    let mut known = leases(server.client("default"), NAMESPACE, "kardinal.io/shard");
    assert!(known.next().await.unwrap().is_empty());
    let labels = [("kardinal.io/shard".to_owned(), "eu".to_owned())].into();
    let agent =
        Candidate::new(server.client("default"), Arc::new(SystemClock), Office { labels, ..office("a") });
    let term = agent.elected().await;
    let seen = known.next().await.unwrap();
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["kardinal-controller"]);
    // One that is away is still there.
    agent.release(&term).await;
    assert_eq!(known.next().await.unwrap().len(), 1);
    let api: Api<Lease> = Api::namespaced(server.client("default"), NAMESPACE);
    api.delete("kardinal-controller", &kube::api::DeleteParams::default()).await.unwrap();
    assert!(known.next().await.unwrap().is_empty());
}

/// Tells of every renewal of the Lease, from the runtime of the server.
async fn watch_renewals(server: Arc<Server>, renewed: std::sync::mpsc::Sender<LeaseSpec>) {
    let api: Api<Lease> = Api::namespaced(server.client("default"), NAMESPACE);
    let mut events = kube::runtime::watcher(api, watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(lease)) = event
            && renewed.send(lease.spec.unwrap()).is_err()
        {
            return;
        }
    }
}

#[test]
fn the_lease_is_renewed_while_every_worker_of_the_process_is_busy() {
    // The server is another process.
    let elsewhere = tokio::runtime::Runtime::new().unwrap();
    let server = Arc::new(elsewhere.block_on(server()));
    let (renewed, renewals) = std::sync::mpsc::channel();
    elsewhere.spawn(watch_renewals(server.clone(), renewed));
    let process = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    process.block_on(async {
        let (desk, own) = (Desk::open().unwrap(), server.clone());
        let candidate = desk.run(async move { candidate(&own, "a") }).await.unwrap().at(desk);
        let term = candidate.elected().await;
        let first = lease(&server).await.spec.unwrap().renew_time;
        let busy = async {
            // Only a failing test waits long.
            let next = || renewals.recv_timeout(Duration::from_secs(60)).expect("a renewal");
            let later = std::iter::repeat_with(next).filter(|spec| spec.renew_time > first);
            assert_eq!(later.take(2).count(), 2);
            assert!(term.left().is_ok(), "it leads all the time");
        };
        tokio::select! {
            biased;
            () = candidate.keep(&term) => panic!("it does not lead any more"),
            () = busy => {}
        }
        candidate.release(&term).await;
        assert_eq!(term.left(), Err(NotLeading));
        assert_eq!(holder(&lease(&server).await.spec.unwrap()), None, "it is given back");
    });
}
