//! The table of built-in kinds.

use std::sync::Arc;

use super::{NameRule, component};
use crate::schema::Schema;

/// What the server knows about a built-in kind besides its schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group, empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural, as in URLs.
    pub plural: &'static str,
    /// Short names that kubectl takes.
    pub short_names: &'static [&'static str],
    /// Categories such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `/status` exists.
    pub status: bool,
    /// Whether `/scale` exists.
    pub scale: bool,
    /// What names must look like.
    pub name_rule: NameRule,
    /// The component that holds the schema.
    pub component: &'static str,
}

impl Kind {
    /// The kind in lower case, as kubectl takes it.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The kind of lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The schema, parsed on first use and shared from then on.
    pub fn schema(&self) -> Arc<Schema> {
        component(self.component).map_or_else(Schema::untyped, |component| Arc::clone(component.schema()))
    }
}

const ALL: &[&str] = &["all"];
const APPS: &str = "apps";
const BATCH: &str = "batch";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A namespaced kind without subresources or other names; the table below changes what differs.
const fn plain(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    component: &'static str,
) -> Kind {
    Kind {
        group,
        version: "v1",
        kind,
        plural,
        short_names: &[],
        categories: &[],
        namespaced: true,
        status: false,
        scale: false,
        name_rule: NameRule::Subdomain,
        component,
    }
}

/// Every built-in kind, in the order in which `kubectl api-resources` lists groups.
pub static KINDS: &[Kind] = &[
    Kind { short_names: &["cm"], ..plain("", "ConfigMap", "configmaps", "io.k8s.api.core.v1.ConfigMap") },
    Kind { short_names: &["ep"], ..plain("", "Endpoints", "endpoints", "io.k8s.api.core.v1.Endpoints") },
    Kind {
        short_names: &["ev"],
        name_rule: NameRule::PathSegment,
        ..plain("", "Event", "events", "io.k8s.api.core.v1.Event")
    },
    Kind {
        short_names: &["limits"],
        ..plain("", "LimitRange", "limitranges", "io.k8s.api.core.v1.LimitRange")
    },
    Kind {
        short_names: &["ns"],
        namespaced: false,
        status: true,
        name_rule: NameRule::Label,
        ..plain("", "Namespace", "namespaces", "io.k8s.api.core.v1.Namespace")
    },
    Kind {
        short_names: &["no"],
        namespaced: false,
        status: true,
        ..plain("", "Node", "nodes", "io.k8s.api.core.v1.Node")
    },
    Kind {
        short_names: &["pvc"],
        status: true,
        ..plain(
            "",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "io.k8s.api.core.v1.PersistentVolumeClaim",
        )
    },
    Kind {
        short_names: &["po"],
        categories: ALL,
        status: true,
        ..plain("", "Pod", "pods", "io.k8s.api.core.v1.Pod")
    },
    Kind {
        short_names: &["quota"],
        status: true,
        ..plain("", "ResourceQuota", "resourcequotas", "io.k8s.api.core.v1.ResourceQuota")
    },
    plain("", "Secret", "secrets", "io.k8s.api.core.v1.Secret"),
    Kind {
        short_names: &["sa"],
        ..plain("", "ServiceAccount", "serviceaccounts", "io.k8s.api.core.v1.ServiceAccount")
    },
    Kind {
        short_names: &["svc"],
        categories: ALL,
        status: true,
        name_rule: NameRule::Label1035,
        ..plain("", "Service", "services", "io.k8s.api.core.v1.Service")
    },
    Kind {
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
        ..plain(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        )
    },
    plain(APPS, "ControllerRevision", "controllerrevisions", "io.k8s.api.apps.v1.ControllerRevision"),
    Kind {
        short_names: &["ds"],
        categories: ALL,
        status: true,
        ..plain(APPS, "DaemonSet", "daemonsets", "io.k8s.api.apps.v1.DaemonSet")
    },
    Kind {
        short_names: &["deploy"],
        categories: ALL,
        status: true,
        scale: true,
        ..plain(APPS, "Deployment", "deployments", "io.k8s.api.apps.v1.Deployment")
    },
    Kind {
        short_names: &["rs"],
        categories: ALL,
        status: true,
        scale: true,
        ..plain(APPS, "ReplicaSet", "replicasets", "io.k8s.api.apps.v1.ReplicaSet")
    },
    Kind {
        short_names: &["sts"],
        categories: ALL,
        status: true,
        scale: true,
        ..plain(APPS, "StatefulSet", "statefulsets", "io.k8s.api.apps.v1.StatefulSet")
    },
    Kind {
        short_names: &["cj"],
        categories: ALL,
        status: true,
        ..plain(BATCH, "CronJob", "cronjobs", "io.k8s.api.batch.v1.CronJob")
    },
    Kind { categories: ALL, status: true, ..plain(BATCH, "Job", "jobs", "io.k8s.api.batch.v1.Job") },
    plain("coordination.k8s.io", "Lease", "leases", "io.k8s.api.coordination.v1.Lease"),
    plain("discovery.k8s.io", "EndpointSlice", "endpointslices", "io.k8s.api.discovery.v1.EndpointSlice"),
    Kind {
        short_names: &["ev"],
        name_rule: NameRule::PathSegment,
        ..plain("events.k8s.io", "Event", "events", "io.k8s.api.events.v1.Event")
    },
    Kind {
        namespaced: false,
        ..plain(
            "networking.k8s.io",
            "IngressClass",
            "ingressclasses",
            "io.k8s.api.networking.v1.IngressClass",
        )
    },
    Kind {
        short_names: &["ing"],
        status: true,
        ..plain("networking.k8s.io", "Ingress", "ingresses", "io.k8s.api.networking.v1.Ingress")
    },
    Kind {
        namespaced: false,
        name_rule: NameRule::PathSegment,
        ..plain(RBAC, "ClusterRoleBinding", "clusterrolebindings", "io.k8s.api.rbac.v1.ClusterRoleBinding")
    },
    Kind {
        namespaced: false,
        name_rule: NameRule::PathSegment,
        ..plain(RBAC, "ClusterRole", "clusterroles", "io.k8s.api.rbac.v1.ClusterRole")
    },
    Kind {
        name_rule: NameRule::PathSegment,
        ..plain(RBAC, "RoleBinding", "rolebindings", "io.k8s.api.rbac.v1.RoleBinding")
    },
    Kind { name_rule: NameRule::PathSegment, ..plain(RBAC, "Role", "roles", "io.k8s.api.rbac.v1.Role") },
];
