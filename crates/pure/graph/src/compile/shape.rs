//! What the body of each node kind must look like, as far as it is literal. The rest is checked when it is rendered.

use kardinal_object::Gvk;
use serde_json::Value;

use crate::declare::{Body, Declaration, Problem};
use crate::graph::literal;
use crate::identity::is_reserved_key;
use crate::selector::Selector;

/// Reports what is wrong with the body of a node and with modifiers that do not go with its kind.
pub(super) fn check(position: usize, declaration: &Declaration, problems: &mut Vec<Problem>) {
    let base = format!("nodes[{position}]");
    let keyword = declaration.body.keyword();
    let mut wrong = |field: &str, message: String| {
        let path = if field.is_empty() { base.clone() } else { format!("{base}.{field}") };
        problems.push(Problem::declaration(path, message));
    };
    if declaration.force && keyword != "template" {
        wrong("lifecycle.apply", format!("`Force` is allowed for template nodes, not for `{keyword}`"));
    }
    if !declaration.for_each.is_empty() && keyword == "watch" {
        wrong("forEach", "a watch is a list already; forEach cannot be combined with it".to_owned());
    }
    if declaration.finalizes.is_some() {
        if !matches!(declaration.body, Body::Template(_) | Body::Patch(_)) {
            wrong("finalizes", format!("is allowed for template and patch nodes, not for `{keyword}`"));
        }
        if !declaration.include_when.is_empty() || !declaration.propagate_when.is_empty() {
            wrong("finalizes", "cannot be combined with includeWhen or propagateWhen".to_owned());
        }
    }
    if declaration.recheck_after.is_some_and(|after| after < jiff::SignedDuration::from_secs(1)) {
        wrong("recheckAfter", "must be at least `1s`".to_owned());
    }
    let body = declaration.body.value();
    if matches!(declaration.body, Body::Def(_)) || is_expression(body) {
        return;
    }
    let mut report = |field: &str, message: String| wrong(&format!("{keyword}{field}"), message);
    if !body.is_object() {
        report("", "must be a map with apiVersion, kind and metadata".to_owned());
        return;
    }
    check_type(body, &mut report);
    match declaration.body {
        Body::Watch(_) => check_watch(body, &mut report),
        Body::Ref(_) => {
            only(body, "", &["apiVersion", "kind", "metadata"], &mut report);
            if let Some(metadata) = body.get("metadata").filter(|metadata| metadata.is_object()) {
                only(metadata, ".metadata", &["name", "namespace"], &mut report);
            }
            check_name(body, &mut report);
        }
        _ => {
            check_name(body, &mut report);
            check_reserved(body, &mut report);
        }
    }
}

fn is_expression(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains("${"))
}

fn check_type(body: &Value, report: &mut impl FnMut(&str, String)) {
    for field in ["apiVersion", "kind"] {
        if body.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            report(&format!(".{field}"), "must be a string".to_owned());
        }
    }
    if let (Some(version), Some(kind)) = (literal(body.get("apiVersion")), literal(body.get("kind")))
        && !version.is_empty()
        && !kind.is_empty()
        && Gvk::parse(version, kind).is_none()
    {
        report(".apiVersion", format!("`{version}` is not an apiVersion such as `v1` or `apps/v1`"));
    }
}

fn check_name(body: &Value, report: &mut impl FnMut(&str, String)) {
    let Some(metadata) = body.get("metadata") else {
        report(".metadata", "must be a map with a name".to_owned());
        return;
    };
    if is_expression(metadata) {
        return;
    }
    if metadata.get("generateName").is_some() {
        let message = "is not supported: names must be the same on every walk; use metadata.name";
        report(".metadata.generateName", message.to_owned());
    }
    if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        report(".metadata.name", "must be a string".to_owned());
    }
    if metadata.get("namespace").is_some_and(|namespace| !namespace.is_string()) {
        report(".metadata.namespace", "must be a string".to_owned());
    }
}

fn check_watch(body: &Value, report: &mut impl FnMut(&str, String)) {
    only(body, "", &["apiVersion", "kind", "metadata", "selector"], report);
    if let Some(metadata) = body.get("metadata").filter(|metadata| metadata.is_object()) {
        only(metadata, ".metadata", &["namespace"], report);
    }
    if let Some(selector) = body.get("selector")
        && !selector.to_string().contains("${")
        && let Err(message) = Selector::read(Some(selector))
    {
        report(".selector", message);
    }
}

fn only(map: &Value, at: &str, allowed: &[&str], report: &mut impl FnMut(&str, String)) {
    for key in map.as_object().into_iter().flat_map(|map| map.keys()) {
        if !allowed.contains(&key.as_str()) {
            let message = format!("unknown field `{key}`; allowed are {}", allowed.join(", "));
            report(&format!("{at}.{key}"), message);
        }
    }
}

fn check_reserved(body: &Value, report: &mut impl FnMut(&str, String)) {
    for field in ["labels", "annotations"] {
        let entries =
            body.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_object);
        for key in entries.into_iter().flat_map(|map| map.keys()).filter(|key| is_reserved_key(key)) {
            let message = format!("`{key}` is reserved: the prefix `internal.kro.run/` belongs to the Graph");
            report(&format!(".metadata.{field}"), message);
        }
    }
}

/// The kind of object, when both apiVersion and kind are literal.
pub(super) fn literal_gvk(body: &Body) -> Option<Gvk> {
    if matches!(body, Body::Def(_)) {
        return None;
    }
    Gvk::parse(literal(body.value().get("apiVersion"))?, literal(body.value().get("kind"))?)
}
