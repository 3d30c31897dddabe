//! Which texts can be names. Whatever comes from users and becomes a part of a path is one of these: with `x?watch=true`
//! in its place a read would be a watch, and never end.

/// The longest name of an object.
pub const NAME_LIMIT: usize = 253;
/// The longest name of a namespace.
pub const NAMESPACE_LIMIT: usize = 63;

/// Whether a text can be the name of an object: a Secret, one of our kinds, and most others. No `/`, `?`, `%` or `..` is
/// in it.
pub fn can_be_name(text: &str) -> bool {
    text.len() <= NAME_LIMIT && text.split('.').all(is_label)
}

/// Whether a text can be the name of a namespace.
pub fn can_be_namespace(text: &str) -> bool {
    text.len() <= NAMESPACE_LIMIT && is_label(text)
}

fn is_label(label: &str) -> bool {
    let end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.starts_with(end) && label.ends_with(end) && label.chars().all(|c| end(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_its_place_in_a_path_is_no_name() {
        for good in ["a", "my-app", "my-app.v2", "0", &"x".repeat(253)] {
            assert!(can_be_name(good), "{good}");
        }
        let bad = [
            "",
            "?watch=true",
            "x?watch=true",
            "..",
            "../x",
            "a/../b",
            "a/b",
            "a%2fb",
            "a b",
            "A",
            "a.",
            ".a",
            "-a",
            "a#b",
            "a;b",
            "a\nb",
            "a\u{1b}[2Jb",
            "é",
            &"x".repeat(254),
        ];
        for bad in bad {
            assert!(!can_be_name(bad) && !can_be_namespace(bad), "{bad:?}");
        }
    }

    #[test]
    fn namespaces_have_no_dots() {
        for (text, good) in
            [("team-a", true), ("a.b", false), (&"x".repeat(63), true), (&"x".repeat(64), false)]
        {
            assert_eq!(can_be_namespace(text), good, "{text}");
        }
    }
}
