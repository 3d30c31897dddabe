//! What a user declares: nodes as written, and what can be wrong with them.
//!
//! `read` turns the JSON of `spec.nodes` into declarations. Nothing here looks inside expressions.

use std::fmt;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a node is, with its body as the user wrote it.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// An object that the Graph creates and owns.
    Template(Value),
    /// Fields that the Graph contributes to an object of somebody else.
    Patch(Value),
    /// One object that is only read.
    Ref(Value),
    /// A set of objects that is only read.
    Watch(Value),
    /// A value that is computed.
    Def(Value),
}

impl Body {
    /// The keyword in the manifest.
    pub fn keyword(&self) -> &'static str {
        match self {
            Body::Template(_) => "template",
            Body::Patch(_) => "patch",
            Body::Ref(_) => "ref",
            Body::Watch(_) => "watch",
            Body::Def(_) => "def",
        }
    }

    /// The value as written.
    pub fn value(&self) -> &Value {
        match self {
            Body::Template(value)
            | Body::Patch(value)
            | Body::Ref(value)
            | Body::Watch(value)
            | Body::Def(value) => value,
        }
    }
}

/// One node as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The name by which expressions refer to the node.
    pub id: String,
    /// What it is.
    pub body: Body,
    /// Loop variables with their `${list}` expressions, outermost first.
    pub for_each: Vec<(String, String)>,
    /// All must hold for the node to exist.
    pub include_when: Vec<String>,
    /// All must hold for the node to be healthy; gates nothing.
    pub ready_when: Vec<String>,
    /// All must hold for the node's data to reach its dependents.
    pub propagate_when: Vec<String>,
    /// The node before whose removal this one runs.
    pub finalizes: Option<String>,
    /// Nodes that must be in scope first, without data.
    pub depends_on: Vec<String>,
    /// Evaluate the node again after this time, even when nothing changes.
    pub recheck_after: Option<SignedDuration>,
    /// Take fields and objects over from others.
    pub force: bool,
}

impl Declaration {
    /// A node without modifiers.
    pub fn new(id: impl Into<String>, body: Body) -> Declaration {
        Declaration {
            id: id.into(),
            body,
            for_each: Vec::new(),
            include_when: Vec::new(),
            ready_when: Vec::new(),
            propagate_when: Vec::new(),
            finalizes: None,
            depends_on: Vec::new(),
            recheck_after: None,
            force: false,
        }
    }
}

/// The family of a problem: the reason of the Graph's `Compiled` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProblemReason {
    /// An expression cannot be compiled.
    ExpressionError,
    /// References do not form an order.
    DependencyError,
    /// A node is not well formed.
    DeclarationError,
}

impl fmt::Display for ProblemReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProblemReason::ExpressionError => "ExpressionError",
            ProblemReason::DependencyError => "DependencyError",
            ProblemReason::DeclarationError => "DeclarationError",
        })
    }
}

/// Something the user has to correct before the Graph can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Problem {
    /// Where, for example `nodes[3].template.spec.bundleRef`.
    pub path: String,
    /// Which family.
    pub reason: ProblemReason,
    /// What is wrong and what is allowed.
    pub message: String,
    /// Start and end, in bytes, inside the string at `path`.
    pub span: Option<(usize, usize)>,
}

impl Problem {
    pub(crate) fn declaration(path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            path: path.into(),
            reason: ProblemReason::DeclarationError,
            message: message.into(),
            span: None,
        }
    }

    pub(crate) fn dependency(path: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            path: path.into(),
            reason: ProblemReason::DependencyError,
            message: message.into(),
            span: None,
        }
    }
}

const BODIES: [&str; 5] = ["template", "patch", "ref", "watch", "def"];
const FIELDS: [&str; 9] = [
    "id",
    "forEach",
    "includeWhen",
    "readyWhen",
    "propagateWhen",
    "finalizes",
    "dependsOn",
    "recheckAfter",
    "lifecycle",
];

/// Reads the list under `spec.nodes`.
pub fn read(nodes: &Value) -> Result<Vec<Declaration>, Vec<Problem>> {
    let Some(list) = nodes.as_array() else {
        return Err(vec![Problem::declaration("nodes", "must be a list of nodes")]);
    };
    let mut problems = Vec::new();
    let mut declarations = Vec::new();
    for (position, node) in list.iter().enumerate() {
        let mut reader = Reader { path: format!("nodes[{position}]"), problems: Vec::new() };
        if let Some(declaration) = reader.node(node) {
            declarations.push(declaration);
        }
        problems.append(&mut reader.problems);
    }
    if problems.is_empty() { Ok(declarations) } else { Err(problems) }
}

