//! `GET /metrics`, in the text format that every Prometheus reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use http::header::{CONTENT_TYPE, HeaderName};
use kardinal_controllers::Metrics;
use kardinal_controllers::metrics::Declaration;

use super::Web;

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn show(State(web): State<Arc<Web>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, KIND)], prometheus(&web.metrics))
}

/// From OpenMetrics, where a counter is declared without its `_total`, to the older format, where it is declared with
/// it; and with a declaration for what has no value yet.
fn prometheus(metrics: &Metrics) -> String {
    let openmetrics = metrics.render();
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
    for Declaration { name, kind, help } in metrics.declared() {
        if declared.contains(name) {
            continue;
        }
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_declared_once_from_the_beginning() {
        let metrics = Metrics::default();
        assert_eq!(metrics.declared().len(), 12);
        for counted in [false, true] {
            if counted {
                metrics.scm_request("pulls", 200);
                metrics.webhook_rejected("unsigned");
            }
            let text = prometheus(&metrics);
            for Declaration { name, kind, .. } in metrics.declared() {
                let declaration = format!("# TYPE {name} {kind}\n");
                assert_eq!(text.matches(&declaration).count(), 1, "{declaration}{text}");
            }
            assert!(!text.contains("EOF"), "{text}");
            let sample = r#"kardinal_scm_api_requests_total{endpoint="pulls",status="200"} 1"#;
            assert_eq!(text.contains(sample), counted, "{text}");
        }
    }
}
