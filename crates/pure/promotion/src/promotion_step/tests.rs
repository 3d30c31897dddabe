//! A step on a table: what it sees, what it decides, what it writes down.

mod barriers;
mod body;
mod checked;
mod crash;
mod effects;
mod evidence;
mod lane;
mod late;
mod memory;
mod merging;
mod organisation;
mod removal;
mod starting;
mod tasks;
mod verifying;
mod words;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{
    Bundle, PolicyGate, PromotionState, PromotionStep, PromotionStepStatus, TaskState,
};
use kardinal_planner::why::Who;
use serde_json::{Value, json};

use super::*;
use crate::health::{Adapter, HealthFacts, Target, Unknown};
use crate::seal::Key;

/// What a step plans to do is one thing at a time.
pub(super) trait OneEffect {
    /// It, if anything.
    fn effect(&self) -> Option<Effect>;
}

impl OneEffect for Plan {
    fn effect(&self) -> Option<Effect> {
        let effects = self.effects();
        assert!(effects.len() < 2, "{effects:?}");
        effects.first().map(|effect| Effect::clone(effect))
    }
}

pub(super) const UID: &str = "0b5e";
const NOW: &str = "2026-04-14T14:00:00Z";

/// Everything that a step can see, owned.
pub(super) struct Scene {
    pub(super) step: PromotionStep,
    pub(super) bundle: Option<Bundle>,
    pub(super) others: Vec<PromotionStep>,
    pub(super) siblings: Vec<PromotionStep>,
    pub(super) hold: Option<Hold>,
    pub(super) gates: BTreeMap<String, PolicyGate>,
    pub(super) gate_texts: BTreeMap<String, String>,
    pub(super) pull_request: Option<PullRequest>,
    pub(super) has_no_pull_request: bool,
    pub(super) heard_of_pull_request: bool,
    pub(super) withdrawn: Option<String>,
    pub(super) has_shown: bool,
    pub(super) shown: Option<Shown>,
    pub(super) health: Option<HealthFacts>,
    pub(super) previous: Option<Bundle>,
    pub(super) reverted: Option<Bundle>,
    pub(super) organisation: Result<Organisation, String>,
    pub(super) key: Key,
    pub(super) now: Timestamp,
}

