//! Validation against a schema, with the messages of kube-apiserver.
//!
//! An update is ratcheted as Kubernetes does it: a value that is unchanged is not checked again, so that tightening a
//! CRD does not lock up the objects that exist.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::path::Path;
use super::{Additional, Cause, Checks, FieldError, ListType, Schema, SchemaType, format, go, rules};

/// Validates an object; `old` is the stored one when this is an update. Rules (`x-kubernetes-validations`) run when the
/// shape is right, because they may rely on it.
pub fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    check.node(schema, object, old, &Path::ROOT);
    // What metadata must have is not the schema's business: every object has its own checks for that.
    check.errors.retain(|error| error.reason != Cause::Required || !error.path.starts_with("metadata."));
    if schema.has_rules {
        let blocking = |error: &FieldError| !matches!(error.reason, Cause::Invalid | Cause::Duplicate);
        if check.errors.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            check.errors.push(FieldError::invalid("", &Value::Null, detail));
        } else {
            check.errors.extend(rules::validate(schema, object, old));
        }
    }
    check.errors
}

/// Validates one value without rules, for defaults; paths are relative to the value.
pub(super) fn value(schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    check.node(schema, value, None, &Path::ROOT);
    check.errors
}

/// The element of an old list that stands for `item`: the one with the same keys, in a list of type map.
pub(super) fn correlated<'v>(schema: &Schema, old: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
    if schema.list_type != Some(ListType::Map) {
        return None;
    }
    let wanted = keys_of(schema, item);
    old?.as_array()?.iter().find(|candidate| keys_of(schema, candidate) == wanted)
}

/// The values of an element's keys.
fn keys_of(schema: &Schema, item: &Value) -> Map<String, Value> {
    let found = schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    found.collect()
}

struct Check {
    errors: Vec<FieldError>,
}

impl Check {
    fn node(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        if old == Some(value) {
            return;
        }
        if !self.types(schema, value, path) {
            if !(value.is_null() && schema.nullable) {
                self.enumeration(schema, value, path);
            }
            return;
        }
        if let Some(checks) = &schema.checks {
            self.junctors(checks, value, path);
            self.constraints(checks, value, path);
        }
        if let (Some(name), Value::String(text)) = (&schema.format, value)
            && !format::is_valid(name, text)
        {
            let detail = format!("{path} in body must be of type {name}: {}", go::quote(text));
            self.errors.push(FieldError::type_invalid(path, value, &detail));
        }
        if schema.ty == Some(SchemaType::Integer)
            && let Value::Number(number) = value
        {
            self.range(schema, number, path);
        }
        self.enumeration(schema, value, path);
        match value {
            Value::Object(map) => self.object(schema, map, old, path),
            Value::Array(list) => self.list(schema, list, old, path),
            _ => {}
        }
    }

    /// Whether the value has the demanded type; if not, only enumerations have something to add.
    fn types(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) -> bool {
        if value.is_null() && schema.nullable {
            return false;
        }
        let expected = match schema.ty {
            _ if schema.int_or_string => {
                if matches!(value, Value::String(_) | Value::Number(_)) {
                    return true;
                }
                "integer,string"
            }
            None => return true,
            Some(ty) if matches(ty, value) => return true,
            Some(ty) => ty.as_str(),
        };
        let actual = type_name(value);
        let detail = format!("{path} in body must be of type {expected}: {}", go::quote(actual));
        self.errors.push(FieldError::type_invalid(path, &Value::from(actual), &detail));
        if schema.ty == Some(SchemaType::Integer)
            && let Value::Number(number) = value
        {
            self.range(schema, number, path);
        }
        false
    }

