//! What is told of a pull request.

use std::fmt;

use kardinal_api::forge::{CheckState, PullRequest, PullRequestState, Verdict};

use super::state;

/// Who has approved a pull request, and of which commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Of the commit that is there now: only this one counts.
    Current(String),
    /// Of an earlier commit.
    Earlier(String),
    /// Of a commit that was not named.
    Unnamed(String),
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Approval::Current(who) => f.write_str(who),
            Approval::Earlier(who) => write!(f, "{who} (an earlier commit)"),
            Approval::Unnamed(who) => write!(f, "{who} (no commit named)"),
        }
    }
}

/// Who has approved it, and what.
pub fn approvals(request: &PullRequest) -> Vec<Approval> {
    let head = request.status.as_ref().and_then(|status| status.head_commit.as_deref());
    let approved = request.spec.reviews.iter().filter(|review| review.verdict == Verdict::Approved);
    let approval = |who: String, commit: Option<&str>| match commit {
        Some(commit) if Some(commit) == head => Approval::Current(who),
        Some(_) => Approval::Earlier(who),
        None => Approval::Unnamed(who),
    };
    approved.map(|review| approval(review.author.clone(), review.commit.as_deref())).collect()
}

/// The worst of what all checks say. Absent: there are none.
pub fn worst_check(request: &PullRequest) -> Option<CheckState> {
    let rank = |state: CheckState| match state {
        CheckState::Success => 0,
        CheckState::Pending => 1,
        CheckState::Failure => 2,
    };
    request.spec.checks.iter().map(|check| check.state).max_by_key(|state| rank(*state))
}

/// Whether it is known that its branches do not fit together.
pub fn has_conflicts(request: &PullRequest) -> bool {
    let mergeable = request.status.as_ref().and_then(|status| status.mergeable);
    mergeable == Some(false) && state(request) == PullRequestState::Open
}

/// What is compared to show the change: base and head. Once it is over its branches move on, and the commits that were
/// recorded say what it was.
pub fn compared(request: &PullRequest) -> (&str, &str) {
    let recorded = request.status.as_ref().filter(|_| state(request) != PullRequestState::Open);
    let base = recorded.and_then(|status| status.base_commit.as_deref());
    let head = recorded.and_then(|status| status.head_commit.as_deref());
    (base.unwrap_or(&request.spec.base), head.unwrap_or(&request.spec.head))
}

/// The body without the comment at its top by which programs find it.
pub fn visible_body(request: &PullRequest) -> &str {
    let body = request.spec.body.as_str();
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    match first.starts_with("<!--") && first.trim_end().ends_with("-->") {
        true => rest,
        false => body,
    }
}

/// A state as it stands in sentences.
pub fn state_word(state: PullRequestState) -> &'static str {
    match state {
        PullRequestState::Open => "open",
        PullRequestState::Merged => "merged",
        PullRequestState::Closed => "closed",
    }
}

/// How a check went, in one word.
pub fn check_word(state: CheckState) -> &'static str {
    match state {
        CheckState::Pending => "pending",
        CheckState::Success => "success",
        CheckState::Failure => "failure",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(spec: Value, status: Value) -> PullRequest {
        let mut all = json!({"repository": "shop", "head": "change", "base": "main", "title": "t"});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "shop-3"}, "spec": all, "status": status}))
            .unwrap()
    }

    #[test]
    fn an_approval_says_whether_it_is_of_what_is_there_now() {
        let reviews = json!({"reviews": [
            {"author": "alice", "verdict": "approved", "commit": "c1"},
            {"author": "bob", "verdict": "approved", "commit": "c2"},
            {"author": "carol", "verdict": "approved"},
            {"author": "dave", "verdict": "changes-requested", "commit": "c2"}]});
        let shown = |status: Value| -> Vec<String> {
            approvals(&request(reviews.clone(), status)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            shown(json!({"headCommit": "c2"})),
            ["alice (an earlier commit)", "bob", "carol (no commit named)"]
        );
        assert_eq!(
            shown(json!({})),
            ["alice (an earlier commit)", "bob (an earlier commit)", "carol (no commit named)"]
        );
    }

    #[test]
    fn the_worst_check_speaks_for_all() {
        for (states, expected) in [
            (vec![], None),
            (vec!["success", "success"], Some("success")),
            (vec!["pending", "success"], Some("pending")),
            (vec!["failure", "pending", "success"], Some("failure")),
        ] {
            let checks: Vec<Value> = states
                .iter()
                .enumerate()
                .map(|(at, state)| json!({"context": at.to_string(), "state": state}))
                .collect();
            let worst = worst_check(&request(json!({"checks": checks}), json!({})));
            assert_eq!(worst.map(check_word), expected, "{states:?}");
        }
    }

    #[test]
    fn what_is_over_is_compared_by_its_commits_and_has_no_conflicts() {
        let commits =
            |state: &str| json!({"state": state, "baseCommit": "b1", "headCommit": "h1", "mergeable": false});
        for (status, expected, conflicts) in [
            (json!({}), ("main", "change"), false),
            (commits("Open"), ("main", "change"), true),
            (commits("Merged"), ("b1", "h1"), false),
            (commits("Closed"), ("b1", "h1"), false),
            (json!({"state": "Closed", "headCommit": "h1"}), ("main", "h1"), false),
        ] {
            let request = request(json!({}), status.clone());
            assert_eq!((compared(&request), has_conflicts(&request)), (expected, conflicts), "{status}");
        }
    }

    #[test]
    fn only_the_comment_at_the_top_is_for_programs() {
        for (body, expected) in [
            ("<!-- kardinal-step: 1 -->\n## Promotion", "## Promotion"),
            ("<!-- kardinal-step: 1 -->\r\n## Promotion", "## Promotion"),
            ("## Promotion\n<!-- mine -->\n", "## Promotion\n<!-- mine -->\n"),
            ("<!-- unfinished\n-->", "<!-- unfinished\n-->"),
            ("<!-- kardinal-step: 1 -->", ""),
            ("", ""),
        ] {
            assert_eq!(visible_body(&request(json!({"body": body}), json!({}))), expected, "{body:?}");
        }
    }
}
