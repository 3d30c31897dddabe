//! Which branches are protected.

use kardinal_api::forge::RepositorySpec;

/// Whether only pull requests and kardinal may change a branch. Upper and lower case are the same here, because there
/// are disks on which they are: `MAIN` must not be a way round a protected `main`.
pub fn protects(spec: &RepositorySpec, branch: &str) -> bool {
    let branch = branch.to_lowercase();
    spec.protected_branches.iter().any(|pattern| matches(&pattern.to_lowercase(), &branch))
}

/// `*` stands for any characters, none and `/` included. Time grows with the product of the lengths at worst.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            // `find` gives the start of a part, which is a boundary, and so is its end.
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("main", "main", true),
            ("main", "main2", false),
            ("main", "amain", false),
            ("env/*", "env/prod", true),
            ("env/*", "env/eu/prod", true),
            ("env/*", "env/", true),
            ("env/*", "env", false),
            ("*", "anything", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*-prod", "eu-prod", true),
            ("*-prod", "prod", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
            ("rel*ase/*", "release/1.2", true),
            ("ü*", "über", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
