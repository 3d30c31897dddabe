//! Everything that a cluster needs before the controllers can run: namespace, definitions, accounts and rights.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
    Validation,
};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use crate::crds::crds;
use crate::group::{Holder, READ, WRITE, rights_of, rule};

/// The namespace of the controllers.
pub const SYSTEM_NAMESPACE: &str = "kardinal-system";
/// A ClusterRole with this label set to `"true"` adds its rules to what Graphs may create.
pub const AGGREGATE_TO_GRAPH_LABEL: &str = "kardinal.io/aggregate-to-graph";

const ACCOUNT: &str = "kardinal-controller";
const GRAPH_ROLE: &str = "kardinal-graph";
const GRAPH_OBJECTS_ROLE: &str = "kardinal-graph-objects";
const GRAPH_ACCOUNTS_ROLE: &str = "kardinal-graph-accounts";
const POLICY_NAMESPACES: &str = "kardinal-policy-namespaces";
/// Where an organisation keeps its gates when it does not say.
pub const DEFAULT_POLICY_NAMESPACE: &str = "platform-policies";
const RBAC: &str = "rbac.authorization.k8s.io";
const VIEW_ROLE: &str = "kardinal-view";
const EDIT_ROLE: &str = "kardinal-edit";
const ADMIN_ROLE: &str = "kardinal-admin";

/// The installation as one YAML stream that `kubectl apply --server-side -f -` takes. In the policy namespaces the
/// controllers may not write gates.
pub fn install_yaml(policy_namespaces: &[String]) -> Result<String, serde_saphyr::ser::Error> {
    let mut documents = vec![serde_saphyr::to_string(&namespace())?];
    for crd in crds() {
        documents.push(serde_saphyr::to_string(&crd)?);
    }
    documents.push(serde_saphyr::to_string(&account())?);
    for role in [controller_role(), graph_role(), graph_objects_role(), graph_accounts_role()] {
        documents.push(serde_saphyr::to_string(&role)?);
    }
    for role in [view_role(), edit_role(), admin_role()] {
        documents.push(serde_saphyr::to_string(&role)?);
    }
    for role in [ACCOUNT, GRAPH_ROLE, GRAPH_ACCOUNTS_ROLE] {
        documents.push(serde_saphyr::to_string(&cluster_binding(role))?);
    }
    documents.push(serde_saphyr::to_string(&election_role())?);
    documents.push(serde_saphyr::to_string(&election_binding())?);
    documents.push(serde_saphyr::to_string(&gate_policy())?);
    documents.push(serde_saphyr::to_string(&gate_policy_binding(policy_namespaces))?);
    documents.push(serde_saphyr::to_string(&seal_role())?);
    documents.push(serde_saphyr::to_string(&seal_binding())?);
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

/// What the promotion controllers do. They read workloads and never write them.
fn controller_role() -> ClusterRole {
    let mut rules = rights_of(Holder::Controllers);
    rules.extend([
        rule("apps", &["daemonsets", "deployments", "statefulsets"], READ),
        rule("argoproj.io", &["applications", "rollouts"], READ),
        rule("kustomize.toolkit.fluxcd.io", &["kustomizations"], READ),
        rule("flagger.app", &["canaries"], READ),
        rule("", &["secrets"], &["get"]),
        events(),
    ]);
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
    let mut rules = rights_of(Holder::Graphs);
    rules.extend([
        rule("", &["configmaps"], WRITE),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], READ),
        events(),
    ]);
    ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() }
}

/// What lets a Graph act as a ServiceAccount of its namespace. Without it such Graphs are refused; nothing else needs it.
fn graph_accounts_role() -> ClusterRole {
    let rules = vec![rule("", &["serviceaccounts"], &["impersonate"])];
    ClusterRole { metadata: named(GRAPH_ACCOUNTS_ROLE), rules: Some(rules), ..ClusterRole::default() }
}

/// A role for people, which the built-in role of that name includes as well.
fn people_role(name: &str, built_in: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    let mut metadata = named(name);
    let label = format!("{RBAC}/aggregate-to-{built_in}");
    metadata.labels.get_or_insert_default().insert(label, "true".to_owned());
    ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() }
}

