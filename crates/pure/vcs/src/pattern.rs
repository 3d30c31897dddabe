//! Where an environment writes, and whether a pattern means that place.

/// Something in a repository that a promotion may write: a file, or everything below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The names from the root of the repository on; none is the root itself.
    segments: Vec<String>,
    /// Whether it stands for everything below, too.
    tree: bool,
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = if self.tree { "/**" } else { "" };
        write!(f, "{}{end}", self.segments.join("/"))
    }
}

impl Written {
    /// One file. What leaves the repository by `..` stands for all of it, so that no spelling leads round a pattern.
    pub fn file(path: &str) -> Written {
        Written::read(path, false)
    }

    /// A directory with everything below it.
    pub fn tree(path: &str) -> Written {
        Written::read(path, true)
    }

    fn read(path: &str, tree: bool) -> Written {
        let mut segments: Vec<String> = Vec::new();
        for segment in path.split('/') {
            match segment {
                "" | "." => {}
                ".." if segments.pop().is_none() => return Written { segments: Vec::new(), tree: true },
                ".." => {}
                name => segments.push(name.to_owned()),
            }
        }
        Written { segments, tree }
    }

    /// Whether a file is meant by it.
    pub fn covers(&self, file: &str) -> bool {
        let file = Written::file(file);
        match self.tree {
            true => !file.tree && file.segments.starts_with(&self.segments),
            false => file == *self,
        }
    }

    /// Whether a pattern of `spec.appliesToPaths` means this place, a directory above it, or something in it.
    pub fn is_meant_by(&self, pattern: &str) -> bool {
        let path: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        // A directory includes what is below it, so the pattern may end before the path does.
        self.lies_in(pattern) || (self.tree && reaches(&segments(pattern), &path))
    }

    /// Whether all of it lies where a pattern means, or below.
    pub fn lies_in(&self, pattern: &str) -> bool {
        let pattern = segments(pattern);
        let path: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        (0..=path.len()).any(|end| matches(&pattern, path.get(..end).unwrap_or_default()))
    }
}

fn segments(pattern: &str) -> Vec<&str> {
    pattern.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect()
}

/// Whether a pattern of `spec.appliesToBranches` means this branch.
pub fn means_branch(pattern: &str, branch: &str) -> bool {
    let plain = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
    let (pattern, branch) = (plain(pattern), plain(branch));
    matches(&pattern.split('/').collect::<Vec<_>>(), &branch.split('/').collect::<Vec<_>>())
}

/// Whether the pattern means exactly these segments. The number of steps is bounded by the product of the lengths: only
/// the last `**` is ever gone back to.
fn matches(pattern: &[&str], path: &[&str]) -> bool {
    let (mut at, mut here) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while here < path.len() {
        match (pattern.get(at), path.get(here)) {
            (Some(&"**"), _) => {
                back = Some((at + 1, here));
                at += 1;
            }
            (Some(wanted), Some(name)) if matches_text(wanted, name) => {
                at += 1;
                here += 1;
            }
            _ => match &mut back {
                Some((after, tried)) => {
                    *tried += 1;
                    (at, here) = (*after, *tried);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == "**")
}

/// Whether the pattern may mean something below the path.
fn reaches(pattern: &[&str], path: &[&str]) -> bool {
    for (index, name) in path.iter().enumerate() {
        match pattern.get(index) {
            Some(&"**") => return true,
            Some(wanted) if matches_text(wanted, name) => {}
            _ => return false,
        }
    }
    true
}

/// Whether a pattern means a text: `*` stands for any characters, none included. A path is compared segment by segment,
/// unless `*` shall go beyond a `/`. Time grows with the product of the lengths at worst.
pub fn matches_text(pattern: &str, text: &str) -> bool {
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
    use super::*;

    #[test]
    fn a_place_is_known_by_every_spelling() {
        for path in [
            "environments/prod",
            "./environments/prod/",
            "environments//prod",
            "environments/./prod",
            "environments/dev/../prod",
            "/environments/prod",
        ] {
            assert!(Written::tree(path).is_meant_by("environments/prod"), "{path}");
            assert!(Written::tree(path).is_meant_by("./environments/prod/"), "{path}");
            assert!(!Written::tree(path).is_meant_by("environments/staging"), "{path}");
        }
    }

    #[test]
    fn a_pattern_means_what_is_below_and_a_tree_what_is_in_it() {
        for (written, pattern, meant) in [
            (Written::file("environments/prod/kustomization.yaml"), "environments/prod", true),
            (Written::file("environments/prod/kustomization.yaml"), "environments/prod/*", true),
            (Written::file("environments/prod/eu/values.yaml"), "environments/prod/**", true),
            (Written::file("environments/prod/eu/values.yaml"), "**/values.yaml", true),
            (Written::file("environments/prod-eu/values.yaml"), "environments/prod", false),
            (Written::file("environments/prod-eu/values.yaml"), "environments/prod*", true),
            (Written::file("environments/dev/kustomization.yaml"), "environments/prod", false),
            (Written::file("kustomization.yaml"), "environments/prod", false),
            (Written::file("../prod/kustomization.yaml"), "environments/prod", true),
            (Written::tree("environments"), "environments/prod", true),
            (Written::tree("."), "environments/prod", true),
            (Written::tree("environments/dev"), "environments/*/overlay", true),
            (Written::tree("environments/dev"), "environments/prod", false),
            (Written::tree("environments/dev"), "**/prod", true),
            (Written::file("environments/prod"), "**", true),
        ] {
            assert_eq!(written.is_meant_by(pattern), meant, "{written:?} {pattern}");
        }
    }

    #[test]
    fn a_branch_is_known_by_its_name_and_by_a_pattern() {
        for (pattern, branch, meant) in [
            ("main", "main", true),
            ("main", "refs/heads/main", true),
            ("main", "main2", false),
            ("env/*", "env/prod", true),
            ("env/*", "env/eu/prod", false),
            ("env/**", "env/eu/prod", true),
            ("**", "env/eu/prod", true),
            ("release/*-lts", "release/1.2-lts", true),
        ] {
            assert_eq!(means_branch(pattern, branch), meant, "{pattern} {branch}");
        }
    }

    #[test]
    fn a_hostile_pattern_costs_little() {
        let pattern = "**/a/".repeat(100);
        let path = "a/".repeat(400) + "b";
        assert!(!Written::file(&path).is_meant_by(&(pattern + "c")));
    }
}
