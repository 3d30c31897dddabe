//! What the gates of an environment would say at another time, with the engine that the controllers use.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, BundleSpec, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionState};
use kardinal_object::name_of;
use kardinal_policy::{Question, Scope, Verdict, all, evaluate, joint_window, parse_when, time_zone};
use kardinal_promotion::bundle::{Route, Template, Templates, last_verified};
use kardinal_promotion::explain::{display_version, roughly, told_organisation};
use kardinal_promotion::gate_context::{self, EnvironmentFacts, GateContext};
use kardinal_promotion::intent::{bundle_named, environment_named, pipelines_with};
use kube::api::ListParams;
use serde::Serialize;

use crate::args::SimulateArguments;
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::{Seen, Server, refused};
use kardinal_planner::problem::listed;

/// The word for a door that is closed.
const BLOCKED: &str = "BLOCKED";

/// What all gates say together.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Simulation {
    pipeline: String,
    environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    time: Timestamp,
    result: &'static str,
    gates: Vec<Answer>,
    /// The first instant at which all gates are open together, if they come to be so by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_window: Option<Timestamp>,
}

/// What one gate says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    name: String,
    scope: &'static str,
    pass: bool,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens: Option<Timestamp>,
}

pub(super) async fn run(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let wrong = |message: String| Failure::new(Kind::Usage, message);
    let zone = time_zone(&arguments.time_zone).map_err(|message| wrong(format!("--time-zone: {message}")))?;
    let time = parse_when(&arguments.time, Timestamp::now(), &zone)
        .map_err(|message| wrong(format!("--time: {message}")))?;
    let server = Server::connect(&arguments.common.server).await?;
    let mut simulations = Vec::new();
    for pipeline in pipelines(&server, arguments).await? {
        let seen = server.seen(&pipeline, &arguments.policies.policy_namespaces).await?;
        environment_named(&seen.pipeline, &arguments.env).map_err(Failure::from)?;
        simulations.push(simulate(&seen, arguments, time)?);
    }
    let told = || simulations.iter().map(|one| one.told(&zone)).collect::<Vec<String>>().join("\n");
    match (&arguments.pipeline, simulations.as_slice()) {
        (Some(_), [only]) => output::coloured_value(arguments.common.output, only, told)?,
        _ => output::coloured_value(arguments.common.output, &simulations, told)?,
    }
    let blocked: Vec<&str> =
        simulations.iter().filter(|one| one.result == BLOCKED).map(|one| one.pipeline.as_str()).collect();
    match blocked.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("`{}` would be closed for {}", arguments.env, listed(blocked));
            Err(Failure::new(Kind::Refused, message).into())
        }
    }
}

/// The Pipeline that was named, else all that have the environment.
async fn pipelines(server: &Server, arguments: &SimulateArguments) -> Result<Vec<String>, Failure> {
    if let Some(pipeline) = &arguments.pipeline {
        return Ok(vec![pipeline.clone()]);
    }
    let all: Vec<Pipeline> = server.list(&ListParams::default()).await?;
    let found = pipelines_with(&all, &arguments.env, &server.namespace)?;
    Ok(found.into_iter().map(str::to_owned).collect())
}

fn simulate(seen: &Seen, arguments: &SimulateArguments, time: Timestamp) -> Result<Simulation, Failure> {
    let route = Route::whole(&seen.pipeline.spec).map_err(refused)?;
    let stop = route.stop(&arguments.env);
    let upstreams: Vec<String> =
        stop.map(|stop| stop.upstreams.iter().map(|&name| name.to_owned()).collect()).unwrap_or_default();
    let bundle = bundle(seen, arguments, time)?;
    let mut told = Told::new(seen, &arguments.env, &bundle);
    if let Some(minutes) = arguments.soak_minutes {
        told.soak(&upstreams, time - SignedDuration::from_mins(i64::from(minutes)));
    }
    let environment = EnvironmentFacts {
        name: &arguments.env,
        approval: stop.map(|stop| stop.environment.approval()).unwrap_or_default(),
        upstreams: &upstreams,
    };
    let context = |scope: Scope| told.context(scope, environment, time);
    let (team, organisation) = (context(Scope::Team), context(Scope::Org));
    let gates: Vec<&PolicyGate> = seen.gates.iter().collect();
    // Gates that are newer than the Bundle are asked as well: the question is what they would say.
    let mut anew = bundle.clone();
    anew.metadata.creation_timestamp = None;
    let policy_namespaces = &arguments.policies.policy_namespaces;
    let templates = Templates::collect(&seen.pipeline, &anew, &gates, policy_namespaces);
    let guarding = templates.guarding(&arguments.env);
    let questions: Vec<Question<'_, GateContext>> = guarding
        .iter()
        .map(|template| Question {
            name: template.name(),
            gate: &template.gate.spec,
            context: if template.scope == Scope::Org { &organisation } else { &team },
        })
        .collect();
    let verdicts: Vec<Verdict> =
        questions.iter().map(|asked| evaluate(asked.name, asked.gate, asked.context)).collect();
    let is_open = all(verdicts.iter().cloned()).is_open();
    Ok(Simulation {
        pipeline: seen.pipeline.metadata.name.clone().unwrap_or_default(),
        environment: arguments.env.clone(),
        version: Some(gate_context::version(&bundle.spec)).filter(|version| !version.is_empty()),
        time,
        result: if is_open { "PASS" } else { BLOCKED },
        next_window: if is_open { None } else { joint_window(&questions, time) },
        gates: guarding.iter().zip(verdicts).map(|(template, verdict)| answer(template, verdict)).collect(),
    })
}

