//! Deleting objects and collections.

use std::sync::Arc;

use serde_json::{Value, json};

use super::list::{ListOptions, check_deletion};
use super::options::{DeleteOptions, Propagation};
use super::pipeline::{Place, Work};
use super::{Answer, Key, Outcome};
use crate::meta;
use crate::object::Object;
use crate::registry::{CRD_RESOURCE, conditions, crd};
use crate::selector::Selectors;
use crate::status::{self, Status};

/// Finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

impl Work<'_> {
    pub(super) fn delete(&mut self, place: &Place, options: &DeleteOptions) -> Result<Outcome, Status> {
        if !place.subresource.is_empty() || place.name.is_empty() {
            return Err(place.unsupported());
        }
        let key = place.key();
        let old = self.get(&key).ok_or_else(|| place.not_found())?;
        self.delete_one(place, key, old, options)
    }

    pub(super) fn delete_collection(
        &mut self,
        place: &Place,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Outcome, Status> {
        if !place.subresource.is_empty() || !place.name.is_empty() || place.is("namespaces") {
            return Err(place.unsupported());
        }
        check_deletion(list)?;
        let definition = &place.definition;
        let selectors =
            Selectors::parse(&list.label_selector, &list.field_selector, definition, &place.version)?;
        let mut items: Vec<Value> = Vec::new();
        for object in self.objects(&definition.name, &place.namespace) {
            if list.limit > 0 && items.len() as u64 >= list.limit {
                break;
            }
            if !selectors.matches(&object) {
                continue;
            }
            let key = Key::new(Arc::clone(&definition.name), object.namespace(), object.name());
            items.push(object.value_as(&place.api_version()));
            self.delete_one(place, key, object, options)?;
        }
        let body = json!({
            "kind": definition.list_kind,
            "apiVersion": place.api_version(),
            "metadata": {"resourceVersion": self.batch.rv.to_string()},
            "items": items,
        });
        Ok(Outcome { code: 200, body: Answer::Value(body), warnings: Vec::new() })
    }

    fn delete_one(
        &mut self,
        place: &Place,
        key: Key,
        old: Arc<Object>,
        options: &DeleteOptions,
    ) -> Result<Outcome, Status> {
        check_preconditions(place, &old, options)?;
        if place.is("namespaces") {
            check_immortal(&key)?;
        }
        let finalizers = finalizers_after(&old, options);
        let held = held_by_kind(place, &old);
        if finalizers.is_empty() && !held {
            let (name, uid) = (key.name.clone(), old.uid().to_owned());
            let last = self.finish_removal(place, key, old, None);
            let body = if returns_object(place) {
                Answer::Object { object: last, api_version: place.api_version() }
            } else {
                Answer::Value(status::deleted(&place.definition.name, &name, &uid))
            };
            return Ok(Outcome { code: 200, body, warnings: Vec::new() });
        }
        let before = old.value();
        let new = self.mark_terminating(place, before.clone(), !old.terminating(), finalizers);
        let accepted = options.orphan_dependents == Some(false);
        let code = if accepted { 202 } else { 200 };
        if new == before {
            return Ok(self.answer(place, code, old));
        }
        let definition = Arc::clone(&place.definition);
        let stored = self.put(key, &definition, Some(old), new);
        if place.is(CRD_RESOURCE) {
            self.serve_crd(&stored);
        }
        Ok(self.answer(place, code, stored))
    }

    fn mark_terminating(&self, place: &Place, mut new: Value, first: bool, finalizers: Vec<String>) -> Value {
        let metadata = meta::metadata_mut(&mut new);
        if first {
            metadata.insert("deletionTimestamp".into(), meta::stamp(self.now).into());
            metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            if let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
                && generation > 0
                && !place.is(CRD_RESOURCE)
            {
                metadata.insert("generation".into(), generation.saturating_add(1).into());
            }
        }
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), finalizers.into());
        }
        if place.is("namespaces") && first {
            metadata.remove("deletionGracePeriodSeconds");
            meta::child_map(&mut new, "status").insert("phase".into(), "Terminating".into());
        }
        if place.is(CRD_RESOURCE) && first {
            let metadata = meta::metadata_mut(&mut new);
            metadata.remove("deletionGracePeriodSeconds");
            let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Value::Array(list) = list
                && !list.iter().any(|f| f == crd::CLEANUP_FINALIZER)
            {
                list.push(crd::CLEANUP_FINALIZER.into());
            }
            let message =
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
            conditions::set_condition(
                &mut new,
                "Terminating",
                conditions::TRUE,
                "InstanceDeletionPending",
                message,
                self.now,
            );
        }
        new
    }
}

fn check_preconditions(place: &Place, old: &Object, options: &DeleteOptions) -> Result<(), Status> {
    // kube names the kind here, not the resource.
    let (kind, name) = (place.definition.group_kind(), old.name());
    if let Some(uid) = &options.preconditions.uid
        && uid != old.uid()
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            old.uid()
        );
        return Err(Status::conflict(&kind, name, &why));
    }
    if let Some(version) = &options.preconditions.resource_version
        && *version != old.resource_version().to_string()
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            old.resource_version()
        );
        return Err(Status::conflict(&kind, name, &why));
    }
    Ok(())
}

fn check_immortal(key: &Key) -> Result<(), Status> {
    if matches!(key.name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden("namespaces", &key.name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// The finalizers that the object has once the propagation policy is written into them.
fn finalizers_after(old: &Object, options: &DeleteOptions) -> Vec<String> {
    let mut finalizers: Vec<String> = old.finalizers().map(str::to_owned).collect();
    let policy = match (options.propagation, options.orphan_dependents) {
        (Some(policy), _) => Some(policy),
        (None, Some(true)) => Some(Propagation::Orphan),
        (None, Some(false)) => Some(Propagation::Background),
        // Without a policy the object's own finalizers say what to do.
        (None, None) => None,
    };
    let Some(policy) = policy else { return finalizers };
    finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
    match policy {
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
        Propagation::Background => {}
    }
    finalizers
}

/// Namespaces and CRDs stay until their content is gone, whatever their finalizers.
fn held_by_kind(place: &Place, old: &Object) -> bool {
    if place.is("namespaces") {
        let value = old.value();
        let spec = value.pointer("/spec/finalizers").and_then(Value::as_array);
        return !old.terminating() || spec.is_some_and(|f| !f.is_empty());
    }
    place.is(CRD_RESOURCE) && !old.terminating()
}

/// Some kinds answer a delete with the object, as kube does.
fn returns_object(place: &Place) -> bool {
    matches!(
        &*place.definition.name,
        "pods" | "services" | "serviceaccounts" | "persistentvolumeclaims" | "resourcequotas"
    )
}
