//! Objects to build tables from, and a small world that carries effects out.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    Bundle, BundleFailure, BundlePhase, BundleStatus, Pipeline, PolicyGate, PromotionState, PromotionStep,
    PromotionStepSpec, PromotionStepStatus,
};
use serde::de::DeserializeOwned;

use crate::bundle::plan::phase_of;
use crate::bundle::{Commit, Effect, Plan, Snapshot, failure, plan, why};
use crate::gate_context::Surroundings;
use crate::seal::Key;
use kardinal_planner::why::{WaitOn, Who};

pub(super) fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

macro_rules! fixture {
    ($name:literal) => {
        crate::bundle::tests::world::yaml(include_str!(concat!(
            "../../../../api/tests/fixtures/spec004/",
            $name,
            ".yaml"
        )))
    };
}
pub(super) use fixture;

pub(super) fn now() -> Timestamp {
    "2026-04-09T10:00:00Z".parse().unwrap()
}

pub(super) fn org() -> Vec<String> {
    vec!["platform-policies".to_owned()]
}

/// `dev`, `staging after=dev` …: a Pipeline whose environments are given one per line as YAML flow maps.
pub(super) fn pipeline(environments: &str) -> Pipeline {
    yaml(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {{name: my-app, namespace: default, uid: p-1}}\n\
         spec:\n  git: {{url: 'https://github.com/myorg/gitops-repo'}}\n  environments:\n{environments}"
    ))
}

/// An environment for each name, one after the other.
pub(super) fn line(names: &[&str]) -> Pipeline {
    let list: String = names.iter().map(|name| format!("    - {{name: {name}}}\n")).collect();
    pipeline(&list)
}

pub(super) fn bundle(name: &str) -> Bundle {
    let mut bundle: Bundle = yaml(
        "apiVersion: kardinal.io/v1alpha1\nkind: Bundle\nmetadata: {name: x, namespace: default, labels: {kardinal.io/pipeline: my-app}}\n\
         spec: {artifacts: {images: [{name: my-app, reference: 'ghcr.io/myorg/my-app:1.29.0'}]}}",
    );
    bundle.metadata.name = Some(name.to_owned());
    bundle.metadata.uid = Some(format!("uid-{name}"));
    bundle.metadata.generation = Some(1);
    bundle.metadata.creation_timestamp = Some(Time(now()));
    bundle
}

/// A Bundle with an intent, written as a YAML flow map.
pub(super) fn intended(name: &str, intent: &str) -> Bundle {
    let mut bundle = bundle(name);
    bundle.spec.intent = Some(yaml(intent));
    bundle
}

/// A gate: `labels` and `spec` as YAML flow maps.
pub(super) fn gate(namespace: &str, name: &str, labels: &str, spec: &str) -> PolicyGate {
    yaml(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}\nspec: {spec}"
    ))
}

pub(super) fn org_gate(name: &str, environment: &str) -> PolicyGate {
    gate(
        "platform-policies",
        name,
        &format!("{{kardinal.io/scope: org, kardinal.io/applies-to: {environment}, kardinal.io/type: gate}}"),
        "{expression: 'true'}",
    )
}

/// Whatever has become of a Bundle: while it goes on, its status says what it waits for, and whose turn it is, as data; the
/// message says the same in words. Where it has ended it waits at most for a newer one that keeps it from being taken back.
pub(super) fn says_what_it_waits_for(status: &BundleStatus) {
    let told = |type_: &str| status.conditions.iter().find(|one| one.type_ == type_);
    let ready = told("Ready").unwrap();
    let put_off = told("RollbackPutOff").filter(|told| told.status == "True");
    let rendered = match status.phase.unwrap() {
        BundlePhase::Available => status.waits[0].detail.clone(),
        BundlePhase::Promoting if ready.status == "False" => status.waits[0].detail.clone(),
        BundlePhase::Promoting => why::message(&status.waits, &status.environments),
        _ => status.waits.iter().map(|wait| wait.detail.as_str()).collect::<Vec<_>>().join("; "),
    };
    let said = match status.phase.unwrap() {
        BundlePhase::Available | BundlePhase::Promoting => ready.message.as_str(),
        _ => put_off.map_or("", |told| told.message.as_str()),
    };
    assert_eq!(rendered, said, "{status:#?}");
    let has_failed = ["Rejected", "StepFailed"].contains(&ready.reason.as_str());
    assert_eq!(
        status.failure.is_some(),
        has_failed && status.phase == Some(BundlePhase::Failed),
        "{status:#?}"
    );
    if let Some(failure) = &status.failure {
        says_why_it_failed(status, failure, ready);
    }
    for wait in &status.waits {
        assert!(!wait.reason.is_empty() && !wait.subject.name.is_empty(), "{wait:?}");
        let ends_by_time = wait.until.is_some() || wait.deadline.is_some();
        assert!(ends_by_time || wait.who != Who::Time, "{wait:?}");
        assert!(wait.on != WaitOn::Gate || (wait.until.is_some() == (wait.who == Who::Time)), "{wait:?}");
    }
}

/// Unless one of its steps begins anew, what a failed Bundle says is made from what stands in its status.
fn says_why_it_failed(status: &BundleStatus, failure: &BundleFailure, ready: &Condition) {
    let has_failed = |name: &String| status.environments[name].state == Some(PromotionState::Failed);
    if failure.environments.iter().all(has_failed) {
        assert_eq!(ready.message, failure::message(failure, &status.environments));
        assert_eq!(ready.reason, failure::reason(failure, &status.environments));
    }
}

