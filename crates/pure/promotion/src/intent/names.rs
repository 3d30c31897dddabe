//! Names that came from outside, before they become part of a path: whatever is not a name of Kubernetes stops here.

use kardinal_object::{NAME_LIMIT, NAMESPACE_LIMIT, can_be_name, can_be_namespace};

use kardinal_planner::problem::Problem;

/// The longest value of a label.
const LABEL: usize = 63;
/// How much of a wrong name is repeated.
const SHOWN: usize = 64;

/// Makes sure that a text can be the name of an object: no `/`, `?`, `%` or `..` gets into a path with it.
pub fn check_name(field: &str, name: &str) -> Result<(), Problem> {
    match can_be_name(name) {
        true => Ok(()),
        false => Err(wrong(field, name, "a name", "lower case letters, digits, `-` and `.`", NAME_LIMIT)),
    }
}

/// Makes sure that a text can be the name of a namespace.
pub fn check_namespace(field: &str, name: &str) -> Result<(), Problem> {
    match can_be_namespace(name) {
        true => Ok(()),
        false => {
            let allowed = "lower case letters, digits and `-`";
            Err(wrong(field, name, "the name of a namespace", allowed, NAMESPACE_LIMIT))
        }
    }
}

/// Makes sure that a text can be the shard of a step, which has it as a label.
pub fn check_shard(field: &str, name: &str) -> Result<(), Problem> {
    let end = |c: char| c.is_ascii_alphanumeric();
    let inside = |c: char| end(c) || matches!(c, '-' | '_' | '.');
    let good =
        name.len() <= LABEL && name.starts_with(end) && name.ends_with(end) && name.chars().all(inside);
    match good {
        true => Ok(()),
        false => Err(wrong(field, name, "the name of a shard", "letters, digits, `-`, `_` and `.`", LABEL)),
    }
}

fn wrong(field: &str, name: &str, what: &str, allowed: &str, limit: usize) -> Problem {
    // Escaped: a wrong name may hold anything, and its reader may be a terminal.
    let shown: String = name.chars().take(SHOWN).flat_map(char::escape_default).collect();
    let hint = format!("use {allowed}, a letter or digit at both ends, at most {limit} characters");
    Problem::new(field, format!("`{shown}` is not {what}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_told_with_its_field_and_steers_no_terminal() {
        for good in ["a", "my-app", "my-app.v2", &"x".repeat(253)] {
            check_name("pipeline", good).unwrap();
        }
        for bad in ["", "x?watch=true", "a/../b", "a\nb", "a\u{1b}[2Jb", "é", &"x".repeat(254)] {
            let problem = check_name("pipeline", bad).unwrap_err();
            assert_eq!(problem.field, "pipeline");
            assert!(!problem.to_string().contains(char::is_control), "{problem}");
            assert!(problem.message.len() < 800, "{problem}");
        }
    }

    #[test]
    fn namespaces_have_no_dots() {
        check_namespace("namespace", "team-a").unwrap();
        for bad in ["a.b", "team-a/pipelines", "x?watch=true", &"x".repeat(64)] {
            check_namespace("namespace", bad).unwrap_err();
        }
    }
}
