//! Reading the metadata of typed objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// When an object was created, then its name: later is newer, and objects of the same second are told apart by name.
pub type Age<'a> = (Option<Timestamp>, &'a str);

/// The name; empty while the server has not given one.
pub fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// The namespace; empty for objects that have none.
pub fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// The value of a label.
pub fn label_of<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    value(metadata.labels.as_ref(), key)
}

/// The value of an annotation.
pub fn annotation_of<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    value(metadata.annotations.as_ref(), key)
}

/// Whether a label or annotation says `true`.
pub fn is_true(value: Option<&str>) -> bool {
    value == Some("true")
}

/// When the server created the object.
pub fn created_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// The place of an object in the order of creation.
pub fn age(metadata: &ObjectMeta) -> Age<'_> {
    (created_at(metadata), name_of(metadata))
}

fn value<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> Option<&'a str> {
    map?.get(key).map(String::as_str)
}
