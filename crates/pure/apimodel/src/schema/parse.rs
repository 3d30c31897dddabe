//! OpenAPI JSON → [`Schema`]: CRD schemas and the components of the built-in documents.

use serde_json::{Map, Number, Value};

use super::error::ROOT_PATH;
use super::rules::needs_view;
use super::{
    Additional, Checks, ListType, MapType, Rule, Schema, SchemaRef, SchemaType, go, prune, validate,
};
use crate::builtin;

/// Schemas nested deeper than this are refused; the JSON reader stops at 128 levels anyway.
const MAX_DEPTH: usize = 96;

/// The component that describes `metadata` of every kind.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Parses the root of a custom resource's schema, and lists what could not be read.
pub(super) fn custom_resource(json: &Value) -> (Schema, Vec<String>) {
    let mut parser = Parser { problems: Vec::new(), component: false, loose_list: None };
    let mut schema = parser.node(json, "", 0);
    complete_resource(&mut schema);
    (schema, parser.problems)
}

/// Parses a component of the built-in documents.
pub(crate) fn component_schema(name: &str, text: &str) -> Schema {
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return Schema { preserve_unknown: true, ..Schema::default() };
    };
    let mut parser = Parser { problems: Vec::new(), component: true, loose_list: None };
    let mut schema = parser.node(&json, "", 0);
    // Go decodes a missing number or flag as zero, and status parts are written piecemeal, so the published
    // `required` of those is not enforced by a real server either.
    if name.ends_with("Status") || name.ends_with("Condition") {
        schema.required.clear();
    }
    if json.get("x-kubernetes-group-version-kind").is_some() && schema.properties.contains_key("metadata") {
        schema.embedded_resource = true;
    }
    schema
}

/// Adds what every resource has: `apiVersion`, `kind` and the whole of `metadata`.
fn complete_resource(schema: &mut Schema) {
    schema.embedded_resource = true;
    for name in ["apiVersion", "kind"] {
        schema
            .properties
            .entry(name.to_owned())
            .or_insert_with(|| Schema { ty: Some(SchemaType::String), ..Schema::default() }.into());
    }
    let Some(component) = builtin::component(OBJECT_META) else { return };
    let meta = match schema.properties.get("metadata") {
        Some(own) if !own.properties.is_empty() => {
            // A CRD may restrict the name and the generated name; everything else is as everywhere.
            let mut meta = Schema::clone(component.schema());
            for name in ["name", "generateName"] {
                if let Some(restricted) = own.properties.get(name) {
                    meta.properties.insert(name.to_owned(), restricted.clone());
                }
            }
            meta.into()
        }
        _ => SchemaRef::component(component),
    };
    schema.properties.insert("metadata".to_owned(), meta);
}

struct Parser {
    problems: Vec<String>,
    component: bool,
    /// The outermost list round the node whose elements cannot be found again in an older object.
    loose_list: Option<String>,
}

impl Parser {
    fn node(&mut self, json: &Value, path: &str, depth: usize) -> Schema {
        let Some(map) = json.as_object() else {
            self.problem(path, "Invalid value: must be an object");
            return Schema::default();
        };
        if depth > MAX_DEPTH {
            self.problem(path, &format!("Too long: schemas may be at most {MAX_DEPTH} levels deep"));
            return Schema::default();
        }
        let mut schema = Schema {
            ty: self.ty(map, path),
            format: text(map, "format"),
            nullable: flag(map, "nullable"),
            default: if self.component { None } else { map.get("default").cloned() },
            required: strings(map, "required"),
            enums: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            int_or_string: flag(map, "x-kubernetes-int-or-string"),
            preserve_unknown: flag(map, "x-kubernetes-preserve-unknown-fields"),
            list_type: self.list_type(map, path),
            list_map_keys: strings(map, "x-kubernetes-list-map-keys"),
            map_type: self.map_type(map, path),
            patch_merge_key: text(map, "x-kubernetes-patch-merge-key"),
            patch_strategy: text(map, "x-kubernetes-patch-strategy"),
            ..Schema::default()
        };
        self.children(map, &mut schema, path, depth);
        if self.component {
            adapt_component(map, &mut schema);
        } else {
            schema.checks = self.checks(map, path, depth);
            schema.rules = self.rules(map, path);
        }
        schema.has_rules = has_rules(&schema);
        schema.needs_view = !self.component && needs_view(&schema);
        if flag(map, "x-kubernetes-embedded-resource") {
            complete_resource(&mut schema);
        }
        self.check_default(&schema, path);
        schema
    }

