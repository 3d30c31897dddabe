//! CustomResourceDefinitions: what is wrong with one, and the kind that it defines.
//!
//! The checks are those of `apiextensions-apiserver`; schemas are compiled once, here, and shared from then on.

use std::sync::Arc;

use serde_json::{Value, json};

use super::conditions::holds;
use super::{Definition, Scale, Shape, Version, compare_versions};
use crate::builtin::NameRule;
use crate::meta;
use crate::object::text;
use crate::schema::{Cause, FieldError, Schema, SchemaType};

/// The finalizer that keeps a CRD until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Fills in what kube fills in: singular and list kind, the conversion strategy.
pub fn apply_defaults(crd: &mut Value) {
    let spec = meta::child_map(crd, "spec");
    let names = meta::as_map(spec.entry("names").or_insert(Value::Null));
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if names.get("singular").and_then(Value::as_str).unwrap_or_default().is_empty() {
        names.insert("singular".into(), kind.to_lowercase().into());
    }
    if names.get("listKind").and_then(Value::as_str).unwrap_or_default().is_empty() && !kind.is_empty() {
        names.insert("listKind".into(), format!("{kind}List").into());
    }
    if !spec.contains_key("conversion") {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
}

/// Adds the storage version to `status.storedVersions`.
pub fn record_storage_version(crd: &mut Value) {
    let storage = storage_version(crd);
    let status = meta::child_map(crd, "status");
    let stored = status.entry("storedVersions").or_insert(Value::Null);
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let (Some(storage), Value::Array(list)) = (storage, stored)
        && !list.contains(&storage)
    {
        list.push(storage);
    }
}

fn storage_version(crd: &Value) -> Option<Value> {
    let version = versions(crd).find(|v| v.get("storage").and_then(Value::as_bool) == Some(true))?;
    version.get("name").cloned()
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// The kind of an established CRD; versions whose text did not change are taken over from `before`.
pub fn established(crd: &Value, before: Option<&Definition>) -> Option<Definition> {
    if !holds(crd, "Established") {
        return None;
    }
    let mut errors = Vec::new();
    let definition = compile(crd, before, &mut errors);
    Some(definition)
}

/// The kind that a CRD defines; what is wrong with its versions goes to `errors`.
pub fn compile(crd: &Value, before: Option<&Definition>, errors: &mut Vec<FieldError>) -> Definition {
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let mut names = spec.get("names").unwrap_or(&Value::Null);
    // What was accepted is what is served; a later change of names waits until it is accepted too.
    if let Some(accepted) = crd.pointer("/status/acceptedNames")
        && !text(accepted, "kind").is_empty()
    {
        names = accepted;
    }
    let list = |value: &Value, field: &str| -> Vec<String> {
        let list = value.get(field).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let group = text(spec, "group").to_owned();
    let plural = text(spec.get("names").unwrap_or(&Value::Null), "plural").to_owned();
    let mut compiled: Vec<Arc<Version>> = versions(crd)
        .enumerate()
        .map(|(index, version)| {
            let path = format!("spec.versions[{index}]");
            let name = format!("{group}/{}", text(version, "name"));
            let heir = heir(crd, text(version, "name")).map(|heir| format!("{group}/{heir}"));
            compile_version(version, &path, &name, text(names, "kind"), heir, before, errors)
        })
        .collect();
    compiled.sort_by(|a, b| compare_versions(&a.name, &b.name));
    let storage = storage_version(crd);
    Definition {
        name: format!("{plural}.{group}").into(),
        plural,
        singular: text(names, "singular").to_owned(),
        kind: text(names, "kind").to_owned(),
        list_kind: text(names, "listKind").to_owned(),
        short_names: list(names, "shortNames"),
        categories: list(names, "categories"),
        namespaced: text(spec, "scope") == "Namespaced",
        custom: true,
        terminating: !text(crd.get("metadata").unwrap_or(&Value::Null), "deletionTimestamp").is_empty(),
        versions: compiled,
        storage: storage.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
        unconditional_update: false,
        create_on_update: false,
        has_generation: true,
        name_rule: NameRule::Subdomain,
        group,
    }
}

/// The newest version that can be used instead of a deprecated one.
fn heir<'a>(crd: &'a Value, deprecated: &str) -> Option<&'a str> {
    let flag = |version: &Value, field: &str| version.get(field).and_then(Value::as_bool) == Some(true);
    versions(crd)
        .filter(|version| flag(version, "served") && !flag(version, "deprecated"))
        .map(|version| text(version, "name"))
        .filter(|name| compare_versions(name, deprecated).is_lt())
        .min_by(|a, b| compare_versions(a, b))
}

fn compile_version(
    version: &Value,
    path: &str,
    api_version: &str,
    kind: &str,
    heir: Option<String>,
    before: Option<&Definition>,
    errors: &mut Vec<FieldError>,
) -> Arc<Version> {
    let name = text(version, "name");
    let openapi = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let previous = before.and_then(|d| d.version(name)).filter(|v| *v.openapi == *openapi);
    let schema = match previous {
        Some(previous) => previous.schema(),
        None => compile_schema(openapi, path, errors),
    };
    let openapi = previous.map_or_else(|| Arc::new(openapi.clone()), |v| Arc::clone(&v.openapi));
    let flag = |field: &str| version.get(field).and_then(Value::as_bool) == Some(true);
    let deprecation = flag("deprecated").then(|| {
        let own = version.get("deprecationWarning").and_then(Value::as_str);
        let advice = heir.map(|heir| format!("; use {heir} {kind}")).unwrap_or_default();
        own.map_or_else(|| format!("{api_version} {kind} is deprecated{advice}"), str::to_owned)
    });
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let selectable = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
    Arc::new(Version {
        name: name.to_owned(),
        served: flag("served"),
        shape: Shape::Custom(schema),
        status: version.pointer("/subresources/status").is_some_and(|s| !s.is_null()),
        scale: version.pointer("/subresources/scale").filter(|s| s.is_object()).map(scale),
        subresources: Vec::new(),
        columns: columns.cloned().unwrap_or_default(),
        selectable: selectable.map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned()).collect(),
        deprecation,
        openapi,
    })
}

