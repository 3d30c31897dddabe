//! Built-in kinds as definitions: the table of [`crate::builtin`] plus how the API treats each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Definition, Scale, Shape, Version};
use crate::builtin::{KINDS, Kind, NameRule};
use crate::model::ResourceName;

/// Every built-in kind.
pub(super) fn definitions() -> Vec<Arc<Definition>> {
    let mut by_name: BTreeMap<ResourceName, Vec<&'static Kind>> = BTreeMap::new();
    for kind in KINDS {
        by_name.entry(resource_name(kind)).or_default().push(kind);
    }
    by_name.into_iter().filter_map(|(name, kinds)| definition(name, &kinds)).map(Arc::new).collect()
}

fn resource_name(kind: &Kind) -> ResourceName {
    if kind.group.is_empty() { kind.plural.into() } else { format!("{}.{}", kind.plural, kind.group).into() }
}

fn definition(name: ResourceName, kinds: &[&'static Kind]) -> Option<Definition> {
    let first = *kinds.first()?;
    let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<String>>();
    let mut versions: Vec<Arc<Version>> = kinds.iter().map(|kind| Arc::new(version(&name, kind))).collect();
    versions.sort_by(|a, b| super::compare_versions(&a.name, &b.name));
    let storage = versions.first()?.name.clone();
    Some(Definition {
        group: first.group.to_owned(),
        plural: first.plural.to_owned(),
        singular: first.singular(),
        kind: first.kind.to_owned(),
        list_kind: first.list_kind(),
        short_names: owned(first.short_names),
        categories: owned(first.categories),
        namespaced: first.namespaced,
        custom: false,
        terminating: false,
        versions,
        storage,
        unconditional_update: !matches!(&*name, super::CRD_RESOURCE | "leases.coordination.k8s.io"),
        create_on_update: creates_on_update(&name),
        has_generation: has_generation(&name),
        // Service names need not begin with a letter any more.
        name_rule: if &*name == "services" { NameRule::Label } else { first.name_rule },
        name,
    })
}

fn version(name: &str, kind: &'static Kind) -> Version {
    let scale = kind.scale.then(|| Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        selector: None,
    });
    let subresources = if name == "namespaces" { vec!["finalize".to_owned()] } else { Vec::new() };
    Version {
        name: kind.version.to_owned(),
        served: true,
        shape: Shape::Builtin(kind),
        status: kind.status,
        scale,
        subresources,
        columns: Vec::new(),
        selectable: selectable(name).iter().map(|field| (*field).to_owned()).collect(),
        deprecation: (name == "endpoints").then(|| {
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
        }),
        openapi: Arc::new(Value::Null),
    }
}

fn creates_on_update(name: &str) -> bool {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    group == "rbac.authorization.k8s.io"
        || group == "events.k8s.io"
        || matches!(plural, "leases" | "events" | "endpoints" | "limitranges" | "services")
}

fn has_generation(name: &str) -> bool {
    matches!(
        name,
        "deployments.apps"
            | "replicasets.apps"
            | "statefulsets.apps"
            | "daemonsets.apps"
            | "jobs.batch"
            | "cronjobs.batch"
            | "ingresses.networking.k8s.io"
            | "ingressclasses.networking.k8s.io"
            | "networkpolicies.networking.k8s.io"
            | "poddisruptionbudgets.policy"
            | "endpointslices.discovery.k8s.io"
            | "pods"
            | super::CRD_RESOURCE
    )
}

/// The field selectors of built-in kinds besides name and namespace.
fn selectable(name: &str) -> &'static [&'static str] {
    match name {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "events" | "events.events.k8s.io" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        "namespaces" => &["status.phase"],
        "nodes" => &["spec.unschedulable"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "jobs.batch" => &["status.successful"],
        "replicasets.apps" => &["status.replicas"],
        _ => &[],
    }
}
