//! What the controllers count, under the names of the specification.

use std::time::Duration;

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Approval, Bundle, BundleStatus, PIPELINE_LABEL, PolicyGate, PolicyGateStatus, PromotionState,
    PromotionStep, PromotionStepStatus,
};
use kardinal_planner::bundle::{AUTOMATIC_ANNOTATION, GATE_TEMPLATE_LABEL, ROLLBACK_LABEL};
use kardinal_planner::intent::SOURCE_ANNOTATION;
use kardinal_planner::promotion_step::{Effect, Outcome};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Label sets, by metric.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Created {
    pipeline: String,
    source: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Opened {
    env: String,
    approval: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Env {
    env: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    env: String,
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Rollback {
    env: String,
    trigger: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Evaluated {
    result: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Gate {
    gate: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ApiRequest {
    endpoint: String,
    status: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: String,
}

type ByEnv = Family<Env, Histogram>;
type ByOperation = Family<Operation, Histogram>;

/// The counters of one process.
pub struct Metrics {
    registry: Registry,
    bundles_created: Family<Created, Counter>,
    promotions_opened: Family<Opened, Counter>,
    promotions_merged: Family<Env, Counter>,
    promotions_failed: Family<Failed, Counter>,
    rollbacks: Family<Rollback, Counter>,
    gates_evaluated: Family<Evaluated, Counter>,
    gates_blocked: Family<Gate, Counter>,
    health_check: ByEnv,
    git_operation: ByOperation,
    scm_requests: Family<ApiRequest, Counter>,
    webhooks_rejected: Family<Reason, Counter>,
    lead_time: ByEnv,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("kardinal"),
            bundles_created: Family::default(),
            promotions_opened: Family::default(),
            promotions_merged: Family::default(),
            promotions_failed: Family::default(),
            rollbacks: Family::default(),
            gates_evaluated: Family::default(),
            gates_blocked: Family::default(),
            health_check: Family::new_with_constructor(minutes),
            git_operation: Family::new_with_constructor(millis),
            scm_requests: Family::default(),
            webhooks_rejected: Family::default(),
            lead_time: Family::new_with_constructor(minutes),
        };
        metrics.register();
        metrics
    }
}

/// From a second to nine days.
fn minutes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 3.0, 13))
}

/// From a millisecond to half a minute.
fn millis() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "bundles_created",
            "Bundles that were seen for the first time",
            self.bundles_created.clone(),
        );
        registry.register(
            "promotions_opened",
            "Pull requests that were opened",
            self.promotions_opened.clone(),
        );
        registry.register(
            "promotions_merged",
            "Pull requests that were merged",
            self.promotions_merged.clone(),
        );
        registry.register("promotions_failed", "Promotions that failed", self.promotions_failed.clone());
        registry.register("rollbacks", "Rollbacks that were begun", self.rollbacks.clone());
        registry.register("policy_gates_evaluated", "Evaluations of gates", self.gates_evaluated.clone());
        registry.register(
            "policy_gates_blocked",
            "Evaluations that held a promotion",
            self.gates_blocked.clone(),
        );
        registry.register(
            "health_check_duration_seconds",
            "From the change's arrival to a healthy environment",
            self.health_check.clone(),
        );
        registry.register("git_operation_duration_seconds", "Git operations", self.git_operation.clone());
        registry.register("scm_api_requests", "Requests to forges", self.scm_requests.clone());
        registry.register("webhooks_rejected", "Webhooks that were refused", self.webhooks_rejected.clone());
        registry.register(
            "promotion_lead_time_seconds",
            "From the Bundle's creation to a verified environment",
            self.lead_time.clone(),
        );
    }

    /// All of it in the text format of Prometheus.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }

    /// A request to a forge was answered.
    pub fn scm_request(&self, endpoint: &str, status: u16) {
        let labels = ApiRequest { endpoint: endpoint.to_owned(), status: status.to_string() };
        self.scm_requests.get_or_create(&labels).inc();
    }

    /// A webhook was refused.
    pub fn webhook_rejected(&self, reason: &str) {
        self.webhooks_rejected.get_or_create(&Reason { reason: reason.to_owned() }).inc();
    }

    pub(crate) fn git(&self, operation: &str, took: Duration) {
        let labels = Operation { operation: operation.to_owned() };
        self.git_operation.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A Bundle's status was written.
    pub(crate) fn bundle(&self, bundle: &Bundle, status: &BundleStatus) {
        let is_new = bundle.status.as_ref().is_none_or(|old| old.phase.is_none()) && status.phase.is_some();
        if !is_new {
            return;
        }
        let label = |name: &str| bundle.metadata.labels.as_ref()?.get(name).cloned();
        let annotation = |name: &str| bundle.metadata.annotations.as_ref()?.get(name).cloned();
        let source = annotation(SOURCE_ANNOTATION).unwrap_or_else(|| "kubectl".to_owned());
        let pipeline = label(PIPELINE_LABEL).unwrap_or_default();
        self.bundles_created.get_or_create(&Created { pipeline, source }).inc();
        if label(ROLLBACK_LABEL).is_some() {
            let automatic = annotation(AUTOMATIC_ANNOTATION).is_some();
            let trigger = if automatic { "automatic" } else { "manual" }.to_owned();
            let intent = bundle.spec.intent.as_ref();
            let env = intent.and_then(|intent| intent.target.clone()).unwrap_or_default();
            self.rollbacks.get_or_create(&Rollback { env, trigger }).inc();
        }
    }

    /// A gate's status was written.
    pub(crate) fn gate(&self, gate: &PolicyGate, status: &PolicyGateStatus) {
        let Some(ready) = status.ready else { return };
        let result = if ready { "pass" } else { "block" }.to_owned();
        self.gates_evaluated.get_or_create(&Evaluated { result }).inc();
        if !ready {
            let labels = gate.metadata.labels.as_ref();
            let template = labels.and_then(|labels| labels.get(GATE_TEMPLATE_LABEL));
            let gate = template.or(gate.metadata.name.as_ref()).cloned().unwrap_or_default();
            self.gates_blocked.get_or_create(&Gate { gate }).inc();
        }
    }

    /// An effect of a promotion was carried out.
    pub(crate) fn promotion(&self, step: &PromotionStep, effect: &Effect, outcome: &Outcome) {
        if let (Effect::OpenPullRequest(_), Outcome::PullRequest(_)) = (effect, outcome) {
            let approval = match step.spec.approval.unwrap_or_default() {
                Approval::Auto => "auto",
                Approval::PrReview => "pr-review",
            };
            let labels = Opened { env: step.spec.environment.clone(), approval: approval.to_owned() };
            self.promotions_opened.get_or_create(&labels).inc();
        }
    }

    /// A step's status was written.
    pub(crate) fn step(
        &self,
        step: &PromotionStep,
        bundle: Option<&Bundle>,
        status: &PromotionStepStatus,
        now: Timestamp,
    ) {
        let env = step.spec.environment.clone();
        let old = step.status.clone().unwrap_or_default();
        if old.merged_at.is_none() && status.merged_at.is_some() {
            self.promotions_merged.get_or_create(&Env { env: env.clone() }).inc();
        }
        if old.state == status.state {
            return;
        }
        match status.state {
            Some(PromotionState::Failed) => {
                let failed_in = old.state.map_or_else(|| "Pending".to_owned(), |state| format!("{state:?}"));
                self.promotions_failed.get_or_create(&Failed { env, reason: failed_in }).inc();
            }
            Some(PromotionState::Verified) => {
                if let Some(promoted) = status.promoted_at {
                    let took = now.duration_since(promoted).as_secs_f64();
                    self.health_check.get_or_create(&Env { env: env.clone() }).observe(took);
                }
                let created = bundle.and_then(|bundle| bundle.metadata.creation_timestamp.as_ref());
                if let Some(created) = created {
                    let took = now.duration_since(created.0).as_secs_f64();
                    self.lead_time.get_or_create(&Env { env }).observe(took);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::{BundlePhase, Pipeline};
    use kardinal_planner::intent::{Answer, Wish, promote, rollback};
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(kind: &str, name: &str, rest: Value) -> T {
        let mut object = json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "default", "labels": {PIPELINE_LABEL: "my-app"}},
        });
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    /// A Bundle that was verified in some environments in the minute of its version.
    fn bundle(version: u8, environments: &[&str]) -> Bundle {
        let at = format!("2026-04-09T10:{version:02}:00Z");
        let record = |name: &&str| {
            ((*name).to_owned(), json!({"state": "Verified", "promotedAt": at, "verifiedAt": at}))
        };
        let records: serde_json::Map<_, _> = environments.iter().map(record).collect();
        let image = json!({"name": "my-app", "reference": format!("ghcr.io/myorg/my-app:{version}")});
        let rest = json!({
            "spec": {"artifacts": {"images": [image]}},
            "status": {"phase": "Verified", "environments": records},
        });
        object("Bundle", &format!("my-app-v{version}"), rest)
    }

    #[test]
    fn bundles_of_promote_and_rollback_are_counted_with_their_source() {
        let environments = json!([{"name": "staging"}, {"name": "prod"}]);
        let spec = json!({"git": {"url": "https://example.com/gitops"}, "environments": environments});
        let pipeline: Pipeline = object("Pipeline", "my-app", json!({"spec": spec}));
        let (old, new) = (bundle(1, &["staging", "prod"]), bundle(2, &["staging"]));
        let bundles = [&old, &new];
        let wish = |environment| Wish {
            pipeline: &pipeline,
            environment,
            bundle: None,
            bundles: &bundles,
            force: false,
        };
        let now: Timestamp = "2026-04-09T10:30:00Z".parse().unwrap();
        let forward = promote(&wish("prod"), now).unwrap();
        let back = rollback(&wish("staging"), false, now).unwrap();
        let (Answer::New(forward), Answer::New(back)) = (forward, back) else { panic!("both are new") };
        let by_hand = Bundle { status: None, ..bundle(3, &[]) };
        let metrics = Metrics::default();
        let seen = BundleStatus { phase: Some(BundlePhase::Available), ..BundleStatus::default() };
        for one in [&*forward, &*back, &by_hand] {
            metrics.bundle(one, &seen);
            // Only the first sight of it counts.
            metrics.bundle(&Bundle { status: Some(seen.clone()), ..one.clone() }, &seen);
        }
        let text = metrics.render();
        for source in ["promote", "rollback", "kubectl"] {
            let line = format!("kardinal_bundles_created_total{{pipeline=\"my-app\",source=\"{source}\"}} 1");
            assert!(text.lines().any(|one| one == line), "`{line}` is missing in:\n{text}");
        }
        let line = "kardinal_rollbacks_total{env=\"staging\",trigger=\"manual\"} 1";
        assert!(text.lines().any(|one| one == line), "`{line}` is missing in:\n{text}");
    }
}
