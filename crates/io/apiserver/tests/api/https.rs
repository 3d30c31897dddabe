//! The network face: TLS, the token, and a graceful end.

use crate::*;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

async fn config(kubeconfig: &str) -> Config {
    let kubeconfig: Kubeconfig = serde_saphyr::from_str(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

async fn serving() -> (Server, kardinal_apiserver::ServeHandle) {
    let server = Server::start(Options::default()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle = server.serve(listener).await.unwrap();
    (server, handle)
}

#[tokio::test]
async fn kube_client_over_https() {
    let (server, handle) = serving().await;
    let client = Client::try_from(config(handle.kubeconfig()).await).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}));
    api.patch("x", &PatchParams::apply("test"), &apply).await.unwrap();
    match events.next().await.unwrap().unwrap() {
        WatchEvent::Added(object) => assert_eq!(object.metadata.name.as_deref(), Some("x")),
        other => panic!("{other:?}"),
    }
    // The same object through the in-process client.
    let inside: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    assert_eq!(inside.get("x").await.unwrap().data.unwrap()["a"], "b");
    server.shutdown().await;
    while let Some(event) = events.next().await {
        assert!(!matches!(event, Ok(WatchEvent::Added(_))));
    }
}

#[tokio::test]
async fn no_token_no_answer() {
    let (server, handle) = serving().await;
    let mut anonymous = config(handle.kubeconfig()).await;
    anonymous.auth_info = kube::config::AuthInfo::default();
    let client = Client::try_from(anonymous).unwrap();
    client.apiserver_version().await.unwrap();
    let text = |path: &str| client.request_text(http::Request::get(path).body(Vec::new()).unwrap());
    assert_eq!(text("/readyz").await.unwrap(), "ok");
    for path in ["/api", "/api/v1/secrets", "/openapi/v2", "/", "/healthzz"] {
        match text(path).await.unwrap_err() {
            kube::Error::Api(status) => {
                assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"), "{path}")
            }
            other => panic!("{path}: {other}"),
        }
    }
    handle.stop().await;
    assert!(text("/readyz").await.is_err());
    server.shutdown().await;
}
