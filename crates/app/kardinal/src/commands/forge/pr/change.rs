//! What people decide about a pull request.

use std::time::Duration;

use jiff::Timestamp;
use kardinal_api::forge::{CheckState, MERGEABLE, PullRequest, PullRequestState, Review, Verdict};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::{number, state};
use crate::args::OutputFormat;
use crate::failure::{Failure, Kind};
use crate::output::{self, Progress};
use crate::server::Server;

/// How long the forge may take to do what was asked for.
const FORGE_LIMIT: Duration = Duration::from_secs(60);

/// Adds an approval, in place of an earlier word of the same person.
pub(super) async fn approve(
    server: &Server,
    request: &PullRequest,
    who: &str,
    comment: Option<&str>,
    format: OutputFormat,
) -> anyhow::Result<()> {
    must_be_open(request)?;
    let made = server.patch(request, &approval(request, who, comment, Timestamp::now())).await?;
    output::value(format, &made, || format!("{} approved by {who}\n", title(request)))
}

/// Asks for the merge of exactly what was seen, and waits for it.
pub(super) async fn merge(
    server: &Server,
    request: &PullRequest,
    who: &str,
    format: OutputFormat,
) -> anyhow::Result<()> {
    must_be_open(request)?;
    let asked = server.patch(request, &merging(request, who)).await?;
    let done = settle(server, &asked, PullRequestState::Merged).await?;
    output::value(format, &done, || format!("{} merged by {who}\n", title(&done)))
}

/// Gives it up.
pub(super) async fn close(
    server: &Server,
    request: &PullRequest,
    who: &str,
    format: OutputFormat,
) -> anyhow::Result<()> {
    must_be_open(request)?;
    let patch = json!({
        "metadata": {"resourceVersion": request.metadata.resource_version},
        "spec": {"desired": "closed", "closedBy": who},
    });
    let asked = server.patch(request, &patch).await?;
    let done = settle(server, &asked, PullRequestState::Closed).await?;
    output::value(format, &done, || format!("{} closed by {who}\n", title(&done)))
}

fn approval(request: &PullRequest, who: &str, comment: Option<&str>, now: Timestamp) -> Value {
    let mut reviews: Vec<Review> =
        request.spec.reviews.iter().filter(|review| review.author != who).cloned().collect();
    reviews.push(Review {
        author: who.to_owned(),
        verdict: Verdict::Approved,
        at: Some(now),
        body: comment.map(str::to_owned),
        // What was seen: a later commit is another matter.
        commit: request.status.as_ref().and_then(|status| status.head_commit.clone()),
    });
    json!({"metadata": {"resourceVersion": request.metadata.resource_version}, "spec": {"reviews": reviews}})
}

fn merging(request: &PullRequest, who: &str) -> Value {
    let head = request.status.as_ref().and_then(|status| status.head_commit.clone());
    json!({
        "metadata": {"resourceVersion": request.metadata.resource_version},
        "spec": {"desired": "merged", "mergedBy": who, "expectedHead": head},
    })
}

fn must_be_open(request: &PullRequest) -> Result<(), Failure> {
    let word = match state(request) {
        PullRequestState::Open => return Ok(()),
        PullRequestState::Merged => "merged",
        PullRequestState::Closed => "closed",
    };
    Err(Failure::new(Kind::Failed, format!("{} is {word} already", title(request))))
}

/// Refuses what a check speaks against, such as a closed gate or a pause.
pub(super) fn must_pass(request: &PullRequest) -> Result<(), Failure> {
    let against = request.spec.checks.iter().find(|check| check.state != CheckState::Success);
    let Some(check) = against else { return Ok(()) };
    let word = match check.state {
        CheckState::Failure => "failed",
        CheckState::Pending | CheckState::Success => "pending",
    };
    let why = check.description.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let failure =
        Failure::new(Kind::Refused, format!("{}: check `{}` is {word}{why}", title(request), check.context));
    Err(failure.hint("merge it when the check has passed, or all the same with `--force`"))
}