fn answer(template: &Template<'_>, verdict: Verdict) -> Answer {
    Answer {
        name: template.name().to_owned(),
        scope: template.scope.as_str(),
        pass: verdict.is_open(),
        message: template.gate.spec.message.clone().filter(|_| !verdict.is_open()),
        opens: verdict.satisfied_at,
        reason: verdict.reason,
    }
}

/// The Bundle that was named, else the one on its way there, else an empty one.
fn bundle(seen: &Seen, arguments: &SimulateArguments, now: Timestamp) -> Result<Bundle, Failure> {
    if let Some(name) = &arguments.bundle {
        return Ok(bundle_named(&seen.bundles, name)?.clone());
    }
    let explanation = seen.explain(Some(&arguments.env), now);
    let shown = explanation.environments.first().and_then(|promotion| promotion.bundle.clone());
    if let Some(bundle) = shown.and_then(|name| bundle_named(&seen.bundles, &name).ok()) {
        return Ok(bundle.clone());
    }
    let mut bundle = Bundle::new("simulation", BundleSpec::default());
    bundle.metadata.namespace.clone_from(&seen.pipeline.metadata.namespace);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(PIPELINE_LABEL.to_owned(), seen.pipeline.metadata.name.clone().unwrap_or_default());
    Ok(bundle)
}

/// What gates are told: the Bundle, and the one that was verified last in the environment.
struct Told {
    /// The gates of the team: what stands in the objects.
    team: (Bundle, Option<Bundle>),
    /// The gates of the organisation: what of it carries a seal.
    organisation: (Bundle, Option<Bundle>),
}

impl Told {
    fn new(seen: &Seen, environment: &str, bundle: &Bundle) -> Told {
        let others = seen.bundles.iter().filter(|other| other.metadata.name != bundle.metadata.name);
        let others: Vec<Bundle> = others.cloned().collect();
        let step = seen.steps.iter().find(|step| {
            step.spec.bundle_ref == name_of(&bundle.metadata) && step.spec.environment == environment
        });
        let previous = last_verified(&others.iter().collect::<Vec<_>>(), environment).cloned();
        Told {
            team: (bundle.clone(), previous),
            organisation: told_organisation(bundle, environment, step, &others),
        }
    }

    /// Pretends that the Bundle was verified in all upstreams at an instant.
    fn soak(&mut self, upstreams: &[String], since: Timestamp) {
        for (bundle, _) in [&mut self.team, &mut self.organisation] {
            let environments = &mut bundle.status.get_or_insert_default().environments;
            for name in upstreams {
                let entry = environments.entry(name.clone()).or_default();
                entry.state = Some(PromotionState::Verified);
                entry.verified_at = Some(since);
            }
        }
    }

    fn context(&self, scope: Scope, environment: EnvironmentFacts<'_>, now: Timestamp) -> GateContext {
        let (bundle, previous) = match scope {
            Scope::Org => &self.organisation,
            Scope::Team => &self.team,
        };
        gate_context::of(bundle, previous.as_ref(), environment, now)
    }
}

impl Simulation {
    fn told(&self, zone: &TimeZone) -> String {
        let at =
            |instant: Timestamp| instant.to_zoned(zone.clone()).strftime("%A %Y-%m-%d %H:%M %Z").to_string();
        let mut text = format!("SIMULATION: {} / {} at {}\n", self.pipeline, self.environment, at(self.time));
        if let Some(version) = &self.version {
            let _ = writeln!(text, "  Bundle: {}", display_version(version));
        }
        text.push('\n');
        let rows = self.gates.iter().map(|gate| {
            let word = if gate.pass { "PASS" } else { "FAIL" };
            vec![gate.name.clone(), gate.scope.to_owned(), word.to_owned(), gate.reason.clone()]
        });
        match self.gates.is_empty() {
            true => text.push_str("no gates guard this environment\n"),
            false => text.push_str(&output::table(&["GATE", "SCOPE", "VERDICT", "REASON"], rows.collect())),
        }
        let _ = writeln!(text, "\nRESULT: {}", self.result);
        let closed: Vec<&Answer> = self.gates.iter().filter(|gate| !gate.pass).collect();
        if closed.is_empty() {
            return output::painted(&text);
        }
        let names: Vec<&str> = closed.iter().map(|gate| gate.name.as_str()).collect();
        let _ = writeln!(text, "Blocked by:  {}", names.join(", "));
        for message in closed.iter().filter_map(|gate| gate.message.as_deref()) {
            let _ = writeln!(text, "Message:     {message}");
        }
        match self.next_window {
            Some(opens) => {
                let _ = writeln!(text, "Next window: {}", at(opens));
                let _ = writeln!(text, "ETA:         ~{} later", roughly(opens.duration_since(self.time)));
            }
            None => text.push_str("Next window: none by itself within 400 days\n"),
        }
        output::painted(&text)
    }
}
