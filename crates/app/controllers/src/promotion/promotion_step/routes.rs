//! Which steps a change concerns.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::forge;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep, REFRESH_ANNOTATION,
};
use kardinal_cluster::Change;
use kardinal_promotion::bundle::FREEZE_LABEL;
use kardinal_promotion::health::Target;
use kardinal_promotion::promotion_step::{self as planner, concerns};
use serde_json::Value;

use super::{Kind, Memory};
use crate::Context;
use crate::promotion::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{before_and_after, get, gvk, keys, label, lock, text};
use crate::reconcile::pass::{self, Memories};
use crate::reconcile::routes::{Heard, Hears, nobody};

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

    /// The steps that look at what has changed.
    pub(super) fn looking_at(&self, change: &Change) -> Vec<Key> {
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

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<PromotionStep>, of_step),
    Hears::read(gvk::<PolicyGate>, of_gate),
    Hears::read(gvk::<Bundle>, of_bundle),
    Hears::read(gvk::<Pipeline>, of_pipeline),
    Hears::read(gvk::<forge::PullRequest>, of_pull_request),
    Hears::read(gvk::<Graph>, nobody),
];

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let key = heard.key();
    let mut all = Vec::new();
    if refreshed(heard.change) {
        hear_of_pull_requests(heard.memories, std::slice::from_ref(&key));
    } else if leaves(heard.change) {
        lock(&heard.memories.of(&key)).wake(|known| known);
    }
    if moved(heard.change) {
        let [pipeline, environment] =
            ["/spec/pipeline", "/spec/environment"].map(|field| text(heard.object, field));
        all.extend(steps(heard, Some(&key.0), facets::MOVING_TO, &facets::place(pipeline, environment)));
    }
    all.push(key);
    all
}

fn of_gate(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    let mut all = steps(heard, Some(&namespace), facets::MOVING_PAST, &name);
    if heard.kind.context.policy_namespaces.contains(&namespace) && asks_anew(heard.change) {
        all.extend(steps(heard, None, facets::MOVING, ""));
    }
    for pipeline in frozen(heard.change) {
        all.extend(steps(heard, Some(&namespace), facets::MOVING_PIPELINE, pipeline));
    }
    all
}

fn of_bundle(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    steps(heard, Some(&namespace), facets::MOVING_BUNDLE, &name)
}

fn of_pipeline(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    steps(heard, Some(&namespace), facets::MOVING_PIPELINE, &name)
}

fn of_pull_request(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, _) = heard.key();
    let waiting = steps(heard, Some(&namespace), facets::BRANCH, text(heard.object, "/spec/head"));
    hear_of_pull_requests(heard.memories, &waiting);
    waiting
}

/// The steps with this facet.
fn steps(heard: &Heard<'_, Kind>, namespace: Option<&str>, facet: &'static str, value: &str) -> Vec<Key> {
    let view = heard.kind.context.watches.view(&[gvk::<PromotionStep>()]);
    keys::<PromotionStep>(&view, namespace, facet, value)
}

/// Something has happened to the pull requests of these steps.
pub(super) fn hear_of_pull_requests(memories: &Memories<Memory>, steps: &[Key]) {
    for key in steps {
        lock(&memories.of(key)).wake(planner::Memory::hear_of_pull_request);
    }
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
    controller: &pass::Controller<Kind>,
    urls: &[String],
    pull_request: Option<u64>,
) -> (Vec<Key>, Vec<Key>) {
    let context = &controller.kind().context;
    let view = context.watches.view(&[gvk::<PromotionStep>()]);
    let Some(steps) = view.kind(&gvk::<PromotionStep>()) else { return Default::default() };
    let meant = steps.list(None).filter(|(_, step)| {
        let own = text(step.tree(), "/spec/git/url");
        urls.iter().any(|url| kardinal_scm::same_repository(own, url))
    });
    let meant = meant.filter_map(|((namespace, name), _)| {
        let (key, step) = ((namespace.clone(), name.clone()), get::<PromotionStep>(&view, namespace, name)?);
        // What a process knows of it nobody can erase.
        let known = || {
            let remembered = controller.memories().known(&key)?;
            let known = lock(&remembered);
            known.known.pull_request.as_ref().map(|found| found.number)
        };
        let is_meant = concerns(&step, pull_request) || (pull_request.is_some() && known() == pull_request);
        is_meant.then(|| (key, context.serves(&step)))
    });
    let (here, elsewhere): (Vec<_>, Vec<_>) = meant.partition(|(_, here)| *here);
    let keys = |all: Vec<(Key, bool)>| all.into_iter().map(|(key, _)| key).collect();
    (keys(here), keys(elsewhere))
}

/// The steps that have a shard.
pub(super) fn sharded(context: &Context) -> Vec<Key> {
    let view = context.watches.view(&[gvk::<PromotionStep>()]);
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