    /// Whether a number fits the integer format; like all errors that Go raises without a path, it names the place itself.
    fn range(&mut self, schema: &Schema, number: &Number, path: &Path<'_>) {
        let whole = if number.is_f64() {
            number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.3e18).map(|f| f as i64)
        } else {
            number.as_i64()
        };
        let small = schema.format.as_deref() == Some("int32");
        if whole.is_some_and(|whole| !small || i32::try_from(whole).is_ok()) {
            return;
        }
        let format = match schema.format.as_deref() {
            Some(format) if !format.is_empty() => format!("with format {format}"),
            _ => "(default format)".to_owned(),
        };
        let detail = format!("Checked value must be of type integer {format} in {path}");
        self.errors.push(FieldError::invalid("", &Value::from(""), &detail));
    }

    fn enumeration(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        if schema.enums.is_empty() || schema.enums.contains(value) {
            return;
        }
        let allowed: Vec<String> = schema
            .enums
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned))
            .collect();
        self.errors.push(FieldError::not_supported(path, value, allowed.iter().map(String::as_str)));
    }

    fn constraints(&mut self, checks: &Checks, value: &Value, path: &Path<'_>) {
        let mut fail = |detail: String, shown: &Value| {
            self.errors.push(FieldError::invalid(path, shown, &format!("{path} in body {detail}")));
        };
        match value {
            Value::String(text) => {
                let length = text.chars().count() as u64;
                // Of these three kube reports the first that fails.
                if let Some(max) = checks.max_length.filter(|max| length > *max) {
                    self.errors.push(FieldError::too_long(path, max));
                } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
                    fail(format!("should be at least {min} chars long"), value);
                } else if let Some((pattern, _)) =
                    checks.pattern.as_ref().filter(|(_, regex)| !regex.is_match(text))
                {
                    fail(format!("should match '{pattern}'"), value);
                }
            }
            Value::Number(number) => {
                for detail in number_faults(checks, number) {
                    fail(detail, value);
                }
            }
            Value::Array(list) => {
                if let Some(min) = checks.min_items.filter(|min| (list.len() as u64) < *min) {
                    fail(format!("should have at least {min} items"), &Value::from(list.len()));
                }
                if checks.unique_items && has_duplicates(list) {
                    fail("shouldn't contain duplicates".to_owned(), &Value::from(""));
                }
                if let Some(max) = checks.max_items.filter(|max| list.len() as u64 > *max) {
                    self.errors.push(FieldError::too_many(path, list.len(), max));
                }
            }
            Value::Object(map) => {
                if let Some(min) = checks.min_properties.filter(|min| (map.len() as u64) < *min) {
                    fail(format!("should have at least {min} properties"), &Value::from(map.len()));
                }
                if let Some(max) = checks.max_properties.filter(|max| map.len() as u64 > *max) {
                    self.errors.push(FieldError::too_many(path, map.len(), max));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Go raises these errors without a path, so the message names the place.
    fn junctors(&mut self, checks: &Checks, value: &Value, path: &Path<'_>) {
        let empty = Value::from("");
        let quoted = || go::quote(&path.to_string());
        let mut errors = Vec::new();
        if !checks.any_of.is_empty() {
            let (passed, best) = branches(&checks.any_of, value, path);
            if passed == 0 {
                let detail = format!("{} must validate at least one schema (anyOf)", quoted());
                errors.push(FieldError::invalid("", &empty, &detail));
                errors.extend(best);
            }
        }
        if !checks.one_of.is_empty() {
            let (passed, best) = branches(&checks.one_of, value, path);
            if passed != 1 {
                let found = match passed {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                let detail = format!("{} must validate one and only one schema (oneOf). {found}", quoted());
                errors.push(FieldError::invalid("", &empty, &detail));
                errors.extend(best);
            }
        }
        let failing: Vec<Vec<FieldError>> = checks
            .all_of
            .iter()
            .map(|branch| branch_errors(branch, value, path))
            .filter(|errors| !errors.is_empty())
            .collect();
        if !failing.is_empty() {
            let none = if failing.len() == checks.all_of.len() { ". None validated" } else { "" };
            let detail = format!("{} must validate all the schemas (allOf){none}", quoted());
            errors.extend(failing.into_iter().flatten());
            errors.push(FieldError::invalid("", &empty, &detail));
        }
        if checks.not.as_ref().is_some_and(|not| branch_errors(not, value, path).is_empty()) {
            let detail = format!("{} must not validate the schema (not)", quoted());
            errors.push(FieldError::invalid("", &empty, &detail));
        }
        self.errors.append(&mut errors);
    }

    fn object(&mut self, schema: &Schema, map: &Map<String, Value>, old: Option<&Value>, path: &Path<'_>) {
        for name in &schema.required {
            if !map.contains_key(name) {
                self.errors.push(FieldError::required(path.field(name), ""));
            }
        }
        if schema.embedded_resource && !path.is_root() {
            for name in ["apiVersion", "kind"] {
                match map.get(name) {
                    None => self.errors.push(FieldError::required(path.field(name), "")),
                    Some(value) if value.as_str() == Some("") => {
                        self.errors.push(FieldError::invalid(path.field(name), value, "must not be empty"));
                    }
                    Some(_) => {}
                }
            }
        }
        if schema.properties.is_empty() && matches!(schema.additional, Additional::None | Additional::Any) {
            return;
        }
        for (name, value) in map {
            if let Some(field) = schema.field(name) {
                self.node(field, value, old.and_then(|old| old.get(name)), &path.field(name));
            }
        }
    }

    fn list(&mut self, schema: &Schema, list: &[Value], old: Option<&Value>, path: &Path<'_>) {
        if let Some(items) = &schema.items {
            for (index, item) in list.iter().enumerate() {
                let old = correlated(schema, old, item);
                self.node(items, item, old, &path.index(index));
            }
        }
        match schema.list_type {
            Some(ListType::Set) => self.duplicates(list.iter().cloned(), path),
            Some(ListType::Map) => {
                self.duplicates(list.iter().map(|item| Value::Object(keys_of(schema, item))), path);
            }
            Some(ListType::Atomic) | None => {}
        }
    }

    fn duplicates(&mut self, values: impl Iterator<Item = Value>, path: &Path<'_>) {
        let mut seen = BTreeSet::new();
        let mut reported = BTreeSet::new();
        for (index, value) in values.enumerate() {
            let text = value.to_string();
            if !seen.insert(text.clone()) && reported.insert(text) {
                self.errors.push(FieldError::duplicate(path.index(index), &value));
            }
        }
    }
}

/// How many branches accept the value, and the complaints of the one that came closest.
fn branches(list: &[Schema], value: &Value, path: &Path<'_>) -> (usize, Vec<FieldError>) {
    let mut passed = 0;
    let mut best: Option<Vec<FieldError>> = None;
    for branch in list {
        let errors = branch_errors(branch, value, path);
        if errors.is_empty() {
            passed += 1;
        } else if best.as_ref().is_none_or(|best| errors.len() < best.len()) {
            best = Some(errors);
        }
    }
    (passed, if passed == 0 { best.unwrap_or_default() } else { Vec::new() })
}

fn branch_errors(schema: &Schema, value: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    check.node(schema, value, None, path);
    check.errors
}

fn matches(ty: SchemaType, value: &Value) -> bool {
    match (ty, value) {
        (SchemaType::Object, Value::Object(_))
        | (SchemaType::Array, Value::Array(_))
        | (SchemaType::String, Value::String(_))
        | (SchemaType::Number, Value::Number(_))
        | (SchemaType::Boolean, Value::Bool(_)) => true,
        (SchemaType::Integer, Value::Number(n)) => {
            !n.is_f64() || n.as_f64().is_some_and(|f| f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0)
        }
        _ => false,
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn number_faults(checks: &Checks, number: &Number) -> Vec<String> {
    let mut faults = Vec::new();
    let actual = number.as_f64().unwrap_or_default();
    if let Some(factor) = &checks.multiple_of {
        let quotient = actual / factor.as_f64().unwrap_or(1.0);
        // Decimal factors such as 0.01 are not exact in binary, so a quotient next to a whole number counts.
        if !quotient.is_finite() || (quotient - quotient.round()).abs() > 1e-9 * quotient.abs().max(1.0) {
            faults.push(format!("should be a multiple of {}", limit_text(factor, number)));
        }
    }
    if let Some((limit, exclusive)) = &checks.maximum {
        let max = limit.as_f64().unwrap_or(f64::INFINITY);
        if actual > max || (*exclusive && actual >= max) {
            let or_equal = if *exclusive { "" } else { " or equal to" };
            faults.push(format!("should be less than{or_equal} {}", limit_text(limit, number)));
        }
    }
    if let Some((limit, exclusive)) = &checks.minimum {
        let min = limit.as_f64().unwrap_or(f64::NEG_INFINITY);
        if actual < min || (*exclusive && actual <= min) {
            let or_equal = if *exclusive { "" } else { " or equal to" };
            faults.push(format!("should be greater than{or_equal} {}", limit_text(limit, number)));
        }
    }
    faults
}

/// A limit as Go prints it: it compares whole numbers with whole limits, and others as floating point numbers.
fn limit_text(limit: &Number, actual: &Number) -> String {
    match limit.as_i64() {
        Some(whole) if !actual.is_f64() => whole.to_string(),
        _ => go::float(limit.as_f64().unwrap_or_default()),
    }
}

fn has_duplicates(list: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    !list.iter().all(|item| seen.insert(item.to_string()))
}