    fn problem(&mut self, path: &str, message: &str) {
        let path = if path.is_empty() { "openAPIV3Schema" } else { path };
        self.problems.push(format!("{path}: {message}"));
    }

    fn ty(&mut self, map: &Map<String, Value>, path: &str) -> Option<SchemaType> {
        let name = map.get("type")?.as_str().unwrap_or_default();
        let ty = SchemaType::from_name(name);
        if ty.is_none() && !name.is_empty() {
            let message = format!(
                "Unsupported value: {}: supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
                go::quote(name)
            );
            self.problem(&child(path, "type"), &message);
        }
        ty
    }

    fn list_type(&mut self, map: &Map<String, Value>, path: &str) -> Option<ListType> {
        match map.get("x-kubernetes-list-type")?.as_str()? {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            other => {
                let message = format!(
                    "Unsupported value: {}: supported values: \"atomic\", \"set\", \"map\"",
                    go::quote(other)
                );
                self.problem(&child(path, "x-kubernetes-list-type"), &message);
                None
            }
        }
    }

    fn map_type(&mut self, map: &Map<String, Value>, path: &str) -> Option<MapType> {
        match map.get("x-kubernetes-map-type")?.as_str()? {
            "granular" => Some(MapType::Granular),
            "atomic" => Some(MapType::Atomic),
            other => {
                let message = format!(
                    "Unsupported value: {}: supported values: \"atomic\", \"granular\"",
                    go::quote(other)
                );
                self.problem(&child(path, "x-kubernetes-map-type"), &message);
                None
            }
        }
    }

