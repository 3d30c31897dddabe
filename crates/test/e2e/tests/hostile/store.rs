//! A store that was copied, cut off or put in the wrong place: what is saved comes back whole, or not at all.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kardinal_api::forge::Repository;
use kardinal_apiserver::{Options, Server};
use kardinal_testkit::shop::git;
use kardinal_testkit::up::{Up, binary};
use kardinal_testkit::world::client_of;
use kube::Api;
use serde_json::{Value, json};

use crate::web::{Web, eventually};
use kardinal_testkit::process::Process;

fn kardinal(arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new(binary()?).args(arguments).env_remove("KARDINAL_DATA_DIR").output()?)
}

fn succeeds(arguments: &[&str]) -> anyhow::Result<()> {
    let output = kardinal(arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn refused(arguments: &[&str], code: i32, fragments: &[&str]) -> anyhow::Result<()> {
    let output = kardinal(arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code), "{arguments:?}: {:?}: {said}", output.status.code());
    for fragment in fragments {
        ensure!(said.contains(fragment), "{arguments:?} should say `{fragment}`: {said}");
    }
    Ok(())
}

fn mode(path: &Path) -> anyhow::Result<u32> {
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(metadata.permissions().mode() & 0o777)
}

async fn write(client: &kube::Client, name: &str) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "b"}}))?;
    maps.create(&Default::default(), &map).await?;
    Ok(())
}

/// A repository of the local forge with one commit, pushed as a person does it; the commit.
async fn pushed(web: &Web, folder: &Path) -> anyhow::Result<String> {
    web.apply(&json!({
        "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "Repository", "metadata": {"name": "gitops"}, "spec": {},
    }))
    .await?;
    let api: Api<Repository> = Api::namespaced(web.kube.clone(), "default");
    let url = eventually("the repository is served", async || {
        Ok(api.get("gitops").await?.status.and_then(|status| status.clone_url))
    })
    .await?;
    git(folder, &["init", "--quiet", "--initial-branch=main", "work"])?;
    let work = folder.join("work");
    std::fs::write(work.join("file"), "one\n")?;
    git(&work, &["add", "."])?;
    git(&work, &["commit", "--quiet", "-m", "one"])?;
    git(&work, &["push", "--quiet", &with_token(&url, &web.key("git-token")?), "main"])?;
    Ok(git(&work, &["rev-parse", "HEAD"])?.trim().to_owned())
}

fn with_token(url: &str, token: &str) -> String {
    url.replace("http://", &format!("http://alice:{token}@"))
}

/// `kardinal up` on a data directory, on any free ports.
fn up(folder: &Path, data: &str) -> anyhow::Result<Process> {
    let arguments = ["up", "--data-dir", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    Process::start(folder, "log", &arguments, &[])
}

#[test]
fn repositories_come_back_and_a_store_that_was_cut_off_is_not_used() -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    let path = |name: &str| place.path().join(name).display().to_string();
    let (file, new) = (path("backup.tar"), path("new"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let commit = runtime.block_on(async {
        let web = Web::start().await?;
        let commit = pushed(&web, place.path()).await?;
        succeeds(&["backup", &file, "--data-dir", &web.dir.display().to_string()])?;
        anyhow::Ok(commit)
    })?;
    succeeds(&["restore", &file, "--data-dir", &new])?;
    let data = Path::new(&new);
    let bare = data.join("repositories/default/gitops.git");
    git(&bare, &["fsck", "--strict"])?;
    ensure!(git(&bare, &["rev-parse", "main"])?.trim() == commit, "the branch is where it was");

    // Its server serves it again, to whom it was served before.
    let mut restored = up(place.path(), &new)?;
    let ready = |_: &str| std::fs::read_to_string(data.join("endpoints.json")).ok();
    let endpoints = restored.wait_for("it is ready", ready)?;
    let endpoints: Value = serde_json::from_str(&endpoints)?;
    let served = endpoints["http"].as_str().context("the web side is on")?;
    let token = std::fs::read_to_string(data.join("git-token"))?;
    let url = with_token(&format!("{served}/git/default/gitops.git"), token.trim());
    git(place.path(), &["clone", "--quiet", &url, "clone"])?;
    let cloned = place.path().join("clone");
    ensure!(git(&cloned, &["rev-parse", "HEAD"])?.trim() == commit, "a clone has the commit");
    ensure!(std::fs::read_to_string(cloned.join("file"))? == "one\n");
    let ended = restored.terminate()?;
    ensure!(ended.success(), "{ended}");

    let store = data.join("store.redb");
    let length = std::fs::metadata(&store)?.len();
    for kept in [length / 2, 100, 0] {
        std::fs::OpenOptions::new().write(true).open(&store)?.set_len(kept)?;
        let said = ended_by_itself(up(place.path(), &new)?)?;
        let way = format!("kardinal restore FILE --data-dir {new} --force");
        ensure!(said.contains("exit status: 1") && said.contains(&way), "{kept} of {length} bytes: {said}");
    }
    Ok(())
}

/// How a program ended that nobody asked to, and what it said.
fn ended_by_itself(mut process: Process) -> anyhow::Result<String> {
    match process.wait_for("", |_| None::<()>) {
        Err(end) if end.to_string().contains("it ended with") => Ok(end.to_string()),
        Err(error) => Err(error),
        Ok(()) => Ok(String::new()),
    }
}

#[test]
fn backup_while_running_and_restore_bring_objects_and_keys_back() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let data = up.kubeconfig.parent().context("the data directory")?.to_owned();
    let place = tempfile::tempdir()?;
    let path = |name: &str| place.path().join(name).display().to_string();
    let (file, new, running) = (path("backup.tar"), path("new"), data.display().to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client_of(&up.kubeconfig).await?;
        write(&client, "saved").await?;
        succeeds(&["backup", &file, "--data-dir", &running])?;
        write(&client, "later").await
    })?;
    ensure!(mode(Path::new(&file))? == 0o600);
    ensure!(mode(&data)? == 0o700);
    // What a running server holds is not replaced, and what was cut off is not restored.
    refused(&["restore", &file, "--data-dir", &running, "--force"], 1, &["in use by process"])?;
    let half = path("half.tar");
    let whole = std::fs::read(&file)?;
    std::fs::write(&half, whole.get(..whole.len() / 2).unwrap_or_default())?;
    refused(&["restore", &half, "--data-dir", &new], 1, &["cannot be restored"])?;
    ensure!(!Path::new(&new).exists(), "nothing half-done remains");

    succeeds(&["restore", &file, "--data-dir", &new])?;
    refused(&["restore", &file, "--data-dir", &new], 4, &["is not empty", "--force"])?;
    succeeds(&["restore", &file, "--data-dir", &new, "--force"])?;
    for name in ["token", "pki/ca.key", "api-token"] {
        let restored = Path::new(&new).join(name);
        ensure!(std::fs::read(&restored)? == std::fs::read(data.join(name))?, "{name}");
        ensure!(mode(&restored)? == 0o600, "{name}");
    }
    ensure!(mode(Path::new(&new))? == 0o700);
    // The same once more, of a directory that nobody uses.
    succeeds(&["backup", &file, "--data-dir", &new])?;
    runtime.block_on(async {
        let options = Options { data_dir: Some(new.clone().into()), ..Options::default() };
        let server = Server::start(options).await?;
        let maps: Api<ConfigMap> = Api::namespaced(server.client("default"), "default");
        ensure!(maps.get_opt("saved").await?.is_some(), "what was saved is there");
        ensure!(maps.get_opt("later").await?.is_none(), "what came later is not");
        server.shutdown().await;
        Ok(())
    })
}
