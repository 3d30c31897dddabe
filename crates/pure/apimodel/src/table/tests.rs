//! What `kubectl get` would print.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2024-01-10T00:00:00Z".parse().unwrap()
}

/// Cells after the name, which is always `n`, and before wide columns are cut off.
fn check(group: &str, kind: &str, object: Value, expected: Value) {
    let mut object = object;
    object["metadata"]["name"] = json!("n");
    object["metadata"]["creationTimestamp"] = json!("2024-01-09T23:00:00Z");
    let columns = Columns::builtin(group, kind);
    let cells = columns.cells(&object, now());
    assert_eq!(cells.len(), columns.definitions.len(), "{kind} has a cell for each column");
    let narrow: Vec<Value> = cells
        .into_iter()
        .zip(&columns.definitions)
        .filter(|(_, definition)| definition["priority"] == 0)
        .map(|(cell, _)| cell)
        .collect();
    assert_eq!(Value::from(narrow), expected, "{kind}");
}

#[test]
fn built_in_kinds_have_the_columns_of_kubectl() {
    check("", "Namespace", json!({"status": {"phase": "Active"}}), json!(["n", "Active", "60m"]));
    check(
        "",
        "Secret",
        json!({"type": "Opaque", "data": {"a": "", "b": ""}}),
        json!(["n", "Opaque", 2, "60m"]),
    );
    check("", "ConfigMap", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), json!(["n", 2, "60m"]));
    check("", "ServiceAccount", json!({}), json!(["n", "60m"]));
    check(
        "",
        "Service",
        json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        json!(["n", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "60m"]),
    );
    check(
        "",
        "Service",
        json!({"spec": {"type": "LoadBalancer"}}),
        json!(["n", "LoadBalancer", "<none>", "<pending>", "<none>", "60m"]),
    );
}

