//! What people decide about a pull request.

use std::time::Duration;

use jiff::Timestamp;
use kardinal_api::forge::{PullRequest, PullRequestState};
use kardinal_planner::review::{self, Answer, title};
use kube::runtime::wait::await_condition;

use crate::args::OutputFormat;
use crate::failure::{Failure, Kind};
use crate::output::{self, Progress};
use crate::server::Server;

/// How long the forge may take to do what was asked for.
const FORGE_LIMIT: Duration = Duration::from_secs(60);

/// Adds an approval.
pub(super) async fn approve(
    server: &Server,
    request: &PullRequest,
    who: &str,
    comment: Option<&str>,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let patch = review::approve(request, who, comment, Timestamp::now()).map_err(Failure::from)?;
    let made = server.patch(request, &patch).await?;
    output::value(format, &made, || format!("{} approved by {who}\n", title(request)))
}

/// Asks for the merge, and waits for it.
pub(super) async fn merge(
    server: &Server,
    request: &PullRequest,
    who: &str,
    force: bool,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let patch = review::merge(request, who, force).map_err(Failure::from)?;
    let asked = server.patch(request, &patch).await?;
    let done = wait(server, &asked, PullRequestState::Merged).await?;
    output::value(format, &done, || format!("{} merged by {who}\n", title(&done)))
}

/// Gives it up.
pub(super) async fn close(
    server: &Server,
    request: &PullRequest,
    who: &str,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let patch = review::close(request, who).map_err(Failure::from)?;
    let asked = server.patch(request, &patch).await?;
    let done = wait(server, &asked, PullRequestState::Closed).await?;
    output::value(format, &done, || format!("{} closed by {who}\n", title(&done)))
}

/// Waits until the forge has done it, or says why it does not.
async fn wait(
    server: &Server,
    asked: &PullRequest,
    wanted: PullRequestState,
) -> Result<PullRequest, Failure> {
    let name = asked.metadata.name.clone().unwrap_or_default();
    let generation = asked.metadata.generation;
    let answer = move |seen: Option<&PullRequest>| review::answer(seen, wanted, generation);
    let mut progress = Progress::default();
    progress.say("waiting for the forge");
    let answered = await_condition(server.api::<PullRequest>(), &name, move |seen: Option<&PullRequest>| {
        answer(seen) != Answer::Waits
    });
    let seen = match tokio::time::timeout(FORGE_LIMIT, answered).await {
        Ok(answered) => answered.map_err(|error| Failure::new(Kind::NotReachable, error.to_string())),
        Err(_) => Ok(Some(asked.clone())),
    };
    progress.end();
    let seen = seen?;
    let answer = answer(seen.as_ref());
    let kind = match answer {
        Answer::Deleted => Kind::NotFound,
        Answer::Done | Answer::Waits | Answer::Refused(_) => Kind::Failed,
    };
    match (answer.problem(asked), seen) {
        (Some(problem), _) => Err(Failure { kind, message: problem.message, hint: problem.hint }),
        (None, seen) => Ok(seen.unwrap_or_else(|| asked.clone())),
    }
}
