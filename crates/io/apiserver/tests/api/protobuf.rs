//! Bodies in protobuf, as typed Go clients send them; the answers are JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::crds::definition;
use crate::*;

const HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/vnd.kubernetes.protobuf"),
    ("accept", "application/vnd.kubernetes.protobuf,application/json"),
];
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Secret `s` with `data.password` and `stringData.x`, written by Go.
const SECRET: &str = "azhzAAoMCgJ2MRIGU2VjcmV0Ej8KGAoBcxIAGgdkZWZhdWx0IgAqADIAOABCABITCghwYXNzd29yZBIHaHVudGVyMhoGT3BhcXVlIgYKAXgSAXkaACIA";
/// Deployment `web` as `kubectl create deployment` has it, without replicas.
const DEPLOYMENT: &str = "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EqcBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEnYSDAoKCgNhcHASA3dlYhpeChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEj4SIAoDd2ViEgVuZ2lueCoAQgBqAHIAgAEAiAEAkAEAogEAGgAyAEIASgBSAFgAYABoAIIBAIoBAJoBAMIBACICCgAoADgAGgwIABAAGAAgACgAOAAaACIA";
/// DeleteOptions with the precondition `resourceVersion: "5"` and `dryRun: [All]`.
const DELETE: &str = "azhzAAoYCgdhcHBzL3YxEg1EZWxldGVPcHRpb25zEhgIABIDEgE1IgpGb3JlZ3JvdW5kKgNBbGwaACIA";

async fn send_protobuf(server: &Server, method: &str, path: &str, body: &[u8]) -> Reply {
    send(server, method, path, &HEADERS, body.to_vec()).await
}

fn bytes(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).unwrap()
}

/// The envelope of an object without fields; every length stays below 128.
fn empty(api_version: &str, kind: &str) -> Vec<u8> {
    let text = |tag: u8, text: &[u8]| [&[tag, u8::try_from(text.len()).unwrap()], text].concat();
    let meta = [text(0x0a, api_version.as_bytes()), text(0x12, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), text(0x0a, &meta)].concat()
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_are_created_and_updated() {
    let server = memory().await;
    let made = send_protobuf(&server, "POST", SECRETS, &bytes(SECRET)).await.expect(201);
    assert_eq!(made.headers["content-type"], "application/json");
    assert_eq!(made.body["data"], json!({"password": "aHVudGVyMg==", "x": "eQ=="}));
    assert_eq!(made.body["type"], "Opaque");
    let path = format!("{SECRETS}/s");
    send_protobuf(&server, "PUT", &path, &bytes(SECRET)).await.expect(200);
    // A body of another kind is not taken for the resource.
    send_protobuf(&server, "POST", SECRETS, &bytes(DEPLOYMENT)).await.expect(400);

    let made = send_protobuf(&server, "POST", DEPLOYMENTS, &bytes(DEPLOYMENT)).await.expect(201);
    assert_eq!(made.body["spec"]["replicas"], 1);
    assert_eq!(made.body["spec"]["strategy"]["type"], "RollingUpdate");
}

#[tokio::test(start_paused = true)]
async fn options_of_a_delete_are_read() {
    let server = memory().await;
    let path = format!("{MAPS}/x");
    let made = post(&server, MAPS, &config_map("x")).await.expect(201);
    assert_ne!(made.rv(), 5);
    send_protobuf(&server, "DELETE", &path, &bytes(DELETE)).await.expect(409);
    get(&server, &path).await.expect(200);
    send_protobuf(&server, "DELETE", &path, &empty("v1", "DeleteOptions")).await.expect(200);
    get(&server, &path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_415_and_what_is_broken_400() {
    let server = memory().await;
    post(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await.expect(201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    send_protobuf(&server, "POST", widgets, &empty("example.com/v1", "Widget")).await.expect(415);
    send_protobuf(&server, "POST", MAPS, &empty("v1", "Nonsense")).await.expect(415);
    send_protobuf(&server, "PATCH", &format!("{MAPS}/x"), &empty("v1", "ConfigMap")).await.expect(415);
    let reply = send_protobuf(&server, "POST", MAPS, b"{}").await.expect(400);
    assert!(reply.message().contains("the body is not valid protobuf"), "{}", reply.text);
    let cut = bytes(SECRET);
    let reply = send_protobuf(&server, "POST", SECRETS, &cut[..40]).await.expect(400);
    assert!(reply.message().contains("cut off"), "{}", reply.text);
}
