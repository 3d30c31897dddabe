//! Tables for every message, and properties that hold for any schema and any object.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The schema of a custom resource whose `spec` is the given one.
fn schema_of(spec: Value) -> Schema {
    let root = json!({"type": "object", "properties": {"spec": spec}});
    Schema::from_openapi(&root).unwrap_or_else(|problems| panic!("not structural: {problems:?}"))
}

/// The error lines for an object with this `spec`.
fn errors(schema: &Schema, spec: Value, old: Option<Value>) -> Vec<String> {
    let object = json!({"spec": spec});
    let old = old.map(|spec| json!({"spec": spec}));
    validate(schema, &object, old.as_ref()).iter().map(ToString::to_string).collect()
}

/// One field `x` of the given schema: which value gives which error lines.
fn check(field: Value, value: Value, expected: &[&str]) {
    let schema = schema_of(json!({"type": "object", "properties": {"x": field.clone()}}));
    assert_eq!(errors(&schema, json!({"x": value.clone()}), None), expected, "{field} over {value}");
}

#[test]
fn numbers_and_flags_are_refused_in_the_words_of_kubernetes() {
    let integer = |more: Value| merged(json!({"type": "integer"}), more);
    let table: Vec<(Value, Value, &[&str])> = vec![
        (
            integer(json!({})),
            json!("a"),
            &[r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#],
        ),
        (
            integer(json!({})),
            json!(1.5),
            &[
                r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
                r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
            ],
        ),
        (integer(json!({})), json!(2.0), &[]),
        (
            json!({"type": "boolean"}),
            json!({}),
            &[r#"spec.x: Invalid value: "object": spec.x in body must be of type boolean: "object""#],
        ),
        (json!({"type": "number"}), json!(1), &[]),
        (
            integer(json!({"minimum": 1})),
            json!(0),
            &["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
        ),
        (
            integer(json!({"minimum": 1, "exclusiveMinimum": true})),
            json!(1),
            &["spec.x: Invalid value: 1: spec.x in body should be greater than 1"],
        ),
        (
            integer(json!({"maximum": 9})),
            json!(10),
            &["spec.x: Invalid value: 10: spec.x in body should be less than or equal to 9"],
        ),
        (
            integer(json!({"maximum": 9, "exclusiveMaximum": true})),
            json!(9),
            &["spec.x: Invalid value: 9: spec.x in body should be less than 9"],
        ),
        (
            integer(json!({"multipleOf": 5})),
            json!(7),
            &["spec.x: Invalid value: 7: spec.x in body should be a multiple of 5"],
        ),
        (json!({"type": "number", "multipleOf": 0.01}), json!(0.07), &[]),
        (
            integer(json!({"enum": [1, 2]})),
            json!(3),
            &[r#"spec.x: Unsupported value: 3: supported values: "1", "2""#],
        ),
    ];
    for (field, value, expected) in table {
        check(field, value, expected);
    }
}

#[test]
fn strings_are_refused_in_the_words_of_kubernetes() {
    let string = |more: Value| merged(json!({"type": "string"}), more);
    let table: Vec<(Value, Value, &[&str])> = vec![
        (
            string(json!({})),
            json!(null),
            &[r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#],
        ),
        (string(json!({"nullable": true})), json!(null), &[]),
        (
            string(json!({"minLength": 2})),
            json!("é"),
            &[r#"spec.x: Invalid value: "é": spec.x in body should be at least 2 chars long"#],
        ),
        (string(json!({"maxLength": 2})), json!("abc"), &["spec.x: Too long: may not be more than 2 bytes"]),
        (string(json!({"maxLength": 2})), json!("éé"), &[]),
        (
            string(json!({"pattern": "^[a-z]+$"})),
            json!("A\n"),
            &[r#"spec.x: Invalid value: "A\n": spec.x in body should match '^[a-z]+$'"#],
        ),
        (
            string(json!({"enum": ["a", "b"]})),
            json!("c"),
            &[r#"spec.x: Unsupported value: "c": supported values: "a", "b""#],
        ),
    ];
    for (field, value, expected) in table {
        check(field, value, expected);
    }
}

#[test]
fn lists_and_maps_are_refused_in_the_words_of_kubernetes() {
    let list = |more: Value| merged(json!({"type": "array", "items": {"type": "string"}}), more);
    let map =
        |more: Value| merged(json!({"type": "object", "additionalProperties": {"type": "string"}}), more);
    let table: Vec<(Value, Value, &[&str])> = vec![
        (
            list(json!({"minItems": 1})),
            json!([]),
            &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
        ),
        (list(json!({"maxItems": 1})), json!(["a", "b"]), &["spec.x: Too many: 2: must have at most 1 item"]),
        (
            list(json!({})),
            json!(["a", 1]),
            &[r#"spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer""#],
        ),
        (
            list(json!({"x-kubernetes-list-type": "set"})),
            json!(["a", "b", "a"]),
            &[r#"spec.x[2]: Duplicate value: "a""#],
        ),
        (
            map(json!({"minProperties": 1})),
            json!({}),
            &["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"],
        ),
        (
            map(json!({"maxProperties": 1})),
            json!({"a": "1", "b": "2"}),
            &["spec.x: Too many: 2: must have at most 1 item"],
        ),
        (
            map(json!({})),
            json!({"k": 1}),
            &[r#"spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer""#],
        ),
        (json!({"x-kubernetes-int-or-string": true}), json!("25%"), &[]),
        (json!({"x-kubernetes-int-or-string": true}), json!(3), &[]),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            &[
                r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
            ],
        ),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([{"anything": null}]), &[]),
    ];
    for (field, value, expected) in table {
        check(field, value, expected);
    }
}

fn merged(mut base: Value, more: Value) -> Value {
    let more = more.as_object().cloned().unwrap_or_default();
    base.as_object_mut().unwrap().extend(more);
    base
}

#[test]
fn lists_of_type_map_refuse_equal_keys() {
    let field = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}}});
    check(
        field.clone(),
        json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]),
        &[r#"spec.x[1]: Duplicate value: {"name":"a"}"#],
    );
    check(field.clone(), json!([{"name": "a"}, {"name": "b"}]), &[]);
    check(field, json!([{"v": 1}]), &["spec.x[0].name: Required value"]);
}

#[test]
fn alternatives_say_what_was_expected() {
    let spec = |junctor: Value| {
        merged(
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
            junctor,
        )
    };
    let one = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let table: Vec<(Value, Value, &[&str])> = vec![
        (one.clone(), json!({"a": 1}), &[]),
        (
            one.clone(),
            json!({}),
            &[
                r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.x.a: Required value",
            ],
        ),
        (
            one,
            json!({"a": 1, "b": 2}),
            &[
                r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            &[
                r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
                "spec.x.a: Required value",
            ],
        ),
        (json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}), json!({"a": 1, "b": 1}), &[]),
        (
            json!({"allOf": [{"required": ["a"]}]}),
            json!({}),
            &[
                "spec.x.a: Required value",
                r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated"#,
            ],
        ),
        (
            json!({"not": {"required": ["a"]}}),
            json!({"a": 1}),
            &[r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#],
        ),
    ];
    for (junctor, value, expected) in table {
        check(spec(junctor), value, expected);
    }
}

#[test]
fn formats_are_checked() {
    let table = [
        ("date-time", "2024-02-29T12:00:00Z", true),
        ("date-time", "2024-02-29T12:00:00.123+02:00", true),
        ("date-time", "2023-02-29T12:00:00Z", false),
        ("date-time", "yesterday", false),
        ("date", "2024-02-29", true),
        ("date", "2024-2-29", false),
        ("duration", "1h30m", true),
        ("duration", "300ms", true),
        ("duration", "2 days", true),
        ("duration", "-1.5h", true),
        ("duration", "soon", false),
        ("duration", "", false),
        ("email", "a@example.com", true),
        ("email", "a.example.com", false),
        ("hostname", "a-b.example.com", true),
        ("hostname", "-a.example.com", false),
        ("ipv4", "10.0.0.1", true),
        ("ipv4", "10.0.0.256", false),
        ("ipv6", "::1", true),
        ("ipv6", "10.0.0.1", false),
        ("cidr", "10.0.0.0/8", true),
        ("cidr", "10.0.0.0/33", false),
        ("mac", "00:1b:44:11:3a:b7", true),
        ("mac", "00:1b:44", false),
        ("uri", "https://example.com/a?b", true),
        ("uri", "/path", true),
        ("uri", "no-scheme", false),
        ("byte", "aGVsbG8=", true),
        ("byte", "%%%", false),
        ("byte", "YQ", false),
        ("date-time", "2024-02-29 12:00:00Z", false),
        ("date-time", "2024-02-29T12:00Z", false),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", true),
        ("uuid4", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", false),
        ("uuid", "6ba7b810", false),
        ("hexcolor", "#ff0000", true),
        ("hexcolor", "#ff00", false),
        ("something-else", "anything", true),
    ];
    for (format, text, valid) in table {
        assert_eq!(format::is_valid(format, text), valid, "{format} {text:?}");
    }
    check(
        json!({"type": "string", "format": "date-time"}),
        json!("x"),
        &[r#"spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x""#],
    );
}

#[test]
fn go_regular_expressions_keep_their_meaning() {
    let table = [
        (r"^\d+$", "12", true),
        (r"^\d+$", "١٢", false),
        (r"^\w+$", "é", false),
        (r"^[\d.]+$", "1.2", true),
        (r"^a{2}$", "aa", true),
        (r"^a{$", "a{", true),
        (r"^[[]$", "[", true),
        (r"^[a&&b]+$", "a&b", true),
        (r"^[[:alpha:]]+$", "abc", true),
        (r"^[^]a]+$", "b", true),
        (r"^\Qa.b\E$", "a.b", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
    ];
    for (pattern, text, matches) in table {
        let regex = go::regex(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        assert_eq!(regex.is_match(text), matches, "{pattern} {text:?}");
    }
    assert!(go::regex("(").is_err());
    assert!(go::regex("(?:a{1000}){1000}").is_err(), "a pattern bomb is refused");
}

#[test]
fn updates_are_ratcheted() {
    let schema = schema_of(json!({"type": "object", "properties": {
        "x": {"type": "string", "maxLength": 1}, "y": {"type": "integer"}}}));
    assert!(errors(&schema, json!({"x": "long", "y": 2}), Some(json!({"x": "long", "y": 1}))).is_empty());
    assert_eq!(
        errors(&schema, json!({"x": "longer"}), Some(json!({"x": "long"}))),
        ["spec.x: Too long: may not be more than 1 bytes".replace("bytes", "byte")]
    );
}

/// Runs one rule on `spec`.
fn rule(rule: Value, spec: Value, old: Option<Value>) -> Vec<String> {
    let schema = schema_of(json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "ratio": {"type": "number"},
        "start": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
        "a-b": {"type": "string"}, "namespace": {"type": "string"}}}));
    errors(&schema, spec, old)
}

fn check_rules(table: Vec<(Value, Value, Option<Value>, &[&str])>) {
    for (given, spec, old, expected) in table {
        assert_eq!(rule(given.clone(), spec.clone(), old), expected, "{given} over {spec}");
    }
}

#[test]
fn rules_hold_or_explain_themselves() {
    let order = json!({"rule": "self.min <= self.max", "message": "min must not exceed max"});
    check_rules(vec![
        (order.clone(), json!({"min": 1, "max": 2}), None, &[]),
        (order.clone(), json!({"min": 3, "max": 2}), None, &["spec: Invalid value: min must not exceed max"]),
        (
            order,
            json!({"min": 3}),
            None,
            &["spec: Invalid value: \"object\": no such key: max evaluating rule: min must not exceed max"],
        ),
        (
            json!({"rule": "self.min > 0"}),
            json!({"min": 0}),
            None,
            &["spec: Invalid value: failed rule: self.min > 0"],
        ),
        (
            json!({"rule": "self.min > 0", "messageExpression": "'min is ' + string(self.min)", "message": "unused"}),
            json!({"min": 0}),
            None,
            &["spec: Invalid value: min is 0"],
        ),
        (
            json!({"rule": "self.min > 0", "messageExpression": "string(self.gone)", "message": "fallback"}),
            json!({"min": 0}),
            None,
            &["spec: Invalid value: fallback"],
        ),
        (
            json!({"rule": "false", "message": "no", "fieldPath": ".min", "reason": "FieldValueForbidden"}),
            json!({}),
            None,
            &["spec.min: Forbidden: no"],
        ),
        (
            json!({"rule": "false", "message": "no", "fieldPath": ".min", "reason": "FieldValueRequired"}),
            json!({}),
            None,
            &["spec.min: Required value: no"],
        ),
    ]);
}

#[test]
fn rules_compare_with_the_old_value() {
    check_rules(vec![
        (json!({"rule": "self.min == oldSelf.min", "message": "immutable"}), json!({"min": 1}), None, &[]),
        (
            json!({"rule": "self.min == oldSelf.min", "message": "immutable"}),
            json!({"min": 2}),
            Some(json!({"min": 1})),
            &["spec: Invalid value: immutable"],
        ),
        (
            json!({"rule": "self == oldSelf", "message": "immutable"}),
            json!({"min": 1}),
            Some(json!({"min": 1})),
            &[],
        ),
        (
            json!({"rule": "oldSelf.hasValue() || self.min == 0", "message": "starts at 0", "optionalOldSelf": true}),
            json!({"min": 1}),
            None,
            &["spec: Invalid value: starts at 0"],
        ),
        (
            json!({"rule": "oldSelf.hasValue() || self.min == 0", "message": "starts at 0", "optionalOldSelf": true}),
            json!({"min": 1}),
            Some(json!({"min": 0})),
            &[],
        ),
    ]);
}

#[test]
fn rules_see_typed_values_and_escaped_names() {
    check_rules(vec![
        (json!({"rule": "self.ratio * 2.0 == 2.0"}), json!({"ratio": 1}), None, &[]),
        (
            json!({"rule": "self.start > timestamp('2024-01-01T00:00:00Z')"}),
            json!({"start": "2024-06-01T00:00:00Z"}),
            None,
            &[],
        ),
        (
            json!({"rule": "self.wait <= duration('1h')"}),
            json!({"wait": "61m"}),
            None,
            &["spec: Invalid value: failed rule: self.wait <= duration('1h')"],
        ),
        (
            json!({"rule": "self.a__dash__b == 'x' && self.__namespace__ == 'y'"}),
            json!({"a-b": "x", "namespace": "y"}),
            None,
            &[],
        ),
    ]);
}

#[test]
fn rules_run_in_lists_and_maps_with_the_right_old_value() {
    let schema = schema_of(json!({"type": "object", "properties": {
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "string"}, "v": {"type": "integer",
                "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "may only grow"}]}}}},
        "map": {"type": "object", "additionalProperties": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self != 13", "message": "unlucky"}]}}}}));
    let old = json!({"list": [{"n": "a", "v": 1}, {"n": "b", "v": 5}]});
    assert!(
        errors(&schema, json!({"list": [{"n": "b", "v": 5}, {"n": "a", "v": 2}]}), Some(old.clone()))
            .is_empty()
    );
    assert_eq!(
        errors(&schema, json!({"list": [{"n": "b", "v": 4}, {"n": "new", "v": 0}]}), Some(old)),
        ["spec.list[0].v: Invalid value: 4: may only grow"]
    );
    assert_eq!(
        errors(&schema, json!({"map": {"a": 1, "b": 13}}), None),
        ["spec.map.b: Invalid value: 13: unlucky"]
    );
}

#[test]
fn rules_wait_for_a_sound_object_and_have_a_budget() {
    let schema = schema_of(json!({"type": "object", "required": ["x"], "properties": {
        "x": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.x.all(a, self.x.all(b, self.x.all(c, a + b + c >= 0)))", "message": "sum"}]}));
    assert_eq!(
        errors(&schema, json!({}), None),
        [
            "spec.x: Required value",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
        ]
    );
    let many: Vec<i64> = (0..1000).collect();
    assert_eq!(
        errors(&schema, json!({"x": many}), None),
        [
            "spec: Invalid value: \"object\": no further validation rules will be run due to call cost exceeds limit for rule: sum"
        ]
    );
}

fn check_problems(table: Vec<(Value, &str)>) {
    for (schema, expected) in table {
        let problems = Schema::from_openapi(&schema).expect_err(&schema.to_string());
        let found = problems.iter().any(|problem| problem.starts_with(expected));
        assert!(found, "{schema}\n  wanted {expected}\n  got {problems:?}");
    }
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    check_problems(vec![
        (json!({}), "type: Required value: must not be empty at the root"),
        (json!({"type": "string"}), r#"type: Invalid value: "string": must be object at the root"#),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            "properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "properties[a].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            "properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
            "properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "text"}}}),
            r#"properties[a].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"minimum": 1}}}]}),
            "properties[a]: Required value: because it is defined in anyOf[0].properties[a]",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "oneOf": [{"type": "string"}]}}}),
            "properties[a].oneOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            r#"properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}}}),
            "properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": true}}}),
            "properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/b"}}}),
            "properties[a].$ref: Forbidden: $ref is not supported",
        ),
    ]);
}

