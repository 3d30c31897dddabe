//! The merge cases of structured-merge-diff (Apache-2.0), whose behaviour kube-apiserver has, as data.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{at, manager};
use crate::fields::Set;
use crate::managed::{Managers, Operation, clear};
use crate::merge::{Apply, ApplyError, verify};
use crate::schema::{Additional, ListType, MapType, Schema, SchemaType};

/// Types nest and some refer to themselves, so they are unrolled this far.
const UNROLL: usize = 14;

fn resolve(types: &Value, ty: &Value, depth: usize) -> Schema {
    if depth > UNROLL {
        return Schema { preserve_unknown: true, ..Schema::default() };
    }
    if let Some(name) = ty.get("named").and_then(Value::as_str) {
        if name == "__untyped_deduced_" || name == "__untyped_atomic_" {
            let mut schema = Schema { preserve_unknown: true, ..Schema::default() };
            if name == "__untyped_atomic_" {
                schema.map_type = Some(MapType::Atomic);
            }
            return schema;
        }
        let mut schema = resolve(types, &types[name], depth + 1);
        match ty.get("override").and_then(Value::as_str) {
            Some("atomic") if schema.ty == Some(SchemaType::Array) => {
                schema.list_type = Some(ListType::Atomic)
            }
            Some("atomic") => schema.map_type = Some(MapType::Atomic),
            Some("separable") => schema.map_type = Some(MapType::Granular),
            Some("associative") => {
                schema.list_type =
                    Some(if schema.list_map_keys.is_empty() { ListType::Set } else { ListType::Map });
            }
            _ => {}
        }
        schema.default = ty.get("default").cloned();
        return schema;
    }
    // These cases are about merging alone, and some use null as a value.
    let mut schema = Schema { default: ty.get("default").cloned(), nullable: true, ..Schema::default() };
    if let Some(list) = ty.get("list") {
        read_list(types, list, &mut schema, depth);
    }
    if let Some(map) = ty.get("map") {
        read_map(types, map, &mut schema, depth);
    }
    let forms = ["list", "map", "scalar"].map(|form| ty.get(form).is_some());
    schema.ty = match (forms, ty.get("scalar").and_then(Value::as_str)) {
        ([true, false, false], _) => Some(SchemaType::Array),
        ([false, true, false], _) => Some(SchemaType::Object),
        ([false, false, true], Some("numeric")) => Some(SchemaType::Number),
        ([false, false, true], Some("boolean")) => Some(SchemaType::Boolean),
        ([false, false, true], Some("string")) => Some(SchemaType::String),
        ([false, false, true], _) => {
            schema.format = Some("int-or-string".to_owned());
            Some(SchemaType::String)
        }
        _ => None,
    };
    schema
}

fn read_list(types: &Value, list: &Value, schema: &mut Schema, depth: usize) {
    let keys = list["keys"].as_array().cloned().unwrap_or_default();
    schema.list_map_keys = keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    schema.list_type = Some(match (list["relationship"].as_str(), keys.is_empty()) {
        (Some("associative"), true) => ListType::Set,
        (Some("associative"), false) => ListType::Map,
        _ => ListType::Atomic,
    });
    schema.items = Some(resolve(types, &list["element"], depth + 1).into());
}

fn read_map(types: &Value, map: &Value, schema: &mut Schema, depth: usize) {
    if map["relationship"] == "atomic" {
        schema.map_type = Some(MapType::Atomic);
    }
    for (name, ty) in map["fields"].as_object().unwrap() {
        schema.properties.insert(name.clone(), resolve(types, ty, depth + 1).into());
    }
    if map["element"].as_object().is_some_and(|element| !element.is_empty()) {
        schema.additional = Additional::Schema(resolve(types, &map["element"], depth + 1).into());
    }
}

struct State {
    schema: Schema,
    live: Value,
    managers: Managers,
}

