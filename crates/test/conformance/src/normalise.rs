//! Gives stable names to what two servers can never agree on: uids, versions, times, random suffixes, tokens.
//!
//! The names are given in the order of first appearance within a case, so identity is still compared: an update that
//! should change nothing must answer the *same* version on both servers, and a new object must have a *new* uid.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z").ok());
static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok());
static AGE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^(\d+[smhdy])+$").ok());
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\d+").ok());

/// What one server has been seen to use so far in a case.
#[derive(Debug, Default)]
pub struct Names {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<String, BTreeMap<String, String>>,
    generated: BTreeMap<String, String>,
}

impl Names {
    /// The answer with stable names.
    pub fn normalise(&mut self, mut answer: Value) -> Value {
        self.learn(&answer);
        self.rewrite(&mut answer);
        answer
    }

    /// Meets what the answer holds, in the order of its keys, which is the same for both servers.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                self.learn_metadata(map);
                map.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn(value)),
            Value::String(text) => {
                for found in UID.iter().flat_map(|uid| uid.find_iter(text)) {
                    name_it(&mut self.uids, found.as_str(), "uid");
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn learn_metadata(&mut self, map: &Map<String, Value>) {
        let text = |name: &str| map.get(name).and_then(Value::as_str);
        if let (Some(version), Some(uid)) = (text("resourceVersion"), text("uid")) {
            // Versions are counted per object, so that one surprise does not rename all that follow.
            name_it(self.versions.entry(uid.to_owned()).or_default(), version, "version");
        }
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && let Some(suffix) = name.strip_prefix(prefix)
        {
            let length = suffix.chars().count();
            self.generated.insert(name.to_owned(), format!("{prefix}<{length} random>"));
        }
    }

    fn rewrite(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                self.rewrite_versions(map);
                sort(map);
                *map = std::mem::take(map).into_iter().map(|(key, value)| (self.text(&key), value)).collect();
                map.values_mut().for_each(|value| self.rewrite(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.rewrite(value)),
            Value::String(text) => *text = self.text(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn rewrite_versions(&self, map: &mut Map<String, Value>) {
        let own = map.get("uid").and_then(Value::as_str).and_then(|uid| self.versions.get(uid)).cloned();
        if let Some(Value::String(version)) = map.get_mut("resourceVersion") {
            // The version of a list or a bookmark is that of the whole server, where others write too.
            *version = match own.as_ref().and_then(|own| own.get(version)) {
                Some(name) => name.clone(),
                _ if version.is_empty() || version == "0" => version.clone(),
                _ => "<current version>".to_owned(),
            };
        }
        if let Some(Value::String(token)) = map.get_mut("continue")
            && !token.is_empty()
        {
            *token = "<continue>".to_owned();
        }
        if let Some(Value::String(message)) = map.get_mut("message")
            && ["oo large resource version", "oo old resource version", "ResourceVersion in"]
                .iter()
                .any(|text| message.contains(text))
            && let Some(number) = NUMBER.as_ref()
        {
            *message = number.replace_all(message, "<number>").into_owned();
        }
        if let Some(Value::Array(cells)) = map.get_mut("cells") {
            for cell in cells.iter_mut() {
                if let Value::String(text) = cell
                    && AGE.as_ref().is_some_and(|age| age.is_match(text))
                {
                    *text = "<age>".to_owned();
                }
            }
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, stable) in self.generated.iter().chain(&self.uids) {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), stable);
            }
        }
        match TIME.as_ref() {
            Some(time) => {
                time.replace_all(&text, |found: &regex::Captures<'_>| {
                    if found.get(1).is_some() { "<time with fraction>" } else { "<time>" }
                })
                .into_owned()
            }
            None => text,
        }
    }
}

/// Puts into one order what has no order, or one that depends on chance.
fn sort(map: &mut Map<String, Value>) {
    let key = |value: &Value, fields: &[&str]| -> Vec<String> {
        fields
            .iter()
            .map(|name| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned())
            .collect()
    };
    // Kubernetes sorts managers by time, so their order depends on when a second ends.
    if let Some(Value::Array(managers)) = map.get_mut("managedFields") {
        managers.sort_by_cached_key(|manager| {
            key(manager, &["manager", "operation", "subresource", "apiVersion"])
        });
    }
    // Discovery lists definitions in the order in which a cache hands them out.
    if let Some(Value::Array(resources)) = map.get_mut("resources") {
        resources.sort_by_cached_key(|resource| key(resource, &["name"]));
    }
    // Kubernetes finds problems in the order of a Go map, and those of metadata twice.
    if let Some(Value::Array(causes)) = map.get_mut("causes") {
        causes.sort_by_cached_key(|cause| key(cause, &["field", "message", "reason"]));
        causes.dedup();
    }
    // A message that lists several problems repeats the causes in that same order.
    if let Some(Value::String(message)) = map.get_mut("message")
        && let Some((start, _)) = message.split_once(" is invalid: [")
    {
        *message = format!("{start} is invalid: [<causes>]");
    }
}

fn name_it(names: &mut BTreeMap<String, String>, found: &str, kind: &str) {
    let next = format!("<{kind} {}>", names.len() + 1);
    names.entry(found.to_owned()).or_insert(next);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const UID_A: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const UID_B: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

    fn check(names: &mut Names, answer: Value, expected: Value) {
        assert_eq!(names.normalise(answer), expected);
    }

    #[test]
    fn identity_survives() {
        let mut names = Names::default();
        let object = |uid: &str, version: &str| json!({"uid": uid, "resourceVersion": version});
        check(&mut names, object(UID_A, "17"), object("<uid 1>", "<version 1>"));
        check(&mut names, object(UID_B, "19"), object("<uid 2>", "<version 1>"));
        check(&mut names, object(UID_B, "20"), object("<uid 2>", "<version 2>"));
        check(&mut names, object(UID_A, "17"), object("<uid 1>", "<version 1>"));
        check(
            &mut names,
            json!({"message": format!("UID {UID_A} at 2026-01-01T00:00:00Z")}),
            json!({"message": "UID <uid 1> at <time>"}),
        );
    }

    #[test]
    fn what_belongs_to_the_whole_server_is_not_compared() {
        let mut names = Names::default();
        check(
            &mut names,
            json!({"metadata": {"resourceVersion": "9", "continue": "abc"}, "items": []}),
            json!({"metadata": {"resourceVersion": "<current version>", "continue": "<continue>"}, "items": []}),
        );
        check(&mut names, json!({"cells": ["a", "3m12s", 1]}), json!({"cells": ["a", "<age>", 1]}));
        check(
            &mut names,
            json!({"generateName": "a-", "name": "a-x7b2c"}),
            json!({"generateName": "a-", "name": "a-<5 random>"}),
        );
    }
}
