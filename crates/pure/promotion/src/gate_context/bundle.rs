//! `bundle`: what wants into the environment. What is not known of it is empty rather than absent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Provenance};
use kardinal_object::{created_at, name_of};
use kardinal_policy::{Attribute, Unit};
use serde_json::{Map, Value, json};

use super::version;

pub(super) const SOAK_MINUTES: &str = "upstreamSoakMinutes";
pub(super) const SOAK_SECONDS: &str = "upstreamSoakSeconds";
/// What people call the time since the last upstream was verified.
const SOAK: &str = "Soak";
/// The name of a sample.
const SAMPLE: &str = "my-app-1-29-0";

/// What there is to read.
pub(super) const ATTRIBUTES: Attribute = Attribute::Fields(&[
    ("name", Attribute::Name(SAMPLE)),
    ("version", Attribute::Text("1.29.0")),
    ("type", Attribute::Choice(&["image", "config", "mixed"])),
    ("labels", Attribute::Labels),
    ("annotations", Attribute::Labels),
    (
        "metadata",
        Attribute::Fields(&[
            ("name", Attribute::Name(SAMPLE)),
            ("labels", Attribute::Labels),
            ("annotations", Attribute::Labels),
            ("creationTimestamp", Attribute::Text("")),
        ]),
    ),
    (
        "provenance",
        Attribute::Fields(&[
            ("commitSHA", Attribute::Text("0123456789abcdef0123456789abcdef01234567")),
            ("ciRunURL", Attribute::Text("https://ci.example.com/runs/1")),
            ("author", Attribute::Text("alice")),
            ("buildTimestamp", Attribute::Text("2024-04-07T02:30:00Z")),
            ("rollbackOf", Attribute::Text("my-app-1-30-0")),
        ]),
    ),
    (
        "intent",
        Attribute::Fields(&[("target", Attribute::Text("prod")), ("skip", Attribute::Texts(&["staging"]))]),
    ),
    (SOAK_MINUTES, Attribute::Elapsed { title: SOAK, unit: Unit::Minutes }),
    (SOAK_SECONDS, Attribute::Elapsed { title: SOAK, unit: Unit::Seconds }),
]);

/// The values, but for those that change with the time.
pub(super) fn value(bundle: &Bundle) -> Value {
    let meta = &bundle.metadata;
    let labels = texts(meta.labels.as_ref());
    let annotations = texts(meta.annotations.as_ref());
    let intent = bundle.spec.intent.as_ref();
    json!({
        "name": name_of(meta),
        "version": version(&bundle.spec),
        "type": bundle.spec.kind(),
        "labels": labels,
        "annotations": annotations,
        "metadata": {
            "name": name_of(meta),
            "labels": labels,
            "annotations": annotations,
            "creationTimestamp": instant(created_at(meta)),
        },
        "provenance": provenance(bundle.spec.provenance.as_ref()),
        "intent": {
            "target": intent.and_then(|intent| intent.target.clone()).unwrap_or_default(),
            "skip": intent.map(|intent| intent.skip.clone()).unwrap_or_default(),
        },
    })
}

fn provenance(provenance: Option<&Provenance>) -> Value {
    let provenance = provenance.cloned().unwrap_or_default();
    json!({
        "commitSHA": provenance.commit_sha.unwrap_or_default(),
        "ciRunURL": provenance.ci_run_url.unwrap_or_default(),
        "author": provenance.author.unwrap_or_default(),
        "buildTimestamp": instant(provenance.build_timestamp),
        "rollbackOf": provenance.rollback_of.unwrap_or_default(),
    })
}

fn instant(time: Option<Timestamp>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn texts(map: Option<&BTreeMap<String, String>>) -> Map<String, Value> {
    map.into_iter().flatten().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}

/// When the last of the upstreams was verified. Nothing when one of them is not verified yet, or when there is none.
pub(super) fn soaking_since(bundle: &Bundle, upstreams: &[String]) -> Option<Timestamp> {
    let environments = &bundle.status.as_ref()?.environments;
    let mut latest = None;
    for upstream in upstreams {
        latest = latest.max(Some(environments.get(upstream)?.verified_at?));
    }
    latest
}