/// Whoever may look at a namespace sees all of a promotion.
fn view_role() -> ClusterRole {
    people_role(VIEW_ROLE, "view", rights_of(Holder::Viewers))
}

/// Whoever may change a namespace writes what people write. Steps, revisions and every status are the controllers'.
fn edit_role() -> ClusterRole {
    people_role(EDIT_ROLE, "edit", rights_of_all([Holder::Viewers, Holder::Editors]))
}

/// Whoever owns a namespace also decides about what is in it for all.
fn admin_role() -> ClusterRole {
    people_role(ADMIN_ROLE, "admin", rights_of_all([Holder::Viewers, Holder::Editors, Holder::Admins]))
}

fn rights_of_all<const N: usize>(holders: [Holder; N]) -> Vec<PolicyRule> {
    holders.into_iter().flat_map(rights_of).collect()
}

/// Roles add up and take nothing away, so the right to write gates in every team's namespace is a right to write those of
/// the organisation as well. This takes it away again.
fn gate_policy() -> ValidatingAdmissionPolicy {
    let owned = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let writes = NamedRuleWithOperations {
        api_groups: owned(&["kardinal.io"]),
        api_versions: owned(&["*"]),
        operations: owned(&["CREATE", "UPDATE", "DELETE"]),
        // Their status is another resource: there the controllers say what a gate says.
        resources: owned(&["policygates"]),
        ..NamedRuleWithOperations::default()
    };
    let constraints = MatchResources { resource_rules: Some(vec![writes]), ..MatchResources::default() };
    let controller = MatchCondition {
        name: "is-the-controller".to_owned(),
        expression: format!(
            "request.userInfo.username == 'system:serviceaccount:{SYSTEM_NAMESPACE}:{ACCOUNT}'"
        ),
    };
    let never = Validation {
        expression: "false".to_owned(),
        message: Some("the controllers do not write the gates of the organisation".to_owned()),
        reason: Some("Forbidden".to_owned()),
        ..Validation::default()
    };
    let spec = ValidatingAdmissionPolicySpec {
        failure_policy: Some("Fail".to_owned()),
        match_constraints: Some(constraints),
        match_conditions: Some(vec![controller]),
        validations: Some(vec![never]),
        ..ValidatingAdmissionPolicySpec::default()
    };
    ValidatingAdmissionPolicy {
        metadata: named(POLICY_NAMESPACES),
        spec: Some(spec),
        ..ValidatingAdmissionPolicy::default()
    }
}

fn gate_policy_binding(policy_namespaces: &[String]) -> ValidatingAdmissionPolicyBinding {
    let there = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(policy_namespaces.to_vec()),
    };
    let selector = LabelSelector { match_expressions: Some(vec![there]), ..LabelSelector::default() };
    let spec = ValidatingAdmissionPolicyBindingSpec {
        policy_name: POLICY_NAMESPACES.to_owned(),
        validation_actions: vec!["Deny".to_owned()],
        match_resources: Some(MatchResources {
            namespace_selector: Some(selector),
            ..MatchResources::default()
        }),
        ..ValidatingAdmissionPolicyBindingSpec::default()
    };
    ValidatingAdmissionPolicyBinding { metadata: named(POLICY_NAMESPACES), spec }
}

fn cluster_binding(role: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(role),
        role_ref: role_ref("ClusterRole", role),
        subjects: subjects(),
    }
}

/// One replica leads, and agents are known by their Leases, which live in the namespace of the controllers and nowhere
/// else.
fn election_role() -> Role {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    let rules = vec![rule("coordination.k8s.io", &["leases"], &verbs)];
    Role { metadata: in_system("kardinal-leader-election"), rules: Some(rules) }
}

fn election_binding() -> RoleBinding {
    RoleBinding {
        metadata: in_system("kardinal-leader-election"),
        role_ref: role_ref("Role", "kardinal-leader-election"),
        subjects: subjects(),
    }
}

/// The key that seals verifications is made at the first start, in the namespace of the controllers.
fn seal_role() -> Role {
    Role { metadata: in_system("kardinal-seal"), rules: Some(vec![rule("", &["secrets"], &["create"])]) }
}

fn seal_binding() -> RoleBinding {
    RoleBinding {
        metadata: in_system("kardinal-seal"),
        role_ref: role_ref("Role", "kardinal-seal"),
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