#[test]
fn list_types_and_rules_that_cannot_work_are_refused() {
    check_problems(vec![
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}}),
            "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "heap", "items": {"type": "string"}}}}),
            r#"properties[a].x-kubernetes-list-type: Unsupported value: "heap": supported values: "atomic", "set", "map""#,
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
            "x-kubernetes-validations[0].rule: Invalid value: \"self.(\": compilation failed: ",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "other > 1"}]}),
            "x-kubernetes-validations[0].rule: Invalid value: \"other > 1\": compilation failed: ",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"message": "x"}]}),
            "x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}),
            "properties[a].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within properties[a]",
        ),
    ]);
}

#[test]
fn pruning_keeps_what_is_specified() {
    let schema = schema_of(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"inner": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}}}));
    let mut object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {"l": "v"}, "odd": 1}, "extra": 1,
        "spec": {"known": "k", "unknown": 1, "free": {"any": {"thing": 1}, "inner": {"a": "1", "b": 2}},
            "list": [{"a": "1"}, {"b": 1}], "map": {"k": {"a": "1", "z": 1}},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "bad": 1}, "spec": {}, "other": 1}}});
    let dropped = prune(&schema, &mut object);
    assert_eq!(
        dropped,
        [
            "extra",
            "metadata.odd",
            "spec.free.inner.b",
            "spec.list[1].b",
            "spec.map.k.z",
            "spec.pod.metadata.bad",
            "spec.pod.other",
            "spec.unknown"
        ]
    );
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {"l": "v"}},
            "spec": {"known": "k", "free": {"any": {"thing": 1}, "inner": {"a": "1"}}, "list": [{"a": "1"}, {}], "map": {"k": {"a": "1"}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}}})
    );
}

