//! Create, update, delete.

use serde_json::{Value, json};

use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};

/// Runs one request that must be refused with exactly this code, reason and message.
fn refused(world: &mut World, line: &str, body: Value, code: u16, reason: &str, message: &str) {
    let before = world.model.resource_version();
    let status = world.err(line, body);
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (code, reason, message),
        "{line}"
    );
    assert_eq!(world.model.resource_version(), before, "{line}: a refused request changes nothing");
}

#[test]
fn create_fills_in_what_the_server_owns() {
    let mut world = World::new();
    let outcome = world.outcome(&format!("POST {CM}"), config_map("a")).unwrap();
    assert_eq!(outcome.code, 201);
    let object = outcome.value().into_owned();
    let metadata = &object["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert!(metadata["uid"].as_str().unwrap().starts_with("uid-"));
    assert_eq!(metadata["resourceVersion"], world.model.resource_version().to_string());
    assert_eq!(metadata["managedFields"][0]["manager"], "test");
    assert!(metadata.get("generation").is_none(), "config maps have no generation");
    assert_eq!(world.must(&format!("{CM}/a")), object);
}

#[test]
fn generated_names_take_five_characters() {
    let mut world = World::new();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}});
    let made = world.ok(&format!("POST {CM}"), body);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("job-") && name.len() == 9, "{name}");
    let long = "x".repeat(80);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": long}});
    let made = world.ok(&format!("POST {CM}"), body);
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), 63);
}

#[test]
fn creates_that_are_refused() {
    let mut world = World::new();
    let post = format!("POST {CM}");
    world.ok(&post, config_map("a"));
    let mut check = |line: &str, body: Value, code: u16, reason: &str, message: &str| {
        refused(&mut world, line, body, code, reason, message);
    };
    check(&post, config_map("a"), 409, "AlreadyExists", "configmaps \"a\" already exists");
    check(
        "POST /api/v1/namespaces/nowhere/configmaps",
        config_map("a"),
        404,
        "NotFound",
        "namespaces \"nowhere\" not found",
    );
    check(
        &post,
        config_map("Bad_Name"),
        422,
        "Invalid",
        "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    );
    check(
        &post,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    );
    check(
        &post,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "other"}}),
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    check(
        &post,
        json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "b"}}),
        400,
        "BadRequest",
        "the API version in the data (v2) does not match the expected API version (v1)",
    );
    check(
        &post,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "resourceVersion": "7"}}),
        400,
        "BadRequest",
        "resourceVersion should not be set on objects to be created",
    );
}

#[test]
fn creates_of_bad_content_are_refused() {
    let mut world = World::new();
    let post = format!("POST {CM}");
    let mut check = |line: &str, body: Value, code: u16, reason: &str, message: &str| {
        refused(&mut world, line, body, code, reason, message);
    };
    check(
        &format!("{post}?fieldValidation=Strict"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "dta": {}}),
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\"",
    );
    check(
        &post,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "labels": {"a b": "c"}}}),
        422,
        "Invalid",
        "ConfigMap \"b\" is invalid: metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    );
    check(
        &post,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": ""}]}}),
        422,
        "Invalid",
        "ConfigMap \"b\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
    );
    check(
        "POST /apis/example.com/v1/namespaces/default/widgets",
        widget("w", json!({})),
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
}

#[test]
fn unknown_fields_warn_unless_ignored() {
    let mut world = World::new();
    for (query, warnings) in
        [("", vec!["unknown field \"dta\"".to_owned()]), ("?fieldValidation=Ignore", vec![])]
    {
        let name = format!("a{}", query.len());
        let mut body = config_map(&name);
        body["dta"] = json!({});
        let outcome = world.outcome(&format!("POST {CM}{query}"), body).unwrap();
        assert_eq!(outcome.warnings, warnings);
        assert!(outcome.value().get("dta").is_none());
    }
}

