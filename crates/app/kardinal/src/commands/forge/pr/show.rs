//! Pull requests as people read them.

use std::fmt::Write as _;

use jiff::Timestamp;
use kardinal_api::forge::{FileStatus, PullRequest};
use kardinal_planner::review::{
    approvals, check_word, has_conflicts, number, state, state_word, visible_body, worst_check,
};

use crate::output;

/// One line for each.
pub(super) fn table(requests: &[PullRequest], now: Timestamp) -> String {
    let rows = requests.iter().map(|request| {
        vec![
            number(request).map(|number| format!("#{number}")).unwrap_or_default(),
            request.spec.repository.clone(),
            state_word(state(request)).to_owned(),
            request.spec.title.clone(),
            format!("{} → {}", request.spec.head, request.spec.base),
            approved_by(request),
            worst_check(request).map(check_word).unwrap_or_default().to_owned(),
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
    line("State", state_word(state(request)).to_owned());
    line("Repository", spec.repository.clone());
    line("Branches", format!("{} → {}", spec.head, spec.base));
    line("Author", spec.author.clone().unwrap_or_default());
    line("Labels", spec.labels.join(", "));
    line("Age", output::age(request.metadata.creation_timestamp.as_ref().map(|time| time.0), now));
    line("URL", status.url.clone().unwrap_or_default());
    line("Approved by", approved_by(request));
    line("Merged by", status.merged_by.clone().unwrap_or_default());
    line("Closed by", status.closed_by.clone().unwrap_or_default());
    line("Conflicts", if has_conflicts(request) { format!("with {}", spec.base) } else { String::new() });
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
        let _ = writeln!(text, "\n{}", visible_body(request).trim());
    }
    for comment in &spec.comments {
        let at = comment.at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
        let _ = writeln!(text, "\n{}{at}:\n{}", comment.author, comment.body);
    }
    text
}

fn approved_by(request: &PullRequest) -> String {
    approvals(request).iter().map(ToString::to_string).collect::<Vec<String>>().join(", ")
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
