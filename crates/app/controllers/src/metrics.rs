//! What the controllers count, under the names of the specification.
//!
//! Whoever can write an object chooses names that are counted by, and everybody can read them: a label is a name or a
//! known word, and a metric has a bounded number of series. Nothing else of an object may become a label.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use kardinal_api::kardinal::{
    Approval, Bundle, BundleStatus, PIPELINE_LABEL, PolicyGate, PolicyGateStatus, PromotionState,
    PromotionStep, PromotionStepStatus,
};
use kardinal_object::can_be_name;
use kardinal_promotion::bundle::{AUTOMATIC_ANNOTATION, GATE_TEMPLATE_LABEL, ROLLBACK_LABEL};
use kardinal_promotion::intent::SOURCE_ANNOTATION;
use kardinal_promotion::promotion_step::{Effect, ForgeEffect, Outcome};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

/// Every name begins with it.
const PREFIX: &str = "kardinal";
/// What stands in a label for all that has no place of its own.
const OTHER: &str = "other";
/// The source of a Bundle that does not tell one.
const UNTOLD: &str = "kubectl";
/// The sources that kardinal itself writes, and that of Bundles without one.
const SOURCES: [&str; 7] = ["api", "automatic", "cli", "demo", "promote", "rollback", UNTOLD];
/// How many series a counter has at most, besides those of [`OTHER`].
const MAX_COUNTERS: usize = 1000;
/// The same for histograms, of which each is as long as sixteen counters.
const MAX_HISTOGRAMS: usize = 250;

/// Labels of which some hold names that people chose.
trait Labels: Clone + Hash + Eq {
    /// The same with [`OTHER`] in place of these names.
    fn other(self) -> Self;
}

/// A metric with a bounded number of series. What comes when all places are taken is counted under [`OTHER`].
///
/// No place becomes free again: a name such as `prod` belongs to no single object that could take it along.
struct Bounded<S, M> {
    family: Family<S, M>,
    limit: usize,
    taken: Mutex<HashSet<S>>,
}

impl<S: Labels> Bounded<S, Counter> {
    fn counter() -> Bounded<S, Counter> {
        Bounded { family: Family::default(), limit: MAX_COUNTERS, taken: Mutex::default() }
    }

    fn inc(&self, labels: S) {
        self.family.get_or_create(&self.place(labels)).inc();
    }
}

impl<S: Labels> Bounded<S, Histogram> {
    fn histogram(constructor: fn() -> Histogram) -> Bounded<S, Histogram> {
        let family = Family::new_with_constructor(constructor);
        Bounded { family, limit: MAX_HISTOGRAMS, taken: Mutex::default() }
    }

    fn observe(&self, labels: S, took: f64) {
        self.family.get_or_create(&self.place(labels)).observe(took);
    }
}

impl<S: Labels, M> Bounded<S, M> {
    /// The labels to count under.
    fn place(&self, labels: S) -> S {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(&labels) {
            return labels;
        }
        if taken.len() >= self.limit {
            return labels.other();
        }
        taken.insert(labels.clone());
        labels
    }
}

/// A name that people chose, as a label: what no object can be called is not repeated. Absent: empty.
fn name_label(name: Option<&str>) -> String {
    match name {
        Some(name) if name.is_empty() || can_be_name(name) => name.to_owned(),
        Some(_) => OTHER.to_owned(),
        None => String::new(),
    }
}

/// The source of a Bundle as a label.
fn source_label(source: Option<&str>) -> &'static str {
    let source = source.unwrap_or(UNTOLD);
    SOURCES.into_iter().find(|known| *known == source).unwrap_or(OTHER)
}

/// The status of an answer as a label. Forges belong to others, who can answer with any number; 0 is no answer.
fn status_label(status: u16) -> String {
    let known = StatusCode::from_u16(status).is_ok_and(|code| code.canonical_reason().is_some());
    if known || status == 0 { status.to_string() } else { OTHER.to_owned() }
}

