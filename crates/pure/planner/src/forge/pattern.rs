//! Which branches are protected.

use kardinal_api::forge::RepositorySpec;
use kardinal_vcs::matches_text;

/// Whether only pull requests and kardinal may change a branch. `*` goes beyond a `/` here: `env/*` protects `env/eu/prod`. Upper and lower case are the same here, because there
/// are disks on which they are: `MAIN` must not be a way round a protected `main`.
pub fn protects(spec: &RepositorySpec, branch: &str) -> bool {
    let branch = branch.to_lowercase();
    spec.protected_branches.iter().any(|pattern| matches_text(&pattern.to_lowercase(), &branch))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(matches_text(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn protected_branches() {
        let protected_branches = vec!["main".to_owned(), "env/*".to_owned()];
        let spec = RepositorySpec { protected_branches, ..RepositorySpec::default() };
        for (branch, expected) in [
            ("main", true),
            ("MAIN", true),
            ("env/prod", true),
            ("Env/prod", true),
            ("feature", false),
            ("env", false),
        ] {
            assert_eq!(protects(&spec, branch), expected, "{branch}");
        }
        assert!(!protects(&RepositorySpec::default(), "main"));
    }
}
