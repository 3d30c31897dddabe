use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What Go wrote for the same objects: name, protobuf in base64, JSON. The objects cover each special form, pointers to
/// zero, lists of numbers, inlined fields and maps.
const FIXTURES: &str = include_str!("fixtures.tsv");

/// Go's JSON has `{}` for a struct that is not a pointer and empty, though its tag says to leave it out. These are the
/// fields of the fixtures where it does.
const EMPTY_STRUCTS: &[&str] =
    &["spec", "status", "strategy", "resources", "loadBalancer", "metadata", "source", "deprecatedSource"];

fn fixtures() -> impl Iterator<Item = (&'static str, Vec<u8>, Value)> {
    FIXTURES.lines().map(|line| {
        let [name, bytes, json] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        (name, STANDARD.decode(bytes).unwrap(), serde_json::from_str(json).unwrap())
    })
}

/// Drops from Go's JSON what says nothing: nulls and empty structs. A pointer to an empty struct does say something.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if key != "subresources" {
                    normalize(value);
                }
            }
            map.retain(|key, value| {
                let empty = EMPTY_STRUCTS.contains(&key.as_str()) && *value == json!({});
                let zero =
                    (key == "targetPort" && *value == json!(0)) || (key == "divisor" && *value == json!("0"));
                !value.is_null() && !empty && !zero
            });
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

#[track_caller]
fn check(name: &str, bytes: &[u8], mut expected: Value) {
    let read = decode(bytes).unwrap();
    normalize(&mut expected);
    assert_eq!(read, expected, "{name}\nread {read:#}\nwant {expected:#}");
}

fn block(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 128 {
        out.push(u8::try_from(length & 127).unwrap() | 128);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(bytes);
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [block(1, api_version.as_bytes()), block(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), block(1, &meta), block(2, raw), block(3, b""), block(4, b"")].concat()
}

fn problem(bytes: &[u8]) -> String {
    decode(bytes).unwrap_err().to_string()
}

#[test]
fn objects_read_as_go_writes_them_in_json() {
    for (name, bytes, expected) in fixtures() {
        check(name, &bytes, expected);
    }
    assert!(fixtures().count() >= 19);
}

#[test]
fn zeros_are_kept_where_go_has_pointers_and_dropped_elsewhere() {
    let read = |wanted: &str| {
        let (_, bytes, _) = fixtures().find(|(name, ..)| *name == wanted).unwrap();
        decode(&bytes).unwrap()
    };
    assert_eq!(
        read("namespace"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    );
    let spec = read("deployment")["spec"].take();
    assert_eq!(spec["replicas"], 0);
    assert_eq!(spec.get("paused"), None);
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], 0);
    assert_eq!(spec["template"]["spec"]["volumes"][0], json!({"name": "tmp", "emptyDir": {}}));
    let plain = read("deployment-plain");
    assert_eq!(plain["spec"].get("replicas"), None);
    assert_eq!(plain["spec"].get("strategy"), None);
    assert_eq!(plain.get("status"), None);
    assert_eq!(plain["spec"]["template"]["spec"], json!({"containers": [{"name": "web", "image": "nginx"}]}));
    let ports = read("service")["spec"]["ports"].take();
    assert_eq!(ports[2], json!({"name": "c", "port": 82}));
    // Required in Go, so JSON has it even when it is empty.
    assert_eq!(
        read("clusterrolebinding")["roleRef"],
        json!({"apiGroup": "", "kind": "ClusterRole", "name": "admin"})
    );
}

#[test]
fn every_built_in_kind_is_in_the_table_and_every_type_it_names() {
    for kind in crate::builtin::KINDS {
        let read = decode(&body(&kind.api_version(), kind.kind, b"")).unwrap();
        assert_eq!((&read["apiVersion"], &read["kind"]), (&json!(kind.api_version()), &json!(kind.kind)));
    }
    assert!(table::MESSAGES.len() > 300);
    for name in table::KINDS.values() {
        assert!(table::message(name).is_some(), "{name}");
    }
    for (name, message) in table::MESSAGES.iter() {
        assert!(message.fields().is_sorted_by_key(|field| field.number), "{name}");
        for field in message.fields() {
            if let Kind::Message(other) = field.kind {
                assert!(table::message(other).is_some(), "{name}.{} is a {other}", field.name);
            }
        }
    }
}

