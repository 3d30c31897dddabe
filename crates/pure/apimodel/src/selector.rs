//! Label and field selectors.
//!
//! The grammar and the error texts are those of `k8s.io/apimachinery/pkg/labels` and `fields`. Parsing is bounded by the
//! length of the text; matching borrows the object.

mod lexer;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use self::lexer::{Lexeme, Token, lex};
use crate::meta;
use crate::object::{Labels, Object, events};
use crate::registry::{Definition, Version};
use crate::schema::FieldError;
use crate::status::Status;

/// Both selectors of a list or watch; the default selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selectors {
    /// `labelSelector`
    pub labels: LabelSelector,
    /// `fieldSelector`
    pub fields: FieldSelector,
}

impl Selectors {
    /// Parses both query parameters for one resource.
    pub fn parse(
        labels: &str,
        fields: &str,
        definition: &Definition,
        version: &Version,
    ) -> Result<Selectors, Status> {
        let labels = LabelSelector::parse(labels)?;
        let mut fields = FieldSelector::parse(fields)?;
        fields.check(definition, version)?;
        Ok(Selectors { labels, fields })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.0.is_empty() && self.fields.0.is_empty()
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(object.labels()) && self.fields.matches(object)
    }
}

/// A conjunction of requirements on labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses the text form; the error is the 400 that kube gives.
    pub fn parse(text: &str) -> Result<LabelSelector, Status> {
        let mut parser = Parser { lexemes: lex(text), position: 0 };
        parser.parse().map_err(Status::bad_request)
    }

    /// Whether these labels are selected.
    pub fn matches(&self, labels: Labels<'_>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = |value: Option<&str>| value.and_then(|v| v.parse::<i64>().ok());
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In(set) => value.is_some_and(|v| set.contains(v)),
            Operator::NotIn(set) => value.is_none_or(|v| !set.contains(v)),
            Operator::GreaterThan(bound) => number(value).is_some_and(|v| v > *bound),
            Operator::LessThan(bound) => number(value).is_some_and(|v| v < *bound),
        }
    }
}

struct Parser {
    lexemes: Vec<Lexeme>,
    position: usize,
}

impl Parser {
    /// The current token; after an operator the words `in` and `notin` are plain values.
    fn look(&self, as_value: bool) -> (Token, String) {
        let Some(lexeme) = self.lexemes.get(self.position) else { return (Token::End, String::new()) };
        let token = match lexeme.token {
            Token::In | Token::NotIn if as_value => Token::Identifier,
            token => token,
        };
        (token, lexeme.text.clone())
    }

    fn take(&mut self, as_value: bool) -> (Token, String) {
        let found = self.look(as_value);
        self.position += 1;
        found
    }

