//! The embedded documents are whole, and built-in objects behave as on a real server.

use serde_json::{Value, json};

use super::*;
use crate::schema;

fn check_errors(group: &str, kind: &str, object: Value, expected: &[&str]) {
    let kind = super::kind(group, "v1", kind).unwrap();
    let mut object = object;
    schema::prune(&kind.schema(), &mut object);
    apply_defaults(kind, &mut object);
    let mut errors = schema::validate(&kind.schema(), &object, None);
    errors.extend(validate(kind, &object, None));
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected, "{object}");
}

#[test]
fn every_kind_has_its_schema_and_every_reference_ends_somewhere() {
    assert!(COMPONENTS.windows(2).all(|pair| pair[0].name < pair[1].name), "the asset is sorted");
    for kind in KINDS {
        let component = component(kind.component).unwrap_or_else(|| panic!("{} has no schema", kind.kind));
        assert!(component.schema().properties.contains_key("metadata"), "{}", kind.kind);
        assert!(super::component(&format!("{}List", kind.component)).is_some(), "{}List", kind.kind);
    }
    for component in COMPONENTS.iter() {
        for rest in component.text.split("#/components/schemas/").skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(super::component(name).is_some(), "{} refers to {name}", component.name);
        }
        component.schema();
    }
}

#[test]
fn the_merge_information_is_there() {
    use crate::schema::{ListType, MapType};
    let deployment = schema("apps", "v1", "Deployment").unwrap();
    let spec = deployment.field("spec").unwrap();
    let pod = spec.field("template").unwrap().field("spec").unwrap();
    let containers = pod.field("containers").unwrap();
    assert_eq!(containers.list_type, Some(ListType::Map));
    assert_eq!(containers.list_map_keys, ["name"]);
    assert_eq!(containers.patch_merge_key.as_deref(), Some("name"));
    assert_eq!(containers.patch_strategy.as_deref(), Some("merge"));
    assert_eq!(spec.field("strategy").unwrap().patch_strategy.as_deref(), Some("retainKeys"));
    assert_eq!(spec.field("selector").unwrap().map_type, Some(MapType::Atomic));
    let ports = containers.items.as_ref().unwrap().field("ports").unwrap();
    assert_eq!(ports.list_map_keys, ["containerPort", "protocol"]);
    let owners = deployment.field("metadata").unwrap().field("ownerReferences").unwrap();
    assert_eq!(owners.list_map_keys, ["uid"]);
    assert_eq!(
        deployment.field("metadata").unwrap().field("finalizers").unwrap().list_type,
        Some(ListType::Set)
    );
}

#[test]
fn recursive_schemas_end_and_still_prune() {
    let kind = kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let mut deep = json!({"type": "object", "tpye": 1});
    for _ in 0..40 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let mut object = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": deep}}]}});
    let dropped = schema::prune(&kind.schema(), &mut object);
    assert_eq!(dropped.len(), 1);
    assert!(dropped[0].ends_with(".tpye"), "{dropped:?}");
}