#[test]
fn workloads_and_the_rest_have_the_columns_of_kubectl() {
    check(
        "apps",
        "Deployment",
        json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}),
        json!(["n", "2/3", 3, 2, "60m"]),
    );
    check(
        "apps",
        "ReplicaSet",
        json!({"spec": {"replicas": 3}, "status": {"replicas": 2, "readyReplicas": 1}}),
        json!(["n", 3, 2, 1, "60m"]),
    );
    check("apps", "StatefulSet", json!({"spec": {"replicas": 1}}), json!(["n", "0/1", "60m"]));
    check(
        "apps",
        "DaemonSet",
        json!({"status": {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
        json!(["n", 2, 2, 1, 2, 1, "<none>", "60m"]),
    );
    check(
        "batch",
        "Job",
        json!({"spec": {"completions": 1}, "status": {"succeeded": 1, "startTime": "2024-01-09T23:00:00Z", "completionTime": "2024-01-09T23:00:05Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
        json!(["n", "Complete", "1/1", "5s", "60m"]),
    );
    check(
        "batch",
        "CronJob",
        json!({"spec": {"schedule": "* * * * *"}}),
        json!(["n", "* * * * *", "<none>", "False", 0, "<none>", "60m"]),
    );
    check(
        "networking.k8s.io",
        "Ingress",
        json!({"spec": {"rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}], "tls": [{}]}}),
        json!(["n", "<none>", "a,b,c + 1 more...", "", "80, 443", "60m"]),
    );
    check(
        "coordination.k8s.io",
        "Lease",
        json!({"spec": {"holderIdentity": "me"}}),
        json!(["n", "me", "60m"]),
    );
    check(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        json!({"roleRef": {"kind": "Role", "name": "r"}}),
        json!(["n", "Role/r", "60m"]),
    );
    check("rbac.authorization.k8s.io", "Role", json!({}), json!(["n", "2024-01-09T23:00:00Z"]));
    check(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        json!({}),
        json!(["n", "2024-01-09T23:00:00Z"]),
    );
    check(
        "",
        "Event",
        json!({"type": "Normal", "reason": "Done", "involvedObject": {"kind": "Pod", "name": "p"}, "message": " m\n", "lastTimestamp": "2024-01-09T23:59:00Z"}),
        json!(["60s", "Normal", "Done", "pod/p", "m"]),
    );
    check(
        "events.k8s.io",
        "Event",
        json!({"type": "Normal", "reason": "Done", "regarding": {"kind": "Pod", "name": "p"}, "note": "m", "eventTime": "2024-01-09T23:59:00.000000Z"}),
        json!(["60s", "Normal", "Done", "pod/p", "m"]),
    );
}

#[test]
fn a_pod_shows_what_holds_it_up() {
    let pod = |status: Value| json!({"spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]}, "status": status});
    let table = [
        (json!({"phase": "Pending"}), "0/2", "Pending", "0"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            "0/2",
            "Init:0/1",
            "0",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "0/2",
            "Init:CrashLoopBackOff",
            "2",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": {"running": {}}}, {"ready": true, "state": {"running": {}}}]}),
            "2/2",
            "Running",
            "0",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": {"running": {}}}, {"restartCount": 3, "state": {"waiting": {"reason": "ImagePullBackOff"}}, "lastState": {"terminated": {"finishedAt": "2024-01-09T23:55:00Z"}}}]}),
            "1/2",
            "ImagePullBackOff",
            "3 (5m ago)",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
            "0/2",
            "ExitCode:3",
            "0",
        ),
    ];
    for (status, ready, reason, restarts) in table {
        check("", "Pod", pod(status), json!(["n", ready, reason, restarts, "60m"]));
    }
    let mut gone = pod(json!({"phase": "Running"}));
    gone["metadata"]["deletionTimestamp"] = json!("2024-01-09T23:59:59Z");
    check("", "Pod", gone, json!(["n", "0/2", "Terminating", "0", "60m"]));
}

#[test]
fn custom_columns_follow_their_paths_and_types() {
    let columns = Columns::custom(&[
        json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}),
        json!({"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1, "description": "How many"}),
        json!({"name": "On", "type": "boolean", "jsonPath": ".spec.on"}),
        json!({"name": "Since", "type": "date", "jsonPath": ".status.since"}),
        json!({"name": "Share", "type": "number", "jsonPath": ".spec.share"}),
        json!({"name": "All", "type": "string", "jsonPath": ".spec.list"}),
    ]);
    let object = json!({"metadata": {"name": "x"}, "spec": {"count": 3, "on": false, "share": 1, "list": ["a", 1]},
        "status": {"since": "2024-01-09T22:00:00Z", "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    assert_eq!(
        columns.cells(&object, now()),
        [json!("x"), json!("True"), json!(3), json!(false), json!("120m"), json!(1.0), json!("[\"a\",1]")]
    );
    assert_eq!(
        columns.cells(&json!({"metadata": {"name": "y"}}), now()),
        [json!("y"), json!(null), json!(null), json!(null), json!(null), json!(null), json!(null)]
    );
    assert_eq!(
        columns.definitions[2],
        json!({"name": "Count", "type": "integer", "format": "", "description": "How many", "priority": 1})
    );
    let plain = Columns::custom(&[]);
    assert_eq!(
        plain.cells(&json!({"metadata": {"name": "x", "creationTimestamp": "2024-01-09T00:00:00Z"}}), now()),
        [json!("x"), json!("24h")]
    );
}

#[test]
fn a_table_carries_as_much_of_the_objects_as_asked() {
    let columns = Columns::custom(&[]);
    let object = json!({"apiVersion": "a/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"a": 1}});
    let table =
        |include, headers| columns.table([&object], json!({"resourceVersion": "5"}), include, headers, now());
    let full = table(IncludeObject::Object, true);
    assert_eq!(full["kind"], "Table");
    assert_eq!(full["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(full["metadata"]["resourceVersion"], "5");
    assert_eq!(full["columnDefinitions"].as_array().unwrap().len(), 2);
    assert_eq!(full["rows"][0]["object"], object);
    let partial = table(IncludeObject::Metadata, false);
    assert_eq!(partial["columnDefinitions"], json!([]));
    assert_eq!(
        partial["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}})
    );
    assert_eq!(table(IncludeObject::None, true)["rows"][0]["object"], Value::Null);
    assert_eq!(IncludeObject::from_query(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::from_query("Nothing"), None);
}

#[test]
fn paths_find_what_kubectl_would_find() {
    let object = json!({"a": {"b": [{"n": 1, "k": "x"}, {"n": 2, "k": "y"}]}, "x.y": 1, "m": {"o/p.q": 2}});
    let table = [
        (".a.b[0].n", json!([1])),
        ("{.a.b[1].n}", json!([2])),
        (".a.b[-1].k", json!(["y"])),
        (".a.b[*].n", json!([1, 2])),
        (".a['b'][0]['k']", json!(["x"])),
        ("['x.y']", json!([1])),
        (r".x\.y", json!([1])),
        (r".m.o/p\.q", json!([2])),
        (".a.b[?(@.k=='y')].n", json!([2])),
        (".a.b[?(@.n>1)].k", json!(["y"])),
        (".a.b[?(@.n != 2)].k", json!(["x"])),
        (".a.b[?(@.missing)].k", json!([])),
        ("..n", json!([1, 2])),
        (".gone.b", json!([])),
        (".a.b[9]", json!([])),
        ("a.b[0].n", json!([1])),
        (".m.*", json!([2])),
    ];
    for (path, expected) in table {
        let found: Vec<Value> = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
        assert_eq!(Value::from(found), expected, "{path}");
    }
    for bad in [".a[", ".a[x]", ".a..", ".a[?(b)]", ".a[?(@.b==c)]", ".a[0]b"] {
        let error = JsonPath::parse(bad).unwrap_err().to_string();
        assert!(error.contains(&format!("`{bad}`")), "{error}");
    }
}

#[test]
fn ages_are_written_as_kubectl_writes_them() {
    let table = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86_400, "8d"),
        (2 * 365 * 86_400, "2y"),
        (800 * 86_400, "2y70d"),
        (9 * 365 * 86_400, "9y"),
    ];
    for (seconds, expected) in table {
        assert_eq!(human_duration(seconds), expected, "{seconds}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_path_or_an_error(text in "[.a\\[\\]'\"?(@=)*0-9\\\\-]{0,20}") {
        if let Ok(path) = JsonPath::parse(&text) {
            path.find(&json!({"a": [{"a": 1}]}));
        }
    }

    #[test]
    fn any_object_has_cells(kind in 0..crate::builtin::KINDS.len(), field in "spec|status|metadata|data", value in "[a-z]{0,3}") {
        let kind = &crate::builtin::KINDS[kind];
        let columns = Columns::builtin(kind.group, kind.kind);
        let cells = columns.cells(&json!({field: value}), now());
        prop_assert_eq!(cells.len(), columns.definitions.len());
    }
}
