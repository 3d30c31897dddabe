//! Which Bundle an environment is about, and everything that belongs to its way there.

use std::collections::BTreeSet;

use kardinal_api::graph::{Graph, Node, NodeState, NodeStatus};
use kardinal_api::kardinal::{Bundle, BundlePhase, EnvironmentStatus, PromotionState, PromotionStep};
use kardinal_object::{age, name_of};
use serde_json::Value;

use super::World;
use super::text::display_version;
use crate::bundle::report::newest;
use crate::bundle::{
    self, Route, UPSTREAMS_ANNOTATION, carries, graph_environments, is_finished, is_step_of, pipeline_name,
    why,
};
use crate::intent::{arrived, ended_at, gone};

/// One Bundle on its way into one environment.
pub(super) struct PromotionView<'a> {
    /// The environment.
    pub(super) environment: String,
    /// The Bundle, its record brought up to date from the steps.
    pub(super) bundle: Bundle,
    /// The step, once there is one.
    pub(super) step: Option<&'a PromotionStep>,
    /// The Graph that promotes the Bundle.
    pub(super) graph: Option<&'a Graph>,
    /// The environments directly before it.
    pub(super) upstreams: Vec<String>,
}

impl PromotionView<'_> {
    /// The record of the environment.
    pub(super) fn entry(&self) -> Option<&EnvironmentStatus> {
        self.record(&self.environment)
    }

    /// The record of any environment.
    pub(super) fn record(&self, environment: &str) -> Option<&EnvironmentStatus> {
        self.bundle.status.as_ref()?.environments.get(environment)
    }

    /// Where the step stands. The record wins: what is verified stays verified.
    pub(super) fn state(&self) -> Option<PromotionState> {
        let of_step = self.step.and_then(|step| step.status.as_ref()?.state);
        let pending = self.step.map(|_| PromotionState::Pending);
        self.entry().and_then(|entry| entry.state).or(of_step).or(pending)
    }

    /// The node of the Graph that makes the step.
    pub(super) fn node(&self) -> Option<&Node> {
        self.graph.and_then(|graph| step_node(graph, &self.environment))
    }

    /// What the Graph says about that node.
    pub(super) fn node_status(&self) -> Option<&NodeStatus> {
        let id = &self.node()?.id;
        self.graph?.status.as_ref()?.nodes.iter().find(|status| status.id == *id)
    }

    /// The names of the gates that the step requires, from the step itself or from its node.
    pub(super) fn required_gates(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> =
            self.step.iter().flat_map(|step| step.spec.required_gates.iter().cloned()).collect();
        let Some(graph) = self.graph else { return names };
        let wanted =
            self.node().and_then(|node| node.template.as_ref()?.pointer("/spec/requiredGates")?.as_array());
        for text in wanted.into_iter().flatten().filter_map(Value::as_str) {
            let node = graph.spec.nodes.iter().find(|node| text.contains(&format!("${{{}.", node.id)));
            let name = node.and_then(|node| node.template.as_ref()?.pointer("/metadata/name")?.as_str());
            names.extend(name.map(str::to_owned));
        }
        names
    }

    /// Whether the Graph leaves a node out.
    pub(super) fn is_excluded(&self, id: &str) -> bool {
        let nodes = self.graph.and_then(|graph| graph.status.as_ref()).map(|status| status.nodes.as_slice());
        nodes.unwrap_or_default().iter().any(|node| node.id == id && node.state == NodeState::Excluded)
    }
}

/// The Bundle that the environment is about: the newest that is still on its way there, else the one that came last.
pub(super) fn promotion_view<'a>(world: &World<'a>, environment: &str) -> Option<PromotionView<'a>> {
    let known = meant_for(world, environment);
    let on_its_way = known
        .iter()
        .copied()
        .filter(|bundle| !phase(bundle).is_some_and(is_finished) && !is_over(bundle, environment));
    let has_been = known.iter().copied().filter(|bundle| match (phase(bundle), state(bundle, environment)) {
        (_, Some(PromotionState::Verified)) => true,
        (Some(BundlePhase::Superseded | BundlePhase::SkipDenied), _) => false,
        (_, state) => state.is_some(),
    });
    let bundle = on_its_way
        .max_by_key(|bundle| age(&bundle.metadata))
        .or_else(|| has_been.max_by_key(|bundle| (ended_at(bundle, environment), age(&bundle.metadata))))?;
    if is_over(bundle, environment) && is_replaced(world, bundle, environment) {
        return None;
    }
    Some(view_of(world, bundle, environment))
}

/// Whether something else has come since, of which the Bundle is gone.
fn is_replaced(world: &World<'_>, bundle: &Bundle, environment: &str) -> bool {
    let bundles: Vec<&Bundle> = world.bundles.iter().filter(|bundle| is_ours(world, bundle)).collect();
    let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
    gone(world.pipeline, &bundles, environment, bundle.spec.kind()).is_some_and(|one| arrived(one) > created)
}

/// Whether the step into the environment has come to its end.
fn is_over(bundle: &Bundle, environment: &str) -> bool {
    matches!(state(bundle, environment), Some(PromotionState::Verified | PromotionState::Failed))
}

/// The Bundle with its record as the steps tell it now.
pub(super) fn up_to_date(world: &World<'_>, bundle: &Bundle) -> Bundle {
    bundle::up_to_date(bundle, world.steps)
}

