//! What holds for every file: its size, its name, its words, and that the compiler sees it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use kardinal_tidy::packages::packages;
use kardinal_tidy::sources::{files, lines_without_tests, reached};
use kardinal_tidy::{report, root};

/// The longest file without its tests.
const MAX_LINES: usize = 800;
/// Tables and generated sources that may be longer, each with the reason.
const LONG_FILES: [(&str, &str); 0] = [];
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 10] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers", "stuff", "shared"];

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests") || file.file_stem().is_some_and(|stem| stem == "tests")
}

/// Words that promise work instead of doing it.
const PROMISES: [&str; 5] = ["todo!(", "unimplemented!(", "FIXME", "TODO", "XXX"];
/// This file has to name what it forbids.
const THIS_FILE: &str = "tidy/tests/house/sources.rs";

#[test]
fn files_are_short() -> Result<()> {
    let root = root()?;
    let mut offences = Vec::new();
    for file in files(&root)?.into_iter().filter(|file| is_rust(file) && !is_test(file)) {
        let lines = lines_without_tests(&std::fs::read_to_string(root.join(&file))?);
        let exempt = LONG_FILES.iter().any(|(name, _)| file == Path::new(name));
        if lines > MAX_LINES && !exempt {
            offences.push(format!("{}: {lines}", file.display()));
        }
    }
    report("a file has more than 800 lines without its tests", &offences)
}

#[test]
fn names_say_what_is_inside() -> Result<()> {
    let mut offences = Vec::new();
    for file in files(&root()?)?.into_iter().filter(|file| is_rust(file)) {
        let stems = file.iter().map(|part| Path::new(part).file_stem().unwrap_or(part));
        if stems.into_iter().any(|stem| EMPTY_NAMES.iter().any(|name| stem == *name)) {
            offences.push(file.display().to_string());
        }
        if file.file_name().is_some_and(|name| name == "mod.rs") {
            offences.push(format!("{}: write `foo.rs` beside `foo/`", file.display()));
        }
    }
    report("a name says nothing about what is inside", &offences)
}

#[test]
fn nothing_is_promised_for_later() -> Result<()> {
    let root = root()?;
    let mut offences = Vec::new();
    for file in files(&root)?.into_iter().filter(|file| is_rust(file) && !file.ends_with(THIS_FILE)) {
        for (number, line) in std::fs::read_to_string(root.join(&file))?.lines().enumerate() {
            if PROMISES.iter().any(|word| line.contains(word)) {
                offences.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    report("a line promises work instead of doing it", &offences)
}

#[test]
fn no_path_of_one_machine() -> Result<()> {
    let root = root()?;
    let roots = ["work", "root", "Users"].map(|name| format!("/{name}/"));
    let starts = |line: &str, name: &str| {
        // A path starts a word; `${HOME}/place/` and addresses of web pages are something else.
        line.match_indices(name).any(|(at, _)| {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            before.is_none_or(|c| !(c.is_alphanumeric() || "}.)$_-~".contains(c)))
        })
    };
    let mut offences = Vec::new();
    for file in files(&root)? {
        let texts = ["rs", "toml", "md", "yaml", "yml", "sh", "py", "go", "mod"];
        let known = file.extension().is_some_and(|extension| texts.iter().any(|text| extension == *text));
        if !(known || file.ends_with("Makefile") || file.ends_with(".ci/run")) {
            continue;
        }
        for (number, line) in std::fs::read_to_string(root.join(&file))?.lines().enumerate() {
            if roots.iter().any(|name| starts(line, name)) {
                offences.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    report("a path exists on one machine only", &offences)
}

#[test]
fn the_compiler_sees_every_source() -> Result<()> {
    let root = root()?;
    let mut offences = Vec::new();
    for package in packages(&root)? {
        let folder = root.join(&package.folder);
        let mut seen = BTreeSet::new();
        for target in &package.targets {
            seen.extend(reached(target)?);
        }
        for file in files(&folder)?.into_iter().filter(|file| is_rust(file)) {
            if !seen.contains(&folder.join(&file)) {
                offences.push(package.folder.join(file).display().to_string());
            }
        }
    }
    report("no `mod` names a source, so it is never compiled or run", &offences)
}
