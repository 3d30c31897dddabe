//! Kubernetes' rules for structural schemas, checked on the JSON of a CRD.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::go;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything about the schema that is not structural, each with its place.
pub(super) fn problems(schema: &Value) -> Vec<String> {
    let mut check = Check { problems: Vec::new() };
    check.node(schema, Level::Root, "");
    check.problems
}

struct Check {
    problems: Vec<String>,
}

const NESTED_FORBIDDEN: [(&str, &str); 10] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

impl Check {
    fn push(&mut self, path: &str, name: &str, message: impl AsRef<str>) {
        self.problems.push(format!("{}: {}", join(path, name), message.as_ref()));
    }

    fn node(&mut self, json: &Value, level: Level, path: &str) {
        let Some(map) = json.as_object() else { return };
        if map.contains_key("$ref") {
            // The rest of the node means nothing beside a reference.
            self.push(path, "$ref", "Forbidden: $ref is not supported");
            return;
        }
        let ty = map.get("type").and_then(Value::as_str).unwrap_or_default();
        self.shape(map, ty, level, path);
        self.metadata(map, level, path);
        self.lists(map, ty, path);
        self.required(map, path);
        self.junctors(map, json, path);
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                self.node(property, Level::Field, &key(&join(path, "properties"), name));
            }
        }
        if let Some(items) = map.get("items") {
            if items.is_array() {
                self.push(path, "items", "Forbidden: items must be a schema object and not an array");
            }
            self.node(items, Level::Item, &join(path, "items"));
        }
        if let Some(additional) = map.get("additionalProperties") {
            self.node(additional, Level::Field, &join(path, "additionalProperties"));
        }
    }

    fn shape(&mut self, map: &Map<String, Value>, ty: &str, level: Level, path: &str) {
        let int_or_string = is(map, "x-kubernetes-int-or-string");
        let preserve = is(map, "x-kubernetes-preserve-unknown-fields");
        let embedded = is(map, "x-kubernetes-embedded-resource");
        if ty == "array" && !map.contains_key("items") {
            self.push(path, "items", "Required value: must be specified");
        }
        if embedded && ty != "object" {
            self.push(
                path,
                "type",
                "Required value: must be object if x-kubernetes-embedded-resource is true",
            );
        } else if ty.is_empty() && !int_or_string && !preserve {
            let whom = match level {
                Level::Root => "at the root",
                Level::Item => "for specified array items",
                Level::Field => "for specified object fields",
            };
            self.push(path, "type", format!("Required value: must not be empty {whom}"));
        }
        if level == Level::Root && !ty.is_empty() && ty != "object" {
            let quoted = go::quote(ty);
            self.push(path, "type", format!("Invalid value: {quoted}: must be object at the root"));
        }
        if int_or_string && preserve {
            self.push(
                path,
                "x-kubernetes-preserve-unknown-fields",
                "Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            );
        }
        let has_properties = map.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
        if embedded && !preserve && !has_properties {
            self.push(path, "properties", "Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields");
        }
        self.additional(map, level, has_properties, path);
        for name in ["definitions", "dependencies", "id", "patternProperties", "additionalItems"] {
            if map.contains_key(name) {
                self.push(path, name, format!("Forbidden: {name} is not supported"));
            }
        }
        if is(map, "uniqueItems") {
            self.push(
                path,
                "uniqueItems",
                "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
    }

    fn additional(&mut self, map: &Map<String, Value>, level: Level, has_properties: bool, path: &str) {
        let name = "additionalProperties";
        let Some(additional) = map.get(name).filter(|a| !a.is_null()) else { return };
        if *additional != json!(false) && has_properties {
            self.push(path, name, "Forbidden: additionalProperties and properties are mutual exclusive");
        }
        if level == Level::Root {
            self.push(path, name, "Forbidden: must not be used at the root");
        }
        if is(map, "x-kubernetes-embedded-resource") {
            self.push(path, name, "Forbidden: must not be used if x-kubernetes-embedded-resource is set");
        }
    }

    fn metadata(&mut self, map: &Map<String, Value>, level: Level, path: &str) {
        if level != Level::Root && !is(map, "x-kubernetes-embedded-resource") {
            return;
        }
        let Some(properties) = map.get("properties").and_then(Value::as_object) else { return };
        let at = join(path, "properties");
        for name in ["kind", "apiVersion"] {
            if let Some(property) = properties.get(name)
                && property.get("type").and_then(Value::as_str) != Some("string")
            {
                let ty = property.get("type").and_then(Value::as_str).unwrap_or_default();
                let message = format!("Invalid value: {}: must be string", go::quote(ty));
                self.push(&key(&at, name), "type", message);
            }
        }
        let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else { return };
        let at = key(&at, "metadata");
        let ty = metadata.get("type").and_then(Value::as_str).unwrap_or_default();
        if ty != "object" {
            self.push(&at, "type", format!("Invalid value: {}: must be object", go::quote(ty)));
        }
        let named = metadata.get("properties").and_then(Value::as_object);
        let foreign = named.into_iter().flatten().any(|(name, _)| name != "name" && name != "generateName");
        let other =
            metadata.keys().any(|k| !["type", "properties", "description", "default"].contains(&k.as_str()));
        if level == Level::Root && (foreign || other) {
            self.problems.push(format!("{at}: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"));
        }
    }

    fn lists(&mut self, map: &Map<String, Value>, ty: &str, path: &str) {
        let list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str);
        let keys: Vec<&str> = map
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if list_type.is_some() && ty != "array" {
            let quoted = go::quote(ty);
            self.push(
                path,
                "type",
                format!("Invalid value: {quoted}: must be array if x-kubernetes-list-type is specified"),
            );
        }
        if map.contains_key("x-kubernetes-map-type") && ty != "object" {
            let quoted = go::quote(ty);
            self.push(
                path,
                "type",
                format!("Invalid value: {quoted}: must be object if x-kubernetes-map-type is specified"),
            );
        }
        if matches!(list_type, Some("set" | "map")) {
            self.keyed_items(map.get("items"), list_type.unwrap_or_default(), path);
        }
        if list_type != Some("map") {
            if !keys.is_empty() {
                self.push(
                    path,
                    "x-kubernetes-list-type",
                    "Required value: must be map if x-kubernetes-list-map-keys is non-empty",
                );
            }
            return;
        }
        if keys.is_empty() {
            self.push(
                path,
                "x-kubernetes-list-map-keys",
                "Required value: must not be empty if x-kubernetes-list-type is map",
            );
        }
        self.map_keys(map.get("items"), &keys, path);
    }

    /// The elements of a set or a map must be told apart, so they cannot be null, and those of a set are values.
    fn keyed_items(&mut self, items: Option<&Value>, list_type: &str, path: &str) {
        let Some(items) = items.and_then(Value::as_object) else { return };
        let at = join(path, "items");
        if is(items, "nullable") {
            self.push(
                &at,
                "nullable",
                format!("Forbidden: cannot be nullable when x-kubernetes-list-type is {list_type}"),
            );
        }
        let atomic = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let kind = |name: &str| items.get(name).and_then(Value::as_str);
        match kind("type") {
            Some("array")
                if list_type == "set" && kind("x-kubernetes-list-type").is_some_and(|t| t != "atomic") =>
            {
                let quoted = go::quote(kind("x-kubernetes-list-type").unwrap_or_default());
                self.push(&at, "x-kubernetes-list-type", format!("Invalid value: {quoted}: {atomic}"));
            }
            Some("object") if list_type == "set" && kind("x-kubernetes-map-type") != Some("atomic") => {
                self.push(&at, "x-kubernetes-map-type", format!("Invalid value: null: {atomic}"));
            }
            _ => {}
        }
    }

    fn map_keys(&mut self, items: Option<&Value>, keys: &[&str], path: &str) {
        let Some(items) = items.and_then(Value::as_object) else { return };
        let at = join(path, "items");
        let ty = items.get("type").and_then(Value::as_str).unwrap_or_default();
        if ty != "object" {
            let quoted = go::quote(ty);
            let message = format!(
                "Invalid value: {quoted}: must be object if parent array's x-kubernetes-list-type is map"
            );
            self.push(&at, "type", message);
            return;
        }
        let required: Vec<&str> = items
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut seen = BTreeSet::new();
        for name in keys {
            let shown = json!(keys);
            if !seen.insert(name) {
                let message = format!("Invalid value: {shown}: must not contain duplicate entries");
                self.push(path, "x-kubernetes-list-map-keys", message);
            }
            let Some(property) =
                items.get("properties").and_then(|p| p.get(*name)).and_then(Value::as_object)
            else {
                let message = format!("Invalid value: {shown}: entries must all be names of item properties");
                self.push(path, "x-kubernetes-list-map-keys", message);
                continue;
            };
            self.map_key(property, required.contains(name), &key(&join(&at, "properties"), name));
        }
    }

    fn map_key(&mut self, property: &Map<String, Value>, required: bool, at: &str) {
        if matches!(property.get("type").and_then(Value::as_str), Some("object" | "array")) {
            let message = "Invalid value: \"object\": must be a scalar type if parent array's x-kubernetes-list-type is map";
            self.push(at, "type", message);
        }
        let whose = "this property is in x-kubernetes-list-map-keys, so it";
        if !property.contains_key("default") && !required {
            self.push(
                at,
                "default",
                format!("Required value: {whose} must have a default or be a required property"),
            );
        }
        if is(property, "nullable") {
            self.push(at, "nullable", format!("Forbidden: {whose} cannot be nullable"));
        }
    }

    fn required(&mut self, map: &Map<String, Value>, path: &str) {
        if map.get("required").is_some_and(|r| !r.is_array()) {
            self.push(path, "required", "Invalid value: must be a list of field names");
        }
    }

    /// Value validations may constrain, not shape: what they name must be specified outside of them too.
    fn junctors(&mut self, map: &Map<String, Value>, outer: &Value, path: &str) {
        let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
        for name in ["allOf", "anyOf", "oneOf"] {
            let Some(list) = map.get(name) else { continue };
            if name == "anyOf" && *list == int_or_string {
                continue;
            }
            for (index, branch) in list.as_array().into_iter().flatten().enumerate() {
                let at = format!("{}[{index}]", join(path, name));
                let skip = name == "allOf" && index == 0 && branch.get("anyOf") == Some(&int_or_string);
                self.nested(branch, Some(outer), &at, path, skip);
            }
        }
        if let Some(not) = map.get("not") {
            self.nested(not, Some(outer), &join(path, "not"), path, false);
        }
    }

    fn nested(&mut self, json: &Value, outer: Option<&Value>, path: &str, outer_path: &str, skip: bool) {
        let Some(map) = json.as_object() else { return };
        for (name, message) in NESTED_FORBIDDEN {
            let set = match map.get(name) {
                None | Some(Value::Null | Value::Bool(false)) => false,
                Some(Value::String(text)) => !text.is_empty(),
                Some(_) => true,
            };
            if set {
                self.push(path, name, format!("Forbidden: {message}"));
            }
        }
        let Some(outer) = outer else { return };
        if !skip {
            self.nested_junctors(map, outer, path, outer_path);
        }
        if let Some(items) = map.get("items") {
            let inner = outer.get("items");
            let at = join(outer_path, "items");
            if inner.is_none() {
                self.problems
                    .push(format!("{at}: Required value: because it is defined in {}", join(path, "items")));
            }
            self.nested(items, inner, &join(path, "items"), &at, false);
        }
        let Some(properties) = map.get("properties").and_then(Value::as_object) else { return };
        for (name, property) in properties {
            let at = key(&join(path, "properties"), name);
            if name == "metadata" {
                self.problems.push(format!("{at}: Forbidden: must not be specified in a nested context"));
            }
            let inner = outer.get("properties").and_then(|p| p.get(name));
            let inner_path = key(&join(outer_path, "properties"), name);
            if inner.is_none() {
                self.problems.push(format!("{inner_path}: Required value: because it is defined in {at}"));
            }
            self.nested(property, inner, &at, &inner_path, false);
        }
    }

    fn nested_junctors(&mut self, map: &Map<String, Value>, outer: &Value, path: &str, outer_path: &str) {
        for name in ["allOf", "anyOf", "oneOf"] {
            for (index, branch) in map.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
                let at = format!("{}[{index}]", join(path, name));
                self.nested(branch, Some(outer), &at, outer_path, false);
            }
        }
        if let Some(not) = map.get("not") {
            self.nested(not, Some(outer), &join(path, "not"), outer_path, false);
        }
    }
}

fn is(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name) == Some(&Value::Bool(true))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn key(path: &str, name: &str) -> String {
    format!("{path}[{name}]")
}
