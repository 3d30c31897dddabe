//! Tests of the patch formats.

use serde_json::{Value, json};

use super::{MAX_OPERATIONS, PatchError, json_patch, merge_patch, strategic_merge_patch};
use crate::schema::{Additional, Schema, SchemaRef, SchemaType};

fn text() -> SchemaRef {
    Schema { ty: Some(SchemaType::String), ..Schema::default() }.into()
}

fn list(items: SchemaRef, strategy: Option<&str>, key: Option<&str>) -> SchemaRef {
    Schema {
        ty: Some(SchemaType::Array),
        items: Some(items),
        patch_strategy: strategy.map(str::to_owned),
        patch_merge_key: key.map(str::to_owned),
        ..Schema::default()
    }
    .into()
}

/// The type that the upstream cases are about. It contains itself, so it is unrolled to a depth that they stay within.
fn merge_item(depth: usize) -> Schema {
    let mut schema = Schema { ty: Some(SchemaType::Object), ..Schema::default() };
    let int = || SchemaRef::from(Schema { ty: Some(SchemaType::Integer), ..Schema::default() });
    let map =
        Schema { ty: Some(SchemaType::Object), additional: Additional::Schema(text()), ..Schema::default() };
    let mut add = |name: &str, field: SchemaRef| schema.properties.insert(name.to_owned(), field);
    for name in ["name", "value", "other"] {
        add(name, text());
    }
    add("mergingIntList", list(int(), Some("merge"), None));
    add("nonMergingIntList", list(int(), None, None));
    add("simpleMap", map.into());
    let replacing = Schema {
        ty: Some(SchemaType::Object),
        patch_strategy: Some("replace".to_owned()),
        ..Schema::default()
    };
    add("replacingItem", replacing.into());
    if depth > 0 {
        let item = || SchemaRef::from(merge_item(depth - 1));
        add("mergingList", list(item(), Some("merge"), Some("name")));
        add("nonMergingList", list(item(), None, None));
        add("retainKeysMergingList", list(item(), Some("merge,retainKeys"), Some("name")));
        add("mergeItemPtr", list(item(), Some("merge"), Some("name")));
        let retain = Schema { patch_strategy: Some("retainKeys".to_owned()), ..merge_item(depth - 1) };
        add("retainKeysMap", retain.into());
    }
    schema
}

#[test]
fn the_cases_of_the_upstream_strategic_merge_patch_hold() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("tests/strategic.json")).unwrap();
    assert!(cases.len() > 200);
    let schema = merge_item(3);
    let mut failures = Vec::new();
    for case in &cases {
        let object = |name: &str| match &case[name] {
            Value::Null => json!({}),
            other => other.clone(),
        };
        let found = strategic_merge_patch(&schema, &object("original"), &object("patch"));
        let good = match (&found, case.get("error")) {
            (Ok(found), None) => *found == object("expected"),
            (Err(_), Some(_)) => true,
            _ => false,
        };
        if !good {
            failures.push(format!("{case:#}\nfound {found:#?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

#[test]
fn json_patch_applies_the_operations_of_rfc_6902() {
    let check =
        |live: Value, patch: Value, expected: Value| assert_eq!(json_patch(&live, &patch).unwrap(), expected);
    check(json!({"a": 1}), json!([]), json!({"a": 1}));
    check(
        json!({"a": 1}),
        json!([{"op": "add", "path": "/b", "value": {"c": null}}]),
        json!({"a": 1, "b": {"c": null}}),
    );
    check(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}));
    check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
    check(json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2}));
    check(json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": 2}]), json!({"a": 2}));
    check(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1}));
    check(
        json!({"a": {"x": 1}}),
        json!([{"op": "copy", "from": "/a", "path": "/b"}]),
        json!({"a": {"x": 1}, "b": {"x": 1}}),
    );
    check(
        json!({"a": 1}),
        json!([{"op": "test", "path": "/a", "value": 1}, {"op": "remove", "path": "/a"}]),
        json!({}),
    );
    check(json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({}));
    check(json!({"a/b": {"m~n": 1}}), json!([{"op": "remove", "path": "/a~1b/m~0n"}]), json!({"a/b": {}}));
}

