//! `GET /metrics`, in the text format that every Prometheus reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use http::header::{CONTENT_TYPE, HeaderName};

use super::Web;

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is there from the first scrape on, even before anything was counted: name, type, meaning.
const DECLARED: [(&str, &str, &str); 12] = [
    ("kardinal_bundles_created_total", "counter", "Bundles that were seen for the first time."),
    ("kardinal_promotions_opened_total", "counter", "Pull requests that were opened."),
    ("kardinal_promotions_merged_total", "counter", "Pull requests that were merged."),
    ("kardinal_promotions_failed_total", "counter", "Promotions that failed."),
    ("kardinal_rollbacks_total", "counter", "Rollbacks that were begun."),
    ("kardinal_policy_gates_evaluated_total", "counter", "Evaluations of gates."),
    ("kardinal_policy_gates_blocked_total", "counter", "Evaluations that held a promotion."),
    (
        "kardinal_health_check_duration_seconds",
        "histogram",
        "From the change's arrival to a healthy environment.",
    ),
    ("kardinal_git_operation_duration_seconds", "histogram", "Git operations."),
    ("kardinal_scm_api_requests_total", "counter", "Requests to forges."),
    (
        "kardinal_promotion_lead_time_seconds",
        "histogram",
        "From the Bundle's creation to a verified environment.",
    ),
    ("kardinal_webhooks_rejected_total", "counter", "Webhooks that were refused."),
];

pub(super) async fn show(State(web): State<Arc<Web>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, KIND)], prometheus(&web.metrics.render()))
}

/// From OpenMetrics, where a counter is declared without its `_total`, to the older format, where it is declared with
/// it; and with a declaration for what has no value yet.
fn prometheus(openmetrics: &str) -> String {
    let counters: BTreeSet<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    let mut declared = BTreeSet::new();
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(word @ ("HELP" | "TYPE")), Some(name), rest) => {
                let total = if counters.contains(name) { "_total" } else { "" };
                let _ = writeln!(text, "# {word} {name}{total} {}", rest.unwrap_or_default());
                declared.insert(format!("{name}{total}"));
            }
            (Some("#"), ..) => {}
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    for (name, kind, help) in DECLARED.iter().filter(|(name, ..)| !declared.contains(*name)) {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_declared_once_from_the_beginning() {
        let metrics = kardinal_controllers::Metrics::default();
        for counted in [false, true] {
            if counted {
                metrics.scm_request("pulls", 200);
                metrics.webhook_rejected("unsigned");
            }
            let text = prometheus(&metrics.render());
            for (name, kind, _) in DECLARED {
                let declaration = format!("# TYPE {name} {kind}\n");
                assert_eq!(text.matches(&declaration).count(), 1, "{declaration}{text}");
            }
            assert!(!text.contains("EOF"), "{text}");
            let sample = r#"kardinal_scm_api_requests_total{endpoint="pulls",status="200"} 1"#;
            assert_eq!(text.contains(sample), counted, "{text}");
        }
    }
}