fn compile_schema(openapi: &Value, path: &str, errors: &mut Vec<FieldError>) -> Arc<Schema> {
    let path = format!("{path}.schema.openAPIV3Schema");
    if openapi.is_null() {
        errors.push(FieldError::required(&path, ""));
        return Schema::untyped();
    }
    match Schema::from_openapi(openapi) {
        Ok(schema) => Arc::new(schema),
        Err(problems) => {
            errors.extend(problems.iter().map(|problem| schema_problem(&path, problem)));
            Schema::untyped()
        }
    }
}

/// A schema problem comes as `place: Title: detail`, relative to the schema.
fn schema_problem(path: &str, problem: &str) -> FieldError {
    let (place, message) = problem.split_once(": ").unwrap_or(("", problem));
    let causes = [
        Cause::Required,
        Cause::NotSupported,
        Cause::Duplicate,
        Cause::Forbidden,
        Cause::TooLong,
        Cause::TooMany,
    ];
    let reason = causes.into_iter().find(|c| message.starts_with(c.title())).unwrap_or(Cause::Invalid);
    let path = if place.is_empty() { path.to_owned() } else { format!("{path}.{place}") };
    FieldError { path, reason, message: message.to_owned() }
}

fn scale(value: &Value) -> Scale {
    let selector = text(value, "labelSelectorPath");
    Scale {
        spec_replicas: text(value, "specReplicasPath").to_owned(),
        status_replicas: text(value, "statusReplicasPath").to_owned(),
        selector: (!selector.is_empty()).then(|| selector.to_owned()),
    }
}

/// Everything that is wrong with a CRD, except its metadata; `old` is the CRD before an update.
pub fn problems(crd: &Value, old: Option<&Value>, definition: &Definition) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Value::Null;
    let spec = crd.get("spec").unwrap_or(&nothing);
    let name = text(crd.get("metadata").unwrap_or(&nothing), "name");
    if name != &*definition.name {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &name.into(), detail));
    }
    group_problems(text(spec, "group"), &mut errors);
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::not_supported("spec.scope", &other.into(), ["Cluster", "Namespaced"]));
        }
    }
    version_problems(crd, &mut errors);
    for (index, version) in versions(crd).enumerate() {
        let compiled = definition.version(text(version, "name"));
        subresource_problems(version, &format!("spec.versions[{index}]"), compiled, &mut errors);
    }
    name_problems(spec.get("names").unwrap_or(&nothing), &mut errors);
    if spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
    let strategy = text(spec.get("conversion").unwrap_or(&nothing), "strategy");
    if strategy != "None" {
        errors.push(FieldError::not_supported("spec.conversion.strategy", &strategy.into(), ["None"]));
    }
    stored_version_problems(crd, &mut errors);
    if let Some(old) = old {
        immutable_problems(crd, old, &mut errors);
    }
    errors
}

fn group_problems(group: &str, errors: &mut Vec<FieldError>) {
    let path = "spec.group";
    let problems = meta::subdomain_problems(group);
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(path, &group.into(), &problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(path, &group.into(), "should be a domain with at least one dot"));
    }
}

fn version_problems(crd: &Value, errors: &mut Vec<FieldError>) {
    let mut names: Vec<&str> = Vec::new();
    let mut storage = 0;
    let mut unique = true;
    for (index, version) in versions(crd).enumerate() {
        let name = text(version, "name");
        unique &= !names.contains(&name);
        names.push(name);
        storage += usize::from(version.get("storage").and_then(Value::as_bool) == Some(true));
        let problems = meta::label1035_problems(name);
        if !problems.is_empty() {
            let path = format!("spec.versions[{index}].name");
            errors.push(FieldError::invalid(path, &name.into(), &problems.join(",")));
        }
    }
    let all = crd.pointer("/spec/versions").unwrap_or(&Value::Null);
    if !unique {
        errors.push(FieldError::invalid("spec.versions", all, "must contain unique version names"));
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", all, detail));
    }
}

