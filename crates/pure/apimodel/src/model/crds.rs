//! What a write of a CustomResourceDefinition does besides storing it: decide its status, and serve its kind.

use std::sync::Arc;

use serde_json::Value;

use super::Key;
use super::pipeline::{Place, Work};
use crate::managed::{Manager, Operation, track_update};
use crate::object::{Object, text};
use crate::registry::{CRD_RESOURCE, Definition, conditions, crd};
use crate::status::Status;

impl Work<'_> {
    /// All CRDs as this batch leaves them.
    fn crds(&self) -> Vec<Arc<Object>> {
        self.objects(CRD_RESOURCE, "")
    }

    /// Stores a CRD, decides its status in a second step as kube's controllers do, and serves it.
    pub(super) fn put_crd(
        &mut self,
        place: &Place,
        key: Key,
        old: Option<Arc<Object>>,
        mut object: Value,
    ) -> Result<Arc<Object>, Status> {
        crd::record_storage_version(&mut object);
        let before = self.batch.registry.get(&key.name).cloned();
        let mut errors = Vec::new();
        let compiled = crd::compile(&object, before.as_deref(), &mut errors);
        errors.extend(crd::problems(&object, old.as_ref().map(|o| o.value()).as_ref(), &compiled));
        if !errors.is_empty() {
            return Err(place.invalid(&key.name, errors));
        }
        let definition = Arc::clone(&place.definition);
        let stored = self.put(key.clone(), &definition, old, object);
        let updated = self.update_crd_status(&key, &definition);
        self.serve_crd(updated.as_ref().unwrap_or(&stored));
        Ok(stored)
    }

    fn update_crd_status(&mut self, key: &Key, definition: &Definition) -> Option<Arc<Object>> {
        let current = self.get(key)?;
        if current.terminating() {
            return None;
        }
        let before = current.value();
        let mut value = before.clone();
        if !conditions::update_status(&mut value, &self.crds(), self.now) {
            return None;
        }
        let manager = Manager {
            name: "kube-apiserver",
            operation: Operation::Update,
            api_version: "apiextensions.k8s.io/v1",
            subresource: "status",
        };
        let schema = definition.versions.first().map(|v| v.schema())?;
        track_update(&schema, Some(&before), &mut value, &manager, self.now);
        Some(self.put(key.clone(), definition, Some(current), value))
    }

    /// Brings the registry up to date with a stored CRD.
    pub(super) fn serve_crd(&mut self, object: &Object) {
        let before = self.batch.registry.get(object.name()).cloned();
        let next = match crd::established(&object.value(), before.as_deref()) {
            Some(definition) => self.batch.registry.with(Arc::new(definition)),
            None => return,
        };
        self.batch.registry = Arc::new(next);
    }

    /// A CRD is gone: stop serving it, and let others have its names.
    pub(super) fn forget_crd(&mut self, name: &str) {
        self.batch.registry = Arc::new(self.batch.registry.without(name));
        let group = name.split_once('.').map(|(_, group)| group).unwrap_or_default();
        let Some(definition) = self.batch.registry.get(CRD_RESOURCE).cloned() else { return };
        for other in self.crds() {
            let value = other.value();
            let refused = conditions::condition(&value, "NamesAccepted") == Some(conditions::FALSE);
            let same_group = text(value.get("spec").unwrap_or(&Value::Null), "group") == group;
            if refused && same_group {
                let key = Key::new(CRD_RESOURCE, "", other.name());
                if let Some(updated) = self.update_crd_status(&key, &definition) {
                    self.serve_crd(&updated);
                }
            }
        }
    }
}
