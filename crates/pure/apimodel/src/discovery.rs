//! Discovery documents: which groups, versions and resources are served, in the legacy and the aggregated form.
//!
//! Pure functions of the registry; the shell may keep their bytes until a CRD changes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::registry::{Definition, Registry, Version, api_version};
use crate::status::Status;

#[cfg(test)]
mod tests;

/// The version that the server says it is; `kubectl` compares its numbers.
pub const GIT_VERSION: &str = "v1.36.3-kardinal";

/// `/version`
pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go0.0 (written in Rust)",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

/// `/api`; `address` is what clients reach the server under.
pub fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`
pub fn group_list(registry: &Registry) -> Value {
    let groups = registry.groups();
    let named = groups.iter().filter(|(name, _)| !name.is_empty());
    let groups: Vec<Value> = named.map(|(name, versions)| group_entry(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/G`
pub fn group(registry: &Registry, name: &str) -> Result<Value, Status> {
    let groups = registry.groups();
    let versions = groups.get(name).filter(|_| !name.is_empty()).ok_or_else(Status::no_such_resource)?;
    let mut entry = group_entry(name, versions);
    if let Value::Object(map) = &mut entry {
        map.insert("kind".into(), "APIGroup".into());
        map.insert("apiVersion".into(), "v1".into());
    }
    Ok(entry)
}

fn group_entry(name: &str, versions: &[&str]) -> Value {
    let version = |v: &&str| json!({"groupVersion": api_version(name, v), "version": v});
    json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<Value>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `/api/v1` and `/apis/G/V`
pub fn resource_list(registry: &Registry, group: &str, version: &str) -> Result<Value, Status> {
    let mut resources = Vec::new();
    for (definition, served) in served(registry, group, version) {
        resources.push(resource_entry(definition));
        resources.extend(subresource_entries(definition, served));
    }
    if resources.is_empty() {
        return Err(Status::no_such_resource());
    }
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": resources,
    }))
}

fn served<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Definition, &'a Version)> {
    registry.iter().filter(move |d| d.group == group).filter_map(move |d| {
        let served = d.served().find(|v| v.name == version)?;
        Some((&**d, &**served))
    })
}

fn resource_entry(definition: &Definition) -> Value {
    let mut map = Map::new();
    map.insert("name".into(), definition.plural.as_str().into());
    map.insert("singularName".into(), definition.singular.as_str().into());
    map.insert("namespaced".into(), definition.namespaced.into());
    map.insert("kind".into(), definition.kind.as_str().into());
    map.insert("verbs".into(), json!(verbs(definition)));
    put_list(&mut map, "shortNames", &definition.short_names);
    put_list(&mut map, "categories", &definition.categories);
    if definition.custom {
        map.insert("storageVersionHash".into(), storage_version_hash(definition).into());
    }
    Value::Object(map)
}

/// How kube abbreviates the version in which objects are stored.
fn storage_version_hash(definition: &Definition) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", definition.group, definition.storage, definition.kind));
    STANDARD.encode(digest.get(..8).unwrap_or_default())
}

fn put_list(map: &mut Map<String, Value>, field: &str, list: &[String]) {
    if !list.is_empty() {
        map.insert(field.into(), list.to_vec().into());
    }
}

fn verbs(definition: &Definition) -> &'static [&'static str] {
    if definition.custom {
        return &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    }
    if &*definition.name == "namespaces" {
        return &["create", "delete", "get", "list", "patch", "update", "watch"];
    }
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
}

/// Name, response kind and verbs of each subresource of a version.
fn subresources<'a>(
    definition: &'a Definition,
    version: &'a Version,
) -> Vec<(&'a str, [&'a str; 3], Vec<&'static str>)> {
    let own = [definition.group.as_str(), version.name.as_str(), definition.kind.as_str()];
    let mut found = Vec::new();
    for name in &version.subresources {
        found.push((name.as_str(), own, vec!["update"]));
    }
    if version.scale.is_some() {
        found.push(("scale", ["autoscaling", "v1", "Scale"], vec!["get", "patch", "update"]));
    }
    if version.status {
        found.push(("status", own, vec!["get", "patch", "update"]));
    }
    found
}

fn subresource_entries(definition: &Definition, version: &Version) -> Vec<Value> {
    let entry = |(name, [group, kind_version, kind], verbs): (&str, [&str; 3], Vec<&str>)| {
        let mut map = Map::new();
        map.insert("name".into(), format!("{}/{name}", definition.plural).into());
        map.insert("singularName".into(), "".into());
        map.insert("namespaced".into(), definition.namespaced.into());
        if kind == "Scale" {
            map.insert("group".into(), group.into());
            map.insert("version".into(), kind_version.into());
        }
        map.insert("kind".into(), kind.into());
        map.insert("verbs".into(), json!(verbs));
        Value::Object(map)
    };
    subresources(definition, version).into_iter().map(entry).collect()
}

/// The aggregated form, for `/api` (the core group) or `/apis` (the others); `format` is `v2` or `v2beta1`.
pub fn aggregated(registry: &Registry, core: bool, format: &str) -> Value {
    let groups = registry.groups();
    let wanted = groups.iter().filter(|(name, _)| name.is_empty() == core);
    let items: Vec<Value> = wanted
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        served(registry, name, version).map(|(d, v)| aggregated_resource(d, v)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let mut metadata = json!({"creationTimestamp": null});
            if !core && let Value::Object(map) = &mut metadata {
                map.insert("name".into(), (*name).into());
            }
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{format}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(definition: &Definition, version: &Version) -> Value {
    let kind = |[group, version, kind]: [&str; 3]| json!({"group": group, "version": version, "kind": kind});
    let own = [definition.group.as_str(), version.name.as_str(), definition.kind.as_str()];
    let mut map = Map::new();
    map.insert("resource".into(), definition.plural.as_str().into());
    map.insert("responseKind".into(), kind(own));
    map.insert("scope".into(), if definition.namespaced { "Namespaced" } else { "Cluster" }.into());
    map.insert("singularResource".into(), definition.singular.as_str().into());
    map.insert("verbs".into(), json!(verbs(definition)));
    put_list(&mut map, "shortNames", &definition.short_names);
    put_list(&mut map, "categories", &definition.categories);
    let subresources: Vec<Value> = subresources(definition, version)
        .into_iter()
        .map(|(name, response, verbs)| json!({"subresource": name, "responseKind": kind(response), "verbs": verbs}))
        .collect();
    if !subresources.is_empty() {
        map.insert("subresources".into(), subresources.into());
    }
    Value::Object(map)
}