#[test]
fn fields_have_the_names_of_the_schemas() {
    for kind in crate::builtin::KINDS {
        let schema = kind.schema();
        for field in table::kind(&kind.api_version(), kind.kind).unwrap().fields() {
            assert!(schema.properties.contains_key(field.name), "{}.{}", kind.kind, field.name);
        }
    }
}

#[test]
fn kinds_that_are_not_built_in_are_refused() {
    for (api_version, kind) in [
        ("example.com/v1", "Widget"),
        ("apps.example.com/v1", "Deployment"),
        ("apps/v2", "Deployment"),
        ("v1", "Deployment"),
        ("v1", "NamespaceSpec"),
        ("", ""),
    ] {
        let error = decode(&body(api_version, kind, b"")).unwrap_err();
        assert_eq!(error, ProtobufError::Unknown(format!("{api_version} {kind}").trim().to_owned()));
    }
    assert!(matches!(decode(MAGIC), Err(ProtobufError::Unknown(_))));
    let long = decode(&body(&"é".repeat(10_000), "X", b"")).unwrap_err();
    assert_eq!(long, ProtobufError::Unknown("é".repeat(SHOWN)));
    let packed = [body("v1", "Namespace", b""), block(3, b"gzip")].concat();
    assert_eq!(decode(&packed), Err(ProtobufError::Unknown("gzip".to_owned())));
    let json = [body("v1", "Namespace", b""), block(4, b"application/json")].concat();
    assert!(matches!(decode(&json), Err(ProtobufError::Unknown(_))));
}

#[test]
fn the_options_of_a_delete_come_in_any_group() {
    for api_version in ["v1", "apps/v1", "meta.k8s.io/v1", "example.com/v1"] {
        let read = decode(&body(api_version, "DeleteOptions", &[8, 0])).unwrap();
        assert_eq!(
            read,
            json!({"apiVersion": api_version, "kind": "DeleteOptions", "gracePeriodSeconds": 0})
        );
    }
}

#[test]
fn errors_say_which_field_is_wrong() {
    let namespace = |raw: &[u8]| problem(&body("v1", "Namespace", raw));
    for (read, expected) in [
        (problem(b"{}"), "it does not start with the bytes `k8s` and zero"),
        (problem(b"k8s\0\x0a\x05"), "it is cut off"),
        (namespace(&block(1, &[8, 1])), "`metadata.name`: the field is not text, bytes or a message"),
        (namespace(&block(1, &block(1, &[0xff]))), "`metadata.name`: the text is not UTF-8"),
        (namespace(&block(1, &block(7, b"x"))), "`metadata.generation`: the field is not a number"),
        (namespace(&block(1, &[10, 9, 65])), "`metadata`: it is cut off"),
        (namespace(&[0xff; 32]), "a number is too long"),
        (namespace(&[0x0b]), "a field has an unknown wire type"),
        (namespace(&[0x02, 0x00]), "a field number is out of range"),
        (
            namespace(&block(1, &block(8, &[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]))),
            "`metadata.creationTimestamp`: the time must be in the years 1 to 9999 with less than a second of nanoseconds",
        ),
        (
            problem(&body("v1", "Service", &block(2, &block(1, &block(4, &[8, 2]))))),
            "`spec.ports.targetPort`: the type must be 0 for a number or 1 for text",
        ),
        (
            problem(&body("apps/v1", "ControllerRevision", &block(2, &block(1, b"{")))),
            "`data`: the embedded JSON is not valid",
        ),
    ] {
        assert_eq!(read, format!("the body is not valid protobuf: {expected}"));
    }
}

