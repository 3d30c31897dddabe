//! What holds for every sequence of applies and updates.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{at, gadget, manager};
use crate::fields::{Path, PathElement, field_set};
use crate::managed::{Operation, track_update};
use crate::merge::{ApplyError, server_side_apply};

type Member = Option<(String, Value)>;

/// An optional member of an object.
fn maybe(name: &'static str, value: impl Strategy<Value = Value>) -> impl Strategy<Value = Member> {
    prop::option::of(value.prop_map(move |value| (name.to_owned(), value)))
}

fn words(count: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set("[a-d]", 1..=count)
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", "[x-y]", 1..3).prop_map(|map| json!(map))
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (maybe("name", "[x-y]".prop_map(Value::from)), maybe("hosts", words(2).prop_map(Value::from)));
    prop::collection::btree_map(0..4u8, port, 1..3).prop_map(|ports| {
        let item = |(port, (name, hosts)): (u8, (Member, Member))| {
            let fields = [Some(("port".to_owned(), json!(port))), name, hosts];
            Value::Object(fields.into_iter().flatten().collect())
        };
        Value::Array(ports.into_iter().map(item).collect())
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let inner = (maybe("a", "[x-y]".prop_map(Value::from)), maybe("b", "[x-y]".prop_map(Value::from)))
        .prop_filter_map("empty", |(a, b)| {
            let map: Map<String, Value> = [a, b].into_iter().flatten().collect();
            (!map.is_empty()).then(|| json!({ "inner": map }))
        });
    (
        maybe("size", (0..2i64).prop_map(Value::from)),
        maybe("mode", "[x-y]".prop_map(Value::from)),
        maybe("labels", labels()),
        maybe("tags", words(3).prop_map(Value::from)),
        maybe("steps", words(2).prop_map(Value::from)),
        maybe("ports", ports()),
        maybe("nested", inner),
        maybe("free", labels().prop_map(|map| json!({"m": map, "l": [1]}))),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| {
            Value::Object([a, b, c, d, e, f, g, h].into_iter().flatten().collect())
        })
}

fn config(spec: &Value) -> Value {
    let spec = if spec.as_object().is_some_and(Map::is_empty) { None } else { Some(spec) };
    let mut out = json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}});
    if let Some(spec) = spec {
        out["spec"] = spec.clone();
    }
    out
}

fn apply(
    live: Option<&Value>,
    name: &str,
    spec: &Value,
    force: bool,
    second: i64,
) -> Result<Value, ApplyError> {
    let mut lent = live.cloned();
    let writer = manager(name, Operation::Apply);
    let merged = server_side_apply(&gadget(), lent.as_mut(), &config(spec), &writer, force, at(second));
    assert_eq!(lent.as_ref(), live, "what was lent is given back as it was");
    merged
}

fn forced(live: Option<&Value>, name: &str, spec: &Value, second: i64) -> Value {
    apply(live, name, spec, true, second).unwrap()
}

/// The value at a path of the gadget.
fn find<'a>(value: &'a Value, path: &[PathElement]) -> Option<&'a Value> {
    let Some((first, rest)) = path.split_first() else { return Some(value) };
    let next = match first {
        PathElement::Field(name) => value.get(name)?,
        PathElement::Value(wanted) => value.as_array()?.iter().find(|item| *item == wanted)?,
        PathElement::Key(fields) => value.as_array()?.iter().find(|item| {
            fields.iter().all(|(name, wanted)| item.get(name).unwrap_or(&json!("TCP")) == wanted)
        })?,
        PathElement::Index(_) => return None,
    };
    find(next, rest)
}

/// The object without what the server adds.
fn bare(object: &Value) -> Value {
    let mut out = object.clone();
    out["metadata"].as_object_mut().unwrap().remove("managedFields");
    out
}

