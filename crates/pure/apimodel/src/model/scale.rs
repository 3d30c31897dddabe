//! The scale subresource: a small `autoscaling/v1` Scale in front of a big object.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::options::WriteOptions;
use super::patching::patched;
use super::pipeline::{Place, Work};
use super::update::{check_preconditions, check_uid};
use super::{Answer, Model, Outcome, PatchKind, Target};
use crate::meta;
use crate::object::{Object, text};
use crate::registry::{Scale, Version};
use crate::schema::{FieldError, Schema};
use crate::status::Status;

impl Model {
    /// GET of `/scale`.
    pub fn scale(&self, target: &Target) -> Result<Value, Status> {
        let (_, version) = self.resolve(target)?;
        let object = self.get(target)?;
        let paths = version.scale.as_ref().ok_or_else(Status::no_such_resource)?;
        if version.builtin().is_none() && replicas(&object.value(), paths).is_none() {
            let path = crate::status::quoted(&paths.spec_replicas);
            // kube answers 500; but the object lacks a field, and the server lacks nothing.
            return Err(Status::bad_request(format!("the spec replicas field {path} does not exist")));
        }
        scale_of(&object, &version)
    }
}

impl Work<'_> {
    pub(super) fn update_scale(
        &mut self,
        place: &Place,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        let old = self.get(&place.key()).ok_or_else(|| place.not_found())?;
        self.set_scale(place, &old, body, options)
    }

    pub(super) fn patch_scale(
        &mut self,
        place: &Place,
        kind: PatchKind,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        let old = self.get(&place.key()).ok_or_else(|| place.not_found())?;
        let current = scale_of(&old, &place.version)?;
        // An applied Scale has nothing but its replicas to say, so merging it is applying it.
        let kind = if kind == PatchKind::Apply { PatchKind::Merge } else { kind };
        let next = patched(&Schema::untyped(), kind, &current, body)?;
        self.set_scale(place, &old, &next, options)
    }

    fn set_scale(
        &mut self,
        place: &Place,
        old: &Arc<Object>,
        scale: &Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        let paths = place.version.scale.as_ref().ok_or_else(Status::no_such_resource)?;
        let sent = text(scale, "kind");
        if !scale.is_object() || !matches!(sent, "" | "Scale") {
            return Err(Status::bad_request(format!("wrong object passed to Scale update: `{sent}`")));
        }
        let name = text(scale.get("metadata").unwrap_or(&Value::Null), "name");
        if !name.is_empty() && name != place.name {
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                place.name
            )));
        }
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
        if replicas < 0 {
            return Err(if place.definition.custom {
                let detail = "should be a non-negative integer";
                let error = FieldError::invalid(&paths.spec_replicas, &replicas.into(), detail);
                place.invalid(&place.name, vec![error])
            } else {
                let detail = "must be greater than or equal to 0";
                let error = FieldError::invalid("spec.replicas", &replicas.into(), detail);
                Status::invalid_fields("Scale.autoscaling", &place.name, vec![error])
            });
        }
        let mut new = old.value_as(&place.api_version());
        let version = scale.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        let version =
            if text_of(&version).is_empty() { old.resource_version().to_string().into() } else { version };
        let metadata = meta::metadata_mut(&mut new);
        metadata.insert("resourceVersion".into(), version);
        if let Some(uid) = scale.pointer("/metadata/uid") {
            metadata.insert("uid".into(), uid.clone());
        }
        check_uid(place, old, &new)?;
        check_preconditions(place, old, &mut new)?;
        set_path(&mut new, &paths.spec_replicas, replicas.into());
        let outcome =
            self.replace(place, place.key(), (old, &old.value()), new, |work, place, old, new| {
                work.track(place, Some(old), new, options);
            })?;
        let Answer::Object { object, .. } = &outcome.body else { return Ok(outcome) };
        let answer = scale_of(object, &place.version)?;
        Ok(Outcome { code: 200, body: Answer::Value(answer), warnings: Vec::new() })
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn scale_of(object: &Object, version: &Version) -> Result<Value, Status> {
    let paths = version.scale.as_ref().ok_or_else(Status::no_such_resource)?;
    let value = &object.value();
    let number = |path: &str| lookup(value, path).and_then(Value::as_i64);
    let mut status = Map::new();
    status.insert("replicas".into(), number(&paths.status_replicas).unwrap_or_default().into());
    let selector = selector_text(value, paths);
    if !selector.is_empty() {
        status.insert("selector".into(), selector.into());
    }
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(found) = value.get("metadata").and_then(|m| m.get(field)) {
            metadata.insert(field.into(), found.clone());
        }
    }
    Ok(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas(value, paths).unwrap_or_default()},
        "status": status,
    }))
}

fn replicas(object: &Value, paths: &Scale) -> Option<i64> {
    lookup(object, &paths.spec_replicas).and_then(Value::as_i64)
}

/// The selector as text: custom resources have it as text, workloads as a label selector.
fn selector_text(object: &Value, paths: &Scale) -> String {
    if let Some(path) = &paths.selector {
        return lookup(object, path).and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    let selector = object.pointer("/spec/selector").unwrap_or(&Value::Null);
    let mut terms = Vec::new();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        terms.push(format!("{key}={}", text_of(value)));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = text(expression, "key");
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        terms.push(match text(expression, "operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, step| value.get(step))
}

fn set_path(object: &mut Value, path: &str, value: Value) {
    let steps: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let Some((last, parents)) = steps.split_last() else { return };
    let mut map = meta::as_map(object);
    for step in parents {
        map = meta::as_map(map.entry(*step).or_insert(Value::Null));
    }
    map.insert((*last).into(), value);
}
