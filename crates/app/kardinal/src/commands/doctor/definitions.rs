//! Whether the server knows kardinal's kinds as this program does.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::Value;

use super::Finding;
use crate::failure::Failure;
use crate::server::Server;

const REMEDY: &str = "`kardinal install` brings them up to date";

pub(super) async fn check(server: &Server) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(server.client.clone());
    let (mut findings, mut good) = (Vec::new(), 0_usize);
    let definitions = kardinal_api::crds();
    for ours in &definitions {
        let name = ours.metadata.name.clone().unwrap_or_default();
        match api.get_opt(&name).await {
            Ok(Some(theirs)) => match problem(ours, &theirs) {
                None => good += 1,
                Some(finding) => findings.push(finding),
            },
            Ok(None) => findings.push(Finding::fail(format!("kind {name}"), "is not installed", REMEDY)),
            Err(error) => {
                let failure = Failure::of_server("cannot be read", error);
                let remedy = "ask for the permission to read CustomResourceDefinitions";
                findings.push(Finding::warn(format!("kind {name}"), failure.message, remedy));
            }
        }
    }
    if good > 0 {
        let version = env!("CARGO_PKG_VERSION");
        findings.insert(
            0,
            Finding::ok("kinds", format!("{good} of {} are installed as in {version}", definitions.len())),
        );
    }
    findings
}

fn problem(ours: &CustomResourceDefinition, theirs: &CustomResourceDefinition) -> Option<Finding> {
    let name = ours.metadata.name.clone().unwrap_or_default();
    let conditions =
        theirs.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if !conditions.iter().any(|one| one.type_ == "Established" && one.status == "True") {
        return Some(Finding::fail(
            format!("kind {name}"),
            "is installed but not served yet",
            "try again in a moment",
        ));
    }
    let version =
        |one: &CustomResourceDefinition| serde_json::to_value(&one.spec.versions).unwrap_or_default();
    if covers(&version(theirs), &version(ours)) {
        return None;
    }
    let what = "is installed by another version of kardinal";
    Some(Finding::warn(format!("kind {name}"), what, REMEDY))
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
    use super::covers;
    use serde_json::json;

    #[test]
    fn what_a_server_adds_is_no_difference() {
        assert!(covers(&json!({"a": [{"b": 1, "c": 2}]}), &json!({"a": [{"b": 1}]})));
        assert!(!covers(&json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}]})));
        assert!(!covers(&json!({"a": [1]}), &json!({"a": [1, 2]})));
        assert!(!covers(&json!({}), &json!({"a": 1})));
    }
}
