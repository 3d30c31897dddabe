//! Reading and writing single objects and lists.

use crate::*;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

#[tokio::test(start_paused = true)]
async fn one_object_through_its_life() {
    let server = memory().await;
    let created = post(&server, MAPS, &config_map("x")).await.expect(201);
    assert_eq!(created.body["metadata"]["creationTimestamp"], "2030-01-01T00:00:00Z");
    assert_eq!(created.body["metadata"]["namespace"], "default");
    assert_eq!(created.body["kind"], "ConfigMap");
    post(&server, MAPS, &config_map("x")).await.expect(409);
    let path = format!("{MAPS}/x");
    let got = get(&server, &path).await.expect(200);
    assert_eq!(got.body, created.body);

    let mut changed = got.body.clone();
    changed["data"]["a"] = "2".into();
    let updated = put(&server, &path, &changed).await.expect(200);
    assert!(updated.rv() > created.rv());
    let conflict = put(&server, &path, &changed).await.expect(409);
    assert!(conflict.message().contains("the object has been modified"), "{}", conflict.message());

    let merged = patch(&server, &path, MERGE, &json!({"data": {"b": "3"}})).await.expect(200);
    assert_eq!(merged.body["data"], json!({"a": "2", "b": "3"}));
    let same = patch(&server, &path, MERGE, &json!({"data": {"b": "3"}})).await.expect(200);
    assert_eq!(same.rv(), merged.rv(), "a patch that changes nothing writes nothing");
    let operations = json!([{"op": "remove", "path": "/data/a"}]);
    let patched = patch(&server, &path, "application/json-patch+json", &operations).await.expect(200);
    assert_eq!(patched.body["data"], json!({"b": "3"}));
    let strategic = json!({"metadata": {"labels": {"l": "v"}}});
    let labelled =
        patch(&server, &path, "application/strategic-merge-patch+json", &strategic).await.expect(200);
    assert_eq!(labelled.body["metadata"]["labels"]["l"], "v");

    let dry = send(&server, "DELETE", &format!("{path}?dryRun=All"), &[], "").await;
    dry.expect(200);
    get(&server, &path).await.expect(200);
    delete(&server, &path).await.expect(200);
    let gone = get(&server, &path).await.expect(404);
    assert_eq!(gone.message(), "configmaps \"x\" not found");
    assert_eq!(gone.body["details"]["name"], "x");
}