#[test]
fn defaults_fill_what_is_missing() {
    let schema = schema_of(json!({"type": "object", "default": {}, "properties": {
        "a": {"type": "integer", "default": 1},
        "b": {"type": "string", "nullable": true, "default": "b"},
        "c": {"type": "string"},
        "n": {"type": "object", "properties": {"d": {"type": "boolean", "default": true}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"q": {"type": "integer", "default": 0}}}}}}));
    let table = [
        (json!({}), json!({"spec": {"a": 1, "b": "b"}})),
        (json!({"spec": {"a": null, "b": null, "c": null}}), json!({"spec": {"a": 1, "b": null}})),
        (
            json!({"spec": {"a": 2, "n": {}, "l": [{}, {"p": "UDP"}], "m": {"x": {}}}}),
            json!({"spec": {"a": 2, "b": "b", "n": {"d": true}, "l": [{"p": "TCP"}, {"p": "UDP"}], "m": {"x": {"q": 0}}}}),
        ),
        (
            json!({"metadata": {"creationTimestamp": null}}),
            json!({"metadata": {}, "spec": {"a": 1, "b": "b"}}),
        ),
    ];
    for (mut object, expected) in table {
        apply_defaults(&schema, &mut object);
        assert_eq!(object, expected);
    }
}

#[test]
fn strict_decoding_names_unknown_and_duplicate_fields() {
    let schema = schema_of(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let text =
        br#"{"spec": {"a": "1", "foo": 2, "a": "2"}, "metadata": {"x": 1}, "l": [{"k": 1, "k": 2, "k": 3}]}"#;
    let object: Value = serde_json::from_slice(text).unwrap();
    let unknown = unknown_fields(&schema, &object);
    assert_eq!(unknown, ["l", "metadata.x", "spec.foo"]);
    let duplicate = duplicate_keys(text);
    assert_eq!(duplicate, ["spec.a", "l[0].k"]);
    assert_eq!(
        strict_error(&["spec.foo".to_owned()], &duplicate).as_deref(),
        Some(
            r#"strict decoding error: duplicate field "spec.a", duplicate field "l[0].k", unknown field "spec.foo""#
        )
    );
    assert_eq!(strict_error(&[], &[]), None);
    assert_eq!(duplicate_keys(b"{\"a\": 1, \"a\": "), ["a"]);
    assert!(duplicate_keys("[".repeat(100_000).as_bytes()).is_empty(), "a depth bomb ends");
}

#[test]
fn names_may_be_restricted() {
    let root = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}}});
    let schema = Schema::from_openapi(&root).unwrap();
    let errors = validate(&schema, &json!({"metadata": {"name": "long", "labels": {"a": 1}}}), None);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors.contains(&"metadata.name: Too long: may not be more than 3 bytes".to_owned()),
        "{errors:?}"
    );
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6f64).prop_map(Value::from),
        "[a-d]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]|spec|metadata|kind", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Schemas that are structural by construction, over the names that [`arbitrary_json`] uses.