/// Waits until the forge has done it, or says why it does not.
async fn settle(
    server: &Server,
    asked: &PullRequest,
    wanted: PullRequestState,
) -> anyhow::Result<PullRequest> {
    let name = asked.metadata.name.clone().unwrap_or_default();
    let generation = asked.metadata.generation;
    let mut progress = Progress::default();
    progress.say("waiting for the forge");
    let settled = await_condition(server.api::<PullRequest>(), &name, move |seen: Option<&PullRequest>| {
        seen.is_none_or(|seen| state(seen) == wanted || refusal(seen, generation).is_some())
    });
    let settled = tokio::time::timeout(FORGE_LIMIT, settled).await;
    progress.end();
    let title = title(asked);
    let Ok(settled) = settled else {
        return Err(Failure::new(
            Kind::Failed,
            format!("{title}: the forge has not answered yet; it was asked and may still do it"),
        )
        .hint("`kardinal doctor` tells whether the controllers run")
        .into());
    };
    let Some(request) = settled.map_err(|error| Failure::new(Kind::NotReachable, error.to_string()))? else {
        return Err(Failure::new(Kind::NotFound, format!("{title} was deleted")).into());
    };
    match (state(&request) == wanted, refusal(&request, generation)) {
        (false, Some(why)) => Err(Failure::new(Kind::Failed, format!("{title}: {why}"))
            .hint("it is done as soon as that is mended; `kardinal pr close` gives it up")
            .into()),
        _ => Ok(request),
    }
}

/// Why the forge does not do what this generation asks for.
fn refusal(request: &PullRequest, generation: Option<i64>) -> Option<String> {
    let status = request.status.as_ref()?;
    if status.observed_generation < generation {
        return None;
    }
    let mergeable = status.conditions.iter().find(|condition| condition.type_ == MERGEABLE)?;
    (mergeable.status == "False").then(|| mergeable.message.clone())
}

fn title(request: &PullRequest) -> String {
    let number = number(request).map(|number| format!(" #{number}")).unwrap_or_default();
    format!("Pull request{number} of \"{}\"", request.spec.repository)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> PullRequest {
        serde_json::from_value(json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest",
            "metadata": {"name": "gitops-3", "resourceVersion": "7", "generation": 2},
            "spec": {"repository": "gitops", "head": "a", "base": "main", "title": "t", "reviews": [
                {"author": "alice", "verdict": "changes-requested"}, {"author": "bob", "verdict": "approved"}]},
            "status": {"number": 3, "headCommit": "abc", "observedGeneration": 1, "conditions": [
                {"type": "Mergeable", "status": "False", "reason": "Conflict", "message": "conflicts", "lastTransitionTime": "2026-04-09T10:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_second_word_of_the_same_person_replaces_the_first() {
        let patch = approval(&request(), "alice", Some("fine"), Timestamp::UNIX_EPOCH);
        let reviews = patch["spec"]["reviews"].as_array().unwrap();
        assert_eq!(reviews.len(), 2);
        assert_eq!(reviews[1]["author"], "alice");
        assert_eq!(reviews[1]["verdict"], "approved");
        assert_eq!(reviews[1]["commit"], "abc", "it is about what was seen");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_check_that_has_not_passed_holds_the_merge_back() {
        let mut request = request();
        assert!(must_pass(&request).is_ok(), "nobody speaks against it");
        request.spec.checks = serde_json::from_value(json!([
            {"context": "build", "state": "success"},
            {"context": "kardinal/gates", "state": "pending", "description": "held: `app` is paused"}]))
        .unwrap();
        let refused = must_pass(&request).unwrap_err();
        assert_eq!(refused.kind, Kind::Refused, "a pause is a refusal: exit code 4");
        let refused = refused.to_string();
        assert!(refused.contains("check `kardinal/gates` is pending: held: `app` is paused"), "{refused}");
    }

    #[test]
    fn only_what_was_seen_is_merged_and_old_refusals_do_not_count() {
        let patch = merging(&request(), "alice");
        assert_eq!(patch["spec"]["expectedHead"], "abc");
        assert_eq!(refusal(&request(), Some(2)), None, "the forge has not looked yet");
        assert_eq!(refusal(&request(), Some(1)).as_deref(), Some("conflicts"));
    }
}
