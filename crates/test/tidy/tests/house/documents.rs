//! The documents and the settings say what is true.

use std::path::Path;

use anyhow::{Context, Result};
use kardinal_tidy::packages::packages;
use kardinal_tidy::sources::files;
use kardinal_tidy::{report, root};

#[test]
fn the_architecture_names_every_crate() -> Result<()> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let offences: Vec<String> = packages(&root)?
        .into_iter()
        .map(|package| package.folder.display().to_string())
        .filter(|folder| !text.contains(&format!("`{folder}`")))
        .collect();
    report("ARCHITECTURE.md does not name a crate", &offences)
}

#[test]
fn the_architecture_stays_readable() -> Result<()> {
    let lines = std::fs::read_to_string(root()?.join("ARCHITECTURE.md"))?.lines().count();
    anyhow::ensure!(lines <= 400, "ARCHITECTURE.md has {lines} lines; 400 are the most that somebody reads");
    Ok(())
}

/// The last words of a path are enough to name a file: crates are named by their folder.
#[test]
fn the_files_that_a_change_touches_are_there() -> Result<()> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let all = files(&root)?;
    let is_file = |word: &&str| [".rs", ".md", ".toml"].iter().any(|end| word.ends_with(end));
    let rows = text.lines().filter(|line| line.starts_with("| changed"));
    let named: Vec<&str> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(is_file).collect();
    anyhow::ensure!(named.len() > 20, "only {} files are named", named.len());
    let is_there = |name: &str| all.iter().any(|file| file.ends_with(name));
    let offences: Vec<String> = named.into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect();
    report("ARCHITECTURE.md names a file that is not there", &offences)
}

/// The targets of `[text](target)` in a text, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if !in_code {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            found.extend(targets.map(|(target, _)| target.to_owned()));
        }
    }
    found
}

#[test]
fn links_lead_somewhere() -> Result<()> {
    let root = root()?;
    let mut offences = Vec::new();
    for file in files(&root)?.into_iter().filter(|file| file.extension().is_some_and(|e| e == "md")) {
        let folder = root.join(&file).parent().map(Path::to_owned).context("a file has a folder")?;
        for link in links(&std::fs::read_to_string(root.join(&file))?) {
            let target = link.split('#').next().unwrap_or_default();
            let outside = link.contains("://") || link.starts_with("mailto:");
            if !outside && !target.is_empty() && !folder.join(target).exists() {
                offences.push(format!("{}: {link}", file.display()));
            }
        }
    }
    report("a link leads nowhere", &offences)
}

#[test]
fn pure_repeats_the_settings_of_the_root() -> Result<()> {
    let root = root()?;
    let settings = |path: &str| -> Result<Vec<String>> {
        let text = std::fs::read_to_string(root.join(path))?;
        Ok(text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(str::to_owned)
            .collect())
    };
    let pure = settings("crates/pure/clippy.toml")?;
    let all = settings("clippy.toml")?;
    anyhow::ensure!(!all.is_empty(), "clippy.toml has no settings: the check sees nothing");
    let missing: Vec<String> = all.into_iter().filter(|line| !pure.contains(line)).collect();
    report("crates/pure/clippy.toml replaces the root's file and lacks a setting of it", &missing)
}

#[test]
fn the_samples_are_yaml_that_the_readme_names() -> Result<()> {
    let root = root()?;
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let named: Vec<&str> =
        readme.split_whitespace().filter(|word| word.starts_with("deploy/samples/")).collect();
    anyhow::ensure!(!named.is_empty(), "README.md names no sample");
    let missing: Vec<String> =
        named.into_iter().filter(|name| !root.join(name).is_file()).map(str::to_owned).collect();
    report("README.md names a sample that is not there", &missing)
}
