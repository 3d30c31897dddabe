//! The names that a repository can have: those of objects, which also makes them safe as parts of a path.

use crate::error::Error;

/// The longest name that still fits a path component with its suffix.
const NAME_LIMIT: usize = 245;
const NAMESPACE_LIMIT: usize = 63;

pub(super) fn check(namespace: &str, name: &str) -> Result<(), Error> {
    if !is_label(namespace) || namespace.len() > NAMESPACE_LIMIT {
        return Err(Error::Problem(format!("`{}` is not the name of a namespace", shortened(namespace))));
    }
    let labels = name.split('.').all(is_label);
    if !labels || name.len() > NAME_LIMIT || name.ends_with(".git") {
        let allowed = "lower case letters, digits, `-` and `.` inside, and no `.git` at the end";
        return Err(Error::Problem(format!(
            "`{}` cannot be the name of a repository: use {allowed}",
            shortened(name)
        )));
    }
    Ok(())
}

fn is_label(label: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
}

fn shortened(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names() {
        for (namespace, name, good) in [
            ("default", "app", true),
            ("a-1", "app.v2", true),
            ("default", "a", true),
            ("default", &*"x".repeat(245), true),
            ("default", &*"x".repeat(246), false),
            (&*"n".repeat(64), "app", false),
            ("", "app", false),
            ("default", "", false),
            ("..", "app", false),
            (".", "app", false),
            ("default", "..", false),
            ("default", "a..b", false),
            ("default", ".hidden", false),
            ("default", "a/b", false),
            ("default", "/etc", false),
            ("default", "a\\b", false),
            ("default", "a\0b", false),
            ("default", "%2e%2e", false),
            ("default", "App", false),
            ("default", "app.git", false),
            ("default", "-app", false),
            ("default", "ä", false),
            ("a.b", "app", false),
        ] {
            assert_eq!(check(namespace, name).is_ok(), good, "{namespace} {name}");
        }
    }
}
