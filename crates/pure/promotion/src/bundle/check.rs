//! May this Bundle go the way it wants, and is there one?

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, BundlePhase, Pipeline, PromotionStep};
use kardinal_object::name_of;
use kardinal_policy::{Scope, evaluate};

use super::gates::Templates;
use super::refused::check_size;
use super::route::Route;
use super::{Snapshot, pipeline_name, translate};
use crate::gate_context::{Candidate, EnvironmentFacts};
use crate::seal::{Door, Key, Place};
use kardinal_planner::problem::{Problem, listed};

/// A Bundle that is not promoted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How the Bundle ends; `Available`: it does not, it is only not known yet whether it may start.
    pub phase: BundlePhase,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The reason in words, with what to do.
    pub message: String,
}

/// The Graph that promotes the Bundle, or why there can be none. Whoever has no Graph is asked what it skips: that it was
/// let through before is only what its status says, which its team can write.
pub fn check(snapshot: &Snapshot<'_>, pipeline: &Pipeline) -> Result<Graph, Refusal> {
    let whole = Route::whole(&pipeline.spec)
        .map_err(|problem| refusal(BundlePhase::Failed, "InvalidPipeline", &problem))?;
    check_tasks(snapshot.bundle, pipeline)
        .map_err(|problem| refusal(BundlePhase::Failed, "InvalidPipeline", &problem))?;
    check_skips(snapshot, pipeline, &whole)?;
    let (gates, policies) = (snapshot.gates, snapshot.policy_namespaces);
    let graph = translate(snapshot.bundle, pipeline, gates, policies, snapshot.graphs)
        .map_err(|problem| refusal(BundlePhase::Failed, "InvalidIntent", &problem))?;
    check_size(&graph).map_err(|problem| refusal(BundlePhase::Failed, "GraphTooLarge", &problem))?;
    Ok(graph)
}

/// The tasks of every environment on the way can be carried out: a Bundle that would fail at the last one does not set out.
fn check_tasks(bundle: &Bundle, pipeline: &Pipeline) -> Result<(), Problem> {
    // A way that cannot be is told with the Graph.
    let Ok(route) = Route::intended(&pipeline.spec, bundle.spec.intent.as_ref()) else { return Ok(()) };
    let mut all = pipeline.spec.environments.iter().enumerate();
    all.try_for_each(|(position, environment)| match route.contains(&environment.name) {
        true => crate::pipeline::check_tasks(pipeline, position, environment),
        false => Ok(()),
    })
}

fn refusal(phase: BundlePhase, reason: &'static str, problem: &Problem) -> Refusal {
    Refusal { phase, reason, message: problem.to_string() }
}

/// Each skipped environment on the way that the organisation guards needs a permission that is true now.
fn check_skips(snapshot: &Snapshot<'_>, pipeline: &Pipeline, whole: &Route<'_>) -> Result<(), Refusal> {
    let Some(intent) = &snapshot.bundle.spec.intent else { return Ok(()) };
    let on_the_way = |name: &str| {
        intent.target.as_deref().is_none_or(|target| target == name || whole.ancestors(target).contains(name))
    };
    let templates = Templates::collect(pipeline, snapshot.bundle, snapshot.gates, snapshot.policy_namespaces);
    let mut denials = Vec::new();
    for name in intent.skip.iter().filter(|name| on_the_way(name)) {
        denials.extend(denial(snapshot, whole, &templates, name)?);
    }
    if denials.is_empty() {
        return Ok(());
    }
    Err(Refusal { phase: BundlePhase::SkipDenied, reason: "SkipDenied", message: denials.join("; ") })
}

/// Why an environment may not be skipped, if so.
fn denial(
    snapshot: &Snapshot<'_>,
    whole: &Route<'_>,
    templates: &Templates<'_>,
    name: &str,
) -> Result<Option<String>, Refusal> {
    let Some(stop) = whole.stop(name) else { return Ok(None) };
    let guarding = templates.guarding(name);
    let guards: Vec<&str> = guarding
        .iter()
        .filter(|template| template.scope == Scope::Org)
        .map(|template| template.name())
        .collect();
    if guards.is_empty() {
        return Ok(None);
    }
    let upstreams: Vec<String> = stop.upstreams.iter().map(|&upstream| upstream.to_owned()).collect();
    let environment = EnvironmentFacts { name, approval: stop.environment.approval(), upstreams: &upstreams };
    let mut tried = Vec::new();
    for permission in templates.permissions(name) {
        let context = proven(snapshot, name)?.context(environment, snapshot.now);
        let gate = name_of(&permission.metadata);
        let verdict = evaluate(gate, &permission.spec, &context);
        if verdict.is_open() {
            return Ok(None);
        }
        tried.push(format!("`{gate}` (`{}`): {}", permission.spec.expression, verdict.reason));
    }
    let guarded = format!("`{name}` may not be skipped: the organisation guards it with {}", listed(guards));
    Ok(Some(match tried.is_empty() {
        true => format!("{guarded}, and no skip-permission gate of the organisation applies to it"),
        false => format!("{guarded}; what would permit it is not true: {}", tried.join(", ")),
    }))
}

/// What the organisation's permissions are told, the same as what its gates are told by a step: the Bundle as far as it is
/// proven, and the one that is proven to have been verified last.
fn proven(snapshot: &Snapshot<'_>, environment: &str) -> Result<Candidate<'static>, Refusal> {
    let key: &Key = snapshot.key.map_err(|why| Refusal {
        phase: BundlePhase::Available,
        reason: "NothingProven",
        message: format!("waits to learn whether `{environment}` may be skipped: {why}"),
    })?;
    let pipeline = pipeline_name(snapshot.bundle).unwrap_or_default();
    let steps: Vec<PromotionStep> = snapshot.steps.iter().copied().cloned().collect();
    // What is skipped has no step, so that nobody knows which place it would be: no rollback permits to skip it.
    let door = Door { pipeline, environment, place: Some(Place::NOWHERE) };
    Ok(Candidate::proven(key, &door, snapshot.bundle, &steps, snapshot.around))
}

/// The Bundle that was verified last in an environment.
pub fn last_verified<'a>(bundles: &[&'a Bundle], environment: &str) -> Option<&'a Bundle> {
    let verified = |bundle: &&Bundle| verified_at(bundle, environment);
    bundles.iter().copied().filter(|bundle| verified(bundle).is_some()).max_by_key(verified)
}

/// When a Bundle was verified in an environment.
pub(crate) fn verified_at(bundle: &Bundle, environment: &str) -> Option<jiff::Timestamp> {
    bundle.status.as_ref()?.environments.get(environment)?.verified_at
}
