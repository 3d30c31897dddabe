//! Discovery, OpenAPI, health and the questions about oneself.

use crate::*;

#[tokio::test(start_paused = true)]
async fn discovery() {
    let server = memory().await;
    assert_eq!(get(&server, "/api").await.expect(200).body["versions"], json!(["v1"]));
    let groups = get(&server, "/apis").await.expect(200);
    let names: Vec<&str> =
        groups.body["groups"].as_array().unwrap().iter().filter_map(|g| g["name"].as_str()).collect();
    assert!(names.contains(&"apps") && names.contains(&"apiextensions.k8s.io"), "{names:?}");
    assert_eq!(get(&server, "/apis/apps").await.expect(200).body["kind"], "APIGroup");
    let resources = get(&server, "/api/v1").await.expect(200);
    let pods = resources.body["resources"].as_array().unwrap().iter().find(|r| r["name"] == "pods").unwrap();
    assert_eq!((&pods["namespaced"], &pods["kind"]), (&json!(true), &json!("Pod")));
    get(&server, "/apis/none").await.expect(404);
    get(&server, "/apis/apps/v9").await.expect(404);

    crds::establish(&server).await;
    let widgets = get(&server, "/apis/example.com/v1").await.expect(200);
    assert_eq!(widgets.body["resources"][0]["name"], "widgets");
    let accept =
        [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")];
    let aggregated = send(&server, "GET", "/apis", &accept, "").await.expect(200);
    assert_eq!(aggregated.body["kind"], "APIGroupDiscoveryList");
    assert!(aggregated.headers["content-type"].to_str().unwrap().contains("as=APIGroupDiscoveryList"));
    let core = send(&server, "GET", "/api", &accept, "").await.expect(200);
    assert_eq!(core.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn open_api() {
    let server = memory().await;
    crds::establish(&server).await;
    let index = get(&server, "/openapi/v3").await.expect(200);
    let url = index.body["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = get(&server, &url).await.expect(200);
    assert!(document.body["components"]["schemas"]["com.example.v1.Widget"].is_object());
    let etag = document.headers["etag"].to_str().unwrap().to_owned();
    let again = send(&server, "GET", &url, &[("if-none-match", &etag)], "").await.expect(304);
    assert!(again.text.is_empty());
    assert_eq!(get(&server, "/openapi/v2").await.expect(200).body["swagger"], "2.0");
    get(&server, "/openapi/v3/apis/none/v1").await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn health_and_version() {
    let server = memory().await;
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(get(&server, path).await.expect(200).text, "ok");
    }
    let verbose = get(&server, "/readyz?verbose").await.expect(200);
    assert!(
        verbose.text.contains("[+]ping ok") && verbose.text.ends_with("readyz check passed\n"),
        "{}",
        verbose.text
    );
    get(&server, "/readyz/nonsense").await.expect(404);
    let version = get(&server, "/version").await.expect(200);
    assert!(version.body["gitVersion"].as_str().unwrap().starts_with('v'));
}

#[tokio::test(start_paused = true)]
async fn questions_about_oneself() {
    let server = memory().await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}});
    let answer =
        post(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.expect(201);
    assert_eq!(answer.body["status"]["allowed"], true);
    assert_eq!(answer.body["spec"], review["spec"]);
    let answer =
        post(&server, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.expect(201);
    assert_eq!(answer.body["status"]["userInfo"]["username"], "kardinal-admin");
}
