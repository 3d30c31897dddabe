//! What the gates of an environment would say at another time, with the engine that the controllers use.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, BundleSpec, PIPELINE_LABEL, PolicyGate};
use kardinal_object::name_of;
use kardinal_policy::{Question, Scope, Verdict, all, evaluate, joint_window};
use serde::Serialize;

use crate::bundle::{Route, Stop, Template, Templates};
use crate::explain::{World, explain};
use crate::gate_context::{self, Candidate, EnvironmentFacts, GateContext};
use crate::intent::{Error, bundle_named, environment_named};

/// What is asked about an environment.
#[derive(Clone, Copy, Debug)]
pub struct SimulationQuestion<'a> {
    /// The environment.
    pub environment: &'a str,
    /// The name of the Bundle. Absent: the one on its way there, else one that carries nothing.
    pub bundle: Option<&'a str>,
    /// For how many minutes the Bundle is taken to have been verified in the environments before. Absent: as it is.
    pub soak_minutes: Option<u32>,
}

/// What all gates say together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// The Pipeline.
    pub pipeline: String,
    /// The environment.
    pub environment: String,
    /// How people call what the Bundle carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The time that was asked about.
    pub time: Timestamp,
    /// The answer.
    pub result: SimulationResult,
    /// What each gate says.
    pub gates: Vec<GateAnswer>,
    /// The first instant at which all gates are open together, if they are not and come to be so by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_window: Option<Timestamp>,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SimulationResult {
    /// All gates are open.
    Pass,
    /// At least one is closed.
    Blocked,
}

impl SimulationResult {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SimulationResult::Pass => "PASS",
            SimulationResult::Blocked => "BLOCKED",
        }
    }
}

/// What one gate says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateAnswer {
    /// The name of the template.
    pub name: String,
    /// `org` or `team`.
    pub scope: &'static str,
    /// Whether it is open.
    pub pass: bool,
    /// The values that led to it.
    pub reason: String,
    /// What it tells people while it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When a closed gate opens by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opens: Option<Timestamp>,
}

/// Asks the gates of an environment about the time of `world`.
pub fn simulate(world: &World<'_>, question: &SimulationQuestion<'_>) -> Result<Simulation, Error> {
    environment_named(world.pipeline, question.environment)?;
    let route = Route::whole(&world.pipeline.spec)?;
    let stop = route.stop(question.environment);
    let bundle = bundle(world, question)?;
    let gates: Vec<&PolicyGate> = world.gates.iter().collect();
    // Gates that are newer than the Bundle are asked as well: the question is what they would say.
    let mut anew = bundle.clone();
    anew.metadata.creation_timestamp = None;
    let templates = Templates::collect(world.pipeline, &anew, &gates, world.policy_namespaces);
    let guarding = templates.guarding(question.environment);
    let (verdicts, next_window) = ask(world, question, stop, &bundle, &guarding);
    let is_open = all(verdicts.iter().cloned()).is_open();
    Ok(Simulation {
        pipeline: name_of(&world.pipeline.metadata).to_owned(),
        environment: question.environment.to_owned(),
        version: Some(gate_context::version(&bundle.spec)).filter(|version| !version.is_empty()),
        time: world.now,
        result: if is_open { SimulationResult::Pass } else { SimulationResult::Blocked },
        next_window,
        gates: guarding.iter().zip(verdicts).map(|(template, verdict)| answer(template, verdict)).collect(),
    })
}