#[test]
fn unknown_fields_are_passed_over_and_lists_of_numbers_may_be_packed() {
    let raw = [block(15, b"new"), vec![0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4, 0x78, 5]].concat();
    assert_eq!(decode(&body("v1", "Secret", &raw)).unwrap(), json!({"apiVersion": "v1", "kind": "Secret"}));
    let context = |groups: &[u8]| body("v1", "Pod", &block(2, &block(14, groups)));
    for groups in [&block(4, &[1, 0, 0xac, 2])[..], &[32, 1, 32, 0, 32, 0xac, 2]] {
        let read = decode(&context(groups)).unwrap();
        assert_eq!(read["spec"]["securityContext"], json!({"supplementalGroups": [1, 0, 300]}));
    }
}

#[test]
fn depth_bombs_end_in_an_error() {
    let nested = |levels: usize| {
        // JSONSchemaProps.not is a JSONSchemaProps: field 28, whose tag takes two bytes.
        let schema = (0..levels).fold(Vec::new(), |schema, _| {
            let untagged = block(1, &schema).split_off(1);
            [vec![0xe2, 0x01], untagged].concat()
        });
        let spec = block(7, &block(4, &block(1, &schema)));
        decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &block(2, &spec)))
    };
    for levels in [1, 10, 50] {
        let read = nested(levels).unwrap();
        let schema = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema.pointer(&"/not".repeat(levels)).is_some(), "{levels}");
        assert!(schema.pointer(&"/not".repeat(levels + 1)).is_none(), "{levels}");
    }
    for levels in [70, 1000, 4000] {
        assert!(nested(levels).unwrap_err().to_string().ends_with("it nests too deeply"), "{levels}");
    }
    let data = |open: usize, closed: usize| {
        let json = "[".repeat(open) + &"]".repeat(closed);
        decode(&body("apps/v1", "ControllerRevision", &block(2, &block(1, json.as_bytes()))))
    };
    assert!(data(127, 127).is_ok());
    assert!(data(128, 128).is_err());
    assert!(data(100_000, 0).is_err());
}

#[test]
fn numbers_as_go_writes_them() {
    for (double, expected) in
        [(0.0, "0"), (-0.0, "0"), (3.0, "3"), (-2.0, "-2"), (1.5, "1.5"), (0.1, "0.1"), (1e300, "1e300")]
    {
        assert_eq!(number(double).unwrap().to_string().replace('+', ""), expected);
    }
    assert!(number(f64::NAN).is_err());
    assert!(number(f64::INFINITY).is_err());
}

#[test]
fn lengths_of_time_as_go_writes_them() {
    for (nanoseconds, expected) in [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (1_000_000_000, "1s"),
        (-1_500_000_000, "-1.5s"),
        (60_000_000_000, "1m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (5_025_000_000_001, "1h23m45.000000001s"),
        (i64::MAX, "2562047h47m16.854775807s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(special::duration(nanoseconds), expected);
    }
    assert_eq!(Special::Duration.read(&[8, 1]).unwrap(), "1ns");
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(raw in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..table::KINDS.len()) {
        let _ = decode(&raw);
        let _ = decode(&[MAGIC, &raw].concat());
        let (api_version, kind) = table::KINDS.keys().nth(kind).unwrap().split_once(' ').unwrap();
        if let Ok(read) = decode(&body(api_version, kind, &raw)) {
            prop_assert_eq!(&read["kind"], kind);
        }
    }

    #[test]
    fn damaged_objects_get_an_answer(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..8),
    ) {
        let all: Vec<_> = fixtures().collect();
        let (_, mut bytes, _) = which.get(&all).clone();
        for (at, byte, edit) in edits {
            let at = at.index(bytes.len().max(1)).min(bytes.len());
            match edit {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 if at < bytes.len() => { bytes.remove(at); }
                _ => bytes.truncate(at.max(bytes.len() / 2)),
            }
        }
        match decode(&bytes) {
            // Whatever comes out is JSON that can be written and read again.
            Ok(read) => {
                let text = serde_json::to_string(&read).unwrap();
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), read);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
