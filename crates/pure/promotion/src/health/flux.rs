//! The `flux` adapter: a Kustomization that is Ready with the promoted revision.

use kardinal_planner::condition::Truth;
use serde_json::Value;

use super::{Expected, Verdict, condition, has_commit, is_current, label, said, short, text};

/// The commit in `main@sha1:<commit>`, or in the older `main/<commit>`.
pub(super) fn revision(object: &Value) -> Option<String> {
    let applied = text(object, "/status/lastAppliedRevision")?;
    let commit = applied.rsplit([':', '/']).next().unwrap_or(applied);
    Some(commit.to_owned())
}

pub(super) fn judge(object: &Value, expected: &Expected<'_>) -> Verdict {
    let name = label(object);
    if !is_current(object) {
        return Verdict::Progressing(format!("{name} has not acted on its newest spec yet"));
    }
    let ready = condition(object, "Ready");
    let holds = ready.and_then(|ready| Truth::read(text(ready, "/status")?));
    if let (Some(ready), Some(Truth::False)) = (ready, holds) {
        let reason = format!("{name} is not ready: {}", said(ready));
        return match text(ready, "/reason") {
            Some("Progressing" | "DependencyNotReady" | "ArtifactNotFound" | "ProgressingWithRetry") => {
                Verdict::Progressing(reason)
            }
            _ => Verdict::Degraded(reason),
        };
    }
    if expected.commit.is_some() {
        match revision(object) {
            Some(applied) if has_commit(&applied, expected) => {}
            Some(applied) => {
                let wanted = expected.commit.map_or("the promoted commit", short);
                return Verdict::Progressing(format!(
                    "{name} is at {}, not yet at {wanted}",
                    short(&applied)
                ));
            }
            None => return Verdict::Progressing(format!("{name} has not applied a revision yet")),
        }
    }
    match (ready, holds) {
        (_, Some(Truth::True)) => Verdict::Healthy(format!("{name} is Ready")),
        (Some(ready), Some(Truth::False | Truth::Unknown) | None) => {
            Verdict::Progressing(format!("{name} is not ready yet: {}", said(ready)))
        }
        (None, Some(Truth::False | Truth::Unknown) | None) => {
            Verdict::Progressing(format!("{name} has no condition Ready yet"))
        }
    }
}