    fn parse(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            let (token, text) = self.look(true);
            match token {
                Token::Identifier | Token::Not => {
                    let requirement = self.requirement();
                    requirements.push(requirement.map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match self.take(true) {
                        (Token::End, _) => break,
                        (Token::Comma, _) => {
                            let (next, text) = self.look(true);
                            if !matches!(next, Token::Identifier | Token::Not) {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                Token::End => break,
                _ => return Err(format!("found '{text}', expected: !, identifier, or 'end of string'")),
            }
        }
        Ok(LabelSelector(requirements))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.take(true);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.take(true);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = meta::label_key_problems(&key);
        if !problems.is_empty() {
            return Err(FieldError::invalid("", &key.as_str().into(), &problems.join("; ")).to_string());
        }
        let ends = matches!(self.look(true).0, Token::End | Token::Comma);
        if negated || ends {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Ok(Requirement { key, operator });
        }
        let operator = self.operator(&key)?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, String> {
        let (token, text) = self.take(false);
        let values = match token {
            Token::In | Token::NotIn => self.values()?,
            Token::Equals | Token::DoubleEquals | Token::NotEquals | Token::Greater | Token::Less => {
                self.exact_value()?
            }
            _ => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let bound = |name: &str| -> Result<i64, String> {
            let value = values.first().map(String::as_str).unwrap_or_default();
            let detail = format!("for '{name}', '{}' operators, the value must be an integer", "Lt");
            value.parse().map_err(|_| FieldError::invalid("values[0]", &value.into(), &detail).to_string())
        };
        let operator = match token {
            Token::In | Token::Equals | Token::DoubleEquals => Operator::In(values.clone()),
            Token::NotIn | Token::NotEquals => Operator::NotIn(values.clone()),
            Token::Greater => Operator::GreaterThan(bound("Gt")?),
            _ => Operator::LessThan(bound("Gt")?),
        };
        for (index, value) in values.iter().enumerate() {
            let problems = meta::label_value_problems(value);
            if !problems.is_empty() {
                let path = format!("values[{index}][{key}]");
                return Err(
                    FieldError::invalid(path, &value.as_str().into(), &problems.join("; ")).to_string()
                );
            }
        }
        Ok(operator)
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take(true);
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let (token, text) = self.look(true);
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                if self.take(true).0 != Token::Close {
                    return Err(format!("found '{text}', expected: ')'"));
                }
                Ok(values)
            }
            Token::Close => {
                self.position += 1;
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<BTreeSet<String>, String> {
        let mut set = BTreeSet::new();
        loop {
            let (token, text) = self.take(true);
            match token {
                Token::Identifier => {
                    set.insert(text);
                    match self.look(true) {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(set),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if set.is_empty() {
                        set.insert(String::new());
                    }
                    match self.look(true).0 {
                        Token::Close => {
                            set.insert(String::new());
                            return Ok(set);
                        }
                        Token::Comma => {
                            set.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.look(true).0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take(true) {
            (Token::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }
}

/// A conjunction of equalities on fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the text form; the error is the 400 that kube gives.
    pub fn parse(text: &str) -> Result<FieldSelector, Status> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                let message = format!("invalid selector: '{text}'; can't understand '{part}'");
                return Err(Status::bad_request(message));
            };
            let value = unescape(value).map_err(Status::bad_request)?;
            terms.push(Term { field: field.to_owned(), equal, value });
        }
        Ok(FieldSelector(terms))
    }

    /// The value that a term requires `metadata.namespace` to have.
    pub fn exact_namespace(&self) -> Option<&str> {
        let term = self.0.iter().find(|t| t.equal && t.field == "metadata.namespace")?;
        Some(&term.value)
    }

    /// Refuses fields that the resource cannot be selected by; names them as they are stored.
    pub fn check(&mut self, definition: &Definition, version: &Version) -> Result<(), Status> {
        for term in &mut self.0 {
            if &*definition.name == events::ALIAS {
                term.field = events::core_field(&term.field);
            }
            let always = term.field == "metadata.name" || term.field == "metadata.namespace";
            if always || version.selectable.contains(&term.field) {
                continue;
            }
            let field = crate::status::quoted(&term.field);
            return Err(Status::bad_request(if &*definition.name == "jobs.batch" {
                format!("field label {field} not supported for Job")
            } else if definition.custom || !version.selectable.is_empty() {
                format!("field label not supported: {}", term.field)
            } else {
                format!(
                    "{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            }));
        }
        Ok(())
    }

    /// Whether an object is selected.
    pub fn matches(&self, object: &Object) -> bool {
        let names = self.0.iter().all(|term| match term.field.as_str() {
            "metadata.name" => (object.name() == term.value) == term.equal,
            "metadata.namespace" => (object.namespace() == term.value) == term.equal,
            _ => true,
        });
        let deep = self.0.iter().any(|term| !term.field.starts_with("metadata."));
        if !names || !deep {
            return names;
        }
        // Other fields are rarely asked for, so the object is parsed only then.
        let value = object.value();
        let mut deep = self.0.iter().filter(|term| !term.field.starts_with("metadata."));
        deep.all(|term| (field_text(&value, &term.field) == term.value) == term.equal)
    }
}

/// The value of a selectable field as text; absent fields are empty, as in kube.
fn field_text<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    let found = match field {
        "source" => match lookup(object, "source.component") {
            Some(Value::String(component)) if !component.is_empty() => Some(component.as_str()),
            _ => object.get("reportingComponent").and_then(Value::as_str),
        }
        .map(Cow::Borrowed),
        "status.successful" => lookup(object, "status.succeeded").map(scalar),
        path => lookup(object, path).map(scalar),
    };
    let absent = match field {
        "status.successful" | "status.replicas" => "0",
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        _ => "",
    };
    found.unwrap_or(Cow::Borrowed(absent))
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, step| value.get(step))
}

fn scalar(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed(""),
        other => Cow::Owned(other.to_string()),
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            terms.push(text.get(start..index).unwrap_or_default());
            start = index + 1;
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        let rest = term.get(index..)?;
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((term.get(..index)?, equal, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        match (escaped, c) {
            (true, '\\' | ',' | '=') => {
                out.push(c);
                escaped = false;
            }
            (true, c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
            (false, '\\') => escaped = true,
            (false, ',' | '=') => {
                return Err(format!("invalid field selector: unescaped character in value: {}", c as u32));
            }
            (false, c) => out.push(c),
        }
    }
    if escaped {
        return Err("invalid field selector: invalid escape sequence: \\".into());
    }
    Ok(out)
}
