//! `kardinal pr`: the review surface of the local forge.

mod change;
mod diff;
mod forge;
mod open;
mod show;

use kardinal_api::forge::{PullRequest, PullRequestState};
use kube::api::ListParams;

use crate::args::{Common, PrArguments, PrCommand, PrReference};
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::Server;
use crate::who;
use kardinal_planner::problem::listed;

/// Runs the subcommand.
pub(crate) fn run(arguments: PrArguments) -> anyhow::Result<()> {
    crate::commands::block_on(async {
        match arguments.command {
            PrCommand::List { repo, all, common } => list(repo.as_deref(), all, &common).await,
            PrCommand::Show { which, common } => {
                let (_, request) = find(&which, &common).await?;
                output::value(common.output, &request, || show::page(&request, jiff::Timestamp::now()))
            }
            PrCommand::Diff { which, server } => {
                let connected = Server::connect(&server).await?;
                let request = request(&connected, &which).await?;
                output::verbatim(&diff::fetch(&server, &connected, &request, which.number).await?);
                Ok(())
            }
            PrCommand::Open { which, print, server } => {
                let connected = Server::connect(&server).await?;
                let request = request(&connected, &which).await?;
                open::open(&server, &connected, &request, which.number, print).await
            }
            PrCommand::Approve { which, comment, who, common } => {
                let (server, request) = find(&which, &common).await?;
                change::approve(&server, &request, &who::name(&who), comment.as_deref(), common.output).await
            }
            PrCommand::Merge { which, force, who, common } => {
                let (server, request) = find(&which, &common).await?;
                if !force {
                    change::must_pass(&request)?;
                }
                change::merge(&server, &request, &who::name(&who), common.output).await
            }
            PrCommand::Close { which, who, common } => {
                let (server, request) = find(&which, &common).await?;
                change::close(&server, &request, &who::name(&who), common.output).await
            }
        }
    })
}

async fn list(repo: Option<&str>, all: bool, common: &Common) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let mut requests: Vec<PullRequest> = server.list(&ListParams::default()).await?;
    requests.retain(|request| repo.is_none_or(|repo| request.spec.repository == repo));
    requests.retain(|request| all || state(request) == PullRequestState::Open);
    requests.sort_by_key(|request| (request.spec.repository.clone(), std::cmp::Reverse(number(request))));
    output::value(common.output, &requests, || match requests.is_empty() {
        true => "there are no open pull requests; `--all` shows merged and closed ones\n".to_owned(),
        false => show::table(&requests, jiff::Timestamp::now()),
    })
}

async fn find(which: &PrReference, common: &Common) -> anyhow::Result<(Server, PullRequest)> {
    let server = Server::connect(&common.server).await?;
    let request = request(&server, which).await?;
    Ok((server, request))
}

/// The pull request with a number; the repository may be left out where only one has it.
async fn request(server: &Server, which: &PrReference) -> Result<PullRequest, Failure> {
    let all: Vec<PullRequest> = server.list(&ListParams::default()).await?;
    let in_repo =
        |request: &&PullRequest| which.repo.as_ref().is_none_or(|repo| request.spec.repository == *repo);
    let found: Vec<&PullRequest> =
        all.iter().filter(|one| number(one) == Some(which.number)).filter(in_repo).collect();
    let wanted = which.number;
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let failure = Failure::new(
                Kind::NotFound,
                format!("there is no pull request #{wanted} in namespace `{}`", server.namespace),
            );
            Err(failure.hint("`kardinal pr list --all` shows them"))
        }
        several => {
            let repos = several.iter().map(|one| one.spec.repository.as_str());
            Err(Failure::new(Kind::Usage, format!("several repositories have a pull request #{wanted}"))
                .hint(format!("choose one with `--repo`: {}", listed(repos))))
        }
    }
}

fn number(request: &PullRequest) -> Option<u64> {
    request.status.as_ref()?.number
}

fn state(request: &PullRequest) -> PullRequestState {
    request.status.as_ref().and_then(|status| status.state).unwrap_or_default()
}