#[test]
fn json_patch_failures_say_which_operation_and_why() {
    let check = |patch: Value, expected: PatchError| {
        let live = json!({"a": 1, "l": [1], "m": {"n": 1}});
        assert_eq!(json_patch(&live, &patch).unwrap_err(), expected);
    };
    let fails = |index: usize, op: &str, path: &str, why: &str| {
        PatchError::Unprocessable(format!(
            "operation {index} of the JSON patch (`{op}` at `{path}`) does not apply: {why}"
        ))
    };
    let absent = "there is no such path in the object";
    check(
        json!([{"op": "test", "path": "/a", "value": 2}]),
        fails(0, "test", "/a", "the value there is another one"),
    );
    check(
        json!([{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}]),
        fails(1, "remove", "/a", absent),
    );
    check(json!([{"op": "add", "path": "/x/y", "value": 1}]), fails(0, "add", "/x/y", absent));
    check(json!([{"op": "add", "path": "/l/5", "value": 1}]), fails(0, "add", "/l/5", absent));
    check(json!([{"op": "replace", "path": "/x", "value": 1}]), fails(0, "replace", "/x", absent));
    check(
        json!([{"op": "copy", "from": "/x", "path": "/y"}]),
        fails(0, "copy", "/y", "there is no path `/x` in the object"),
    );
    check(
        json!([{"op": "move", "from": "/m", "path": "/m/n"}]),
        fails(0, "move", "/m/n", "`/m` cannot be moved into itself"),
    );
    check(
        json!({"op": "add"}),
        PatchError::Malformed("a JSON patch must be a list of operations".to_owned()),
    );
    for bad in
        [json!([1]), json!([{"op": "jump", "path": "/a"}]), json!([{"op": "add", "path": "a", "value": 1}])]
    {
        assert!(
            matches!(json_patch(&json!({}), &bad), Err(PatchError::Malformed(message)) if message.contains("operation 0"))
        );
    }
}

#[test]
fn json_patch_bombs_are_refused() {
    let many = Value::Array(vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1]);
    assert!(matches!(json_patch(&json!({}), &many), Err(PatchError::TooLarge(_))));
    // Every copy doubles the document.
    let doubling: Vec<Value> =
        (0..200).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")})).collect();
    assert!(matches!(
        json_patch(&json!({"a": {"x": "y"}}), &Value::Array(doubling)),
        Err(PatchError::TooLarge(_))
    ));
    // Every move buries the document one level deeper.
    let burying: Vec<Value> = (0..400)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b"}),
                json!({"op": "add", "path": "/a", "value": {}}),
                json!({"op": "move", "from": "/b", "path": "/a/x"}),
            ]
        })
        .collect();
    assert!(matches!(json_patch(&json!({"a": {}}), &Value::Array(burying)), Err(PatchError::TooLarge(_))));
    // A long patch that stays flat is fine.
    let flat: Vec<Value> = (0..5000)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b/c"}),
                json!({"op": "move", "from": "/b/c", "path": "/a"}),
            ]
        })
        .collect();
    let live = json!({"a": {"x": 1}, "b": {}});
    assert_eq!(json_patch(&live, &Value::Array(flat)).unwrap(), live);
}

#[test]
fn merge_patch_follows_rfc_7396() {
    let check = |live: Value, patch: Value, expected: Value| {
        assert_eq!(merge_patch(&live, &patch).unwrap(), expected)
    };
    check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
    check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
    check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
    check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
    check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
    check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
    check(json!({"a": "foo"}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    for bad in [json!([]), json!(null), json!("x")] {
        assert!(matches!(merge_patch(&json!({}), &bad), Err(PatchError::Malformed(_))));
    }
}

fn web() -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {
                "containers": [
                    {"name": "c", "image": "i:1", "env": [{"name": "E", "value": "1"}], "args": ["a"]},
                    {"name": "d", "image": "j:1"},
                ],
                "tolerations": [{"key": "k"}],
            }},
        },
    })
}