#[test]
fn updates_keep_what_the_server_owns_and_bump_only_when_something_changed() {
    let mut world = World::new();
    let made = world.ok(&format!("POST {CM}"), config_map("a"));
    world.tick(60);
    let mut next = made.clone();
    next["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    let same = world.ok(&format!("PUT {CM}/a"), next);
    assert_eq!(same, made, "an update without a change keeps the version");
    let mut next = config_map("a");
    next["data"]["k"] = json!("w");
    let changed = world.ok(&format!("PUT {CM}/a"), next);
    assert_ne!(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(changed["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
}

#[test]
fn updates_that_are_refused() {
    let mut world = World::new();
    let made = world.ok(&format!("POST {CM}"), config_map("a"));
    world.ok(&format!("MERGE {CM}/a"), json!({"data": {"k": "w"}}));
    let put = format!("PUT {CM}/a");
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut check = |line: &str, body: Value, code: u16, reason: &str, message: &str| {
        refused(&mut world, line, body, code, reason, message);
    };
    check(&format!("PUT {CM}/zz"), config_map("zz"), 404, "NotFound", "configmaps \"zz\" not found");
    check(
        &put,
        made,
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
    check(
        &put,
        config_map("b"),
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    let mut other = config_map("a");
    other["metadata"]["uid"] = json!("another");
    check(
        &put,
        other,
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on configmaps \"a\": Precondition failed: UID in precondition: another, UID in object meta: {uid}"
        ),
    );
}

#[test]
fn immutable_config_maps_and_secrets_stay() {
    let mut world = World::new();
    let mut body = config_map("a");
    body["immutable"] = json!(true);
    world.ok(&format!("POST {CM}"), body);
    let status = world.err(&format!("MERGE {CM}/a"), json!({"data": {"k": "w"}}));
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );
    world.ok(&format!("MERGE {CM}/a"), json!({"metadata": {"labels": {"x": "y"}}}));
}

#[test]
fn string_data_becomes_data() {
    let mut world = World::new();
    let secrets = "/api/v1/namespaces/default/secrets";
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new", "c": "x"},
    });
    let made = world.ok(&format!("POST {secrets}"), body);
    assert_eq!(made["data"], json!({"a": "YQ==", "b": "bmV3", "c": "eA=="}));
    assert_eq!(made["type"], "Opaque");
    assert!(made.get("stringData").is_none());
    let patched = world.ok(&format!("MERGE {secrets}/s"), json!({"stringData": {"a": "2"}}));
    assert_eq!(patched["data"]["a"], "Mg==");
    let bad = world.err(&format!("MERGE {secrets}/s"), json!({"data": {"a": "!"}}));
    assert_eq!(bad.code, 400);
}

#[test]
fn dry_run_changes_nothing() {
    let mut world = World::new();
    world.ok(&format!("POST {CM}"), config_map("a"));
    let before = world.model.resource_version();
    world.ok(&format!("POST {CM}?dryRun=All"), config_map("b"));
    world.ok(&format!("MERGE {CM}/a?dryRun=All"), json!({"data": {"k": "w"}}));
    world.ok(&format!("DELETE {CM}/a?dryRun=All"), Value::Null);
    world.ok(&format!("POST {CRDS}?dryRun=All"), widget_crd());
    assert_eq!(world.model.resource_version(), before);
    assert_eq!(world.names(CM), ["default/a"]);
    assert!(world.model.registry().get("widgets.example.com").is_none());
}

#[test]
fn generation_follows_the_spec_and_status_has_its_own_door() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let mut body = widget("w", json!({"color": "red"}));
    body["status"] = json!({"phase": "Sneaky"});
    let made = world.ok(&format!("POST {WIDGETS}"), body);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"], json!({"color": "red", "size": 1}), "defaults are applied");
    assert!(made.get("status").is_none(), "status cannot be created");
    let labelled = world.ok(&format!("MERGE {WIDGETS}/w"), json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(labelled["metadata"]["generation"], 1);
    let grown =
        world.ok(&format!("MERGE {WIDGETS}/w"), json!({"spec": {"size": 2}, "status": {"phase": "No"}}));
    assert_eq!(grown["metadata"]["generation"], 2);
    assert!(grown.get("status").is_none());
    let patch = json!({"spec": {"size": 9}, "status": {"phase": "Yes"}, "metadata": {"labels": {"a": "c"}}});
    let reported = world.ok(&format!("MERGE {WIDGETS}/w/status"), patch);
    assert_eq!(reported["metadata"]["generation"], 2);
    assert_eq!(reported["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(reported["spec"]["size"], 2);
    assert_eq!(reported["status"], json!({"phase": "Yes"}));
    let managers: Vec<&Value> = reported["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["subresource"] == "status")
        .collect();
    assert_eq!(managers.len(), 1);
}

#[test]
fn custom_resources_need_a_version_to_be_replaced() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({})));
    refused(
        &mut world,
        &format!("PUT {WIDGETS}/w"),
        widget("w", json!({"size": 3})),
        422,
        "Invalid",
        "widgets.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    );
    let mut body = world.must(&format!("{WIDGETS}/w"));
    body["spec"]["size"] = json!(3);
    let next = world.ok(&format!("PUT {WIDGETS}/w"), body);
    assert_eq!(next["spec"]["size"], 3);
}

#[test]
fn delete_answers_and_preconditions() {
    let mut world = World::new();
    let made = world.ok(&format!("POST {CM}"), config_map("a"));
    let uid = made["metadata"]["uid"].clone();
    let version = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let delete = format!("DELETE {CM}/a");
    let mut check = |body: Value, message: &str| refused(&mut world, &delete, body, 409, "Conflict", message);
    check(
        json!({"preconditions": {"uid": "x"}}),
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ({}). The object might have been deleted and then recreated",
            uid.as_str().unwrap()
        ),
    );
    check(
        json!({"preconditions": {"resourceVersion": "1"}}),
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ),
    );
    let answer = world.ok(&delete, json!({"preconditions": {"uid": uid}}));
    assert_eq!(
        answer,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
               "details": {"name": "a", "kind": "configmaps", "uid": uid}})
    );
    refused(&mut world, &delete, Value::Null, 404, "NotFound", "configmaps \"a\" not found");
    refused(
        &mut world,
        &delete,
        json!({"propagationPolicy": "Sideways"}),
        422,
        "Invalid",
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
    );
}

