//! Whether the server knows kardinal's kinds as this program does.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kardinal_object::name_of;
use serde_json::Value;

use super::Finding;
use crate::condition::Truth;

const REMEDY: &str = "`kardinal install` brings them up to date";

/// What a server has of one of our kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Installed {
    /// This.
    As(Box<CustomResourceDefinition>),
    /// Nothing.
    Nothing,
    /// It does not tell, for this reason.
    Unknown(String),
}

/// Compares our kinds, as this version of the program knows them, with what a server has of each.
pub fn definitions(kinds: &[(CustomResourceDefinition, Installed)], version: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        kinds.iter().filter_map(|(ours, theirs)| problem(ours, theirs)).collect();
    let good = kinds.len().saturating_sub(findings.len());
    if good > 0 {
        let all = kinds.len();
        findings.insert(0, Finding::ok("kinds", format!("{good} of {all} are installed as in {version}")));
    }
    findings
}

fn problem(ours: &CustomResourceDefinition, theirs: &Installed) -> Option<Finding> {
    let kind = format!("kind {}", name_of(&ours.metadata));
    let theirs = match theirs {
        Installed::As(theirs) => theirs,
        Installed::Nothing => return Some(Finding::fail(kind, "is not installed", REMEDY)),
        Installed::Unknown(why) => {
            let remedy = "ask for the permission to read CustomResourceDefinitions";
            return Some(Finding::warn(kind, why, remedy));
        }
    };
    let conditions = theirs.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if !conditions.into_iter().any(|one| one.type_ == "Established" && one.status == Truth::True.as_str()) {
        return Some(Finding::fail(kind, "is installed but not served yet", "try again in a moment"));
    }
    let versions =
        |one: &CustomResourceDefinition| serde_json::to_value(&one.spec.versions).unwrap_or_default();
    if covers(&versions(theirs), &versions(ours)) {
        return None;
    }
    Some(Finding::warn(kind, "is installed by another version of kardinal", REMEDY))
}

/// Whether everything in `ours` is in `theirs`; servers add defaults.
fn covers(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|found| covers(found, value)))
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(theirs, ours)| covers(theirs, ours))
        }
        _ => theirs == ours,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::Mark;

    #[test]
    fn what_a_server_adds_is_no_difference() {
        assert!(covers(&json!({"a": [{"b": 1, "c": 2}]}), &json!({"a": [{"b": 1}]})));
        assert!(!covers(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}]})));
        assert!(!covers(&json!({"a": [1]}), &json!({"a": [1, 2]})));
        assert!(!covers(&json!({}), &json!({"a": 1})));
    }

    fn kind(description: &str, established: &str) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "things.kardinal.io"},
            "spec": {
                "group": "kardinal.io", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "description": description}}}],
            },
            "status": {"conditions": [{"type": "Established", "status": established}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_kind_is_judged_by_what_the_server_has_of_it() {
        let as_it_is = |description, established| Installed::As(Box::new(kind(description, established)));
        for (theirs, mark, detail) in [
            (as_it_is("ours", "True"), Mark::Ok, "1 of 1 are installed as in 1.0.0"),
            (as_it_is("theirs", "True"), Mark::Warn, "is installed by another version of kardinal"),
            (as_it_is("ours", "False"), Mark::Fail, "is installed but not served yet"),
            (Installed::Nothing, Mark::Fail, "is not installed"),
            (Installed::Unknown("cannot be read: no".to_owned()), Mark::Warn, "cannot be read: no"),
        ] {
            let findings = definitions(&[(kind("ours", "True"), theirs)], "1.0.0");
            let found: Vec<(Mark, &str)> =
                findings.iter().map(|one| (one.mark, one.detail.as_str())).collect();
            assert_eq!(found, [(mark, detail)]);
            assert_eq!(findings[0].remedy.is_some(), mark != Mark::Ok);
        }
        assert_eq!(definitions(&[], "1.0.0"), []);
    }
}
