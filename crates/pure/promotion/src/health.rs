//! Whether an environment is healthy **with the promoted version**: which object to look at, and what it says.
//!
//! An object that is healthy with the version before is not healthy: every adapter first asks for the revision.

mod argocd;
mod choose;
mod facts;
mod flagger;
mod flux;
mod images;
mod kubeconfig;
mod proof;
mod resource;
mod rollouts;
mod sight;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_manifest::Image;
use kardinal_vcs::Barrier;
use serde_json::Value;

pub use choose::{Chosen, choose};
pub use facts::{facts, kinds, unknown};
pub use kubeconfig::{Login, RemoteCluster, remote_cluster};
pub use proof::marks;
pub use sight::Sight;

/// Who judges health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// The conditions and counts of a workload.
    Resource,
    /// An Argo CD Application.
    ArgoCd,
    /// A Flux Kustomization.
    Flux,
    /// An Argo Rollouts Rollout.
    ArgoRollouts,
    /// A Flagger Canary.
    Flagger,
}

impl Adapter {
    /// The name that `health.type` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Adapter::Resource => "resource",
            Adapter::ArgoCd => "argocd",
            Adapter::Flux => "flux",
            Adapter::ArgoRollouts => "argoRollouts",
            Adapter::Flagger => "flagger",
        }
    }
}

/// The object, or the objects, that tell the health of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Who reads them.
    pub adapter: Adapter,
    /// Their API version.
    pub api_version: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
    /// The name of the one object; `None` when labels select them.
    pub name: Option<String>,
    /// The labels that select them; empty when there is a name.
    pub labels: BTreeMap<String, String>,
    /// The condition that must be `True`, where the user named one.
    pub condition: Option<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{} `{name}` in namespace `{}`", self.kind, self.namespace),
            None => {
                let labels: Vec<String> =
                    self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(
                    formatter,
                    "{} with `{}` in namespace `{}`",
                    self.kind,
                    labels.join(","),
                    self.namespace
                )
            }
        }
    }
}

/// What must have arrived in the environment.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The promoted images; empty for a Bundle of configuration.
    pub images: &'a [Image],
    /// The commit that brought the change.
    pub commit: Option<&'a str>,
    /// For each revision that was seen, whether it contains the commit.
    pub contains: &'a BTreeMap<String, bool>,
    /// When the change was made; `None` when there was nothing to change.
    pub since: Option<Timestamp>,
    /// What the objects looked like before, to compare with.
    pub baseline: Option<Baseline<'a>>,
}

/// What the objects of an environment looked like at an earlier time.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// Their [`marks`].
    pub marks: &'a str,
    /// Whether that was right before the push. Otherwise it was the first look after it, and the change may have been there.
    pub before_push: bool,
}

/// What was seen of an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthFacts {
    /// What was looked at.
    pub target: Target,
    /// The objects that are there: those of the target, then those of [`related`].
    pub objects: Vec<Value>,
    /// Why another target than the first choice was looked at.
    pub fell_back: Option<String>,
    /// For each [`revision_of`] an object, whether it contains the promoted commit.
    pub contains: BTreeMap<String, bool>,
    /// Why nothing can be said of the environment.
    pub unknown: Option<Unknown>,
}

/// Why nothing can be said of an environment. It is neither healthy then nor sick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The way to its cluster is barred until somebody acts.
    Problem {
        /// What is wrong and what to do about it.
        message: String,
        /// What stands in the way.
        barrier: Barrier,
    },
    /// Its cluster cannot be reached, or is not heard of at present.
    Unreachable {
        /// Why, in words.
        why: String,
        /// The code of HTTP that it refuses with, if it answers at all.
        code: Option<u16>,
    },
}

impl Unknown {
    /// Something of the user's is wrong, and neither credentials nor the operator's settings.
    pub fn problem(message: impl Into<String>) -> Unknown {
        Unknown::Problem { message: message.into(), barrier: Barrier::Other }
    }
}

