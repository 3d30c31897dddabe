//! The web side of a real `kardinal up`: CI, webhooks, git, pages, metrics.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

#[path = "http/bundles.rs"]
mod bundles;
#[path = "http/ci_keys.rs"]
mod ci_keys;
#[path = "http/controller.rs"]
mod controller;
#[path = "http/git.rs"]
mod git;
#[path = "http/ports.rs"]
mod ports;
#[path = "process/running.rs"]
mod process;
#[path = "http/standby.rs"]
mod standby;
#[path = "http/webhooks.rs"]
mod webhooks;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use kardinal_testkit::up::Up;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use sha2::Sha256;

/// The metrics of the specification, by the names it gives them.
const METRICS: [&str; 11] = [
    "kardinal_bundles_created_total",
    "kardinal_promotions_opened_total",
    "kardinal_promotions_merged_total",
    "kardinal_promotions_failed_total",
    "kardinal_rollbacks_total",
    "kardinal_policy_gates_evaluated_total",
    "kardinal_policy_gates_blocked_total",
    "kardinal_health_check_duration_seconds",
    "kardinal_git_operation_duration_seconds",
    "kardinal_scm_api_requests_total",
    "kardinal_promotion_lead_time_seconds",
];

/// A running `kardinal up` and everything that its owner knows.
struct Web {
    _up: Up,
    dir: PathBuf,
    url: String,
    http: reqwest::Client,
    kube: kube::Client,
}

impl Web {
    async fn start() -> anyhow::Result<Web> {
        let up = Up::start(&[])?;
        let dir = up.kubeconfig.parent().context("the kubeconfig has a folder")?.to_owned();
        let endpoints: Value = serde_json::from_str(&std::fs::read_to_string(dir.join("endpoints.json"))?)?;
        let url = endpoints["http"].as_str().context("the web side is on")?.to_owned();
        let kube = kardinal_testkit::world::client_of(&up.kubeconfig).await?;
        Ok(Web { dir, url, http: client()?, kube, _up: up })
    }

    /// A key of the data directory.
    fn key(&self, file: &str) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.dir.join(file))?.trim().to_owned())
    }

    async fn get(&self, path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
        let mut request = self.http.get(format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Applies a manifest in `default`.
    async fn apply(&self, manifest: &Value) -> anyhow::Result<()> {
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

fn client() -> anyhow::Result<reqwest::Client> {
    // A provider that is installed already is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A server that refuses a body closes the connection; the next request must not meet that one.
    Ok(reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build()?)
}

/// What CI adds to a request: who it is, when, and the signature of both, the idempotency key and the body.
fn ci_headers(
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
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// `sha256=<hex>` as CI and forges send it.
fn signature(key: &str, body: &[u8]) -> anyhow::Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    Ok(format!("sha256={}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Asks until the answer is there.
async fn eventually<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = tokio::time::Instant::now() + process::PATIENCE;
    loop {
        if let Some(found) = ask().await? {
            return Ok(found);
        }
        ensure!(tokio::time::Instant::now() < deadline, "{what}: not so after {:?}", process::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn probes_and_metrics_need_no_token() -> anyhow::Result<()> {
    let web = Web::start().await?;
    ensure!(web.get("/healthz", None).await? == (200, "ok".to_owned()));
    ensure!(web.get("/readyz", None).await? == (200, "ok".to_owned()));
    ensure!(web.get("/nowhere", None).await?.0 == 404);
    let (code, text) = web.get("/metrics", None).await?;
    ensure!(code == 200);
    for name in METRICS {
        let kind = if name.ends_with("_total") { "counter" } else { "histogram" };
        ensure!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is missing:\n{text}");
    }
    ensure!(text.lines().all(|line| line.starts_with('#') || line.starts_with("kardinal_")), "{text}");
    Ok(())
}
