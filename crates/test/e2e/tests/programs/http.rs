//! The web side of a real `kardinal up`: CI, webhooks, git, pages, metrics.

mod bundles;
mod ci_keys;
mod controller;
mod git;
mod ports;
mod standby;
mod webhooks;

use crate::web::{Web, ci_headers, client, eventually, now, signature};
use anyhow::ensure;

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
