//! Which steps a change concerns.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use kardinal_api::forge;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_cluster::Change;
use kardinal_planner::health::Target;
use serde_json::Value;

use super::{Controller, observe};
use crate::driver::Key;
use crate::objects::{about, gvk, key_of, keys, label, text};

/// What each step that checks health looks at.
#[derive(Default)]
pub(super) struct Following {
    targets: BTreeMap<Key, Vec<Target>>,
}

impl Following {
    /// The step looks at these from now on.
    pub(super) fn follow(&mut self, key: &Key, targets: Vec<Target>) {
        self.targets.insert(key.clone(), targets);
    }

    /// The step is gone or done.
    pub(super) fn forget(&mut self, key: &Key) {
        self.targets.remove(key);
    }

    fn looking_at(&self, change: &Change) -> Vec<Key> {
        let looks = |target: &Target| match change {
            Change::Kind(kind) => target.api_version == kind.api_version() && target.kind == kind.kind,
            Change::Object { id, .. } => {
                target.kind == id.gvk.kind
                    && target.api_version == id.gvk.api_version()
                    && id.namespace.as_deref() == Some(&target.namespace)
                    && target.name.as_deref().is_none_or(|name| name == id.name)
            }
        };
        let found = self.targets.iter().filter(|(_, targets)| targets.iter().any(looks));
        found.map(|(key, _)| key.clone()).collect()
    }
}

impl Controller {
    pub(super) fn following(&self) -> MutexGuard<'_, Following> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps of a namespace that `keep` wants and that are not finished.
    fn unfinished(&self, namespace: &str, keep: impl Fn(&Value) -> bool) -> Vec<Key> {
        let view = self.context.watches.view(&observe::kinds());
        keys::<PromotionStep>(&view, Some(namespace), |step| {
            !matches!(text(step, "/status/state"), "Verified" | "Failed") && keep(step)
        })
    }

    /// What is known of the pull requests of these steps is out of date.
    pub(super) fn read_again(&self, steps: &[Key]) {
        for key in steps {
            self.remember(key, |memory| {
                memory.pull_request = None;
                memory.rest_until = None;
            });
        }
    }
}

/// The steps that have to look at a change.
pub(super) fn route(controller: &Controller, change: &Change) -> Vec<Key> {
    let mut all = controller.following().looking_at(change);
    if let Change::Kind(kind) = change {
        if observe::kinds().contains(kind) {
            let view = controller.context.watches.view(&observe::kinds());
            all.extend(keys::<PromotionStep>(&view, None, |_| true));
        }
        return all;
    }
    if let Some(step) = about(change, &gvk::<PromotionStep>()) {
        let key = key_of(step);
        if refreshed(change) {
            controller.read_again(std::slice::from_ref(&key));
        } else if leaves(change) {
            controller.remember(&key, |memory| memory.rest_until = None);
        }
        if moved(change) {
            let same = |other: &Value, field: &str| text(other, field) == text(step, field);
            all.extend(controller.unfinished(&key.0, |other| LANE.iter().all(|field| same(other, field))));
        }
        all.push(key);
    }
    if let Some(gate) = about(change, &gvk::<PolicyGate>()) {
        let (namespace, name) = key_of(gate);
        let freezes = label(gate, "kardinal.io/freeze") == "true";
        let pipeline = label(gate, "kardinal.io/pipeline");
        all.extend(controller.unfinished(&namespace, |step| {
            (freezes && text(step, "/spec/pipeline") == pipeline) || requires(step, &name)
        }));
    }
    if let Some(bundle) = about(change, &gvk::<Bundle>()) {
        let (namespace, name) = key_of(bundle);
        all.extend(controller.unfinished(&namespace, |step| text(step, "/spec/bundleRef") == name));
    }
    if let Some(pipeline) = about(change, &gvk::<Pipeline>()) {
        let (namespace, name) = key_of(pipeline);
        all.extend(controller.unfinished(&namespace, |step| text(step, "/spec/pipeline") == name));
    }
    if let Some(request) = about(change, &gvk::<forge::PullRequest>()) {
        let (namespace, _) = key_of(request);
        let head = text(request, "/spec/head");
        let waiting = controller.unfinished(&namespace, |step| text(step, "/status/outputs/branch") == head);
        controller.read_again(&waiting);
        all.extend(waiting);
    }
    all
}

/// What two steps have in common that want the same environment.
const LANE: [&str; 2] = ["/spec/pipeline", "/spec/environment"];

/// Whether an object is another step into the same environment.
pub(super) fn beside(other: &Value, step: &PromotionStep) -> bool {
    text(other, "/spec/environment") == step.spec.environment
        && text(other, "/spec/pipeline") == step.spec.pipeline
        && Some(text(other, "/metadata/name")) != step.metadata.name.as_deref()
}

/// Whether a step came, went, or got on, so that others may have their turn.
fn moved(change: &Change) -> bool {
    let Change::Object { old, new, .. } = change else { return false };
    let place = |object: &Value| {
        ["/status/state", "/status/outputs/prState"].map(|field| text(object, field).to_owned())
    };
    old.as_deref().map(place) != new.as_deref().map(place)
}

/// The steps with a pull request in a repository that one of these URLs means.
pub(super) fn in_repository(controller: &Controller, urls: &[String]) -> Vec<Key> {
    let view = controller.context.watches.view(&observe::kinds());
    keys::<PromotionStep>(&view, None, |step| {
        let own = text(step, "/spec/git/url");
        text(step, "/status/state") == "WaitingForMerge"
            && urls.iter().any(|url| kardinal_scm::same_repository(own, url))
    })
}

fn requires(step: &Value, gate: &str) -> bool {
    let gates = step.pointer("/spec/requiredGates").and_then(Value::as_array);
    gates.into_iter().flatten().any(|name| name.as_str() == Some(gate))
}

/// Whether the step begins to be deleted.
fn leaves(change: &Change) -> bool {
    let Change::Object { old, new, .. } = change else { return false };
    let leaving = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
    !old.as_deref().is_some_and(leaving) && new.as_deref().is_some_and(leaving)
}

/// Whether somebody asked for a fresh look.
fn refreshed(change: &Change) -> bool {
    let Change::Object { old, new, .. } = change else { return false };
    let asked = |object: &Value| object.pointer("/metadata/annotations/kardinal.io~1refresh").cloned();
    old.as_deref().and_then(asked) != new.as_deref().and_then(asked)
}