struct Reader {
    path: String,
    problems: Vec<Problem>,
}

impl Reader {
    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        let path = if field.is_empty() { self.path.clone() } else { format!("{}.{field}", self.path) };
        self.problems.push(Problem::declaration(path, message));
    }

    fn node(&mut self, node: &Value) -> Option<Declaration> {
        let Some(map) = node.as_object() else {
            self.wrong("", "a node must be a map with `id` and one of template, patch, ref, watch, def");
            return None;
        };
        for key in map.keys() {
            if !FIELDS.contains(&key.as_str()) && !BODIES.contains(&key.as_str()) {
                let allowed = FIELDS.iter().chain(&BODIES).copied().collect::<Vec<_>>().join(", ");
                self.wrong(key, format!("unknown field `{key}`; allowed are {allowed}"));
            }
        }
        let body = self.body(map)?;
        let Some(id) = map.get("id").and_then(Value::as_str) else {
            self.wrong("id", "must be a string");
            return None;
        };
        let mut declaration = Declaration::new(id, body);
        declaration.for_each = self.for_each(map.get("forEach"));
        declaration.include_when = self.texts(map, "includeWhen");
        declaration.ready_when = self.texts(map, "readyWhen");
        declaration.propagate_when = self.texts(map, "propagateWhen");
        declaration.depends_on = self.texts(map, "dependsOn");
        declaration.finalizes = self.text(map, "finalizes");
        if let Some(text) = self.text(map, "recheckAfter") {
            match text.parse::<SignedDuration>() {
                Ok(duration) => declaration.recheck_after = Some(duration),
                Err(_) => {
                    self.wrong("recheckAfter", format!("`{text}` is not a duration such as `30s` or `5m`"))
                }
            }
        }
        match map.get("lifecycle").and_then(|lifecycle| lifecycle.get("apply")) {
            None => {}
            Some(Value::String(text)) if text == "Force" => declaration.force = true,
            Some(other) => {
                self.wrong("lifecycle.apply", format!("`{other}` is not allowed; only `Force` is"))
            }
        }
        Some(declaration)
    }

    fn body(&mut self, map: &Map<String, Value>) -> Option<Body> {
        let mut found = BODIES.iter().filter_map(|key| map.get(*key).map(|value| (*key, value.clone())));
        match (found.next(), found.next()) {
            (Some((key, value)), None) => Some(match key {
                "template" => Body::Template(value),
                "patch" => Body::Patch(value),
                "ref" => Body::Ref(value),
                "watch" => Body::Watch(value),
                _ => Body::Def(value),
            }),
            (Some((first, _)), Some((second, _))) => {
                self.wrong("", format!("has both `{first}` and `{second}`; exactly one of template, patch, ref, watch, def is allowed"));
                None
            }
            (None, _) => {
                self.wrong("", "needs exactly one of template, patch, ref, watch, def");
                None
            }
        }
    }

    fn text(&mut self, map: &Map<String, Value>, field: &str) -> Option<String> {
        match map.get(field) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.wrong(field, "must be a string");
                None
            }
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, field: &str) -> Vec<String> {
        let Some(value) = map.get(field) else { return Vec::new() };
        let texts: Option<Vec<String>> = match value {
            Value::Null => Some(Vec::new()),
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(field, "must be a list of strings");
            Vec::new()
        })
    }

    fn for_each(&mut self, value: Option<&Value>) -> Vec<(String, String)> {
        let maps: Vec<&Map<String, Value>> = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(map)) => vec![map],
            Some(Value::Array(items)) => {
                let maps: Vec<_> = items.iter().filter_map(Value::as_object).collect();
                if maps.len() != items.len() || maps.iter().any(|map| map.len() != 1) {
                    self.wrong(
                        "forEach",
                        "every entry must be a map with one variable, such as `- region: ${…}`",
                    );
                    return Vec::new();
                }
                maps
            }
            Some(_) => {
                self.wrong(
                    "forEach",
                    "must be a list of maps with one variable each, such as `- region: ${…}`",
                );
                return Vec::new();
            }
        };
        let mut variables = Vec::new();
        for (name, expression) in maps.into_iter().flatten() {
            match expression.as_str() {
                Some(text) => variables.push((name.clone(), text.to_owned())),
                None => self
                    .wrong("forEach", format!("`{name}` must be an expression `${{…}}` that gives a list")),
            }
        }
        variables
    }
}
