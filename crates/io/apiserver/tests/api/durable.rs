//! What a restart brings back, and who may open a data directory.

use crate::*;
use kardinal_apiserver::backup;
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

#[tokio::test]
async fn a_backup_of_a_running_server_is_one_moment_and_can_be_restored() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(&dir.path().join("old")).await;
    crds::establish(&server).await;
    // Both names are written together or not at all, again and again, while the backup is read.
    let write = async |round: usize| {
        for name in ["a", "b"] {
            let mut map = config_map(&format!("{name}{round}"));
            map["data"]["a"] = "x".repeat(20_000).into();
            post(&server, MAPS, &map).await.expect(201);
        }
    };
    for round in 0..20 {
        write(round).await;
    }
    let saved = get(&server, MAPS).await;
    let request = http::Request::get("/kardinal/backup").body(Body::empty()).unwrap();
    let response = server.router().oneshot(request).await.unwrap();
    for round in 20..40 {
        write(round).await;
    }
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let summary = backup::restore(&*text, &dir.path().join("new")).unwrap();
    assert_eq!(summary.resource_version, saved.rv());
    server.shutdown().await;

    let server = open(&dir.path().join("new")).await;
    let restored = get(&server, MAPS).await;
    assert_eq!(restored.body["items"], saved.body["items"]);
    assert!(restored.rv() > saved.rv());
    get(&server, "/apis/example.com/v1/namespaces/default/widgets").await.expect(200);
    // Whoever watched the old server lists again.
    let old = get(&server, &format!("{MAPS}?watch=true&resourceVersion={}", saved.rv() + 50)).await;
    assert_eq!(old.body["object"]["code"], 410);
    server.shutdown().await;
    // The same from the directory, now that nobody uses it.
    let mut again = Vec::new();
    backup::of_directory(&dir.path().join("new"), &mut again).unwrap();
    assert!(backup::check(&*again).unwrap().objects >= summary.objects);
}

#[tokio::test]
async fn a_server_that_lost_its_store_does_not_start_empty() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).await.shutdown().await;
    std::fs::remove_file(dir.path().join("store.redb")).unwrap();
    let options = Options { data_dir: Some(dir.path().to_path_buf()), ..Options::default() };
    let refused = Server::start(options).await.unwrap_err().to_string();
    for part in ["store.redb` is missing", "token`", "kardinal restore FILE --data-dir", "start afresh"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(!dir.path().join("store.redb").exists());
}

/// A small filesystem of its own, which can be full.
struct Small(tempfile::TempDir);

impl Small {
    /// Nothing, with one visible line, where this user may not mount.
    fn mount() -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(Small(dir)),
            _ => {
                println!("skipped: a full disk needs the right to mount one");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_filesystem_refuses_writes_and_takes_them_again_without_a_restart() {
    let Some(small) = Small::mount() else { return };
    let data = small.0.path().join("data");
    let server = open(&data).await;
    post(&server, MAPS, &config_map("before")).await.expect(201);
    let filler = small.0.path().join("filler");
    // It takes what is left, and writing it fails in the end.
    let _ = std::fs::write(&filler, vec![1; 16 << 20]);
    let large = |name: &str| {
        let mut map = config_map(name);
        map["data"]["a"] = "x".repeat(500_000).into();
        map
    };
    // What the file has room for is still taken.
    let mut refused = None;
    for number in 0..20 {
        let reply = post(&server, MAPS, &large(&format!("full{number}"))).await;
        if reply.code != 201 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("the disk is full").expect(503);
    assert!(refused.headers.contains_key("retry-after"));
    assert!(refused.message().contains("no space is left on the disk"), "{}", refused.message());
    let held = get(&server, MAPS).await.expect(200).body["items"].as_array().unwrap().len();
    get(&server, "/readyz").await.expect(500);
    std::fs::remove_file(&filler).unwrap();
    // Whoever comes back when the refusal says so is taken again.
    let taken = async {
        loop {
            let reply = post(&server, MAPS, &config_map("after")).await;
            if reply.code == 201 {
                return;
            }
            let seconds = reply.headers["retry-after"].to_str().unwrap().parse().unwrap();
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), taken).await.expect("it heals");
    get(&server, "/readyz").await.expect(200);
    server.shutdown().await;
    let server = open(&data).await;
    assert_eq!(get(&server, MAPS).await.body["items"].as_array().unwrap().len(), held + 1);
    server.shutdown().await;
}
