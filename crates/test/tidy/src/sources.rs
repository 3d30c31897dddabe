//! The files of the workspace, and which Rust files the compiler sees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders that hold no work of ours.
const SKIPPED: [&str; 6] = ["target", ".git", ".kardinal", "node_modules", "dist", ".cargo"];

/// Every file below a folder, sorted, from that folder on.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(current) = open.pop() {
        for entry in
            std::fs::read_dir(&current).with_context(|| format!("cannot list {}", current.display()))?
        {
            let entry = entry?;
            let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
            let kind = entry.file_type()?;
            if kind.is_dir() && !skipped {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(folder)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A module that a file declares: where its own file may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name behind `mod`.
    pub name: String,
    /// What `#[path = "…"]` says, if it is there.
    pub path: Option<String>,
}

/// The modules that a source declares and does not contain.
pub fn modules(source: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut path = None;
    for line in source.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next().map(str::to_owned);
        } else if let Some(name) = module_name(line) {
            found.push(Module { name: name.to_owned(), path: path.take() });
        } else if !line.starts_with('#') && !line.starts_with("//") {
            path = None;
        }
    }
    found
}

fn module_name(line: &str) -> Option<&str> {
    let line = line.strip_suffix(';')?;
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest).trim_start(),
        None => line,
    };
    let name = line.strip_prefix("mod ")?.trim();
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(name)
}

/// Every file that is reached from the root file of a target by `mod` lines.
pub fn reached(target: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut seen = BTreeSet::new();
    let mut open = vec![(target.to_owned(), true)];
    while let Some((file, is_root)) = open.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let source =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let beside = file.parent().unwrap_or(Path::new("")).to_owned();
        let below = if is_root { beside.clone() } else { file.with_extension("") };
        for module in modules(&source) {
            let candidates = match &module.path {
                Some(path) => vec![beside.join(path)],
                None => {
                    vec![below.join(format!("{}.rs", module.name)), below.join(&module.name).join("mod.rs")]
                }
            };
            open.extend(
                candidates.into_iter().filter(|candidate| candidate.is_file()).map(|file| (file, false)),
            );
        }
    }
    Ok(seen)
}

/// How many lines a source has before its inline tests.
pub fn lines_without_tests(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().collect();
    let starts_tests = |pair: &[&str]| matches!(pair, ["#[cfg(test)]", module] if module.starts_with("mod ") && module.ends_with('{'));
    lines.windows(2).position(starts_tests).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, names: &[&str]) {
        let found: Vec<String> = modules(source).into_iter().map(|module| module.name).collect();
        assert_eq!(found, names, "{source}");
    }

    #[test]
    fn modules_are_found() {
        check("mod a;\npub mod b;\npub(crate) mod c;\n    mod d;\n", &["a", "b", "c", "d"]);
        check("#[cfg(test)]\nmod tests;\n", &["tests"]);
        check("mod tests {\n}\n// mod e;\nlet x = \"mod f;\";\n", &[]);
        let found = modules("#[path = \"x/y.rs\"]\nmod z;\n");
        assert_eq!(found, [Module { name: "z".to_owned(), path: Some("x/y.rs".to_owned()) }]);
    }

    #[test]
    fn inline_tests_do_not_count() {
        assert_eq!(lines_without_tests("a\nb\n"), 2);
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nmod tests {\n}\n"), 1);
        assert_eq!(lines_without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"), 4);
    }
}