#[tokio::test(start_paused = true)]
async fn through_kube_client() {
    let server = memory().await;
    let api: Api<ConfigMap> = Api::namespaced(server.client("default"), "default");
    for name in ["a", "b", "c", "d", "e"] {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.labels = Some([("even".to_owned(), (name == "b").to_string())].into());
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let mut generated = ConfigMap::default();
    generated.metadata.generate_name = Some("gen-".to_owned());
    let name = api.create(&PostParams::default(), &generated).await.unwrap().metadata.name.unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 6);
    let selected = api.list(&ListParams::default().labels("even in (true)")).await.unwrap();
    assert_eq!(selected.items.len(), 1);
    let named = api.list(&ListParams::default().fields("metadata.name=c")).await.unwrap();
    assert_eq!(named.items[0].metadata.name.as_deref(), Some("c"));

    let first = api.list(&ListParams::default().limit(4)).await.unwrap();
    assert_eq!(first.items.len(), 4);
    let token = first.metadata.continue_.clone().unwrap();
    let rest = api.list(&ListParams::default().limit(4).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.len(), 2);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);

    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}));
    api.patch("a", &PatchParams::apply("one"), &apply).await.unwrap();
    let other = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}}));
    let conflict = api.patch("a", &PatchParams::apply("two"), &other).await.unwrap_err();
    assert!(conflict.to_string().contains("conflict with \"one\""), "{conflict}");
    let forced = api.patch("a", &PatchParams::apply("two").force(), &other).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "w");

    api.delete("a", &DeleteParams::default()).await.unwrap();
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("even=false"))
        .await
        .unwrap();
    let left: Vec<String> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|o| o.metadata.name)
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn field_managers_come_from_the_query_or_the_user_agent() {
    let server = memory().await;
    let headers = [("content-type", "application/json"), ("user-agent", "tool/v1.2 (linux)")];
    let body = config_map("x").to_string();
    let created = send(&server, "POST", MAPS, &headers, body).await.expect(201);
    assert_eq!(created.body["metadata"]["managedFields"][0]["manager"], "tool");
    let body = config_map("y").to_string();
    let path = format!("{MAPS}?fieldManager=named");
    let created = send(&server, "POST", &path, &headers, body).await.expect(201);
    assert_eq!(created.body["metadata"]["managedFields"][0]["manager"], "named");
    patch(&server, &format!("{MAPS}/x"), APPLY, &config_map("x")).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn unknown_and_duplicate_fields() {
    let server = memory().await;
    let text =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dat":{},"data":{"a":"1","a":"2"}}"#;
    let json = [("content-type", "application/json")];
    let strict =
        send(&server, "POST", &format!("{MAPS}?fieldValidation=Strict"), &json, text).await.expect(400);
    assert!(strict.message().contains("duplicate field \"data.a\""), "{}", strict.message());
    assert!(strict.message().contains("unknown field \"dat\""), "{}", strict.message());
    let warned = send(&server, "POST", MAPS, &json, text).await.expect(201);
    let warnings: Vec<&str> =
        warned.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(warnings.iter().any(|w| w.starts_with("299 - ") && w.contains("unknown field")), "{warnings:?}");
    send(&server, "POST", &format!("{MAPS}?fieldValidation=Maybe"), &json, text).await.expect(422);
}

#[tokio::test(start_paused = true)]
async fn content_types() {
    let server = memory().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam\n";
    send(&server, "POST", MAPS, &[("content-type", "application/yaml")], yaml).await.expect(201);
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    send(&server, "POST", MAPS, &protobuf, "k8s\0").await.expect(415);
    let yaml =
        send(&server, "GET", &format!("{MAPS}/yam"), &[("accept", "application/yaml")], "").await.expect(200);
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.text.contains("kind: ConfigMap"), "{}", yaml.text);
    send(&server, "GET", MAPS, &[("accept", "text/html")], "").await.expect(406);
    let pretty = get(&server, &format!("{MAPS}/yam?pretty=true")).await.expect(200);
    assert!(pretty.text.contains("\n  \"kind\""), "{}", pretty.text);
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata() {
    let server = memory().await;
    post(&server, MAPS, &config_map("x")).await.expect(201);
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")];
    let table = send(&server, "GET", MAPS, &accept, "").await.expect(200);
    assert_eq!(table.body["kind"], "Table");
    assert_eq!(table.body["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table.body["rows"][0]["cells"][0], "x");
    assert_eq!(table.body["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let one = send(&server, "GET", &format!("{MAPS}/x?includeObject=None"), &accept, "").await.expect(200);
    assert_eq!(one.body["rows"].as_array().unwrap().len(), 1);
    let accept = [("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")];
    let list = send(&server, "GET", MAPS, &accept, "").await.expect(200);
    assert_eq!(list.body["kind"], "PartialObjectMetadataList");
    assert_eq!(list.body["items"][0]["metadata"]["name"], "x");
    assert_eq!(list.body["items"][0].get("data"), None);
}

#[tokio::test(start_paused = true)]
async fn paths_and_methods_that_do_not_exist() {
    let server = memory().await;
    for path in ["/api/v1/nonsense", "/apis/nope/v1/things", "/api/v2/pods", "/nothing"] {
        let reply = get(&server, path).await.expect(404);
        assert_eq!(reply.message(), "the server could not find the requested resource", "{path}");
    }
    put(&server, MAPS, &config_map("x")).await.expect(405);
    post(&server, &format!("{MAPS}/x"), &config_map("x")).await.expect(405);
    post(&server, "/version", &json!({})).await.expect(405);
}