/// Everything that exists, and the time.
pub(super) struct World {
    pub(super) pipeline: Option<Pipeline>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) gates: Vec<PolicyGate>,
    pub(super) graphs: Vec<Graph>,
    pub(super) steps: Vec<PromotionStep>,
    pub(super) commit: Commit,
    pub(super) key: Result<Key, String>,
    pub(super) now: Timestamp,
}

impl World {
    pub(super) fn new(pipeline: Pipeline, bundles: Vec<Bundle>) -> World {
        let (gates, graphs, steps) = (Vec::new(), Vec::new(), Vec::new());
        let key = Key::new(&[7; 32]).ok_or_else(String::new);
        let commit = Commit::Found;
        World { pipeline: Some(pipeline), bundles, gates, graphs, steps, commit, key, now: now() }
    }

    pub(super) fn bundle(&self, name: &str) -> &Bundle {
        self.bundles.iter().find(|bundle| bundle.metadata.name.as_deref() == Some(name)).unwrap()
    }

    pub(super) fn bundle_mut(&mut self, name: &str) -> &mut Bundle {
        self.bundles.iter_mut().find(|bundle| bundle.metadata.name.as_deref() == Some(name)).unwrap()
    }

    pub(super) fn phase(&self, name: &str) -> Option<BundlePhase> {
        phase_of(self.bundle(name))
    }

    /// The `Ready` condition as `status reason: message`.
    pub(super) fn ready(&self, name: &str) -> String {
        let status = self.bundle(name).status.as_ref().unwrap();
        let condition = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
        format!("{} {}: {}", condition.status, condition.reason, condition.message)
    }

    pub(super) fn plan(&self, name: &str) -> Plan {
        self.decide(name, plan)
    }

    /// What is decided about a Bundle from everything that exists.
    pub(super) fn decide<T>(&self, name: &str, decide: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let bundle = self.bundle(name);
        let others = self.bundles.iter().filter(|other| other.metadata.name != bundle.metadata.name);
        let steps: Vec<&PromotionStep> =
            self.steps.iter().filter(|step| step.spec.bundle_ref == name).collect();
        decide(&Snapshot {
            bundle,
            pipeline: self.pipeline.as_ref(),
            around: &Surroundings::default().with_others(others.cloned().collect()),
            gates: &self.gates.iter().collect::<Vec<_>>(),
            graphs: &self.graphs.iter().collect::<Vec<_>>(),
            steps: &steps,
            policy_namespaces: &org(),
            commit: &self.commit,
            key: self.key.as_ref().map_err(String::as_str),
            now: self.now,
        })
    }

    /// One pass over a Bundle, with its writes carried out.
    pub(super) fn pass(&mut self, name: &str) -> Plan {
        let plan = self.plan(name);
        for effect in plan.effects() {
            self.perform(effect);
        }
        if let (Some(status), true) =
            (&plan.status, self.bundles.iter().any(|bundle| bundle.metadata.name.as_deref() == Some(name)))
        {
            self.bundle_mut(name).status = Some(status.clone());
            says_what_it_waits_for(status);
        }
        plan
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::CreateGraph(graph) => {
                if !self.graphs.iter().any(|other| other.metadata.name == graph.metadata.name) {
                    let mut graph = graph.as_ref().clone();
                    graph.metadata.uid = graph.metadata.name.clone();
                    self.graphs.push(graph);
                }
            }
            Effect::DeleteGraph { name, uid } => {
                let graph = self.graphs.iter().find(|graph| graph.metadata.name.as_ref() == Some(name));
                assert_eq!(graph.and_then(|graph| graph.metadata.uid.as_ref()), Some(uid));
                self.graphs.retain(|graph| graph.metadata.name.as_ref() != Some(name));
            }
            Effect::CreateBundle(bundle) => {
                if !self.bundles.iter().any(|other| other.metadata.name == bundle.metadata.name) {
                    let mut bundle = bundle.as_ref().clone();
                    bundle.metadata.uid = bundle.metadata.name.clone();
                    self.now += SignedDuration::from_secs(1);
                    bundle.metadata.creation_timestamp = Some(Time(self.now));
                    self.bundles.push(bundle);
                }
            }
            Effect::DeleteBundle { name, .. } => {
                self.bundles.retain(|bundle| bundle.metadata.name.as_ref() != Some(name));
            }
        }
    }

    /// Puts a step of a Bundle into a state, at the present time.
    pub(super) fn set(
        &mut self,
        bundle: &str,
        environment: &str,
        state: PromotionState,
    ) -> &mut PromotionStepStatus {
        self.now += SignedDuration::from_secs(60);
        let name = format!("{bundle}-{environment}");
        let position = self.steps.iter().position(|step| step.metadata.name.as_ref() == Some(&name));
        let position = position.unwrap_or_else(|| {
            let spec = PromotionStepSpec {
                pipeline: "my-app".to_owned(),
                environment: environment.to_owned(),
                bundle_ref: bundle.to_owned(),
                ..PromotionStepSpec::default()
            };
            self.steps.push(PromotionStep::new(&name, spec));
            self.steps.len() - 1
        });
        let now = self.now;
        let status = self.steps[position].status.get_or_insert_default();
        status.state = Some(state);
        if matches!(state, PromotionState::HealthChecking | PromotionState::Verified) {
            status.promoted_at = status.promoted_at.or(Some(now));
        }
        if state == PromotionState::Verified {
            status.verified_at = Some(now);
            status.outputs.insert("commit".to_owned(), format!("commit-{environment}"));
        }
        status
    }

    /// Brings a Bundle through environments, all the way.
    pub(super) fn verify(&mut self, bundle: &str, environments: &[&str]) {
        self.pass(bundle);
        for environment in environments {
            self.set(bundle, environment, PromotionState::Verified);
        }
        self.pass(bundle);
    }
}
