//! Bundles with where they come from.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleType};
use kardinal_object::{created_at, name_of};
use serde::Serialize;

use crate::bundle::{is_finished, phase_of};

/// How much of a commit's id is shown.
const SHORT: usize = 8;

/// One Bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleRow {
    /// Its name.
    pub name: String,
    /// How people call what it carries.
    pub version: String,
    /// What it carries.
    #[serde(rename = "type")]
    pub kind: BundleType,
    /// Where it stands. Absent: nobody has looked at it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    /// The last environment that it is meant for. Absent: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The beginning of the commit that was built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Who made the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The run that built it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci_run: Option<String>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
}

/// All of some Bundles, or only those on their way.
pub fn bundles(all: &[Bundle], active: bool) -> Vec<&Bundle> {
    all.iter().filter(|bundle| !active || !phase_of(bundle).is_some_and(is_finished)).collect()
}

/// What is told of a Bundle.
pub fn bundle_row(bundle: &Bundle) -> BundleRow {
    let origin = bundle.spec.provenance.clone().unwrap_or_default();
    BundleRow {
        name: name_of(&bundle.metadata).to_owned(),
        version: crate::gate_context::version(&bundle.spec),
        kind: bundle.spec.kind(),
        phase: phase_of(bundle),
        target: bundle.spec.intent.as_ref().and_then(|intent| intent.target.clone()),
        commit: origin.commit_sha.map(|sha| sha.chars().take(SHORT).collect()),
        author: origin.author,
        ci_run: origin.ci_run_url,
        created: created_at(&bundle.metadata),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(name: &str, phase: Value) -> Bundle {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": "2026-04-09T10:00:00Z"},
            "spec": {
                "artifacts": {"images": [{"name": "a", "reference": "r/a:1.0.0"}]},
                "provenance": {"commitSHA": "0123456789abcdef", "author": "alice", "ciRunURL": "https://ci/1"},
                "intent": {"target": "staging"},
            },
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn what_has_come_to_its_end_is_not_on_its_way() {
        let all = [
            bundle("new", Value::Null),
            bundle("free", json!("Available")),
            bundle("moving", json!("Promoting")),
            bundle("done", json!("Verified")),
            bundle("bad", json!("Failed")),
            bundle("gone", json!("Superseded")),
            bundle("denied", json!("SkipDenied")),
        ];
        let names =
            |active| bundles(&all, active).iter().map(|one| name_of(&one.metadata)).collect::<Vec<_>>();
        assert_eq!(names(true), ["new", "free", "moving"]);
        assert_eq!(names(false).len(), all.len());
        assert!(bundles(&[], true).is_empty());
    }

    #[test]
    fn a_bundle_is_told_with_where_it_comes_from() {
        assert_eq!(
            serde_json::to_value(bundle_row(&bundle("b", json!("Promoting")))).unwrap(),
            json!({
                "name": "b", "version": "1.0.0", "type": "image", "phase": "Promoting", "target": "staging",
                "commit": "01234567", "author": "alice", "ciRun": "https://ci/1", "created": "2026-04-09T10:00:00Z",
            })
        );
    }
}