/// Label sets, by metric.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Created {
    pipeline: String,
    source: &'static str,
}

impl Labels for Created {
    fn other(self) -> Created {
        Created { pipeline: OTHER.to_owned(), ..self }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Opened {
    env: String,
    approval: &'static str,
}

impl Labels for Opened {
    fn other(self) -> Opened {
        Opened { env: OTHER.to_owned(), ..self }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Env {
    env: String,
}

impl Labels for Env {
    fn other(self) -> Env {
        Env { env: OTHER.to_owned() }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    env: String,
    reason: String,
}

impl Labels for Failed {
    fn other(self) -> Failed {
        Failed { env: OTHER.to_owned(), ..self }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Rollback {
    env: String,
    trigger: &'static str,
}

impl Labels for Rollback {
    fn other(self) -> Rollback {
        Rollback { env: OTHER.to_owned(), ..self }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Evaluated {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Gate {
    gate: String,
}

impl Labels for Gate {
    fn other(self) -> Gate {
        Gate { gate: OTHER.to_owned() }
    }
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

/// A metric as it is declared to whoever scrapes, also before anything was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its name, as Prometheus knows it.
    pub name: String,
    /// `counter` or `histogram`.
    pub kind: &'static str,
    /// What it means.
    pub help: String,
}

/// The counters of one process.
pub struct Metrics {
    registry: Registry,
    declared: Vec<Declaration>,
    bundles_created: Bounded<Created, Counter>,
    promotions_opened: Bounded<Opened, Counter>,
    promotions_merged: Bounded<Env, Counter>,
    promotions_failed: Bounded<Failed, Counter>,
    rollbacks: Bounded<Rollback, Counter>,
    gates_evaluated: Family<Evaluated, Counter>,
    gates_blocked: Bounded<Gate, Counter>,
    health_check: Bounded<Env, Histogram>,
    git_operation: Family<Operation, Histogram>,
    scm_requests: Family<ApiRequest, Counter>,
    webhooks_rejected: Family<Reason, Counter>,
    lead_time: Bounded<Env, Histogram>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix(PREFIX),
            declared: Vec::new(),
            bundles_created: Bounded::counter(),
            promotions_opened: Bounded::counter(),
            promotions_merged: Bounded::counter(),
            promotions_failed: Bounded::counter(),
            rollbacks: Bounded::counter(),
            gates_evaluated: Family::default(),
            gates_blocked: Bounded::counter(),
            health_check: Bounded::histogram(minutes),
            git_operation: Family::new_with_constructor(millis),
            scm_requests: Family::default(),
            webhooks_rejected: Family::default(),
            lead_time: Bounded::histogram(minutes),
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
        let counted = self.bundles_created.family.clone();
        self.counter("bundles_created", "Bundles that were seen for the first time", counted);
        let counted = self.promotions_opened.family.clone();
        self.counter("promotions_opened", "Pull requests that were opened", counted);
        let counted = self.promotions_merged.family.clone();
        self.counter("promotions_merged", "Pull requests that were merged", counted);
        self.counter("promotions_failed", "Promotions that failed", self.promotions_failed.family.clone());
        self.counter("rollbacks", "Rollbacks that were begun", self.rollbacks.family.clone());
        self.counter("policy_gates_evaluated", "Evaluations of gates", self.gates_evaluated.clone());
        let counted = self.gates_blocked.family.clone();
        self.counter("policy_gates_blocked", "Evaluations that held a promotion", counted);
        let measured = self.health_check.family.clone();
        let meaning = "From the change's arrival to a healthy environment";
        self.histogram("health_check_duration_seconds", meaning, measured);
        self.histogram("git_operation_duration_seconds", "Git operations", self.git_operation.clone());
        self.counter("scm_api_requests", "Requests to forges", self.scm_requests.clone());
        self.counter("webhooks_rejected", "Webhooks that were refused", self.webhooks_rejected.clone());
        let meaning = "From the Bundle's creation to a verified environment";
        self.histogram("promotion_lead_time_seconds", meaning, self.lead_time.family.clone());
    }

    fn counter(&mut self, name: &str, meaning: &str, metric: impl Metric) {
        self.declare(format!("{PREFIX}_{name}_total"), "counter", meaning);
        self.registry.register(name, meaning, metric);
    }

    fn histogram(&mut self, name: &str, meaning: &str, metric: impl Metric) {
        self.declare(format!("{PREFIX}_{name}"), "histogram", meaning);
        self.registry.register(name, meaning, metric);
    }

    /// The registry says nothing of a metric that has no value yet.
    fn declare(&mut self, name: String, kind: &'static str, meaning: &str) {
        self.declared.push(Declaration { name, kind, help: format!("{meaning}.") });
    }

    /// All that can be counted.
    pub fn declared(&self) -> &[Declaration] {
        &self.declared
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
        let labels = ApiRequest { endpoint: endpoint.to_owned(), status: status_label(status) };
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
        let label = |name: &str| bundle.metadata.labels.as_ref()?.get(name).map(String::as_str);
        let annotation = |name: &str| bundle.metadata.annotations.as_ref()?.get(name).map(String::as_str);
        let source = source_label(annotation(SOURCE_ANNOTATION));
        let pipeline = name_label(label(PIPELINE_LABEL));
        self.bundles_created.inc(Created { pipeline, source });
        if label(ROLLBACK_LABEL).is_some() {
            let automatic = annotation(AUTOMATIC_ANNOTATION).is_some();
            let trigger = if automatic { "automatic" } else { "manual" };
            let intent = bundle.spec.intent.as_ref();
            let env = name_label(intent.and_then(|intent| intent.target.as_deref()));
            self.rollbacks.inc(Rollback { env, trigger });
        }
    }

    /// A gate's status was written.
    pub(crate) fn gate(&self, gate: &PolicyGate, status: &PolicyGateStatus) {
        let Some(ready) = status.ready else { return };
        let result = if ready { "pass" } else { "block" };
        self.gates_evaluated.get_or_create(&Evaluated { result }).inc();
        if !ready {
            let labels = gate.metadata.labels.as_ref();
            let template = labels.and_then(|labels| labels.get(GATE_TEMPLATE_LABEL));
            let gate = name_label(template.or(gate.metadata.name.as_ref()).map(String::as_str));
            self.gates_blocked.inc(Gate { gate });
        }
    }

    /// An effect of a promotion was carried out.
    pub(crate) fn promotion(&self, step: &PromotionStep, effect: &Effect, outcome: &Outcome) {
        if let (Effect::Forge(ForgeEffect::OpenPullRequest(_)), Outcome::PullRequest(_)) = (effect, outcome) {
            let approval = match step.spec.approval.unwrap_or_default() {
                Approval::Auto => "auto",
                Approval::PrReview => "pr-review",
            };
            self.promotions_opened.inc(Opened { env: name_label(Some(&step.spec.environment)), approval });
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
        let env = name_label(Some(&step.spec.environment));
        let old = step.status.clone().unwrap_or_default();
        if old.merged_at.is_none() && status.merged_at.is_some() {
            self.promotions_merged.inc(Env { env: env.clone() });
        }
        if old.state == status.state {
            return;
        }
        match status.state {
            Some(PromotionState::Failed) => {
                let failed_in = old.state.unwrap_or(PromotionState::Pending).as_str();
                self.promotions_failed.inc(Failed { env, reason: failed_in.to_owned() });
            }
            Some(PromotionState::Verified) => {
                if let Some(promoted) = status.promoted_at {
                    let took = now.duration_since(promoted).as_secs_f64();
                    self.health_check.observe(Env { env: env.clone() }, took);
                }
                let created = bundle.and_then(|bundle| bundle.metadata.creation_timestamp.as_ref());
                if let Some(created) = created {
                    let took = now.duration_since(created.0).as_secs_f64();
                    self.lead_time.observe(Env { env }, took);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
