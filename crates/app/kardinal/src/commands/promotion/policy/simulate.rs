//! What the gates of an environment would say at another time, with the engine that the controllers use.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::kardinal::Pipeline;
use kardinal_policy::{parse_when, time_zone};
use kardinal_promotion::explain::{display_version, roughly};
use kardinal_promotion::intent::pipelines_with;
use kardinal_promotion::view::{GateAnswer, Simulation, SimulationQuestion, closed, simulate};
use kube::api::ListParams;

use crate::args::SimulateArguments;
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::Server;

pub(super) async fn run(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let wrong = |message: String| Failure::new(Kind::Usage, message);
    let zone = time_zone(&arguments.time_zone).map_err(|message| wrong(format!("--time-zone: {message}")))?;
    let time = parse_when(&arguments.time, Timestamp::now(), &zone)
        .map_err(|message| wrong(format!("--time: {message}")))?;
    let server = Server::connect(&arguments.common.server).await?;
    let question = SimulationQuestion {
        environment: &arguments.env,
        bundle: arguments.bundle.as_deref(),
        soak_minutes: arguments.soak_minutes,
    };
    let mut simulations = Vec::new();
    for pipeline in pipelines(&server, arguments).await? {
        let seen = server.seen(&pipeline, &arguments.policies.policy_namespaces).await?;
        simulations.push(simulate(&seen.world(time), &question).map_err(Failure::from)?);
    }
    let text = || simulations.iter().map(|one| shown(one, &zone)).collect::<Vec<String>>().join("\n");
    match (&arguments.pipeline, simulations.as_slice()) {
        (Some(_), [only]) => output::coloured_value(arguments.common.output, only, text)?,
        _ => output::coloured_value(arguments.common.output, &simulations, text)?,
    }
    match closed(&simulations, &arguments.env) {
        None => Ok(()),
        Some(problem) => Err(Failure::new(Kind::Refused, problem.message).into()),
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

fn shown(simulation: &Simulation, zone: &TimeZone) -> String {
    let at = |instant: Timestamp| instant.to_zoned(zone.clone()).strftime("%A %Y-%m-%d %H:%M %Z").to_string();
    let mut text = format!(
        "SIMULATION: {} / {} at {}\n",
        simulation.pipeline,
        simulation.environment,
        at(simulation.time)
    );
    if let Some(version) = &simulation.version {
        let _ = writeln!(text, "  Bundle: {}", display_version(version));
    }
    text.push('\n');
    let rows = simulation.gates.iter().map(|gate| {
        let word = if gate.pass { "PASS" } else { "FAIL" };
        vec![gate.name.clone(), gate.scope.to_owned(), word.to_owned(), gate.reason.clone()]
    });
    match simulation.gates.is_empty() {
        true => text.push_str("no gates guard this environment\n"),
        false => text.push_str(&output::table(&["GATE", "SCOPE", "VERDICT", "REASON"], rows.collect())),
    }
    let _ = writeln!(text, "\nRESULT: {}", simulation.result.as_str());
    let closed: Vec<&GateAnswer> = simulation.gates.iter().filter(|gate| !gate.pass).collect();
    if closed.is_empty() {
        return output::painted(&text);
    }
    let names: Vec<&str> = closed.iter().map(|gate| gate.name.as_str()).collect();
    let _ = writeln!(text, "Blocked by:  {}", names.join(", "));
    for message in closed.iter().filter_map(|gate| gate.message.as_deref()) {
        let _ = writeln!(text, "Message:     {message}");
    }
    match simulation.next_window {
        Some(opens) => {
            let _ = writeln!(text, "Next window: {}", at(opens));
            let _ = writeln!(text, "ETA:         ~{} later", roughly(opens.duration_since(simulation.time)));
        }
        None => text.push_str("Next window: none by itself within 400 days\n"),
    }
    output::painted(&text)
}
