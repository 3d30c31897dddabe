//! The text of a change: the forge's web side has it, the API server has not.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kardinal_api::forge::PullRequest;

use crate::args::ServerArguments;
use crate::connect;
use crate::failure::{Failure, Kind};
use crate::server::Server;

/// How long the web side may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the web side of the `kardinal up` whose kubeconfig is used.
pub(super) async fn fetch(
    arguments: &ServerArguments,
    server: &Server,
    request: &PullRequest,
    number: u64,
) -> anyhow::Result<String> {
    let folder = data_dir(arguments)?;
    let endpoints = std::fs::read_to_string(folder.join("endpoints.json")).map_err(|_| no_forge())?;
    let endpoints: serde_json::Value =
        serde_json::from_str(&endpoints).context("`endpoints.json` is not JSON")?;
    let base = endpoints.get("http").and_then(serde_json::Value::as_str).ok_or_else(no_forge)?;
    let token =
        std::fs::read_to_string(folder.join("api-token")).context("cannot read the file `api-token`")?;
    let repository = &request.spec.repository;
    let url = format!("{base}/forge/{}/{repository}/pulls/{number}/diff", server.namespace);
    // A provider that is installed already is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
    let answer = client.get(&url).bearer_auth(token.trim()).send().await;
    let answer = answer.map_err(|_| {
        Failure::new(Kind::NotReachable, format!("the web side at `{base}` does not answer"))
            .hint("start it with `kardinal up`")
    })?;
    let status = answer.status();
    let text = answer.text().await.context("the answer broke off")?;
    match status.is_success() {
        true => Ok(text),
        false => {
            Err(Failure::new(Kind::Failed, format!("the web side answers {status}: {}", text.trim())).into())
        }
    }
}

/// The folder of the `kardinal up` that wrote the kubeconfig.
fn data_dir(arguments: &ServerArguments) -> Result<PathBuf, Failure> {
    let file = connect::kubeconfig(arguments).or_else(|| {
        let set = std::env::var_os("KUBECONFIG")?;
        std::env::split_paths(&set).next()
    });
    file.and_then(|file| file.parent().map(PathBuf::from)).ok_or_else(no_forge)
}

fn no_forge() -> Failure {
    Failure::new(
        Kind::NotReachable,
        "the local forge is not known: there is no `endpoints.json` beside the kubeconfig",
    )
    .hint("run it where `kardinal up` runs, or name its kubeconfig with `--kubeconfig .kardinal/kubeconfig`")
}
