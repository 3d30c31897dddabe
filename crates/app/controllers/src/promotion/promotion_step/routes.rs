//! Which steps a change concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use kardinal_api::forge;
use kardinal_api::kardinal::{
    Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep, REFRESH_ANNOTATION,
};
use kardinal_cluster::Change;
use kardinal_promotion::bundle::FREEZE_LABEL;
use kardinal_promotion::health::Target;
use kardinal_promotion::promotion_step::concerns;
use serde_json::Value;

use super::{Controller, observe};
use crate::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{about, all_keys, before_and_after, get, gvk, key_of, keys, label, text};

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

    /// The steps of a namespace with this facet.
    fn steps(&self, namespace: &str, facet: &'static str, value: &str) -> Vec<Key> {
        let view = self.context.watches.view(&[gvk::<PromotionStep>()]);
        keys::<PromotionStep>(&view, Some(namespace), facet, value)
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

    /// Something has happened to the pull requests of these steps.
    pub(super) fn hear_of_pull_requests(&self, steps: &[Key]) {
        self.read_again(steps);
        for key in steps {
            self.remember(key, |memory| {
                memory.has_no_pull_request = false;
                memory.heard_of_pull_request = true;
            });
        }
    }
}

/// The steps that have to look at a change.
pub(super) fn route(controller: &Controller, change: &Change) -> Vec<Key> {
    let mut all = controller.following().looking_at(change);
    if let Change::Kind(kind) = change {
        if observe::kinds().contains(kind) {
            let view = controller.context.watches.view(&[gvk::<PromotionStep>()]);
            all.extend(all_keys::<PromotionStep>(&view));
        }
        return all;
    }
    if let Some(step) = about::<PromotionStep>(change) {
        let key = key_of(step);
        if refreshed(change) {
            controller.hear_of_pull_requests(std::slice::from_ref(&key));
        } else if leaves(change) {
            controller.remember(&key, |memory| memory.rest_until = None);
        }
        if moved(change) {
            let place = facets::place(text(step, "/spec/pipeline"), text(step, "/spec/environment"));
            all.extend(controller.steps(&key.0, facets::MOVING_TO, &place));
        }
        all.push(key);
    }
    if let Some(gate) = about::<PolicyGate>(change) {
        let (namespace, name) = key_of(gate);
        all.extend(controller.steps(&namespace, facets::MOVING_PAST, &name));
        if controller.context.policy_namespaces.contains(&namespace) && asks_anew(change) {
            let view = controller.context.watches.view(&[gvk::<PromotionStep>()]);
            all.extend(keys::<PromotionStep>(&view, None, facets::MOVING, ""));
        }
        for pipeline in frozen(change) {
            all.extend(controller.steps(&namespace, facets::MOVING_PIPELINE, pipeline));
        }
    }
    if let Some(bundle) = about::<Bundle>(change) {
        let (namespace, name) = key_of(bundle);
        all.extend(controller.steps(&namespace, facets::MOVING_BUNDLE, &name));
    }
    if let Some(pipeline) = about::<Pipeline>(change) {
        let (namespace, name) = key_of(pipeline);
        all.extend(controller.steps(&namespace, facets::MOVING_PIPELINE, &name));
    }
    if let Some(request) = about::<forge::PullRequest>(change) {
        let (namespace, _) = key_of(request);
        let head = text(request, "/spec/head");
        let waiting = controller.steps(&namespace, facets::BRANCH, head);
        controller.hear_of_pull_requests(&waiting);
        all.extend(waiting);
    }
    all
}

/// The Pipelines that a gate held before a change, and those that it holds after it.
fn frozen(change: &Change) -> BTreeSet<&str> {
    let (old, new) = before_and_after(change);
    let holding = old.into_iter().chain(new).filter(|gate| label(gate, FREEZE_LABEL) == "true");
    holding.map(|gate| label(gate, PIPELINE_LABEL)).collect()
}

/// Whether a step came, went, or got on, so that others may have their turn.
fn moved(change: &Change) -> bool {
    let place =
        |step: &Value| ["/status/state", "/status/outputs/prState"].map(|field| text(step, field).to_owned());
    let (old, new) = before_and_after(change);
    old.map(place) != new.map(place)
}

/// The steps that something concerns that has happened in a repository that one of these URLs means: those of this process,
/// and the others.
pub(super) fn in_repository(
    controller: &Controller,
    urls: &[String],
    pull_request: Option<u64>,
) -> (Vec<Key>, Vec<Key>) {
    let context = &controller.context;
    let view = context.watches.view(&[gvk::<PromotionStep>()]);
    let Some(steps) = view.kind(&gvk::<PromotionStep>()) else { return Default::default() };
    let meant = steps.list(None).filter(|(_, step)| {
        let own = text(step.tree(), "/spec/git/url");
        urls.iter().any(|url| kardinal_scm::same_repository(own, url))
    });
    let meant = meant.filter_map(|((namespace, name), _)| {
        let (key, step) = ((namespace.clone(), name.clone()), get::<PromotionStep>(&view, namespace, name)?);
        // What a process knows of it nobody can erase.
        let known = || controller.pull_request_number(&key);
        let is_meant = concerns(&step, pull_request) || (pull_request.is_some() && known() == pull_request);
        is_meant.then(|| (key, context.serves(&step)))
    });
    let (here, elsewhere): (Vec<_>, Vec<_>) = meant.partition(|(_, here)| *here);
    let keys = |all: Vec<(Key, bool)>| all.into_iter().map(|(key, _)| key).collect();
    (keys(here), keys(elsewhere))
}

/// The steps that have a shard.
pub(super) fn sharded(controller: &Controller) -> Vec<Key> {
    let view = controller.context.watches.view(&[gvk::<PromotionStep>()]);
    keys::<PromotionStep>(&view, None, facets::SHARDED, "")
}

/// Whether a gate came, went, or asks something else. What is written down about it changes no answer.
fn asks_anew(change: &Change) -> bool {
    let asked = |gate: &Value| ["/spec", "/metadata/labels"].map(|field| gate.pointer(field).cloned());
    let (old, new) = before_and_after(change);
    old.map(asked) != new.map(asked)
}

/// Whether the step begins to be deleted.
fn leaves(change: &Change) -> bool {
    let leaving = |step: &Value| step.pointer("/metadata/deletionTimestamp").is_some();
    let (old, new) = before_and_after(change);
    !old.is_some_and(leaving) && new.is_some_and(leaving)
}

/// Whether somebody asked for a fresh look.
fn refreshed(change: &Change) -> bool {
    let asked = |step| Value::pointer(step, "/metadata/annotations")?.get(REFRESH_ANNOTATION);
    let (old, new) = before_and_after(change);
    old.and_then(asked) != new.and_then(asked)
}
