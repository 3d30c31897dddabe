//! Names of nodes and loop variables.

use std::collections::BTreeMap;

use crate::declare::{Declaration, Problem};

const ID_LIMIT: usize = 63;
const AXIS_LIMIT: usize = 10;

/// Words that cannot name a node: CEL keywords, the names of CEL types and function libraries, and our own.
const RESERVED: [&str; 49] = [
    "as",
    "base64",
    "bool",
    "break",
    "bytes",
    "cel",
    "const",
    "continue",
    "double",
    "duration",
    "each",
    "else",
    "false",
    "for",
    "function",
    "has",
    "hash",
    "if",
    "import",
    "in",
    "int",
    "item",
    "json",
    "let",
    "list",
    "lists",
    "loop",
    "map",
    "math",
    "namespace",
    "now",
    "null",
    "null_type",
    "optional",
    "package",
    "return",
    "self",
    "sets",
    "string",
    "strings",
    "time",
    "timestamp",
    "true",
    "type",
    "uint",
    "var",
    "void",
    "while",
    "dyn",
];

/// Checks all names; gives the usable ids with their declared positions.
pub(super) fn check<'a>(
    declarations: &'a [Declaration],
    problems: &mut Vec<Problem>,
) -> BTreeMap<&'a str, usize> {
    let mut ids = BTreeMap::new();
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for (position, declaration) in declarations.iter().enumerate() {
        let id = declaration.id.as_str();
        let path = format!("nodes[{position}].id");
        if let Some(message) = wrong_id(id) {
            problems.push(Problem::declaration(path, message));
        } else if let Some(other) = seen.insert(id.to_ascii_lowercase(), id) {
            let message = format!("`{id}` is used twice (also as `{other}`); ids are unique ignoring case");
            problems.push(Problem::declaration(path, message));
        } else {
            ids.insert(id, position);
        }
    }
    for (position, declaration) in declarations.iter().enumerate() {
        check_variables(position, declaration, &ids, problems);
    }
    ids
}

fn wrong_id(id: &str) -> Option<String> {
    let starts = id.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
    if !starts || !id.chars().all(|c| c.is_ascii_alphanumeric()) || id.len() > ID_LIMIT {
        return Some(format!(
            "`{id}` is not a node id: letters and digits only, starting with a letter, at most {ID_LIMIT}"
        ));
    }
    RESERVED.contains(&id).then(|| format!("`{id}` is a reserved word and cannot be a node id"))
}

fn check_variables(
    position: usize,
    declaration: &Declaration,
    ids: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) {
    let path = format!("nodes[{position}].forEach");
    if declaration.for_each.len() > AXIS_LIMIT {
        let message = format!("has {} variables; at most {AXIS_LIMIT}", declaration.for_each.len());
        problems.push(Problem::declaration(path.as_str(), message));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (variable, _) in &declaration.for_each {
        let name = variable.as_str();
        let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let message = if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            format!("`{name}` is not a variable name: letters, digits and `_`, not starting with a digit")
        } else if name != "item" && RESERVED.contains(&name) {
            format!("`{name}` is a reserved word and cannot be a variable")
        } else if ids.contains_key(name) {
            format!("variable `{name}` has the name of a node")
        } else if seen.contains(&name) {
            format!("variable `{name}` is declared twice")
        } else {
            seen.push(name);
            continue;
        };
        problems.push(Problem::declaration(path.as_str(), message));
    }
}

/// The message for an id that no node has.
pub(super) fn unknown(id: &str, ids: &BTreeMap<&str, usize>) -> String {
    let near = ids.keys().find(|known| known.eq_ignore_ascii_case(id));
    match near {
        Some(known) => format!("there is no node `{id}`; did you mean `{known}`?"),
        None => {
            let known = ids.keys().take(12).copied().collect::<Vec<_>>().join(", ");
            format!("there is no node `{id}`; nodes are {known}")
        }
    }
}