fn view_of<'a>(world: &World<'a>, bundle: &'a Bundle, environment: &str) -> PromotionView<'a> {
    let steps = steps_of(world, bundle);
    let graph = graph_of(world, bundle);
    let step = newest(&steps).into_iter().find(|step| step.spec.environment == environment);
    PromotionView {
        environment: environment.to_owned(),
        upstreams: upstreams(world, bundle, graph, environment),
        bundle: up_to_date(world, bundle),
        step,
        graph,
    }
}

/// Newer Bundles that were meant for the environment and will not come, with the reason.
pub(super) fn refused(world: &World<'_>, environment: &str) -> Vec<String> {
    let known = meant_for(world, environment);
    let shown = promotion_view(world, environment);
    let shown_age = shown.as_ref().map(|view| age(&view.bundle.metadata));
    // What was refused before something came whose Bundle is gone is past.
    let ours: Vec<&Bundle> = world.bundles.iter().filter(|bundle| is_ours(world, bundle)).collect();
    let came =
        |bundle: &Bundle| gone(world.pipeline, &ours, environment, bundle.spec.kind()).and_then(arrived);
    let mut refused: Vec<&Bundle> = known
        .into_iter()
        .filter(|bundle| matches!(phase(bundle), Some(BundlePhase::Failed | BundlePhase::SkipDenied)))
        .filter(|bundle| state(bundle, environment).is_none())
        .filter(|bundle| shown_age.as_ref().is_none_or(|shown| age(&bundle.metadata) > *shown))
        .filter(|bundle| age(&bundle.metadata).0 > came(bundle))
        .collect();
    refused.sort_by_key(|bundle| std::cmp::Reverse(age(&bundle.metadata)));
    let line = |bundle: &Bundle| {
        let version = display_version(&crate::gate_context::version(&bundle.spec));
        let name = name_of(&bundle.metadata);
        let reason = why(bundle).unwrap_or("the reason is not known");
        format!("{version} ({name}) does not come here: {reason}")
    };
    refused.into_iter().take(3).map(line).collect()
}

/// The Bundles of the Pipeline whose way leads, or has led, to the environment.
fn meant_for<'a>(world: &World<'a>, environment: &str) -> Vec<&'a Bundle> {
    let is_meant = |bundle: &&Bundle| {
        if state(bundle, environment).is_some() {
            return true;
        }
        match graph_of(world, bundle) {
            Some(graph) => graph_environments(graph).environments.iter().any(|name| name == environment),
            None => Route::intended(&world.pipeline.spec, bundle.spec.intent.as_ref())
                .is_ok_and(|route| route.contains(environment)),
        }
    };
    world.bundles.iter().filter(|bundle| is_ours(world, bundle)).filter(is_meant).collect()
}

/// Whether a Bundle is one of the Pipeline's.
pub(super) fn is_ours(world: &World<'_>, bundle: &Bundle) -> bool {
    let pipeline = &world.pipeline.metadata;
    pipeline_name(bundle) == pipeline.name.as_deref()
        && bundle.metadata.namespace == pipeline.namespace
        && bundle.metadata.deletion_timestamp.is_none()
}

pub(super) fn steps_of<'a>(world: &World<'a>, bundle: &Bundle) -> Vec<&'a PromotionStep> {
    world.steps.iter().filter(|step| is_step_of(step, bundle)).collect()
}

fn graph_of<'a>(world: &World<'a>, bundle: &Bundle) -> Option<&'a Graph> {
    let mut here = world.graphs.iter().filter(|graph| graph.metadata.namespace == bundle.metadata.namespace);
    here.find(|graph| carries(graph, bundle))
}

fn step_node<'g>(graph: &'g Graph, environment: &str) -> Option<&'g Node> {
    graph.spec.nodes.iter().find(|node| {
        let Some(template) = &node.template else { return false };
        template.get("kind").and_then(Value::as_str) == Some("PromotionStep")
            && template.pointer("/spec/environment").and_then(Value::as_str) == Some(environment)
    })
}

/// The environments directly before one: as the Graph froze them, else as the Pipeline has them now.
fn upstreams(world: &World<'_>, bundle: &Bundle, graph: Option<&Graph>, environment: &str) -> Vec<String> {
    if let Some(node) = graph.and_then(|graph| step_node(graph, environment)) {
        let template = node.template.as_ref();
        let annotation = template
            .and_then(|template| template.pointer("/metadata/annotations"))
            .and_then(|annotations| annotations.get(UPSTREAMS_ANNOTATION)?.as_str());
        return annotation.map(split).unwrap_or_default();
    }
    let route = Route::intended(&world.pipeline.spec, bundle.spec.intent.as_ref()).ok();
    let stop = route.as_ref().and_then(|route| route.stop(environment));
    stop.map(|stop| stop.upstreams.iter().map(|&name| name.to_owned()).collect()).unwrap_or_default()
}

/// `a,b` as two names.
pub(super) fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn phase(bundle: &Bundle) -> Option<BundlePhase> {
    bundle.status.as_ref()?.phase
}

fn state(bundle: &Bundle, environment: &str) -> Option<PromotionState> {
    bundle.status.as_ref()?.environments.get(environment)?.state
}
