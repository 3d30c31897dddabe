//! The CustomResourceDefinitions, as an API server takes them.
//!
//! What the derives give is nearly that. Here it loses what JSON Schema has and Kubernetes has not: `nullable` on
//! every optional field, and number formats that no API server knows.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};
use serde_json::{Map, Value};

use crate::GROUPS;

/// Every definition, in the order in which an installation lists them.
///
/// The `crd()` that the derives put on each kind is the raw form; this is the one to install.
pub fn crds() -> Vec<CustomResourceDefinition> {
    GROUPS.iter().flat_map(|group| (group.crds)()).map(normalize).collect()
}

/// Every definition as a file: the name under `deploy/crds` and the YAML in it.
pub fn crd_yaml() -> Result<Vec<(String, String)>, serde_saphyr::ser::Error> {
    crds()
        .iter()
        .map(|crd| {
            let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            Ok((name, serde_saphyr::to_string(crd)?))
        })
        .collect()
}

/// The names of such objects are the values of labels on others, and a label holds less than a name.
pub(crate) fn with_label_names(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let rule = ValidationRule {
        rule: "size(self.metadata.name) <= 63".to_owned(),
        message: Some(format!(
            "the name of a {} can have at most 63 characters, because its Bundles carry it as a label",
            crd.spec.names.kind
        )),
        ..ValidationRule::default()
    };
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            schema.x_kubernetes_validations.get_or_insert_default().push(rule.clone());
        }
    }
    crd
}

fn normalize(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(schema) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) else {
            continue;
        };
        // A schema that came out of the types goes back into them, so neither direction can fail.
        if let Ok(mut json) = serde_json::to_value(&*schema) {
            normalize_schema(&mut json);
            if let Ok(normal) = serde_json::from_value(json) {
                *schema = normal;
            }
        }
    }
    crd
}

/// The keywords under which schemas hang by name, and those under which one hangs directly.
const NAMED: [&str; 1] = ["properties"];
const DIRECT: [&str; 2] = ["items", "additionalProperties"];

fn normalize_schema(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("nullable");
    normalize_number(schema);
    for keyword in NAMED {
        if let Some(children) = schema.get_mut(keyword).and_then(Value::as_object_mut) {
            children.values_mut().for_each(normalize_schema);
        }
    }
    for keyword in DIRECT {
        if let Some(child) = schema.get_mut(keyword) {
            normalize_schema(child);
        }
    }
}

fn normalize_number(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint")) {
        schema.insert("format".to_owned(), Value::from("int64"));
    }
}