/// What the objects say, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promoted version runs and is healthy.
    Healthy(String),
    /// All is well, but nothing shows that the promoted version is what runs.
    Unproven(String),
    /// It is on its way.
    Progressing(String),
    /// It is in trouble. It may still recover.
    Degraded(String),
    /// There is nothing to look at.
    Missing(String),
}

impl Verdict {
    /// The reason.
    pub fn reason(&self) -> &str {
        match self {
            Verdict::Healthy(reason)
            | Verdict::Unproven(reason)
            | Verdict::Progressing(reason)
            | Verdict::Degraded(reason)
            | Verdict::Missing(reason) => reason,
        }
    }

    /// The verdict in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Healthy(_) => "Healthy",
            Verdict::Unproven(_) => "Unproven",
            Verdict::Progressing(_) => "Progressing",
            Verdict::Degraded(_) => "Degraded",
            Verdict::Missing(_) => "Missing",
        }
    }

    fn severity(&self) -> u8 {
        match self {
            Verdict::Healthy(_) => 0,
            Verdict::Unproven(_) => 1,
            Verdict::Progressing(_) => 2,
            Verdict::Missing(_) => 3,
            Verdict::Degraded(_) => 4,
        }
    }
}

/// The Git revision that an object says it has applied, for the observer to ask whether it contains the commit.
pub fn revision_of(target: &Target, object: &Value) -> Option<String> {
    match target.adapter {
        Adapter::ArgoCd => argocd::revision(object),
        Adapter::Flux => flux::revision(object),
        Adapter::Resource | Adapter::ArgoRollouts | Adapter::Flagger => None,
    }
}

/// Another object that tells the revision where the target's own does not: the workload behind a Canary, or the one
/// that a Rollout refers to.
pub fn related(target: &Target, object: &Value) -> Option<Target> {
    match target.adapter {
        Adapter::Flagger => flagger::workload(target, object),
        Adapter::ArgoRollouts => rollouts::workload(target, object),
        Adapter::Resource | Adapter::ArgoCd | Adapter::Flux => None,
    }
}

/// Judges the objects of a target. Where several are selected, the worst one decides.
pub fn verdict(target: &Target, objects: &[Value], expected: &Expected<'_>) -> Verdict {
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| text(object, "/kind").is_none_or(|kind| kind == target.kind));
    let judged = own.iter().map(|object| match target.adapter {
        Adapter::Resource => resource::judge(target, object, expected),
        Adapter::ArgoCd => argocd::judge(object, expected),
        Adapter::Flux => flux::judge(object, expected),
        Adapter::ArgoRollouts => rollouts::judge(object, &others, expected),
        Adapter::Flagger => flagger::judge(object, &others, expected),
    });
    // `max_by_key` keeps the last of equals; the first one reads more naturally.
    judged
        .rev()
        .max_by_key(Verdict::severity)
        .unwrap_or_else(|| Verdict::Missing(format!("{target} does not exist")))
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    let value = object.pointer(pointer)?;
    // Argo Rollouts writes its observedGeneration as a string.
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

fn label(object: &Value) -> String {
    let kind = text(object, "/kind").unwrap_or("object");
    let name = text(object, "/metadata/name").unwrap_or_default();
    format!("{kind} `{name}`")
}

/// Whether the controller of the object has seen its newest spec.
fn is_current(object: &Value) -> bool {
    match number(object, "/metadata/generation") {
        Some(generation) => {
            number(object, "/status/observedGeneration").is_some_and(|seen| seen >= generation)
        }
        None => true,
    }
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| text(condition, "/type") == Some(name))
}

/// Whether the commit has arrived, by the revision that an object says it has applied.
fn has_commit(revision: &str, expected: &Expected<'_>) -> bool {
    expected.commit == Some(revision) || expected.contains.get(revision).copied().unwrap_or(false)
}

fn short(revision: &str) -> &str {
    revision.get(..7).unwrap_or(revision)
}

/// What a condition says, or its reason where it says nothing.
fn said(condition: &Value) -> &str {
    text(condition, "/message").or_else(|| text(condition, "/reason")).unwrap_or("no reason given")
}
