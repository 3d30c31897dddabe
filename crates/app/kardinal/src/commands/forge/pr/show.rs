//! Pull requests as people read them.

use std::fmt::Write as _;

use jiff::Timestamp;
use kardinal_api::forge::{CheckState, FileStatus, PullRequest, PullRequestState, Verdict};

use super::{number, state};
use crate::output;

/// One line for each.
pub(super) fn table(requests: &[PullRequest], now: Timestamp) -> String {
    let rows = requests.iter().map(|request| {
        vec![
            number(request).map(|number| format!("#{number}")).unwrap_or_default(),
            request.spec.repository.clone(),
            word(request).to_owned(),
            request.spec.title.clone(),
            format!("{} → {}", request.spec.head, request.spec.base),
            approvals(request).join(", "),
            checks(request),
            output::age(request.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
        ]
    });
    let header = ["PR", "REPOSITORY", "STATE", "TITLE", "BRANCHES", "APPROVED-BY", "CHECKS", "AGE"];
    output::table(&header, rows.collect())
}

/// Everything about one.
pub(super) fn page(request: &PullRequest, now: Timestamp) -> String {
    let spec = &request.spec;
    let status = request.status.clone().unwrap_or_default();
    let number = number(request).map(|number| format!("#{number} ")).unwrap_or_default();
    let mut text = format!("{number}{}\n", spec.title);
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {what:<12}{value}");
        }
    };
    line("State", word(request).to_owned());
    line("Repository", spec.repository.clone());
    line("Branches", format!("{} → {}", spec.head, spec.base));
    line("Author", spec.author.clone().unwrap_or_default());
    line("Labels", spec.labels.join(", "));
    line("Age", output::age(request.metadata.creation_timestamp.as_ref().map(|time| time.0), now));
    line("URL", status.url.clone().unwrap_or_default());
    line("Approved by", approvals(request).join(", "));
    line("Merged by", status.merged_by.clone().unwrap_or_default());
    line("Closed by", status.closed_by.clone().unwrap_or_default());
    let conflict = status.mergeable == Some(false) && state(request) == PullRequestState::Open;
    line("Conflicts", if conflict { format!("with {}", spec.base) } else { String::new() });
    for check in &spec.checks {
        line(
            "Check",
            format!(
                "{} {}: {}",
                check_word(check.state),
                check.context,
                check.description.as_deref().unwrap_or_default()
            ),
        );
    }
    line(
        "Changes",
        match (status.additions, status.deletions) {
            (Some(added), Some(removed)) => format!("+{added} -{removed} in {} file(s)", status.files.len()),
            _ => String::new(),
        },
    );
    for file in &status.files {
        let _ = writeln!(text, "    {} {}", file_word(file.status), file.path);
    }
    if !spec.body.is_empty() {
        let _ = writeln!(text, "\n{}", visible(&spec.body));
    }
    for comment in &spec.comments {
        let at = comment.at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
        let _ = writeln!(text, "\n{}{at}:\n{}", comment.author, comment.body);
    }
    text
}

/// Marks for machines are not for people.
fn visible(body: &str) -> String {
    let shown = body.lines().filter(|line| !(line.starts_with("<!--") && line.ends_with("-->")));
    shown.collect::<Vec<&str>>().join("\n").trim().to_owned()
}

fn word(request: &PullRequest) -> &'static str {
    match state(request) {
        PullRequestState::Open => "open",
        PullRequestState::Merged => "merged",
        PullRequestState::Closed => "closed",
    }
}

/// Who approved it, and what: only an approval of the commit that is there now counts.
fn approvals(request: &PullRequest) -> Vec<String> {
    let head = request.status.as_ref().and_then(|status| status.head_commit.as_deref());
    let approved = request.spec.reviews.iter().filter(|review| review.verdict == Verdict::Approved);
    approved
        .map(|review| match review.commit.as_deref() {
            Some(commit) if Some(commit) == head => review.author.clone(),
            Some(_) => format!("{} (an earlier commit)", review.author),
            None => format!("{} (no commit named)", review.author),
        })
        .collect()
}

/// The worst of all checks.
fn checks(request: &PullRequest) -> String {
    let rank = |state: CheckState| match state {
        CheckState::Success => 0,
        CheckState::Pending => 1,
        CheckState::Failure => 2,
    };
    let worst = request.spec.checks.iter().map(|check| check.state).max_by_key(|state| rank(*state));
    worst.map(check_word).unwrap_or_default().to_owned()
}

fn check_word(state: CheckState) -> &'static str {
    match state {
        CheckState::Pending => "pending",
        CheckState::Success => "success",
        CheckState::Failure => "failure",
    }
}

fn file_word(status: FileStatus) -> &'static str {
    match status {
        FileStatus::Added => "A",
        FileStatus::Modified => "M",
        FileStatus::Removed => "D",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_the_body_without_its_mark() {
        let request: PullRequest = serde_json::from_value(serde_json::json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "gitops-3"},
            "spec": {"repository": "gitops", "head": "kardinal/b/prod", "base": "main", "title": "Promote",
                "body": "<!-- kardinal-step: 1 -->\n## Promotion: my-app v1.29.0 to prod",
                "reviews": [{"author": "alice", "verdict": "approved", "commit": "c1"},
                    {"author": "bob", "verdict": "approved", "commit": "c2"}],
                "checks": [{"context": "kardinal/gates", "state": "pending", "description": "held by staging-soak"}]},
            "status": {"number": 3, "state": "Open", "additions": 1, "deletions": 1, "headCommit": "c2",
                "files": [{"path": "environments/prod/kustomization.yaml", "status": "modified"}]},
        }))
        .unwrap();
        let page = page(&request, Timestamp::UNIX_EPOCH);
        for part in [
            "#3 Promote",
            "Approved by alice (an earlier commit), bob",
            "pending kardinal/gates: held by staging-soak",
            "+1 -1 in 1 file(s)",
            "## Promotion",
        ] {
            assert!(page.contains(part), "`{part}` is missing in {page}");
        }
        assert!(!page.contains("<!--"), "{page}");
        assert!(
            table(std::slice::from_ref(&request), Timestamp::UNIX_EPOCH).contains("kardinal/b/prod → main")
        );
    }
}