impl Scene {
    /// A step of `my-app` whose spec is the usual one with `extra` on top.
    pub(super) fn new(extra: Value) -> Scene {
        let mut spec = json!({
            "pipeline": "my-app",
            "environment": "prod",
            "bundleRef": "my-app-v1-29-0",
            "git": {"url": "https://github.com/myorg/gitops-repo"},
        });
        merge(&mut spec, extra);
        let step = from(json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "PromotionStep",
            "metadata": {
                "name": "my-app-v1-29-0-prod", "namespace": "default", "uid": UID, "generation": 1,
                "creationTimestamp": "2026-04-14T13:58:00Z",
                "annotations": {"kardinal.io/upstreams": "staging"},
            },
            "spec": spec,
        }));
        Scene {
            step,
            bundle: Some(image_bundle()),
            others: Vec::new(),
            siblings: Vec::new(),
            hold: None,
            gates: BTreeMap::new(),
            gate_texts: BTreeMap::new(),
            pull_request: None,
            has_no_pull_request: false,
            heard_of_pull_request: false,
            withdrawn: None,
            has_shown: true,
            shown: None,
            health: None,
            previous: None,
            reverted: None,
            organisation: Ok(Organisation::default()),
            key: Key::new(&[7; 32]).unwrap(),
            now: time(NOW),
        }
    }

    pub(super) fn reviewed() -> Scene {
        Scene::new(json!({"approval": "pr-review"}))
    }

    pub(super) fn with_gate(mut self, name: &str, status: Value) -> Scene {
        self.step.spec.required_gates.push(name.to_owned());
        self.set_gate(name, status);
        self
    }

    pub(super) fn set_gate(&mut self, name: &str, status: Value) {
        let template = name.strip_prefix("my-app-").unwrap_or(name);
        let gate = from(json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "PolicyGate",
            "metadata": {
                "name": name, "creationTimestamp": "2026-04-14T13:55:48Z",
                "labels": {"kardinal.io/scope": "org", "kardinal.io/gate-template": template},
            },
            "spec": {"expression": "true", "message": "not on weekends", "recheckInterval": "5m"},
            "status": status,
        }));
        self.gates.insert(name.to_owned(), gate);
    }

    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            step: &self.step,
            bundle: self.bundle.as_ref(),
            others: self.others.iter().collect(),
            siblings: self.siblings.iter().collect(),
            hold: self.hold.clone(),
            gates: self.gates.iter().map(|(name, gate)| (name.clone(), gate)).collect(),
            gate_texts: self.gate_texts.clone(),
            pull_request: self.pull_request.as_ref(),
            has_no_pull_request: self.has_no_pull_request,
            heard_of_pull_request: self.heard_of_pull_request,
            withdrawn: self.withdrawn.as_deref(),
            has_shown: self.has_shown,
            shown: self.shown.as_ref(),
            health: self.health.as_ref(),
            previous: self.previous.as_ref(),
            reverted: self.reverted.as_ref(),
            takes_back: self.bundle.as_ref().is_some_and(crate::bundle::is_rollback),
            organisation: self.organisation.as_ref().map_err(String::as_str),
            key: Some(&self.key),
            now: self.now,
        }
    }

    /// Plans, and writes the status down if there is one.
    pub(super) fn plan(&mut self) -> Plan {
        let plan = plan(&self.snapshot());
        assert!(plan.effect().is_none() || plan.status.is_none(), "an effect and a status at once");
        self.write(plan.status.clone());
        plan
    }

    /// Plans until there is something to do.
    pub(super) fn effect(&mut self) -> Effect {
        for _ in 0..5 {
            if let Some(effect) = self.plan().effect() {
                return effect;
            }
        }
        panic!("nothing to do: {:?}", self.status());
    }

    /// Tells the outcome of an effect, and writes the status down.
    pub(super) fn tell(&mut self, effect: &Effect, outcome: Outcome) -> Report {
        self.tell_again(effect, outcome, 1)
    }

    /// The same after some troubles in a row, as the controller takes it.
    pub(super) fn tell_again(&mut self, effect: &Effect, outcome: Outcome, attempt: u32) -> Report {
        let outcome = in_time(&self.step, effect, outcome, attempt);
        let report = report(&self.snapshot(), effect, &outcome, attempt);
        if let Outcome::PullRequest(pull_request) = &outcome {
            self.pull_request = Some(pull_request.clone());
        }
        if *effect == Effect::Step(StepEffect::AddFinalizer) {
            self.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        }
        self.write(report.status.clone());
        report
    }

    fn write(&mut self, status: Option<PromotionStepStatus>) {
        status.iter().for_each(|status| says_what_it_waits_for(&self.step, status));
        if let Some(status) = status {
            // What is written must survive the wire.
            let wire = serde_json::to_value(&status).unwrap();
            self.step.status = Some(serde_json::from_value(wire).unwrap());
        }
    }

    /// Makes what a test has written into the status count as the controller's own word.
    pub(super) fn seal(&mut self) {
        if let Some(mut status) = self.step.status.take() {
            status.progress_seal = self.key.seal_progress(&self.step, &status);
            self.step.status = Some(status);
        }
    }

    pub(super) fn status(&self) -> PromotionStepStatus {
        self.step.status.clone().unwrap_or_default()
    }

    pub(super) fn state(&self) -> PromotionState {
        self.status().state.expect("a state")
    }

    pub(super) fn message(&self) -> String {
        self.status().message.unwrap_or_default()
    }

    pub(super) fn output(&self, key: &str) -> Option<String> {
        self.status().outputs.get(key).cloned()
    }

    pub(super) fn task(&self, name: &str) -> TaskState {
        self.status().steps.iter().find(|task| task.name == name).expect("a task").state
    }

    pub(super) fn pass(&mut self, duration: SignedDuration) {
        self.now += duration;
    }

    /// Up to the open pull request, which is #7.
    pub(super) fn opened(mut self) -> Scene {
        let finalizer = self.effect();
        assert_eq!(finalizer, Effect::Step(StepEffect::AddFinalizer));
        self.tell(&finalizer, Outcome::Done);
        let commit = self.effect();
        self.tell(&commit, committed());
        let open = self.effect();
        assert!(matches!(open, Effect::Forge(ForgeEffect::OpenPullRequest(_))), "{open:?}");
        self.tell(&open, Outcome::PullRequest(open_pull_request()));
        self
    }

    /// Carries out what an open pull request needs, until there is nothing left to do.
    pub(super) fn kept(mut self) -> Scene {
        while let Some(effect) = self.plan().effect() {
            assert!(
                matches!(
                    effect,
                    Effect::Forge(
                        ForgeEffect::SetCommitStatus { .. } | ForgeEffect::UpdatePullRequest { .. }
                    )
                ),
                "{effect:?}"
            );
            self.tell(&effect, Outcome::Done);
        }
        self
    }

    /// Up to the health check of a direct push.
    pub(super) fn pushed(mut self) -> Scene {
        let commit = self.effect();
        self.tell(&commit, committed());
        assert_eq!(self.state(), PromotionState::HealthChecking);
        self
    }
}

/// Whatever a step has come to: while it goes on, its status says what it waits for, and whose turn it is, as data; the
/// message says the same in words. Where it has ended it waits for nothing but what keeps it from being cleared up.
fn says_what_it_waits_for(step: &PromotionStep, status: &PromotionStepStatus) {
    let is_leaving = step.metadata.deletion_timestamp.is_some();
    match status.state {
        None => {}
        Some(_) if is_leaving && status.waits.is_empty() => {}
        Some(PromotionState::Verified | PromotionState::Failed) if !is_leaving => {
            assert_eq!(status.waits, [], "{status:#?}")
        }
        Some(_) => {
            assert!(!status.waits.is_empty(), "{status:#?}");
            assert_eq!(status.message.as_deref(), Some(why::message(&status.waits).as_str()));
            for wait in &status.waits {
                assert!(!wait.reason.is_empty() && !wait.subject.name.is_empty(), "{wait:?}");
                let ends_by_time = wait.until.is_some() || wait.deadline.is_some();
                assert!(ends_by_time || wait.who != Who::Time, "{wait:?}");
            }
        }
    }
}