/// What the gates say, and when all of them are open together if they are not now.
fn ask(
    world: &World<'_>,
    question: &SimulationQuestion<'_>,
    stop: Option<&Stop<'_>>,
    bundle: &Bundle,
    guarding: &[Template<'_>],
) -> (Vec<Verdict>, Option<Timestamp>) {
    let upstreams: Vec<String> =
        stop.map(|stop| stop.upstreams.iter().map(|&name| name.to_owned()).collect()).unwrap_or_default();
    let step = world.steps.iter().find(|step| {
        step.spec.bundle_ref == name_of(&bundle.metadata) && step.spec.environment == question.environment
    });
    let around = world.around(bundle);
    let environment = EnvironmentFacts {
        name: question.environment,
        approval: stop.map(|stop| stop.environment.approval()).unwrap_or_default(),
        upstreams: &upstreams,
    };
    let team = Candidate::written(bundle, question.environment, &around);
    let mut candidates = [team, Candidate::sealed(bundle, question.environment, step, &around)];
    if let Some(minutes) = question.soak_minutes {
        let since = world.now - SignedDuration::from_mins(i64::from(minutes));
        candidates = candidates.map(|candidate| candidate.verified_in(&upstreams, since));
    }
    let [team, organisation] = candidates.map(|candidate| candidate.context(environment, world.now));
    let asked = guarding.iter().map(|template| Question {
        name: template.name(),
        gate: &template.gate.spec,
        context: if template.scope == Scope::Org { &organisation } else { &team },
    });
    let asked: Vec<Question<'_, GateContext>> = asked.collect();
    let verdicts: Vec<Verdict> = asked.iter().map(|one| evaluate(one.name, one.gate, one.context)).collect();
    let is_open = all(verdicts.iter().cloned()).is_open();
    let next_window = if is_open { None } else { joint_window(&asked, world.now) };
    (verdicts, next_window)
}

fn answer(template: &Template<'_>, verdict: Verdict) -> GateAnswer {
    GateAnswer {
        name: template.name().to_owned(),
        scope: template.scope.as_str(),
        pass: verdict.is_open(),
        message: template.gate.spec.message.clone().filter(|_| !verdict.is_open()),
        opens: verdict.satisfied_at,
        reason: verdict.reason,
    }
}

/// The Bundle that was named, else the one on its way there, else an empty one.
fn bundle(world: &World<'_>, question: &SimulationQuestion<'_>) -> Result<Bundle, Error> {
    if let Some(name) = question.bundle {
        return Ok(bundle_named(world.bundles, name)?.clone());
    }
    let explanation = explain(world, Some(question.environment));
    let shown = explanation.environments.first().and_then(|promotion| promotion.bundle.as_deref());
    if let Some(bundle) = shown.and_then(|name| bundle_named(world.bundles, name).ok()) {
        return Ok(bundle.clone());
    }
    let mut bundle = Bundle::new("simulation", BundleSpec::default());
    bundle.metadata.namespace.clone_from(&world.pipeline.metadata.namespace);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(PIPELINE_LABEL.to_owned(), name_of(&world.pipeline.metadata).to_owned());
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::Pipeline;
    use serde_json::{Value, json};

    use super::*;

    fn pipeline() -> Pipeline {
        serde_json::from_value(json!({
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {"git": {"url": "u"}, "environments": [{"name": "dev"}, {"name": "prod"}]},
        }))
        .unwrap()
    }

    fn gate(namespace: &str, name: &str, expression: &str) -> PolicyGate {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace,
                "labels": {"kardinal.io/applies-to": "prod", "kardinal.io/scope": "org"},
                "creationTimestamp": "2026-04-11T09:00:00Z"},
            "spec": {"expression": expression, "message": format!("{name} is closed")},
        }))
        .unwrap()
    }

    fn bundle(name: &str, tag: &str, status: Value) -> Bundle {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"kardinal.io/pipeline": "my-app"},
                "creationTimestamp": "2026-04-09T10:00:00Z"},
            "spec": {"artifacts": {"images": [{"name": "a", "reference": format!("r/a:{tag}")}]}},
            "status": status,
        }))
        .unwrap()
    }

    const PROD: SimulationQuestion<'_> =
        SimulationQuestion { environment: "prod", bundle: None, soak_minutes: None };

    /// What is said on a Saturday.
    fn on_saturday(
        bundles: &[Bundle],
        gates: &[PolicyGate],
        question: &SimulationQuestion<'_>,
    ) -> Result<Simulation, Error> {
        let pipeline = pipeline();
        let world = World {
            bundles,
            gates,
            policy_namespaces: &["platform".to_owned()],
            ..World::of(&pipeline, "2026-04-11T15:00:00Z".parse().unwrap())
        };
        simulate(&world, question)
    }

    #[test]
    fn without_gates_and_bundles_nothing_is_in_the_way() {
        let told = serde_json::to_value(on_saturday(&[], &[], &PROD).unwrap()).unwrap();
        let wanted = json!({
            "pipeline": "my-app", "environment": "prod", "time": "2026-04-11T15:00:00Z", "result": "PASS", "gates": [],
        });
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_closed_gate_says_when_it_opens() {
        let gates = [gate("platform", "weekend", "!schedule.isWeekend"), gate("default", "open", "true")];
        let told = on_saturday(&[bundle("b", "1.0.0", json!({}))], &gates, &PROD).unwrap();
        assert_eq!((told.result.as_str(), told.version.as_deref()), ("BLOCKED", Some("1.0.0")));
        let mut answers: Vec<_> = told
            .gates
            .iter()
            .map(|one| (one.name.as_str(), one.scope, one.pass, one.message.as_deref()))
            .collect();
        answers.sort_unstable();
        let wanted = [("open", "team", true, None), ("weekend", "org", false, Some("weekend is closed"))];
        assert_eq!(answers, wanted);
        let monday = Some("2026-04-13T00:00:00Z".parse().unwrap());
        assert_eq!(told.next_window, monday);
        assert!(told.gates.iter().any(|one| one.opens == monday));
    }

    #[test]
    fn a_gate_that_never_opens_has_no_window() {
        let told = on_saturday(&[], &[gate("default", "never", "false")], &PROD).unwrap();
        assert_eq!((told.result, told.next_window), (SimulationResult::Blocked, None));
    }

    #[test]
    fn a_soak_can_be_pretended() {
        let gates = [gate("default", "soak", "bundle.upstreamSoakMinutes >= 30")];
        let bundles = [bundle("b", "1.0.0", json!({"phase": "Promoting"}))];
        for (soak_minutes, wanted) in [
            (None, SimulationResult::Blocked),
            (Some(29), SimulationResult::Blocked),
            (Some(30), SimulationResult::Pass),
        ] {
            let told = on_saturday(&bundles, &gates, &SimulationQuestion { soak_minutes, ..PROD }).unwrap();
            assert_eq!(told.result, wanted, "{soak_minutes:?}");
        }
    }

    #[test]
    fn the_bundle_that_is_named_is_asked_about() {
        let bundles = [bundle("new", "2.0.0", json!({})), bundle("old", "1.0.0", json!({}))];
        let version = |bundle| {
            let told = on_saturday(&bundles, &[], &SimulationQuestion { bundle, ..PROD });
            told.map(|told| told.version.unwrap())
        };
        assert_eq!(version(Some("old")), Ok("1.0.0".to_owned()));
        let Err(Error::NotFound(problem)) = version(Some("x")) else { panic!("`x` is found") };
        assert_eq!(problem.hint.as_deref(), Some("the newest are `new` and `old`"));
        let nowhere = on_saturday(&bundles, &[], &SimulationQuestion { environment: "x", ..PROD });
        let Err(Error::NotFound(problem)) = nowhere else { panic!("`x` is found") };
        assert_eq!(problem.hint.as_deref(), Some("it has `dev` and `prod`"));
    }
}
