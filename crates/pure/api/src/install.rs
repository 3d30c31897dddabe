//! Everything that a cluster needs before the controllers can run: namespace, definitions, accounts and rights.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::crds::crds;

/// The namespace of the controllers.
pub const SYSTEM_NAMESPACE: &str = "kardinal-system";
/// A ClusterRole with this label set to `"true"` adds its rules to what Graphs may create.
pub const AGGREGATE_TO_GRAPH_LABEL: &str = "kardinal.io/aggregate-to-graph";

const ACCOUNT: &str = "kardinal-controller";
const GRAPH_ROLE: &str = "kardinal-graph";
const GRAPH_OBJECTS_ROLE: &str = "kardinal-graph-objects";
const RBAC: &str = "rbac.authorization.k8s.io";

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
const REPORT: [&str; 3] = ["get", "update", "patch"];

/// The installation as one YAML stream that `kubectl apply --server-side -f -` takes.
pub fn install_yaml() -> Result<String, serde_saphyr::ser::Error> {
    let mut documents = vec![serde_saphyr::to_string(&namespace())?];
    for crd in crds() {
        documents.push(serde_saphyr::to_string(&crd)?);
    }
    documents.push(serde_saphyr::to_string(&account())?);
    for role in [controller_role(), graph_role(), graph_objects_role()] {
        documents.push(serde_saphyr::to_string(&role)?);
    }
    for role in [ACCOUNT, GRAPH_ROLE] {
        documents.push(serde_saphyr::to_string(&cluster_binding(role))?);
    }
    documents.push(serde_saphyr::to_string(&election_role())?);
    documents.push(serde_saphyr::to_string(&election_binding())?);
    Ok(documents.join("---\n"))
}

fn named(name: &str) -> ObjectMeta {
    let label = ("app.kubernetes.io/part-of".to_owned(), "kardinal".to_owned());
    ObjectMeta { name: Some(name.to_owned()), labels: Some([label].into()), ..ObjectMeta::default() }
}

fn in_system(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(SYSTEM_NAMESPACE.to_owned()), ..named(name) }
}

fn namespace() -> Namespace {
    Namespace { metadata: named(SYSTEM_NAMESPACE), ..Namespace::default() }
}

fn account() -> ServiceAccount {
    ServiceAccount { metadata: in_system(ACCOUNT), ..ServiceAccount::default() }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// What the promotion controllers do. They read workloads and never write them.
fn controller_role() -> ClusterRole {
    let rules = vec![
        rule("kardinal.io", &["pipelines", "bundles"], &WRITE),
        rule("kardinal.io", &["promotionsteps"], &["get", "list", "watch", "create", "update", "patch"]),
        rule("kardinal.io", &["policygates"], &READ),
        rule(
            "kardinal.io",
            &["pipelines/status", "bundles/status", "promotionsteps/status", "policygates/status"],
            &REPORT,
        ),
        rule("experimental.kro.run", &["graphs"], &WRITE),
        rule("experimental.kro.run", &["graphrevisions"], &READ),
        rule("forge.kardinal.io", &["repositories", "pullrequests"], &WRITE),
        rule("forge.kardinal.io", &["repositories/status", "pullrequests/status"], &REPORT),
        rule("apps", &["daemonsets", "deployments", "statefulsets"], &READ),
        rule("argoproj.io", &["applications", "rollouts"], &READ),
        rule("kustomize.toolkit.fluxcd.io", &["kustomizations"], &READ),
        rule("flagger.app", &["canaries"], &READ),
        rule("", &["secrets"], &["get"]),
        events(),
    ];
    ClusterRole { metadata: named(ACCOUNT), rules: Some(rules), ..ClusterRole::default() }
}

fn events() -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![String::new(), "events.k8s.io".to_owned()]),
        ..rule("", &["events"], &["create", "patch", "update"])
    }
}

/// What the Graph controller does, apart from the objects of the Graphs: those rights are gathered from all
/// ClusterRoles with the label, so that each cluster decides what its Graphs may touch.
fn graph_role() -> ClusterRole {
    let selector = LabelSelector {
        match_labels: Some([(AGGREGATE_TO_GRAPH_LABEL.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    ClusterRole {
        metadata: named(GRAPH_ROLE),
        aggregation_rule: Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) }),
        ..ClusterRole::default()
    }
}

fn graph_objects_role() -> ClusterRole {
    let mut metadata = named(GRAPH_OBJECTS_ROLE);
    metadata.labels.get_or_insert_default().insert(AGGREGATE_TO_GRAPH_LABEL.to_owned(), "true".to_owned());
    let rules = vec![
        rule("experimental.kro.run", &["graphs", "graphrevisions"], &WRITE),
        rule("experimental.kro.run", &["graphs/status", "graphrevisions/status"], &REPORT),
        rule("experimental.kro.run", &["graphs/finalizers", "graphrevisions/finalizers"], &["update"]),
        rule("kardinal.io", &["pipelines", "bundles", "promotionsteps", "policygates"], &WRITE),
        rule("", &["configmaps"], &WRITE),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &READ),
        events(),
    ];
    ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() }
}

fn cluster_binding(role: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(role),
        role_ref: role_ref("ClusterRole", role),
        subjects: subjects(),
    }
}

/// One replica leads: the lease lives in the namespace of the controllers and nowhere else.
fn election_role() -> Role {
    let rules = vec![rule("coordination.k8s.io", &["leases"], &["get", "create", "update", "patch"])];
    Role { metadata: in_system("kardinal-leader-election"), rules: Some(rules) }
}

fn election_binding() -> RoleBinding {
    RoleBinding {
        metadata: in_system("kardinal-leader-election"),
        role_ref: role_ref("Role", "kardinal-leader-election"),
        subjects: subjects(),
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC.to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

fn subjects() -> Option<Vec<Subject>> {
    Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: ACCOUNT.to_owned(),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        ..Subject::default()
    }])
}
