//! `kardinal pr`: the review surface of the local forge.

mod change;
mod diff;
mod forge;
mod open;
mod show;

use kardinal_api::forge::PullRequest;
use kardinal_planner::review::{self, Refusal};
use kube::api::ListParams;

use crate::args::{Common, PrArguments, PrCommand, PrReference};
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::Server;
use crate::who;

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
                change::merge(&server, &request, &who::name(&who), force, common.output).await
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
    let requests = review::pull_requests(server.list(&ListParams::default()).await?, repo, all);
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

/// The pull request with a number.
async fn request(server: &Server, which: &PrReference) -> Result<PullRequest, Failure> {
    let all: Vec<PullRequest> = server.list(&ListParams::default()).await?;
    let found = review::numbered(&all, which.number, which.repo.as_deref(), &server.namespace)?;
    Ok(found.clone())
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let (kind, problem) = match refusal {
            Refusal::NotFound(problem) => (Kind::NotFound, problem),
            Refusal::Unclear(problem) => (Kind::Usage, problem),
            Refusal::Over(problem) => (Kind::Failed, problem),
            Refusal::Check(problem) => (Kind::Refused, problem),
        };
        Failure { kind, message: problem.message, hint: problem.hint }
    }
}
