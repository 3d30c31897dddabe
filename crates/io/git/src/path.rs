//! Which paths may be read and written.

use crate::Error;

/// The longest name of a file or directory that other systems can check out.
const MAX_NAME: usize = 255;
/// The longest path.
const MAX_PATH: usize = 4096;

/// The parts of a path to a file, or why it is refused.
pub(crate) fn file(path: &str) -> Result<Vec<&str>, Error> {
    let parts = parts(path)?;
    if parts.is_empty() {
        return Err(refused(path, "it names the root, not a file"));
    }
    Ok(parts)
}

/// The parts of a path to a directory; `""` and `"."` are the root.
pub(crate) fn directory(path: &str) -> Result<Vec<&str>, Error> {
    match path {
        "" | "." | "./" => Ok(Vec::new()),
        path => parts(path.strip_suffix('/').unwrap_or(path)),
    }
}

fn parts(path: &str) -> Result<Vec<&str>, Error> {
    if path.len() > MAX_PATH {
        return Err(refused(path.get(..80).unwrap_or_default(), "it is longer than 4096 bytes"));
    }
    let plain = path.strip_prefix("./").unwrap_or(path);
    if plain.is_empty() {
        return Err(refused(path, "it is empty"));
    }
    if plain.starts_with('/') {
        return Err(refused(path, "it must be relative to the root of the repository"));
    }
    plain.split('/').map(|part| name(path, part)).collect()
}

fn name<'a>(path: &str, part: &'a str) -> Result<&'a str, Error> {
    let reason = match part {
        "" => Some("it has an empty part"),
        "." | ".." => Some("`.` and `..` are not allowed in it"),
        part if part.len() > MAX_NAME => Some("a part of it is longer than 255 bytes"),
        part if part.contains('\\') => Some("it contains a backslash; use `/`"),
        part if part.chars().any(char::is_control) => Some("it contains a control character"),
        part if is_dot_git(part) => Some("`.git` belongs to git itself"),
        _ => None,
    };
    match reason {
        Some(reason) => Err(refused(path, reason)),
        None => Ok(part),
    }
}

/// Whether some file system takes this name for `.git`.
pub(crate) fn is_dot_git(name: &str) -> bool {
    // HFS+ ignores these characters, NTFS cuts dots, spaces and stream names off the end.
    let seen: String = name.chars().filter(|c| !is_ignorable(*c)).collect::<String>().to_lowercase();
    let seen = seen.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    seen == ".git" || seen == "git~1"
}

fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

fn refused(path: &str, reason: &str) -> Error {
    Error::problem(format!("the path `{}` is not allowed: {reason}", path.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_taken_apart() {
        assert_eq!(file("a/b.yaml").unwrap(), ["a", "b.yaml"]);
        assert_eq!(file("./a").unwrap(), ["a"]);
        assert_eq!(file(".github/x..y").unwrap(), [".github", "x..y"]);
        assert_eq!(directory("env/prod/").unwrap(), ["env", "prod"]);
        assert!(directory(".").unwrap().is_empty());
    }

    #[test]
    fn hostile_paths_are_refused() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(3000);
        for path in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a/./b",
            "a//b",
            ".git/config",
            "a/.GIT/hooks/x",
            ".git ",
            ".git.",
            ".Git::$INDEX_ALLOCATION",
            "git~1/x",
            "GIT~1",
            ".g\u{200c}it/x",
            "a\\b",
            "..\\x",
            "a\0b",
            "a\nb",
            &long,
            &longer,
        ] {
            let error = file(path).unwrap_err();
            assert!(error.to_string().contains("not allowed"), "{path:?}: {error}");
        }
        assert!(directory("a/..").is_err());
        assert!(directory("/").is_err());
    }
}