fn arbitrary_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "a", "maxLength": 2})),
        Just(json!({"type": "integer", "nullable": true, "default": 3})),
        Just(json!({"type": "number", "minimum": 0})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "boolean", "x-kubernetes-validations": [{"rule": "self"}]})),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|item| json!({"type": "object", "additionalProperties": item})),
            (prop::collection::btree_map("[a-d]", inner, 0..4), any::<bool>()).prop_map(|(properties, keep)| {
                json!({"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": keep})
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_json_is_a_schema_or_a_list_of_problems(json in arbitrary_json(), object in arbitrary_json()) {
        if let Ok(schema) = Schema::from_openapi(&json) {
            let mut copy = object.clone();
            prune(&schema, &mut copy);
            apply_defaults(&schema, &mut copy);
            validate(&schema, &copy, Some(&object));
        }
    }

    #[test]
    fn pruning_twice_is_pruning_once(spec in arbitrary_schema(), object in arbitrary_json()) {
        let schema = schema_of(spec);
        let mut once = object;
        prune(&schema, &mut once);
        let mut twice = once.clone();
        prop_assert!(prune(&schema, &mut twice).is_empty());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(spec in arbitrary_schema(), object in arbitrary_json()) {
        let schema = schema_of(spec);
        let mut once = object;
        apply_defaults(&schema, &mut once);
        let mut twice = once.clone();
        apply_defaults(&schema, &mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_unchanged_object_is_never_refused(spec in arbitrary_schema(), object in arbitrary_json()) {
        let schema = schema_of(spec);
        prop_assert!(validate(&schema, &object, Some(&object)).is_empty());
    }

    #[test]
    fn duplicate_keys_never_appear_in_what_we_write(object in arbitrary_json()) {
        prop_assert!(duplicate_keys(object.to_string().as_bytes()).is_empty());
    }

    #[test]
    fn any_text_can_be_scanned(text in ".{0,40}") {
        duplicate_keys(text.as_bytes());
        let _ = go::regex(&text);
        quote(&text);
    }
}
