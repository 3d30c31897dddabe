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
#[path = "process/web.rs"]
mod web;
#[path = "http/webhooks.rs"]
mod webhooks;

use anyhow::ensure;
use web::{Web, ci_headers, client, eventually, now, signature};

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