fn subresource_problems(
    version: &Value,
    path: &str,
    compiled: Option<&Arc<Version>>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(scale) = version.pointer("/subresources/scale").filter(|s| s.is_object()) {
        for (field, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
            let value = text(scale, field);
            let path = format!("{path}.subresources.scale.{field}");
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !value.starts_with('.') {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(path, &value.into(), detail));
            } else if !value.starts_with(root) {
                let detail = format!("should be a json path under {}", root.trim_end_matches('.'));
                errors.push(FieldError::invalid(path, &value.into(), &detail));
            }
        }
        let selector = text(scale, "labelSelectorPath");
        if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
            let path = format!("{path}.subresources.scale.labelSelectorPath");
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid(path, &selector.into(), detail));
        }
    }
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (index, column) in columns.into_iter().flatten().enumerate() {
        column_problems(column, &format!("{path}.additionalPrinterColumns[{index}]"), errors);
    }
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in fields.into_iter().flatten().enumerate() {
        let path = format!("{path}.selectableFields[{index}].jsonPath");
        let json_path = text(field, "jsonPath");
        selectable_problems(json_path, path.clone(), compiled, errors);
        if seen.contains(&json_path) {
            errors.push(FieldError::duplicate(path, &json_path.into()));
        }
        seen.push(json_path);
    }
}

fn column_problems(column: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let allowed = ["boolean", "date", "integer", "number", "string"];
    let words = format!("must be one of {}", allowed.join(","));
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let ty = text(column, "type");
    if ty.is_empty() {
        errors.push(FieldError::required(format!("{path}.type"), &words));
    } else if !allowed.contains(&ty) {
        errors.push(FieldError::invalid(format!("{path}.type"), &ty.into(), &words));
    }
    let json_path = text(column, "jsonPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(format!("{path}.JSONPath"), ""));
    } else if !json_path.starts_with('.') {
        let detail = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(format!("{path}.JSONPath"), &json_path.into(), detail));
    }
}

fn selectable_problems(
    json_path: &str,
    path: String,
    compiled: Option<&Arc<Version>>,
    errors: &mut Vec<FieldError>,
) {
    if json_path.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let value = Value::from(json_path);
    let steps = json_path.strip_prefix('.').unwrap_or_default();
    if steps.split('.').next() == Some("metadata") {
        errors.push(FieldError::invalid(path, &value, "must not point to fields in metadata"));
        return;
    }
    let Some(root) = compiled.map(|v| v.schema()) else { return };
    let found = if steps.is_empty() { None } else { steps.split('.').try_fold(&*root, Schema::field) };
    match found.map(|schema| schema.ty) {
        None => errors.push(FieldError::invalid(
            path,
            &value,
            "is an invalid path: does not refer to a valid field",
        )),
        Some(Some(SchemaType::String | SchemaType::Boolean | SchemaType::Integer)) => {}
        Some(_) => {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(path, &value, detail));
        }
    }
}

fn name_problems(names: &Value, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, field);
        let path = format!("spec.names.{field}");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let mixed = field.ends_with("ind");
        let problems = if mixed {
            meta::label1035_problems(&name.to_lowercase())
        } else {
            meta::label1035_problems(name)
        };
        if !problems.is_empty() {
            let start = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            let detail = format!("{start}{}", problems.join(","));
            errors.push(FieldError::invalid(path, &name.into(), &detail));
        }
    }
    for field in ["shortNames", "categories"] {
        let list = names.get(field).and_then(Value::as_array);
        for (index, name) in list.into_iter().flatten().enumerate() {
            let problems = meta::label1035_problems(name.as_str().unwrap_or_default());
            if !problems.is_empty() {
                let path = format!("spec.names.{field}[{index}]");
                errors.push(FieldError::invalid(path, name, &problems.join(",")));
            }
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", &list_kind.into(), detail));
    }
}

fn stored_version_problems(crd: &Value, errors: &mut Vec<FieldError>) {
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array);
    for (index, name) in stored.into_iter().flatten().enumerate() {
        if versions(crd).any(|v| v.get("name") == Some(name)) {
            continue;
        }
        let version = name.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), name, &detail));
    }
}

fn immutable_problems(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut fields = vec![("/spec/group", "spec.group"), ("/spec/names/plural", "spec.names.plural")];
    if holds(old, "Established") {
        fields.push(("/spec/scope", "spec.scope"));
        fields.push(("/spec/names/kind", "spec.names.kind"));
    }
    for (pointer, path) in fields {
        let new = crd.pointer(pointer).unwrap_or(&Value::Null);
        if Some(new) != old.pointer(pointer) {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    }
}