    fn children(&mut self, map: &Map<String, Value>, schema: &mut Schema, path: &str, depth: usize) {
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            for (name, json) in properties {
                let node = self.child(json, &format!("{}[{name}]", child(path, "properties")), depth);
                schema.properties.insert(name.clone(), node);
            }
        }
        schema.additional = match map.get("additionalProperties") {
            None | Some(Value::Null | Value::Bool(false)) => Additional::None,
            Some(Value::Bool(true)) => Additional::Any,
            Some(json) => Additional::Schema(self.child(json, &child(path, "additionalProperties"), depth)),
        };
        // A list of schemas is refused as not structural.
        if let Some(items) = map.get("items").filter(|items| !items.is_array()) {
            let outer = self.loose_list.clone();
            if outer.is_none() && schema.list_type != Some(ListType::Map) {
                self.loose_list =
                    Some(if path.is_empty() { "openAPIV3Schema".to_owned() } else { path.to_owned() });
            }
            schema.items = Some(self.child(items, &child(path, "items"), depth));
            self.loose_list = outer;
        }
    }

    fn child(&mut self, json: &Value, path: &str, depth: usize) -> SchemaRef {
        if self.component
            && let Some(name) = reference(json)
        {
            return referenced(json, name);
        }
        self.node(json, path, depth + 1).into()
    }

    fn checks(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Option<Box<Checks>> {
        let bound = |key: &str, exclusive: &str| {
            number(map, key).map(|n| (n, map.get(exclusive).and_then(Value::as_bool).unwrap_or(false)))
        };
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let mut checks = Checks {
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number(map, "multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            unique_items: flag(map, "uniqueItems"),
            ..Checks::default()
        };
        let mut used = ["minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"]
            .iter()
            .chain(&["minProperties", "maxProperties", "uniqueItems"])
            .any(|key| map.contains_key(*key));
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str).filter(|p| !p.is_empty()) {
            used = true;
            match go::regex(pattern) {
                Ok(regex) => checks.pattern = Some((pattern.to_owned(), regex)),
                Err(error) => {
                    let quoted = go::quote(pattern);
                    let message = format!(
                        "Invalid value: {quoted}: must be a valid regular expression, but isn't: {error}"
                    );
                    self.problem(&child(path, "pattern"), &message);
                }
            }
        }
        for (key, list) in
            [("allOf", &mut checks.all_of), ("anyOf", &mut checks.any_of), ("oneOf", &mut checks.one_of)]
        {
            let Some(branches) = map.get(key).and_then(Value::as_array) else { continue };
            used |= !branches.is_empty();
            for (index, branch) in branches.iter().enumerate() {
                list.push(self.node(branch, &format!("{}[{index}]", child(path, key)), depth + 1));
            }
        }
        if let Some(not) = map.get("not") {
            used = true;
            checks.not = Some(Box::new(self.node(not, &child(path, "not"), depth + 1)));
        }
        used.then(|| Box::new(checks))
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str) -> Vec<Rule> {
        let Some(list) = map.get("x-kubernetes-validations").and_then(Value::as_array) else {
            return Vec::new();
        };
        let mut rules = Vec::new();
        for (index, json) in list.iter().enumerate() {
            let path = format!("{}[{index}]", child(path, "x-kubernetes-validations"));
            match Rule::parse(json) {
                Ok(rule) => {
                    if let Some(list) = self.loose_list.clone().filter(|_| rule.uses_old_self) {
                        let source = go::quote(rule.program.source());
                        let message = format!(
                            "Invalid value: {source}: oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                        );
                        self.problem(&child(&path, "rule"), &message);
                    }
                    rules.push(rule);
                }
                Err(problems) => {
                    for (field, message) in problems {
                        self.problem(&child(&path, field), &message);
                    }
                }
            }
        }
        rules
    }

    /// A default that its own schema refuses would make every object invalid.
    fn check_default(&mut self, schema: &Schema, path: &str) {
        let Some(default) = &schema.default else { return };
        let mut pruned = default.clone();
        if !prune(schema, &mut pruned).is_empty() {
            let message = format!("Invalid value: {default}: must not have unknown fields");
            self.problem(&child(path, "default"), &message);
        }
        for error in validate::value(schema, default) {
            let at = if error.path == ROOT_PATH { String::new() } else { format!(".{}", error.path) };
            self.problem(&format!("{}{at}", child(path, "default")), &error.message);
        }
    }
}

/// What the published documents leave to Go: free-form objects, numbers that may be missing, quantities.
fn adapt_component(map: &Map<String, Value>, schema: &mut Schema) {
    let free = schema.properties.is_empty() && matches!(schema.additional, Additional::None);
    match schema.ty {
        Some(SchemaType::Object) if free => schema.preserve_unknown = true,
        None => match map.get("oneOf") {
            // IntOrString and Quantity: a number or a string.
            Some(_) => schema.int_or_string = true,
            None => schema.preserve_unknown = true,
        },
        _ => {}
    }
    // A property that is a reference is never a bare number or flag, so it is not resolved for this.
    let published = map.get("properties").and_then(Value::as_object);
    schema.required.retain(|name| {
        let ty = published.and_then(|p| p.get(name)).and_then(|p| p.get("type")).and_then(Value::as_str);
        !matches!(ty, Some("boolean" | "integer" | "number"))
    });
}

fn has_rules(schema: &Schema) -> bool {
    // References to components are not resolved for this: built-in kinds have no rules.
    let below = |node: &SchemaRef| node.owned().is_some_and(|schema| schema.has_rules);
    !schema.rules.is_empty()
        || schema.properties.values().any(below)
        || schema.items.as_ref().is_some_and(below)
        || matches!(&schema.additional, Additional::Schema(node) if below(node))
}

/// The component a schema refers to, written as `$ref` or as the only element of `allOf`.
fn reference(json: &Value) -> Option<&str> {
    let direct = json.get("$ref").or_else(|| match json.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    })?;
    direct.as_str()?.rsplit('/').next()
}

fn referenced(json: &Value, name: &str) -> SchemaRef {
    let Some(component) = builtin::component(name) else { return Schema::untyped().into() };
    let strategy = json.get("x-kubernetes-patch-strategy").and_then(Value::as_str);
    let map_type = json.get("x-kubernetes-map-type").and_then(Value::as_str);
    if strategy.is_none() && map_type.is_none() {
        return SchemaRef::component(component);
    }
    // The place of use overrides the component, so this place needs a copy of its own. It is parsed anew because the
    // component may be the one whose parsing is under way.
    let mut schema = component_schema(component.name, component.text);
    schema.patch_strategy = strategy.map(str::to_owned);
    if map_type == Some("atomic") {
        schema.map_type = Some(MapType::Atomic);
    }
    schema.into()
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn number(map: &Map<String, Value>, key: &str) -> Option<Number> {
    map.get(key).and_then(Value::as_number).cloned()
}

fn strings(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let list = map.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