/// The same, with sets and keyed lists sorted, because removing and adding may reorder them.
fn sorted(object: &Value) -> Value {
    let mut out = bare(object);
    for list in ["/spec/tags", "/spec/ports"] {
        if let Some(Value::Array(items)) = out.pointer_mut(list) {
            items.sort_by(crate::fields::compare_values);
        }
    }
    if let Some(Value::Array(ports)) = out.pointer_mut("/spec/ports") {
        for hosts in ports.iter_mut().filter_map(|port| port["hosts"].as_array_mut()) {
            hosts.sort_by(crate::fields::compare_values);
        }
        ports.iter_mut().for_each(|port| {
            if port["hosts"].is_null() {
                port.as_object_mut().unwrap().remove("hosts");
            }
        });
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn applying_twice_is_applying_once(a in spec(), b in spec()) {
        let live = forced(None, "b", &b, 0);
        let once = forced(Some(&live), "a", &a, 1);
        let twice = forced(Some(&once), "a", &a, 2);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn after_an_apply_every_applied_leaf_is_there(a in spec(), b in spec(), c in spec()) {
        let live = forced(None, "b", &b, 0);
        let live = forced(Some(&live), "a", &c, 1);
        let live = forced(Some(&live), "a", &a, 2);
        let wanted = config(&a);
        for Path(path) in field_set(&gadget(), &wanted).leaves().paths() {
            prop_assert_eq!(find(&live, &path), find(&wanted, &path), "{:?}", path);
        }
    }

    #[test]
    fn what_a_manager_added_goes_when_it_stops(a in spec(), b in spec()) {
        let live = forced(None, "b", &b, 0);
        // Without force, so that nothing of b is overwritten.
        if let Ok(both) = apply(Some(&live), "a", &a, false, 1) {
            let back = forced(Some(&both), "a", &json!({}), 2);
            prop_assert_eq!(sorted(&back), sorted(&live));
            prop_assert_eq!(&back["metadata"]["managedFields"], &live["metadata"]["managedFields"]);
        }
    }

    #[test]
    fn a_refused_apply_conflicts_only_on_owned_fields(a in spec(), b in spec()) {
        let live = forced(None, "b", &b, 0);
        if let Err(ApplyError::Conflicts(list)) = apply(Some(&live), "a", &a, false, 1) {
            prop_assert!(!list.is_empty());
            let owned = field_set(&gadget(), &config(&b));
            for conflict in list {
                prop_assert!(owned.has(&conflict.path), "{}", conflict.field);
                prop_assert_eq!(conflict.manager, "b");
            }
        }
    }

    #[test]
    fn every_field_has_an_owner_after_tracked_writes(a in spec(), b in spec(), c in spec()) {
        let schema = gadget();
        let mut live = config(&a);
        track_update(&schema, None, &mut live, &manager("u", Operation::Update), at(0));
        let live = forced(Some(&live), "b", &b, 1);
        let mut next = live.clone();
        next["spec"] = c;
        track_update(&schema, Some(&live), &mut next, &manager("v", Operation::Update), at(2));
        let mut owned = crate::fields::Set::new();
        for entry in next["metadata"]["managedFields"].as_array().into_iter().flatten() {
            owned = owned.union(&crate::fields::Set::from_fields(&entry["fieldsV1"]).unwrap());
        }
        let present = field_set(&schema, &bare(&next));
        for path in present.leaves().paths() {
            let server = matches!(path.0.as_slice(), [PathElement::Field(name)] if name == "apiVersion" || name == "kind")
                || matches!(path.0.as_slice(), [PathElement::Field(a), PathElement::Field(b)] if a == "metadata" && b == "name");
            prop_assert!(server || owned.has(&path), "{} in {}", path, next);
        }
        // And nothing is owned that is not there.
        prop_assert!(owned.leaves().paths().iter().all(|path| find(&next, &path.0).is_some()));
    }
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z.:{}\"]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let name = prop_oneof![
            Just("spec".to_owned()),
            Just("metadata".to_owned()),
            Just("managedFields".to_owned()),
            Just("tags".to_owned()),
            Just("ports".to_owned()),
            Just("port".to_owned()),
            Just("$patch".to_owned()),
            Just("$retainKeys".to_owned()),
            Just("$setElementOrder/ports".to_owned()),
            Just("$deleteFromPrimitiveList/tags".to_owned()),
            "[a-z]{1,3}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn hostile_json_never_panics(live in arbitrary_json(), other in arbitrary_json(), fields in arbitrary_json()) {
        let schema = gadget();
        let writer = manager("a", Operation::Apply);
        let mut applied = other.clone();
        if let Some(map) = applied.as_object_mut() {
            map.insert("apiVersion".to_owned(), json!("v1"));
        }
        let mut stored = live.clone();
        if let Some(map) = stored.as_object_mut() {
            let entry = json!({"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
            map.insert("metadata".to_owned(), json!({"managedFields": [entry]}));
        }
        for schema in [&schema, &crate::schema::Schema::untyped()] {
            for base in [&live, &stored] {
                let _ = server_side_apply(schema, Some(&mut base.clone()), &applied, &writer, true, at(0));
                let mut new = other.clone();
                track_update(schema, Some(base), &mut new, &writer, at(0));
                let _ = crate::patch::strategic_merge_patch(schema, base, &other);
                let _ = crate::patch::merge_patch(base, &other);
                let _ = crate::patch::json_patch(base, &other);
            }
        }
    }
}
