//! What the server does by itself: garbage collection, namespaces, nothing on a timer.

use crate::*;

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    }]);
    object
}

async fn family(server: &Server) {
    let parent = post(server, MAPS, &config_map("parent")).await.expect(201).body;
    let child = post(server, MAPS, &owned("child", &parent, true)).await.expect(201).body;
    post(server, MAPS, &owned("grandchild", &child, true)).await.expect(201);
}

async fn delete_parent(server: &Server, policy: &str) {
    delete(server, &format!("{MAPS}/parent?propagationPolicy={policy}")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn background() {
    let server = memory().await;
    family(&server).await;
    delete_parent(&server, "Background").await;
    get(&server, &format!("{MAPS}/parent")).await.expect(404);
    eventually(&server, &format!("{MAPS}/child"), 404).await;
    eventually(&server, &format!("{MAPS}/grandchild"), 404).await;
}

#[tokio::test(start_paused = true)]
async fn foreground() {
    let server = memory().await;
    family(&server).await;
    // A finalizer keeps the grandchild, so everything above has to wait for it.
    let keep = json!({"metadata": {"finalizers": ["example.com/keep"]}});
    patch(&server, &format!("{MAPS}/grandchild"), MERGE, &keep).await.expect(200);
    let path = format!("{MAPS}/parent?propagationPolicy=Foreground");
    let marked = send(&server, "DELETE", &path, &[], "").await.expect(200);
    assert_eq!(marked.body["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    for name in ["parent", "child", "grandchild"] {
        let object = get(&server, &format!("{MAPS}/{name}")).await.expect(200);
        assert!(object.body["metadata"]["deletionTimestamp"].is_string(), "{name}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    patch(&server, &format!("{MAPS}/grandchild"), MERGE, &free).await.expect(200);
    for name in ["grandchild", "child", "parent"] {
        eventually(&server, &format!("{MAPS}/{name}"), 404).await;
    }
}

#[tokio::test(start_paused = true)]
async fn orphan() {
    let server = memory().await;
    family(&server).await;
    delete_parent(&server, "Orphan").await;
    eventually(&server, &format!("{MAPS}/parent"), 404).await;
    let child = get(&server, &format!("{MAPS}/child")).await.expect(200);
    let references = child.body["metadata"].get("ownerReferences").cloned().unwrap_or(json!([]));
    assert_eq!(references, json!([]));
    get(&server, &format!("{MAPS}/grandchild")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_never_was_goes() {
    let server = memory().await;
    let ghost = json!({"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}});
    post(&server, MAPS, &owned("lost", &ghost, false)).await.expect(201);
    eventually(&server, &format!("{MAPS}/lost"), 404).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_their_objects_along() {
    let server = memory().await;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        get(&server, &format!("/api/v1/namespaces/{name}")).await.expect(200);
    }
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let created = post(&server, "/api/v1/namespaces", &space).await.expect(201);
    assert_eq!(created.body["status"]["phase"], "Active");
    let maps = "/api/v1/namespaces/team/configmaps";
    let mut kept = config_map("kept");
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    post(&server, maps, &kept).await.expect(201);
    post(&server, maps, &config_map("plain")).await.expect(201);
    delete(&server, "/api/v1/namespaces/team").await.expect(200);
    eventually(&server, &format!("{maps}/plain"), 404).await;
    let terminating = get(&server, "/api/v1/namespaces/team").await.expect(200);
    assert_eq!(terminating.body["status"]["phase"], "Terminating");
    let refused = post(&server, maps, &config_map("late")).await.expect(403);
    assert!(refused.message().contains("being terminated"), "{}", refused.message());
    patch(&server, &format!("{maps}/kept"), MERGE, &json!({"metadata": {"finalizers": []}}))
        .await
        .expect(200);
    eventually(&server, "/api/v1/namespaces/team", 404).await;
    post(&server, maps, &config_map("never")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_writes_nothing() {
    let server = memory().await;
    family(&server).await;
    let before = get(&server, MAPS).await.rv();
    let began = tokio::time::Instant::now();
    tokio::time::advance(std::time::Duration::from_secs(24 * 3600)).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(began.elapsed().as_secs() >= 24 * 3600);
    assert_eq!(get(&server, MAPS).await.rv(), before);
}

#[tokio::test(start_paused = true)]
async fn two_runs_are_the_same() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let server = memory().await;
        family(&server).await;
        delete_parent(&server, "Background").await;
        eventually(&server, &format!("{MAPS}/grandchild"), 404).await;
        let generated = json!({"metadata": {"generateName": "x-"}});
        post(&server, MAPS, &generated).await.expect(201);
        runs.push(get(&server, MAPS).await.text);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_they_were_last_seen() {
    let server = memory().await;
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str, last: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "lastTimestamp": last,
            "involvedObject": {"kind": "ConfigMap", "name": "x", "namespace": "default"}, "reason": "Test"})
    };
    post(&server, events, &event("old", "2029-12-31T00:00:00Z")).await.expect(201);
    post(&server, events, &event("seen-later", "2030-01-01T00:30:00Z")).await.expect(201);
    let minutes = |count: u64| tokio::time::sleep(std::time::Duration::from_secs(count * 60));
    minutes(59).await;
    get(&server, &format!("{events}/old")).await.expect(200);
    minutes(2).await;
    get(&server, &format!("{events}/old")).await.expect(404);
    get(&server, &format!("{events}/seen-later")).await.expect(200);
    minutes(30).await;
    get(&server, &format!("{events}/seen-later")).await.expect(404);
}
