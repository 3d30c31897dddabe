//! Events are one kind behind two doors: core `v1` and `events.k8s.io/v1` show the same stored objects, with some fields
//! under other names. They are stored in the core form.

use serde_json::Value;

/// The resource name of the second door.
pub(crate) const ALIAS: &str = "events.events.k8s.io";
/// The resource name of the first door, and of the collection.
pub(crate) const CORE: &str = "events";
/// The version that the second door shows.
pub(crate) const ALIAS_VERSION: &str = "events.k8s.io/v1";

/// Names in `events.k8s.io` and in core.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

/// The collection that a resource's objects live in.
pub(crate) fn collection_of(resource: &str) -> &str {
    if resource == ALIAS { CORE } else { resource }
}

/// The core name of a field path such as `regarding.name`.
pub(crate) fn core_field(path: &str) -> String {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let first = RENAMED.iter().find(|(alias, _)| *alias == first).map_or(first, |(_, core)| core);
    rest.map_or_else(|| first.to_owned(), |rest| format!("{first}.{rest}"))
}

/// Renames the fields of an object or merge patch to their core names.
pub(crate) fn to_core(value: &mut Value) {
    rename(value, |(alias, core)| (alias, core));
    set_version(value, ALIAS_VERSION, "v1");
}

/// Renames the fields of a stored event to those of `events.k8s.io`.
pub(crate) fn to_alias(value: &mut Value) {
    rename(value, |(alias, core)| (core, alias));
    set_version(value, "v1", ALIAS_VERSION);
}

/// Renames the paths of a JSON patch to their core names.
pub(crate) fn patch_to_core(patch: &mut Value) {
    for operation in patch.as_array_mut().into_iter().flatten() {
        for field in ["path", "from"] {
            let Some(Value::String(path)) = operation.get_mut(field) else { continue };
            let mut steps = path.splitn(3, '/');
            if let (Some(""), Some(first), rest) = (steps.next(), steps.next(), steps.next()) {
                let first = core_field(first);
                *path = rest.map_or_else(|| format!("/{first}"), |rest| format!("/{first}/{rest}"));
            }
        }
    }
}

fn rename(
    value: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Value::Object(map) = value else { return };
    for pair in RENAMED {
        let (from, to) = direction(pair);
        if let Some(field) = map.remove(from) {
            map.insert(to.into(), field);
        }
    }
}

fn set_version(value: &mut Value, from: &str, to: &str) {
    if let Some(version) = value.get_mut("apiVersion")
        && version == from
    {
        *version = to.into();
    }
}
