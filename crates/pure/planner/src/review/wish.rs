//! What people ask of a pull request, and what the forge has made of that.

use jiff::Timestamp;
use kardinal_api::forge::{CheckState, MERGEABLE, PullRequest, PullRequestState, Review, Verdict};
use serde_json::{Value, json};

use super::{Refusal, state, state_word, title};
use crate::condition::{self, Truth};
use crate::problem::Problem;

/// The merge patch that adds an approval of what was seen, in place of an earlier word of the same person.
pub fn approve(
    request: &PullRequest,
    who: &str,
    comment: Option<&str>,
    now: Timestamp,
) -> Result<Value, Refusal> {
    must_be_open(request)?;
    let mut reviews: Vec<Review> =
        request.spec.reviews.iter().filter(|review| review.author != who).cloned().collect();
    reviews.push(Review {
        author: who.to_owned(),
        verdict: Verdict::Approved,
        at: Some(now),
        body: comment.map(str::to_owned),
        // What was seen: a later commit is another matter.
        commit: head(request).map(str::to_owned),
    });
    Ok(patch(request, json!({"reviews": reviews})))
}

/// The merge patch that asks for the merge of exactly what was seen. Where a check has not passed, such as that of a closed
/// gate, somebody has to insist.
pub fn merge(request: &PullRequest, who: &str, insists: bool) -> Result<Value, Refusal> {
    if !insists {
        must_pass(request)?;
    }
    must_be_open(request)?;
    Ok(patch(request, json!({"desired": "merged", "mergedBy": who, "expectedHead": head(request)})))
}

/// The merge patch that gives it up.
pub fn close(request: &PullRequest, who: &str) -> Result<Value, Refusal> {
    must_be_open(request)?;
    Ok(patch(request, json!({"desired": "closed", "closedBy": who})))
}

fn head(request: &PullRequest) -> Option<&str> {
    request.status.as_ref()?.head_commit.as_deref()
}

/// A patch of what was seen and of nothing newer.
fn patch(request: &PullRequest, spec: Value) -> Value {
    json!({"metadata": {"resourceVersion": request.metadata.resource_version}, "spec": spec})
}

fn must_be_open(request: &PullRequest) -> Result<(), Refusal> {
    match state(request) {
        PullRequestState::Open => Ok(()),
        over @ (PullRequestState::Merged | PullRequestState::Closed) => {
            let message = format!("{} is {} already", title(request), state_word(over));
            Err(Refusal::Over(Problem::new("state", message)))
        }
    }
}

fn must_pass(request: &PullRequest) -> Result<(), Refusal> {
    let against = request.spec.checks.iter().find_map(|check| match check.state {
        CheckState::Success => None,
        CheckState::Failure => Some((check, "failed")),
        CheckState::Pending => Some((check, "pending")),
    });
    let Some((check, word)) = against else { return Ok(()) };
    let why = check.description.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let message = format!("{}: check `{}` is {word}{why}", title(request), check.context);
    let hint = "merge it when the check has passed, or all the same with `--force`";
    Err(Refusal::Check(Problem::new("checks", message).hint(hint)))
}

/// What the forge has made of what somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has not looked at it yet.
    Waits,
    /// It is done.
    Done,
    /// It cannot be done as things are, for this reason.
    Refused(String),
    /// The pull request is gone.
    Deleted,
}

/// What the forge has made of a wish: the pull request as it is now, the state that was asked for, and the generation with
/// which it was asked for. What was said of an earlier generation is no answer.
pub fn answer(seen: Option<&PullRequest>, wanted: PullRequestState, generation: Option<i64>) -> Answer {
    match seen {
        None => Answer::Deleted,
        Some(seen) if state(seen) == wanted => Answer::Done,
        Some(seen) => refusal(seen, generation).map_or(Answer::Waits, Answer::Refused),
    }
}

impl Answer {
    /// What to say to whoever asked. Nothing: it is done.
    pub fn problem(&self, asked: &PullRequest) -> Option<Problem> {
        let problem = |text: String| Problem::new("state", format!("{}{text}", title(asked)));
        match self {
            Answer::Done => None,
            Answer::Waits => Some(
                problem(": the forge has not answered yet; it was asked and may still do it".to_owned())
                    .hint("`kardinal doctor` tells whether the controllers run"),
            ),
            Answer::Refused(why) => Some(
                problem(format!(": {why}"))
                    .hint("it is done as soon as that is mended; `kardinal pr close` gives it up"),
            ),
            Answer::Deleted => Some(problem(" was deleted".to_owned())),
        }
    }
}

