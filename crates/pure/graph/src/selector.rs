//! Label selectors of `watch` nodes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which objects a `watch` node reads; an empty selector matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Labels that must have exactly these values.
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements; all must hold.
    pub match_expressions: Vec<Requirement>,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// How the value is compared.
    pub operator: Operator,
    /// Values for `In` and `NotIn`.
    #[serde(default)]
    pub values: Vec<String>,
}

/// Operators of `matchExpressions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

impl Selector {
    /// Reads the `selector` field of a watch; the message names what is wrong.
    pub fn read(value: Option<&Value>) -> Result<Selector, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Selector::default()) };
        let known = |key: &String| key == "matchLabels" || key == "matchExpressions";
        match value.as_object() {
            Some(map) if map.keys().all(known) => {}
            _ => return Err("`selector` must be a map with `matchLabels` and `matchExpressions`".to_owned()),
        }
        let selector: Selector = serde_json::from_value(value.clone())
            .map_err(|error| format!("`selector` is not valid: {error}"))?;
        for requirement in &selector.match_expressions {
            let wants_values = matches!(requirement.operator, Operator::In | Operator::NotIn);
            if wants_values == requirement.values.is_empty() {
                return Err(format!(
                    "`selector` requirement on `{}`: `In` and `NotIn` need values, `Exists` and `DoesNotExist` allow none",
                    requirement.key
                ));
            }
        }
        Ok(selector)
    }

    /// Whether `object` carries the labels that are asked for.
    pub fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| {
                let value = label(&requirement.key);
                let listed = value.is_some_and(|value| requirement.values.iter().any(|v| v == value));
                match requirement.operator {
                    Operator::In => listed,
                    Operator::NotIn => !listed,
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<String> =
            self.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for requirement in &self.match_expressions {
            let (key, values) = (&requirement.key, requirement.values.join(","));
            terms.push(match requirement.operator {
                Operator::In => format!("{key} in ({values})"),
                Operator::NotIn => format!("{key} notin ({values})"),
                Operator::Exists => key.clone(),
                Operator::DoesNotExist => format!("!{key}"),
            });
        }
        f.write_str(&terms.join(","))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_like_kubernetes() {
        let object = json!({ "metadata": { "labels": { "app": "x", "tier": "web" } } });
        let check = |selector: Value, text: &str, matches: bool| {
            let selector = Selector::read(Some(&selector)).unwrap();
            assert_eq!((selector.to_string().as_str(), selector.matches(&object)), (text, matches));
        };
        let one = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        check(json!({}), "", true);
        check(json!({ "matchLabels": { "app": "x" } }), "app=x", true);
        check(json!({ "matchLabels": { "app": "y" } }), "app=y", false);
        check(one("tier", "In", &["web", "db"]), "tier in (web,db)", true);
        check(one("none", "In", &["web"]), "none in (web)", false);
        check(one("none", "NotIn", &["web"]), "none notin (web)", true);
        check(one("app", "NotIn", &["x"]), "app notin (x)", false);
        check(one("app", "Exists", &[]), "app", true);
        check(one("none", "Exists", &[]), "none", false);
        check(one("app", "DoesNotExist", &[]), "!app", false);
    }

    #[test]
    fn bad_selectors_say_what_is_wrong() {
        for (selector, message) in [
            (json!([]), "must be a map"),
            (json!({ "labels": {} }), "must be a map with `matchLabels`"),
            (json!({ "matchLabels": { "a": 1 } }), "not valid"),
            (json!({ "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] }), "Gt"),
            (
                json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["1"] }] }),
                "allow none",
            ),
        ] {
            let error = Selector::read(Some(&selector)).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
