//! Applying manifests as a user would.

use anyhow::Context as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

/// The field manager of everything that scenarios apply.
const MANAGER: &str = "scenario";

/// Objects of any kind in a namespace.
pub fn api(client: &kube::Client, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Applies a manifest into a namespace, whatever namespace it names itself.
pub async fn apply(
    client: &kube::Client,
    namespace: &str,
    manifest: &Value,
) -> anyhow::Result<DynamicObject> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api = api(client, namespace, text("/apiVersion"), text("/kind"));
    let name = text("/metadata/name");
    let mut manifest = manifest.clone();
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(&manifest)).await.with_context(|| format!("applying `{name}`"))
}