/// Why the forge does not do what this generation asks for.
fn refusal(request: &PullRequest, generation: Option<i64>) -> Option<String> {
    let status = request.status.as_ref().filter(|status| status.observed_generation >= generation)?;
    let mergeable = condition::find(&status.conditions, MERGEABLE)?;
    condition::is(mergeable, Truth::False).then(|| mergeable.message.clone())
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
                {"type": "Mergeable", "status": "False", "reason": "Conflict", "message": "conflicts",
                    "lastTransitionTime": "2026-04-09T10:00:00Z"}]},
        }))
        .unwrap()
    }

    fn over(state: PullRequestState) -> PullRequest {
        let mut request = request();
        request.status.as_mut().unwrap().state = Some(state);
        request
    }

    #[test]
    fn a_second_word_of_the_same_person_replaces_the_first() {
        let patch = approve(&request(), "alice", Some("fine"), Timestamp::UNIX_EPOCH).unwrap();
        let reviews = patch["spec"]["reviews"].as_array().unwrap();
        assert_eq!(reviews.len(), 2);
        assert_eq!(reviews[1]["author"], "alice");
        assert_eq!(reviews[1]["verdict"], "approved");
        assert_eq!(reviews[1]["commit"], "abc", "it is about what was seen");
        assert_eq!(reviews[1]["at"], "1970-01-01T00:00:00Z");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_check_that_has_not_passed_holds_the_merge_back() {
        let with = |state: &str| {
            let mut request = request();
            request.spec.checks = serde_json::from_value(json!([
                {"context": "build", "state": "success"},
                {"context": "kardinal/gates", "state": state, "description": "held: `app` is paused"}]))
            .unwrap();
            request
        };
        for (state, word) in [("pending", "pending"), ("failure", "failed")] {
            let Err(Refusal::Check(problem)) = merge(&with(state), "alice", false) else { panic!("{state}") };
            let expected = format!(
                "Pull request #3 of \"gitops\": check `kardinal/gates` is {word}: held: `app` is paused"
            );
            assert_eq!(problem.message, expected);
            assert!(merge(&with(state), "alice", true).is_ok(), "{state}: somebody insists");
            assert!(close(&with(state), "alice").is_ok(), "{state}");
        }
        assert!(merge(&with("success"), "alice", false).is_ok(), "nobody speaks against it");
    }

    #[test]
    fn what_is_over_is_not_asked_for_again() {
        for (state, word) in [(PullRequestState::Merged, "merged"), (PullRequestState::Closed, "closed")] {
            let request = over(state);
            let wishes = [
                approve(&request, "alice", None, Timestamp::UNIX_EPOCH),
                merge(&request, "alice", true),
                close(&request, "alice"),
            ];
            for wish in wishes {
                let Err(Refusal::Over(problem)) = wish else { panic!("{word}: {wish:?}") };
                assert_eq!(problem.message, format!("Pull request #3 of \"gitops\" is {word} already"));
            }
        }
    }

    #[test]
    fn only_what_was_seen_is_merged_or_closed() {
        let patch = merge(&request(), "alice", false).unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": {"resourceVersion": "7"},
                "spec": {"desired": "merged", "mergedBy": "alice", "expectedHead": "abc"},
            })
        );
        let patch = close(&request(), "alice").unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["spec"], json!({"desired": "closed", "closedBy": "alice"}));
    }

    #[test]
    fn the_forge_has_answered_when_it_says_so_of_this_very_wish() {
        let merged = over(PullRequestState::Merged);
        let closed = over(PullRequestState::Closed);
        let named = "Pull request #3 of \"gitops\"";
        for (seen, generation, expected, said) in [
            (Some(&request()), 2, Answer::Waits, Some(": the forge has not answered yet")),
            (Some(&request()), 1, Answer::Refused("conflicts".to_owned()), Some(": conflicts")),
            (Some(&merged), 2, Answer::Done, None),
            (Some(&closed), 2, Answer::Waits, Some(": the forge has not answered yet")),
            (None, 2, Answer::Deleted, Some(" was deleted")),
        ] {
            let answer = answer(seen, PullRequestState::Merged, Some(generation));
            assert_eq!(answer, expected);
            let problem = answer.problem(&request()).map(|problem| problem.message);
            let is_said = match (&problem, said) {
                (Some(problem), Some(said)) => problem.starts_with(&format!("{named}{said}")),
                (problem, said) => problem.is_none() && said.is_none(),
            };
            assert!(is_said, "{expected:?}: {problem:?}");
        }
    }
}