#[test]
fn objects_are_checked_against_the_published_schema() {
    let workload = |labels: Value| {
        json!({"metadata": {"name": "d", "creationTimestamp": null}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "livenessProbe": {"httpGet": {"port": "http"}}}]}}}})
    };
    check_errors("apps", "Deployment", workload(json!({"a": "b"})), &[]);
    check_errors(
        "apps",
        "Deployment",
        workload(json!({"a": "c"})),
        &[
            r#"spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`"#,
        ],
    );
    check_errors(
        "apps",
        "Deployment",
        json!({"spec": {"replicas": "3", "template": {}}}),
        &[
            "spec.selector: Required value",
            r#"spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string""#,
        ],
    );
    check_errors(
        "",
        "Pod",
        json!({"spec": {"containers": [{"image": "x"}]}}),
        &["spec.containers[0].name: Required value"],
    );
    check_errors("", "Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}), &[]);
    check_errors(
        "",
        "Secret",
        json!({"data": {"c": "%"}}),
        &[r#"data.c: Invalid value: "%": data.c in body must be of type byte: "%""#],
    );
    check_errors(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"renewTime": "2024-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}}),
        &[],
    );
    check_errors("apps", "DaemonSet", json!({"status": {"numberReady": 1}}), &[]);
}

#[test]
fn some_fields_never_change() {
    let table = [
        (
            "",
            "Secret",
            json!({"type": "a"}),
            json!({"type": "b"}),
            r#"type: Invalid value: "b": field is immutable"#,
        ),
        (
            "",
            "ConfigMap",
            json!({"immutable": true, "data": {"a": "1"}}),
            json!({"immutable": true, "data": {"a": "2"}}),
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"name": "a"}}),
            json!({"roleRef": {"name": "b"}}),
            r#"roleRef: Invalid value: {"name":"b"}: cannot change roleRef"#,
        ),
    ];
    for (group, kind, old, new, expected) in table {
        let kind = super::kind(group, "v1", kind).unwrap();
        let errors: Vec<String> = validate(kind, &new, Some(&old)).iter().map(ToString::to_string).collect();
        assert_eq!(errors, [expected]);
        assert!(validate(kind, &old, Some(&old)).is_empty());
    }
}

#[test]
fn defaults_are_those_of_a_real_server_and_stable() {
    let table = [
        (
            "",
            "Namespace",
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        ),
        ("", "Secret", json!({"stringData": {"k": "v"}}), json!({"type": "Opaque", "data": {"k": "dg=="}})),
        (
            "",
            "Service",
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            "apps",
            "Deployment",
            json!({"spec": {}}),
            json!({"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}, "status": {}}),
        ),
        (
            "apps",
            "Deployment",
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
            json!({"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "Recreate"}}, "status": {}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}),
            json!({"roleRef": {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount"}]}),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({"spec": {"names": {"kind": "Foo"}}}),
            json!({"spec": {"conversion": {"strategy": "None"}, "names": {"kind": "Foo", "singular": "foo", "listKind": "FooList"}}}),
        ),
    ];
    for (group, kind, mut object, expected) in table {
        let kind = super::kind(group, "v1", kind).unwrap();
        for _ in 0..2 {
            apply_defaults(kind, &mut object);
            assert_eq!(object, expected, "{}", kind.kind);
        }
    }
    let mut pod =
        json!({"spec": {"containers": [{"image": "r:5000/a"}, {"image": "a:1"}, {"image": "a@sha256:0"}]}});
    apply_defaults(kind("", "v1", "Pod").unwrap(), &mut pod);
    let policies: Vec<&Value> =
        pod["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["imagePullPolicy"]).collect();
    assert_eq!(policies, ["Always", "IfNotPresent", "IfNotPresent"]);
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    // Values of the wrong type are left for validation to refuse.
    let mut odd = json!({"spec": "text", "status": 5});
    apply_defaults(kind("", "v1", "Pod").unwrap(), &mut odd);
    assert_eq!(odd, json!({"spec": "text", "status": 5}));
}

#[test]
fn names_follow_their_rule() {
    use crate::meta::name_problems;
    use NameRule::{Label, Label1035, PathSegment, Subdomain};
    let table = [
        (Subdomain, "a.b-c", true),
        (Subdomain, "A", false),
        (Subdomain, "a..b", false),
        (Subdomain, "", false),
        (Label, "a-1", true),
        (Label, "a.b", false),
        (Label1035, "a1", true),
        (Label1035, "1a", false),
        (PathSegment, "system:node", true),
        (PathSegment, "a/b", false),
        (PathSegment, "..", false),
    ];
    for (rule, name, good) in table {
        assert_eq!(name_problems(rule, name, false).is_empty(), good, "{rule:?} {name}");
    }
    assert!(name_problems(Subdomain, "prefix-", true).is_empty());
    assert!(!name_problems(Subdomain, "prefix-", false).is_empty());
    assert!(name_problems(Label, &"a".repeat(64), false).concat().contains("63"));
}

#[test]
fn start_up_is_cheap() {
    // The index holds slices of the embedded text; nothing is parsed until it is asked for.
    assert!(include_str!("schemas.jsonl").len() < 1 << 20);
}
