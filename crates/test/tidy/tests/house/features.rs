//! Test builds of any selection of packages share what they have compiled: each asks for the same features of other crates.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kardinal_tidy::packages::packages;
use kardinal_tidy::{report, root};

/// What is compiled of each crate: one set of features for each of its builds.
type Builds = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

/// The crates that a test build of this selection compiles.
fn builds(selection: &[&str]) -> Result<Builds> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--prefix", "none", "--edges", "normal,build,dev"])
        .args(["--format", "{p} [{f}]"])
        .args(selection)
        .current_dir(root()?)
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let mut all = Builds::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").rsplit_once(" [") else { continue };
        let features = features.trim_end_matches(']').split(',').filter(|name| !name.is_empty());
        let name = package.split(" (").next().unwrap_or(package);
        all.entry(name.to_owned()).or_default().insert(features.map(str::to_owned).collect());
    }
    Ok(all)
}

#[test]
fn every_selection_of_packages_builds_others_with_the_same_features() -> Result<()> {
    let whole = builds(&["--workspace"])?;
    ensure!(whole.len() > 100, "cargo tree names {} crates: the check sees nothing", whole.len());
    let mut offences = BTreeSet::new();
    for package in packages(&root()?)? {
        for (name, sets) in builds(&["--package", &package.name])? {
            let known = whole.get(&name).cloned().unwrap_or_default();
            for features in sets.difference(&known) {
                let lacks: Vec<String> = known
                    .iter()
                    .map(|wanted| wanted.difference(features).cloned().collect::<Vec<_>>())
                    .min_by_key(Vec::len)
                    .unwrap_or_default();
                offences.insert(format!("{name}: {} (tests of {})", lacks.join(", "), package.name));
            }
        }
    }
    let offences: Vec<String> = offences.into_iter().collect();
    report("add these features to crates/test/features/Cargo.toml", &offences)
}
