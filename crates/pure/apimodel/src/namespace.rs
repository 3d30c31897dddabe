//! The life of namespaces: the first ones, and the end of a terminating one.
//!
//! Like garbage collection this only decides; the shell submits the requests that come out.

use serde_json::{Value, json};

use crate::gc::{Collector, request_for};
use crate::model::{DeleteOptions, Key, Model, Request, Target, Verb, WriteOptions};
use crate::object::{Object, text};
use crate::registry::Definition;
use crate::registry::conditions::{FALSE, TRUE};

#[cfg(test)]
mod tests;

/// The namespaces that every cluster has.
pub const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates for those of the first namespaces that do not exist.
pub fn initial(model: &Model) -> Vec<Request> {
    let missing = INITIAL.iter().filter(|name| model.object(&Key::new("namespaces", "", name)).is_none());
    missing
        .map(|name| Request {
            target: Target { version: "v1".into(), resource: "namespaces".into(), ..Target::default() },
            verb: Verb::Create {
                body: json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}),
                options: WriteOptions { field_manager: "kube-apiserver".into(), ..WriteOptions::default() },
            },
        })
        .collect()
}

/// What is left in a terminating namespace.
struct Content {
    deletes: Vec<Request>,
    /// `configmaps.` has 2 resource instances, …
    resources: Vec<(String, usize)>,
    finalizers: std::collections::BTreeMap<String, usize>,
}

/// What to do next for a terminating namespace: delete content, report what blocks, or let it go.
pub(crate) fn advance(model: &Model, name: &str) -> Vec<Request> {
    let key = Key::new("namespaces", "", name);
    let Some(namespace) = model.object(&key) else { return Vec::new() };
    let value = namespace.value();
    let spec = value.pointer("/spec/finalizers").and_then(Value::as_array);
    let held = spec.is_some_and(|list| list.iter().any(|f| f == "kubernetes"));
    if !namespace.terminating() || !held {
        return Vec::new();
    }
    let content = content(model, name);
    if content.resources.is_empty() {
        return vec![finalize(namespace)];
    }
    let mut requests = content.deletes.clone();
    if requests.is_empty() {
        requests.extend(report(namespace, &content));
    }
    requests
}

fn content(model: &Model, name: &str) -> Content {
    let mut found =
        Content { deletes: Vec::new(), resources: Vec::new(), finalizers: std::collections::BTreeMap::new() };
    for definition in model.registry().iter().filter(|d| d.namespaced) {
        let Some(collection) = model.collection(&definition.name) else { continue };
        let mut count = 0;
        for (_, object) in collection.range(name, None) {
            count += 1;
            if object.terminating() {
                for finalizer in object.finalizers() {
                    *found.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            } else {
                found.deletes.extend(delete(definition, object));
            }
        }
        if count > 0 {
            found.resources.push((definition.name.to_string(), count));
        }
    }
    found
}

fn delete(definition: &Definition, object: &Object) -> Option<Request> {
    let mut options = DeleteOptions {
        propagation: Some(crate::model::Propagation::Background),
        ..DeleteOptions::default()
    };
    options.preconditions.uid = Some(object.uid().to_owned());
    request_for(definition, object, Verb::Delete { options })
}

fn target(name: &str, subresource: &str) -> Target {
    Target {
        version: "v1".into(),
        resource: "namespaces".into(),
        name: name.into(),
        subresource: subresource.into(),
        ..Target::default()
    }
}

/// Takes `kubernetes` out of `spec.finalizers`; the namespace goes when that was the last reason to stay.
fn finalize(namespace: &Object) -> Request {
    let mut body = namespace.value();
    let finalizers = body.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut);
    if let Some(list) = finalizers {
        list.retain(|f| f != "kubernetes");
    }
    Request {
        target: target(namespace.name(), "finalize"),
        verb: Verb::Update { body, options: Collector::options() },
    }
}

/// Conditions that say what the namespace waits for; nothing when they already say so.
fn report(namespace: &Object, content: &Content) -> Option<Request> {
    let resources: Vec<String> = content
        .resources
        .iter()
        .map(|(name, n)| format!("{} has {n} resource instances", dotted(name)))
        .collect();
    let finalizers: Vec<String> =
        content.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
    let wanted = [
        (
            "NamespaceDeletionDiscoveryFailure",
            FALSE,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            FALSE,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            FALSE,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            TRUE,
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", resources.join(", ")),
        ),
        (
            "NamespaceFinalizersRemaining",
            TRUE,
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", ")),
        ),
    ];
    let mut body = namespace.value();
    let current = body.pointer("/status/conditions").and_then(Value::as_array);
    let says = |kind: &str, message: &str| {
        current
            .is_some_and(|list| list.iter().any(|c| text(c, "type") == kind && text(c, "message") == message))
    };
    if wanted.iter().all(|(kind, _, _, message)| says(kind, message)) {
        return None;
    }
    let conditions: Vec<Value> = wanted
        .iter()
        .map(|(kind, status, reason, message)| {
            let time = current
                .and_then(|list| list.iter().find(|c| text(c, "type") == *kind))
                .and_then(|c| c.get("lastTransitionTime").cloned())
                .unwrap_or_else(|| body.pointer("/metadata/deletionTimestamp").cloned().unwrap_or(Value::Null));
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
        })
        .collect();
    crate::meta::child_map(&mut body, "status").insert("conditions".into(), conditions.into());
    Some(Request {
        target: target(namespace.name(), "status"),
        verb: Verb::Update { body, options: Collector::options() },
    })
}

/// kube names resources with their group and a dot in between even for the core group.
fn dotted(resource: &str) -> String {
    if resource.contains('.') { resource.to_owned() } else { format!("{resource}.") }
}
