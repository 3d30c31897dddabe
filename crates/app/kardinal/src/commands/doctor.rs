//! `kardinal doctor`: what keeps kardinal from working, and the remedies.

mod definitions;
mod objects;
mod pipelines;
mod replicas;

use kardinal_planner::doctor::{Finding, failed};

use crate::args::DoctorArguments;
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::Server;

/// Looks at everything that the server tells, and prints it.
pub(crate) fn run(arguments: DoctorArguments) -> anyhow::Result<()> {
    let findings = super::block_on(async { Ok(examine(&arguments).await) })?;
    output::coloured_value(arguments.common.output, &findings, || findings.iter().map(render).collect())?;
    match failed(&findings) {
        0 => Ok(()),
        count => {
            Err(Failure::new(Kind::Failed, format!("{count} of {} checks failed", findings.len())).into())
        }
    }
}

fn render(finding: &Finding) -> String {
    let word = finding.mark.as_str();
    let pad = " ".repeat(6_usize.saturating_sub(word.len()));
    let Finding { what, detail, .. } = finding;
    let remedy = finding.remedy.as_ref().map(|remedy| format!("        → {remedy}\n")).unwrap_or_default();
    let (what, detail, remedy) = (output::clean(what), output::clean(detail), output::clean(&remedy));
    format!("{}{pad}{what}: {detail}\n{remedy}", output::mark(word))
}

/// Each check needs the ones before it.
async fn examine(arguments: &DoctorArguments) -> Vec<Finding> {
    let mut findings = Vec::new();
    let server = match Server::connect(&arguments.common.server).await {
        Ok(server) => server,
        Err(error) => {
            let known = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.as_deref());
            let remedy = known.unwrap_or("start one with `kardinal up`, or name one with `--kubeconfig`");
            findings.push(Finding::fail("server", format!("{error:#}"), remedy));
            return findings;
        }
    };
    match server.client.apiserver_version().await {
        Ok(version) => {
            findings.push(Finding::ok("server", format!("answers, version {}", version.git_version)))
        }
        Err(error) => {
            let failure = Failure::of_server("it does not answer", error);
            let remedy = failure.hint.clone().unwrap_or_default();
            findings.push(Finding::fail("server", failure.message, remedy));
            return findings;
        }
    }
    let kinds = definitions::check(&server).await;
    let usable = failed(&kinds) == 0;
    findings.extend(kinds);
    if usable {
        match pipelines::check(&server, &arguments.policies.policy_namespaces).await {
            Ok(more) => findings.extend(more),
            Err(failure) => findings.push(unreadable(failure)),
        }
        match replicas::check(&server).await {
            Ok(more) => findings.extend(more),
            Err(failure) => findings.push(unreadable(failure)),
        }
        match objects::check(&server).await {
            Ok(more) => findings.extend(more),
            Err(failure) => findings.push(unreadable(failure)),
        }
    }
    findings
}

fn unreadable(failure: Failure) -> Finding {
    let remedy = failure.hint.unwrap_or_else(|| "ask for the permission to read kardinal's kinds".to_owned());
    Finding::fail("objects", failure.message, remedy)
}
