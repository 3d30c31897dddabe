//! What a restart brings back, and who may open a data directory.

use crate::*;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

async fn open(dir: &Path) -> Server {
    let data_dir = Some(dir.to_path_buf());
    Server::start(Options { data_dir, ..Options::default() }).await.unwrap()
}

#[tokio::test]
async fn a_restart_brings_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path()).await;
    crds::establish(&server).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 7}});
    post(&server, widgets, &widget).await.expect(201);
    for name in ["a", "b", "c"] {
        post(&server, MAPS, &config_map(name)).await.expect(201);
    }
    let last = delete(&server, &format!("{MAPS}/b")).await.expect(200);
    assert_eq!(last.body["status"], "Success");
    let before = (get(&server, MAPS).await.text, get(&server, widgets).await.text);
    let rv = get(&server, MAPS).await.rv();
    server.shutdown().await;

    let server = open(dir.path()).await;
    let after = (get(&server, MAPS).await.text, get(&server, widgets).await.text);
    assert_eq!(before, after, "objects and the list's version are the same");
    // The deletion was the last write: its version must not be given out again.
    let next = post(&server, MAPS, &config_map("d")).await.expect(201).rv();
    assert!(next > rv, "{next} after {rv}");
    let old = get(&server, &format!("{MAPS}?watch=true&resourceVersion={}", rv - 1)).await.expect(200);
    assert_eq!(old.body["object"]["code"], 410, "the log does not survive a restart, and says so");
    server.shutdown().await;
}

#[tokio::test]
async fn one_process_per_directory() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path()).await;
    let options = Options { data_dir: Some(dir.path().to_path_buf()), ..Options::default() };
    let refused = Server::start(options.clone()).await.unwrap_err().to_string();
    assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    server.shutdown().await;
    Server::start(options).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn secrets_on_disk_are_private_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let server = open(dir.path()).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let handle = server.serve(listener).await.unwrap();
        let port = handle.local_addr().port();
        let kubeconfig = std::fs::read_to_string(dir.path().join("kubeconfig")).unwrap();
        assert!(kubeconfig.contains(&format!("https://127.0.0.1:{port}")));
        assert_eq!(kubeconfig, handle.kubeconfig());
        tokens.push(kubeconfig.replace(&port.to_string(), "PORT"));
        for file in ["kubeconfig", "token", "lock", "pki/ca.key", "pki/server.key"] {
            let mode = std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        server.shutdown().await;
    }
    assert_eq!(tokens[0], tokens[1], "token and authority are the same after a restart");
}

#[tokio::test]
async fn many_writers_share_commits() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path()).await;
    let writes = (0..200).map(|number| {
        let server = &server;
        async move { post(server, MAPS, &config_map(&format!("m{number}"))).await.expect(201).rv() }
    });
    let mut versions = futures::future::join_all(writes).await;
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), 200);
    server.shutdown().await;
    let server = open(dir.path()).await;
    assert_eq!(get(&server, MAPS).await.body["items"].as_array().unwrap().len(), 200);
    server.shutdown().await;
}