#[test]
fn finalizers_hold_a_deletion_until_they_are_gone() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let mut body = widget("w", json!({}));
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.ok(&format!("POST {WIDGETS}"), body);
    let answer = world.ok(&format!("DELETE {WIDGETS}/w"), Value::Null);
    assert_eq!(answer["metadata"]["deletionTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(answer["metadata"]["generation"], 2);
    world.tick(10);
    let again = world.ok(&format!("DELETE {WIDGETS}/w"), Value::Null);
    assert_eq!(again, answer, "a second delete changes nothing");
    let status = world.err(
        &format!("MERGE {WIDGETS}/w"),
        json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
    );
    assert_eq!(
        status.message,
        "Widget.example.com \"w\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/more\"}"
    );
    world.ok(&format!("MERGE {WIDGETS}/w"), json!({"metadata": {"finalizers": null}}));
    assert_eq!(world.get(&format!("{WIDGETS}/w")), None);
    let last = world.history.last().unwrap();
    assert!(last.new.is_none());
    assert_eq!(last.last.as_ref().unwrap().resource_version(), last.rv);
}

#[test]
fn collections_are_deleted_by_selector() {
    let mut world = World::new();
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut body = config_map(name);
        body["metadata"]["labels"] = json!({"tier": tier});
        world.ok(&format!("POST {CM}"), body);
    }
    let answer = world.ok(&format!("DELETE {CM}?labelSelector=tier%3Dx").replace("%3D", "="), Value::Null);
    assert_eq!(answer["items"].as_array().unwrap().len(), 2);
    assert_eq!(answer["kind"], "ConfigMapList");
    assert_eq!(world.names(CM), ["default/b"]);
}

#[test]
fn put_creates_only_where_kube_lets_it() {
    let mut world = World::new();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    assert_eq!(world.outcome(&format!("PUT {leases}/l"), lease).unwrap().code, 201);
    assert_eq!(world.err(&format!("PUT {CM}/l"), config_map("l")).code, 404);
}

#[test]
fn batches_see_their_own_writes_and_readers_do_not() {
    let mut world = World::new();
    let mut batch = world.model.begin();
    let mut run = |line: &str, body: Value| {
        let request = crate::harness::request(line, body).unwrap();
        world.model.prepare(&mut batch, request, world.now, &mut world.ids)
    };
    run(&format!("POST {CM}"), config_map("a")).unwrap();
    assert_eq!(run(&format!("POST {CM}"), config_map("a")).unwrap_err().code, 409);
    run(&format!("POST {CRDS}"), widget_crd()).unwrap();
    run(&format!("POST {WIDGETS}"), widget("w", json!({}))).unwrap();
    run(&format!("MERGE {CM}/a"), json!({"data": {"k": "w"}})).unwrap();
    run(&format!("DELETE {CM}/a"), Value::Null).unwrap();
    run(&format!("POST {CM}"), config_map("a")).unwrap();
    assert!(world.get(&format!("{CM}/a")).is_none());
    let versions: Vec<u64> = batch.changes().iter().map(|c| c.rv).collect();
    assert!(versions.windows(2).all(|w| w[0] + 1 == w[1]), "{versions:?}");
    world.model.commit(batch);
    assert_eq!(world.must(&format!("{CM}/a"))["data"]["k"], "v");
    assert!(world.get(&format!("{WIDGETS}/w")).is_some());
}

