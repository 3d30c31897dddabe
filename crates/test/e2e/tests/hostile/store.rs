//! A store that was copied, cut off or put in the wrong place: what is saved comes back whole, or not at all.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kardinal_apiserver::{Options, Server};
use kardinal_testkit::up::{Up, binary};
use kardinal_testkit::world::client_of;
use kube::Api;
use serde_json::json;

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