impl State {
    fn step(&mut self, op: &Value) -> Result<(), ApplyError> {
        let version = op["version"].as_str().unwrap();
        let mut writer = manager(op["manager"].as_str().unwrap(), Operation::Update);
        writer.api_version = version;
        self.managers.reconcile(&self.schema);
        if op["op"] == "update" {
            let mut object = op["object"].clone();
            clear(&mut object);
            self.managers.update(&self.schema, Some(&self.live), &object, &writer, at(0));
            self.live = object;
            return Ok(());
        }
        verify::verify(&self.schema, &op["object"]).map_err(ApplyError::Invalid)?;
        let apply = Apply {
            schema: &self.schema,
            base: &self.live,
            applied: &op["object"],
            manager: &writer,
            now: at(0),
        };
        let (object, managers) = apply.run(self.managers.clone(), op["op"] == "force")?;
        self.live = object;
        self.managers = managers;
        Ok(())
    }

    fn owned(&self) -> BTreeMap<String, Value> {
        let mut out: BTreeMap<String, Set> = BTreeMap::new();
        for (identity, owned) in &self.managers.entries {
            assert!(!owned.set.is_empty());
            let entry = out.entry(identity.manager.clone()).or_default();
            *entry = entry.union(&owned.set);
        }
        out.into_iter().map(|(name, set)| (name, set.to_fields())).collect()
    }
}

fn run_ops(state: &mut State, case: &Value, root: &Value) -> Result<(), String> {
    for (index, op) in case["ops"].as_array().unwrap().iter().enumerate() {
        if op["op"] == "schema" {
            state.schema = resolve(&op["types"], root, 0);
            continue;
        }
        let outcome = state.step(op);
        let Some(expected) = op.get("conflicts").and_then(Value::as_array) else {
            outcome.map_err(|error| format!("operation {index}: {error}"))?;
            continue;
        };
        let mut expected: Vec<(String, String)> = expected
            .iter()
            .map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned()))
            .collect();
        expected.sort();
        let mut found: Vec<(String, String)> = match outcome {
            Ok(()) => Vec::new(),
            Err(ApplyError::Conflicts(list)) => list.into_iter().map(|c| (c.manager, c.field)).collect(),
            Err(other) => return Err(format!("operation {index}: {other}")),
        };
        found.sort();
        if found != expected {
            return Err(format!("operation {index}: expected conflicts {expected:?}, found {found:?}"));
        }
    }
    Ok(())
}

fn check(case: &Value, schemas: &Value) -> Result<(), String> {
    let description = &schemas[case["schema"].as_u64().unwrap() as usize];
    let (types, root) = (&description["types"], &description["root"]);
    let mut state =
        State { schema: resolve(types, root, 0), live: Value::Null, managers: Managers::default() };
    let outcome = run_ops(&mut state, case, root);
    if case.get("fails").is_some() {
        return if outcome.is_err() { Ok(()) } else { Err("expected a failure".to_owned()) };
    }
    outcome?;
    if let Some(expected) = case.get("object").filter(|expected| **expected != state.live) {
        return Err(format!("expected object {expected}, found {}", state.live));
    }
    if let Some(expected) = case.get("managed").and_then(Value::as_object) {
        let expected: BTreeMap<String, Value> = expected
            .iter()
            .map(|(name, owned)| (name.clone(), Set::from_fields(&owned["fields"]).unwrap().to_fields()))
            .collect();
        if state.owned() != expected {
            return Err(format!("expected owners {expected:#?}, found {:#?}", state.owned()));
        }
    }
    Ok(())
}

#[test]
fn the_cases_of_structured_merge_diff_hold() {
    let data: Value = serde_json::from_str(include_str!("structured_merge.json")).unwrap();
    let cases = data["cases"].as_array().unwrap();
    let mut failures = Vec::new();
    for case in cases {
        if let Err(problem) = check(case, &data["schemas"]) {
            failures.push(format!("{}: {problem}\n{case}", case["where"]));
        }
    }
    assert!(cases.len() >= 90, "only {} cases", cases.len());
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}