pub(super) fn held(why: &str) -> Option<Hold> {
    Some(Hold { why: why.to_owned(), since: None })
}

pub(super) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn merge(into: &mut Value, extra: Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, extra) => *into = extra,
    }
}

pub(super) fn bundle(spec: Value) -> Bundle {
    from(json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "my-app-v1-29-0", "namespace": "default"},
        "spec": spec,
    }))
}

pub(super) fn image_bundle() -> Bundle {
    let mut bundle = bundle(json!({
        "type": "image",
        "artifacts": {"images": [{
            "name": "my-app", "reference": "ghcr.io/myorg/my-app:1.29.0", "digest": "sha256:a1b2c3d4e5f6",
        }]},
        "provenance": {
            "commitSHA": "abc123def456",
            "ciRunURL": "https://github.com/myorg/my-app/actions/runs/12345",
            "author": "dependabot[bot]",
        },
    }));
    bundle.status = from(json!({
        "phase": "Promoting",
        "environments": {
            "dev": {"state": "Verified", "verifiedAt": "2026-04-14T12:00:00Z"},
            "staging": {"state": "Verified", "verifiedAt": "2026-04-14T13:15:00Z"},
            "prod": {"state": "Promoting"},
        },
    }));
    bundle
}

pub(super) fn config_bundle() -> Bundle {
    bundle(json!({
        "type": "config",
        "artifacts": {"gitCommit": {
            "repository": "https://github.com/myorg/app-config", "sha": "abc123def456", "message": "Raise limits",
        }},
    }))
}

pub(super) fn committed() -> Outcome {
    Outcome::Committed {
        commit: "c0ffee0000".to_owned(),
        base: Some("ba5e".to_owned()),
        push: Push::Made,
        files: vec!["environments/prod/kustomization.yaml".to_owned()],
        moves: vec![ImageMove {
            repository: "ghcr.io/myorg/my-app".to_owned(),
            from: Some("1.28.0".to_owned()),
            to: "1.29.0".to_owned(),
        }],
        source: None,
    }
}

pub(super) fn unchanged() -> Outcome {
    Outcome::Committed {
        commit: "71b".to_owned(),
        base: None,
        push: Push::NotNeeded,
        files: Vec::new(),
        moves: Vec::new(),
        source: None,
    }
}

pub(super) fn open_pull_request() -> PullRequest {
    PullRequest {
        number: 7,
        url: "https://github.com/myorg/gitops-repo/pull/7".to_owned(),
        state: PullRequestState::Open,
        branch: "kardinal/default/my-app-v1-29-0/prod".to_owned(),
        base: "main".to_owned(),
        head: "c0ffee0000".to_owned(),
        merged_at: None,
        merged_by: None,
        merge_commit: None,
        mergeable: None,
        closed_at: None,
        closed_by: None,
        approved_by: Vec::new(),
    }
}

pub(super) fn merged_pull_request() -> PullRequest {
    PullRequest {
        state: PullRequestState::Merged,
        merged_at: Some(time("2026-04-14T14:05:00Z")),
        merged_by: Some("alice".to_owned()),
        merge_commit: Some("3e76ed".to_owned()),
        ..open_pull_request()
    }
}

pub(super) fn closed_pull_request() -> PullRequest {
    PullRequest {
        state: PullRequestState::Closed,
        closed_at: Some(time("2026-04-14T13:59:30Z")),
        closed_by: Some("bob".to_owned()),
        ..open_pull_request()
    }
}

pub(super) fn ready() -> Value {
    json!({"ready": true, "reason": "schedule.isWeekend = false", "lastEvaluatedAt": "2026-04-14T13:59:00Z"})
}

pub(super) fn closed() -> Value {
    json!({"ready": false, "reason": "schedule.isWeekend = true", "lastEvaluatedAt": "2026-04-14T13:59:00Z"})
}

/// A Deployment that runs a version of `my-app` on all of its replicas.
pub(super) fn deployment(version: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "my-app", "namespace": "prod", "generation": 3},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "app", "image": format!("ghcr.io/myorg/my-app:{version}")},
        ]}}},
        "status": {
            "observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
            "conditions": [{"type": "Available", "status": "True"}],
        },
    })
}

pub(super) fn facts(objects: Vec<Value>) -> HealthFacts {
    HealthFacts {
        target: Target {
            adapter: Adapter::Resource,
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "prod".to_owned(),
            name: Some("my-app".to_owned()),
            labels: BTreeMap::new(),
            condition: None,
        },
        objects,
        fell_back: None,
        contains: BTreeMap::new(),
        unknown: None,
    }
}

pub(super) fn fault() -> Outcome {
    Outcome::Fault { message: "connection refused".to_owned(), retry: Retry::Soon }
}
