//! Watch streams: where they start, what they carry, how they end.

use crate::*;
use futures::StreamExt;
use http_body_util::BodyDataStream;
use kardinal_apiserver::WindowLimits;
use std::time::Duration;

/// A stream of events, read line by line.
struct Events {
    body: BodyDataStream<Body>,
    rest: Vec<u8>,
}

impl Events {
    async fn open(server: &Server, path: &str) -> Events {
        Events::open_as(server, path, "application/json").await
    }

    async fn open_as(server: &Server, path: &str, accept: &str) -> Events {
        let request = http::Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let response = server.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Events { body: BodyDataStream::new(response.into_body()), rest: Vec::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.rest.extend_from_slice(&self.body.next().await?.unwrap());
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {kind} {name}"));
        assert_eq!(
            (event["type"].as_str(), event["object"]["metadata"]["name"].as_str()),
            (Some(kind), Some(name))
        );
        event
    }
}

#[tokio::test(start_paused = true)]
async fn from_nothing_from_a_version_and_through_selectors() {
    let server = memory().await;
    post(&server, MAPS, &config_map("a")).await.expect(201);
    let rv = get(&server, MAPS).await.rv();
    let mut all = Events::open(&server, &format!("{MAPS}?watch=true")).await;
    all.expect("ADDED", "a").await;
    let mut later = Events::open(&server, &format!("{MAPS}?watch=1&resourceVersion={rv}")).await;
    let mut red =
        Events::open(&server, &format!("{MAPS}?watch&resourceVersion={rv}&labelSelector=c%3Dred")).await;
    let mut named = Events::open(&server, &format!("{MAPS}/b?watch&resourceVersion={rv}")).await;
    let mut everywhere =
        Events::open(&server, &format!("/api/v1/configmaps?watch&resourceVersion={rv}")).await;
    let mut elsewhere = Events::open(
        &server,
        &format!("/api/v1/namespaces/kube-system/configmaps?watch&resourceVersion={rv}&timeoutSeconds=5"),
    )
    .await;

    post(&server, MAPS, &config_map("b")).await.expect(201);
    let labels = |value: Value| json!({"metadata": {"labels": {"c": value}}});
    patch(&server, &format!("{MAPS}/b"), MERGE, &labels("red".into())).await.expect(200);
    patch(&server, &format!("{MAPS}/b"), MERGE, &labels(Value::Null)).await.expect(200);
    delete(&server, &format!("{MAPS}/b")).await.expect(200);
    for stream in [&mut all, &mut later, &mut named, &mut everywhere] {
        stream.expect("ADDED", "b").await;
        stream.expect("MODIFIED", "b").await;
        stream.expect("MODIFIED", "b").await;
        let event = stream.expect("DELETED", "b").await;
        assert_eq!(event["object"]["kind"], "ConfigMap");
    }
    red.expect("ADDED", "b").await;
    let left = red.expect("DELETED", "b").await;
    let version: u64 = left["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(version, rv + 3);
    assert!(elsewhere.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn initial_events_end_with_a_bookmark() {
    let server = memory().await;
    for name in ["a", "b"] {
        post(&server, MAPS, &config_map(name)).await.expect(201);
    }
    let path = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut stream = Events::open(&server, &path).await;
    stream.expect("ADDED", "a").await;
    stream.expect("ADDED", "b").await;
    let mark = stream.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    get(&server, &format!("{MAPS}?watch=true&sendInitialEvents=true")).await.expect(422);
    get(&server, &format!("{MAPS}?watch=true&resourceVersionMatch=NotOlderThan")).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_follow_as_partial_object_metadata_and_as_table() {
    let server = memory().await;
    post(&server, MAPS, &config_map("a")).await.expect(201);
    let path = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut stream = Events::open_as(&server, &path, accept).await;
    let added = stream.next().await.unwrap();
    // The end of the initial events, and the one of a quiet minute later.
    for ends in [true, false] {
        let mark = stream.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        for field in ["kind", "apiVersion"] {
            assert_eq!(mark["object"][field], added["object"][field], "{mark}");
        }
        assert_eq!(mark["object"]["kind"], "PartialObjectMetadata");
        let metadata = &mark["object"]["metadata"];
        assert_eq!(metadata["resourceVersion"], added["object"]["metadata"]["resourceVersion"]);
        assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"] == "true", ends);
    }

    let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let mut stream = Events::open_as(&server, &path, accept).await;
    let added = stream.next().await.unwrap();
    for ends in [true, false] {
        let mark = stream.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(mark["object"]["kind"], "Table", "{mark}");
        assert_eq!(
            mark["object"]["metadata"]["resourceVersion"],
            added["object"]["metadata"]["resourceVersion"]
        );
        let row = &mark["object"]["rows"][0]["object"]["metadata"];
        assert_eq!(row["annotations"]["k8s.io/initial-events-end"] == "true", ends);
    }
    // A table whose first event is a bookmark still brings its columns.
    let rv = get(&server, MAPS).await.rv();
    let path = format!("{MAPS}?watch&resourceVersion={rv}&allowWatchBookmarks=true");
    let mark = Events::open_as(&server, &path, accept).await.next().await.unwrap();
    assert_eq!(mark["object"]["columnDefinitions"][0]["name"], "Name", "{mark}");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_time_out_in_virtual_time() {
    let server = memory().await;
    let rv = get(&server, MAPS).await.rv();
    let path = format!("{MAPS}?watch&resourceVersion={rv}&allowWatchBookmarks=true&timeoutSeconds=150");
    let began = tokio::time::Instant::now();
    let mut stream = Events::open(&server, &path).await;
    // A write of another kind moves the bookmark without an event.
    post(&server, "/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}}))
        .await
        .expect(201);
    let mut versions = Vec::new();
    while let Some(event) = stream.next().await {
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["kind"], "ConfigMap");
        versions
            .push(event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    }
    assert_eq!(versions, [rv + 1, rv + 1]);
    assert_eq!(began.elapsed(), Duration::from_secs(150));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_is_410() {
    let window = WindowLimits { changes: 4, ..WindowLimits::default() };
    let server = Server::start(Options { window, ..Options::default() }).await.unwrap();
    let rv = post(&server, MAPS, &config_map("a")).await.expect(201).rv();
    let mut slow = Events::open(&server, &format!("{MAPS}?watch&resourceVersion={rv}")).await;
    for number in 0..10 {
        patch(&server, &format!("{MAPS}/a"), MERGE, &json!({"data": {"n": number.to_string()}}))
            .await
            .expect(200);
    }
    let lost = slow.next().await.unwrap();
    assert_eq!((lost["type"].as_str(), lost["object"]["code"].as_u64()), (Some("ERROR"), Some(410)));
    assert_eq!(lost["object"]["reason"], "Expired");
    assert!(slow.next().await.is_none());
    let mut late = Events::open(&server, &format!("{MAPS}?watch&resourceVersion={rv}")).await;
    assert_eq!(late.next().await.unwrap()["object"]["code"], 410);
    assert!(late.next().await.is_none());
    get(&server, &format!("{MAPS}?watch&resourceVersion={}", rv + 1_000_000)).await.expect(504);
    get(&server, &format!("{MAPS}?watch&resourceVersion=abc")).await.expect(400);
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_are_streamed_too() {
    let server = memory().await;
    post(&server, MAPS, &config_map("a")).await.expect(201);
    let path = format!("{MAPS}?watch=true");
    let mut table = Events::open_as(&server, &path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let event = table.next().await.unwrap();
    assert_eq!((event["type"].as_str(), event["object"]["kind"].as_str()), (Some("ADDED"), Some("Table")));
    assert_eq!(event["object"]["rows"][0]["cells"][0], "a");
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut metadata = Events::open_as(&server, &path, accept).await;
    let event = metadata.expect("ADDED", "a").await;
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"].get("data"), None);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_streams() {
    let server = memory().await;
    let mut stream = Events::open(&server, &format!("{MAPS}?watch=true")).await;
    let router = server.router();
    let (end, ()) = tokio::join!(stream.next(), server.shutdown());
    assert!(end.is_none());
    let request = http::Request::post(MAPS)
        .header("content-type", "application/json")
        .body(Body::from(config_map("late").to_string()))
        .unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), 503);
}

/// A watch that somebody opens over the network.
async fn watch_of(server: &Server, peer: &str) -> http::Response<Body> {
    let mut request = http::Request::get(format!("{MAPS}?watch=true")).body(Body::empty()).unwrap();
    request.extensions_mut().insert(kardinal_apiserver::Peer(peer.parse().unwrap()));
    server.router().oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn watches_are_counted_apart_from_requests() {
    let limits =
        kardinal_apiserver::Limits { watches: 1, requests: 1, ..kardinal_apiserver::Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }).await.unwrap();
    let open = watch_of(&server, "10.0.0.1").await;
    assert_eq!(open.status(), 200);
    let refused = watch_of(&server, "10.0.0.2").await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"1".parse().unwrap()));
    get(&server, MAPS).await.expect(200);
    drop(open);
    assert_eq!(watch_of(&server, "10.0.0.2").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn watches_are_fair_no_peer_takes_them_all_and_our_own_need_none() {
    let limits = kardinal_apiserver::Limits {
        watches: 3,
        watches_per_peer: 2,
        ..kardinal_apiserver::Limits::default()
    };
    let server = Server::start(Options { limits, ..Options::default() }).await.unwrap();
    let greedy = [watch_of(&server, "10.0.0.1").await, watch_of(&server, "10.0.0.1").await];
    assert_eq!(watch_of(&server, "10.0.0.1").await.status(), 429);
    let modest = watch_of(&server, "10.0.0.2").await;
    assert_eq!(modest.status(), 200, "one peer does not take the place of another");
    assert_eq!(watch_of(&server, "10.0.0.3").await.status(), 429, "all are taken");
    drop(Events::open(&server, &format!("{MAPS}?watch=true")).await);
    drop((greedy, modest));
}