#[test]
fn strategic_patches_of_a_deployment_do_what_kubectl_relies_on() {
    let (schema, live) = (crate::builtin::schema("apps", "v1", "Deployment").unwrap(), web());
    let check = |patch: Value, pointer: &str, expected: Value| {
        let found = strategic_merge_patch(&schema, &live, &patch).unwrap();
        assert_eq!(found.pointer(pointer).cloned().unwrap_or_default(), expected, "{patch}");
    };
    let containers = |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
    check(
        json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
        "/metadata/labels",
        json!({"b": "2", "c": "3"}),
    );
    check(json!({"metadata": {"finalizers": ["z"]}}), "/metadata/finalizers", json!(["z", "x", "y"]));
    check(
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
        "/metadata/finalizers",
        json!(["y"]),
    );
    check(
        containers(json!([{"name": "d", "image": "j:2"}])),
        "/spec/template/spec/containers/1/image",
        json!("j:2"),
    );
    check(
        containers(json!([{"name": "c", "env": [{"name": "F", "value": "2"}]}])),
        "/spec/template/spec/containers/0/env",
        json!([{"name": "F", "value": "2"}, {"name": "E", "value": "1"}]),
    );
    // A list without a merge strategy is replaced.
    check(
        containers(json!([{"name": "c", "args": ["z"]}])),
        "/spec/template/spec/containers/0/args",
        json!(["z"]),
    );
    check(
        containers(json!([{"name": "c", "$patch": "delete"}])),
        "/spec/template/spec/containers",
        json!([{"name": "d", "image": "j:1"}]),
    );
    check(
        containers(json!([{"$patch": "replace"}, {"name": "z", "image": "z"}])),
        "/spec/template/spec/containers",
        json!([{"name": "z", "image": "z"}]),
    );
    check(
        json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "d"}, {"name": "c"}, {"name": "e"}],
            "containers": [{"name": "e", "image": "e"}],
        }}}}),
        "/spec/template/spec/containers",
        json!([
            {"name": "d", "image": "j:1"},
            {"name": "c", "image": "i:1", "env": [{"name": "E", "value": "1"}], "args": ["a"]},
            {"name": "e", "image": "e"},
        ]),
    );
    check(
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        "/spec/strategy",
        json!({"type": "Recreate"}),
    );
    check(
        json!({"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}),
        "/spec/strategy",
        json!({"type": "Recreate"}),
    );
    check(json!({"spec": {"strategy": {"$patch": "delete"}}}), "/spec/strategy", json!({}));
}

#[test]
fn malformed_strategic_patches_are_errors() {
    let schema = crate::builtin::schema("apps", "v1", "Deployment").unwrap();
    let live = json!({"metadata": {"finalizers": ["x"]}, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let check = |patch: Value, expected: &str| match strategic_merge_patch(&schema, &live, &patch) {
        Err(PatchError::Malformed(message)) => assert!(message.contains(expected), "{message}"),
        other => panic!("expected an error with {expected}, found {other:?}"),
    };
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    check(json!([]), "must be an object");
    check(json!({"$patch": "explode"}), "must be `replace` or `delete`");
    check(json!({"spec": {"$retainKeys": "x"}}), "`$retainKeys` must be a list");
    check(json!({"spec": {"$retainKeys": ["a"], "replicas": 1}}), "but not `replicas`");
    check(pod(json!({"containers": [{"image": "x"}]})), "lacks its merge key `name`");
    check(pod(json!({"containers": ["x"]})), "must all be objects");
    check(
        pod(json!({"containers": [{"name": "c", "$patch": "merge"}]})),
        "merging lists cannot be specified",
    );
    check(pod(json!({"containers": [{"name": "c", "$patch": 5}]})), "must be `delete` or `replace`");
    check(pod(json!({"$setElementOrder/containers": 5})), "must be a list");
    check(pod(json!({"$setElementOrder": []})), "`$setElementOrder/<field>`");
    check(
        pod(json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]})),
        "does not match",
    );
    check(json!({"$deleteFromPrimitiveList": []}), "`$deleteFromPrimitiveList/<field>`");
    check(json!({"metadata": {"finalizers": [["x"]]}}), "list of lists");
}

#[test]
fn strategic_lists_of_ten_thousand_items_merge_in_time() {
    let schema = crate::builtin::schema("", "v1", "Pod").unwrap();
    let env = |from: usize, to: usize| -> Vec<Value> {
        (from..to).map(|n| json!({"name": format!("E{n}"), "value": "x"})).collect()
    };
    let pod = |env: Vec<Value>| json!({"spec": {"containers": [{"name": "c", "env": env}]}});
    let found = strategic_merge_patch(&schema, &pod(env(0, 10_000)), &pod(env(5_000, 15_000))).unwrap();
    assert_eq!(found.pointer("/spec/containers/0/env").unwrap().as_array().unwrap().len(), 15_000);
}
