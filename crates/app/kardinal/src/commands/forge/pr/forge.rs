//! The web side of the `kardinal up` whose kubeconfig is used. Who may read its data directory has its token.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kardinal_api::forge::PullRequest;
use kardinal_promotion::intent::{check_name, check_namespace};

use crate::args::ServerArguments;
use crate::connect;
use crate::failure::{Failure, Kind};
use crate::server::{Server, refused};

/// How long the web side may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A forge that is known by its data directory.
pub(super) struct Forge {
    base: String,
    token: String,
    http: reqwest::Client,
}

impl Forge {
    /// The forge beside the kubeconfig.
    pub(super) fn beside(arguments: &ServerArguments) -> anyhow::Result<Forge> {
        let folder = data_dir(arguments)?;
        let endpoints = std::fs::read_to_string(folder.join("endpoints.json")).map_err(|_| no_forge())?;
        let endpoints: serde_json::Value =
            serde_json::from_str(&endpoints).context("`endpoints.json` is not JSON")?;
        let base = endpoints.get("http").and_then(serde_json::Value::as_str).ok_or_else(no_forge)?.to_owned();
        let token =
            std::fs::read_to_string(folder.join("git-token")).context("cannot read the file `git-token`")?;
        // A provider that is installed already is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Forge { base, token: token.trim().to_owned(), http })
    }

    /// The address of a pull request's page.
    pub(super) fn page(
        &self,
        server: &Server,
        request: &PullRequest,
        number: u64,
    ) -> Result<String, Failure> {
        let (namespace, repository) = (&server.namespace, &request.spec.repository);
        check_namespace("namespace", namespace).map_err(refused)?;
        check_name("repository", repository).map_err(refused)?;
        Ok(format!("{}/forge/{namespace}/{repository}/pulls/{number}", self.base))
    }

    /// Reads what an address of it says.
    pub(super) async fn get(&self, url: &str) -> anyhow::Result<String> {
        self.answer(self.http.get(url)).await
    }

    /// A code that signs one browser in.
    pub(super) async fn code(&self) -> anyhow::Result<String> {
        let answer = self.answer(self.http.post(format!("{}/forge/sign-in", self.base))).await?;
        let answer: serde_json::Value = serde_json::from_str(&answer).context("the answer is not JSON")?;
        let code =
            answer.get("code").and_then(serde_json::Value::as_str).context("the answer has no code")?;
        Ok(code.to_owned())
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> anyhow::Result<String> {
        let answer = request.bearer_auth(&self.token).send().await.map_err(|_| {
            Failure::new(Kind::NotReachable, format!("the web side at `{}` does not answer", self.base))
                .hint("start it with `kardinal up`")
        })?;
        let status = answer.status();
        let text = answer.text().await.context("the answer broke off")?;
        match status.is_success() {
            true => Ok(text),
            false => {
                Err(Failure::new(Kind::Failed, format!("the web side answers {status}: {}", text.trim()))
                    .into())
            }
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