#[test]
fn hostile_bodies_are_refused_without_a_panic() {
    let mut world = World::new();
    let bodies = [
        json!(null),
        json!([]),
        json!("x"),
        json!(1),
        json!({}),
        json!({"metadata": 3}),
        json!({"metadata": []}),
        json!({"metadata": {"name": 3, "labels": [], "annotations": "x", "finalizers": {}, "ownerReferences": 7}}),
        json!({"metadata": {"name": "a", "labels": {"x": 3}, "ownerReferences": [3, null, {}], "managedFields": 5}}),
        json!({"metadata": {"name": "a", "generateName": [], "namespace": {}, "resourceVersion": 3, "uid": []}}),
        json!({"data": [], "binaryData": 3, "metadata": {"name": "z"}}),
        json!({"spec": {"versions": {}, "names": []}, "status": [], "metadata": {"name": "widgets.example.com"}}),
        json!({"spec": {"versions": [1, {"name": 3, "schema": []}]}, "metadata": {"name": "widgets.example.com"}}),
    ];
    world.ok(&format!("POST {CM}"), config_map("a"));
    for path in [CM, CRDS, "/api/v1/namespaces", "/api/v1/namespaces/default/secrets"] {
        for body in &bodies {
            for verb in ["POST", "PUT", "MERGE", "JSON", "STRATEGIC", "APPLY"] {
                let path = if verb == "POST" { path.to_owned() } else { format!("{path}/a") };
                let mut body = body.clone();
                if let Value::Object(map) = &mut body {
                    map.insert("apiVersion".into(), "v1".into());
                }
                let _answer = world.send(&format!("{verb} {path}?fieldManager=m"), body);
            }
        }
    }
    let _answer = world.send(&format!("DELETE {CM}/a"), json!({"dryRun": 3, "preconditions": []}));
}

#[test]
fn nulls_of_go_clients_are_nothing_in_built_in_kinds() {
    let mut world = World::new();
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "creationTimestamp": null},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}}, "strategy": {},
            "template": {
                "metadata": {"creationTimestamp": null, "labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {}, "env": null}]},
            },
        },
        "status": {"conditions": null},
    });
    let made = world.ok("POST /apis/apps/v1/namespaces/default/deployments", body);
    assert!(made.pointer("/spec/template/metadata/creationTimestamp").is_none());
    let mut crd = widget_crd();
    crd["status"] =
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null});
    world.ok(&format!("POST {CRDS}"), crd);
    let mut body = widget("w", json!({"size": null}));
    body["metadata"]["creationTimestamp"] = json!(null);
    assert_eq!(world.ok(&format!("POST {WIDGETS}"), body)["spec"]["size"], 1);
}

#[test]
fn only_the_client_owns_what_it_sent() {
    let mut world = World::new();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = world.ok("POST /api/v1/namespaces", body);
    assert!(made.pointer("/metadata/managedFields/0/fieldsV1/f:spec").is_none());
    assert!(made.pointer("/metadata/managedFields/0/fieldsV1/f:status").is_none());
    let made = world.ok(&format!("POST {CRDS}"), widget_crd());
    assert!(made.pointer("/metadata/managedFields/0/fieldsV1/f:spec").is_some());
    assert!(made.pointer("/metadata/managedFields/0/fieldsV1/f:status").is_none());
}

#[test]
fn finalizers_without_a_domain() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let mut body = config_map("a");
    body["metadata"]["finalizers"] = json!(["hold"]);
    refused(
        &mut world,
        &format!("POST {CM}"),
        body,
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"hold\": name is neither a standard finalizer name nor is it fully qualified",
    );
    let mut body = widget("w", json!({}));
    body["metadata"]["finalizers"] = json!(["hold"]);
    let outcome = world.outcome(&format!("POST {WIDGETS}"), body).unwrap();
    assert_eq!(
        outcome.warnings,
        [
            "metadata.finalizers: \"hold\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        ]
    );
}

#[test]
fn requests_that_no_resource_takes() {
    let mut world = World::new();
    let message = "the server does not allow this method on the requested resource";
    refused(&mut world, &format!("POST {CM}/a"), config_map("a"), 405, "MethodNotAllowed", message);
    refused(&mut world, "DELETE /api/v1/namespaces", Value::Null, 405, "MethodNotAllowed", message);
    let dry = world.ok(&format!("POST {CM}?dryRun=All"), config_map("a"));
    assert!(dry["metadata"].get("resourceVersion").is_none(), "a dry run gives out no version");
    world.ok(&format!("POST {CM}"), config_map("a"));
    let message = "the name of the object (a based on URL) was undeterminable: name must be provided";
    refused(&mut world, &format!("MERGE {CM}/a"), json!({"metadata": null}), 400, "BadRequest", message);
    let message = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable";
    refused(&mut world, &format!("MERGE {CM}/a"), json!({"metadata": {"uid": "x"}}), 422, "Invalid", message);
}
