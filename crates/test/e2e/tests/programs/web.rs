//! The web side of a `kardinal up`: what a test needs to talk to it as its owner, and as a stranger.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use kardinal_testkit::up::Up;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use kardinal_testkit::process::PATIENCE;

/// A running `kardinal up` and everything that its owner knows.
pub(crate) struct Web {
    _up: Up,
    pub(crate) dir: PathBuf,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) kube: kube::Client,
}

impl Web {
    pub(crate) async fn start() -> anyhow::Result<Web> {
        let up = Up::start(&[])?;
        let dir = up.kubeconfig.parent().context("the kubeconfig has a folder")?.to_owned();
        let endpoints: Value = serde_json::from_str(&std::fs::read_to_string(dir.join("endpoints.json"))?)?;
        let url = endpoints.get("http").and_then(Value::as_str).context("the web side is on")?.to_owned();
        let kube = kardinal_testkit::world::client_of(&up.kubeconfig).await?;
        Ok(Web { dir, url, http: client()?, kube, _up: up })
    }

    /// A key of the data directory.
    pub(crate) fn key(&self, file: &str) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.dir.join(file))?.trim().to_owned())
    }

    pub(crate) async fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
        let mut request = self.http.get(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Sends bytes as they are and reads until the server closes.
    pub(crate) async fn raw(&self, request: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut said = Vec::new();
        // A server that does not read on may reset the connection behind its answer.
        let _ = stream.read_to_end(&mut said).await;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Applies a manifest in `default`.
    pub(crate) async fn apply(&self, manifest: &Value) -> anyhow::Result<()> {
        let text =
            |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.split_once('/').context("a group")?;
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        if kind == "Repository" {
            resource.plural = "repositories".to_owned();
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.kube.clone(), "default", &resource);
        api.patch(&text("/metadata/name"), &PatchParams::apply("test").force(), &Patch::Apply(manifest))
            .await?;
        Ok(())
    }
}

pub(crate) fn client() -> anyhow::Result<reqwest::Client> {
    // A provider that is installed already is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A server that refuses a body closes the connection; the next request must not meet that one.
    Ok(reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?)
}

/// What CI adds to a request: who it is, when, and the signature of both, the idempotency key and the body.
pub(crate) fn ci_headers(
    token: &str,
    key: &str,
    made: i64,
    idempotency: Option<&str>,
    body: &[u8],
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let place = format!("POST\n/api/v1/bundles\n{made}\n{}\n", idempotency.unwrap_or_default());
    let signed = signature(key, &[place.as_bytes(), body].concat())?;
    let mut headers = vec![
        ("Authorization", format!("Bearer {token}")),
        ("X-Kardinal-Timestamp", made.to_string()),
        ("X-Kardinal-Signature", signed),
    ];
    headers.extend(idempotency.map(|key| ("Idempotency-Key", key.to_owned())));
    Ok(headers)
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// `sha256=<hex>` as CI and forges send it.
pub(crate) fn signature(key: &str, body: &[u8]) -> anyhow::Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    Ok(format!("sha256={}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await? {
            return Ok(found);
        }
        ensure!(tokio::time::Instant::now() < deadline, "{what}: not so after {PATIENCE:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
