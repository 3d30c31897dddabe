//! Dependencies between the crates go inwards only, and nothing that ships depends on a test.

use anyhow::Result;
use kardinal_tidy::packages::{DIALECTS, Dependency, DependencyKind, Package, Ring, is_dialect, packages};
use kardinal_tidy::{report, root};

/// What a package of one ring may use of another one.
fn allowed(from: &Package, to: &Package, kind: DependencyKind) -> bool {
    if is_dialect(to) && (is_dialect(from) || matches!(from.ring, Ring::Pure | Ring::Io)) {
        return false;
    }
    // Adapters that are clients of the API server are tested against it.
    let client = ["kardinal-cluster", "kardinal-scm"].contains(&from.name.as_str());
    let tested_against = client && to.name == "kardinal-apiserver";
    match (from.ring, to.ring, kind) {
        (Ring::Pure | Ring::Io | Ring::App, Ring::Pure, _) | (Ring::App, Ring::Io | Ring::App, _) => true,
        (Ring::Io, Ring::Io, DependencyKind::Dev) => tested_against,
        (Ring::Test, _, _) | (_, Ring::Test, DependencyKind::Dev) => true,
        _ => false,
    }
}

/// Crates that bring in what pure code must not have: other tasks, the network, the disk, chance.
const IMPURE: [&str; 21] = [
    "tokio",
    "tokio-stream",
    "tokio-util",
    "tokio-rustls",
    "futures",
    "axum",
    "hyper",
    "hyper-util",
    "reqwest",
    "tower",
    "tower-http",
    "redb",
    "tempfile",
    "rand",
    "uuid",
    "rustls",
    "rcgen",
    "anyhow",
    "clap",
    "tracing",
    "tracing-subscriber",
];

/// `kube` is for the derives of the wire types; nothing else that is pure knows a client.
fn pure_may_use(package: &Package, dependency: &Dependency) -> bool {
    if dependency.name == "kube" {
        return package.name == "kardinal-api";
    }
    !IMPURE.contains(&dependency.name.as_str())
}

#[test]
fn dependencies_go_inwards() -> Result<()> {
    let all = packages(&root()?)?;
    let mut offences = Vec::new();
    for from in &all {
        for dependency in from.dependencies.iter().filter(|dependency| dependency.ours) {
            let Some(to) = all.iter().find(|to| to.name == dependency.name) else {
                offences.push(format!(
                    "{} depends on `{}`, which is outside the workspace",
                    from.name, dependency.name
                ));
                continue;
            };
            if !allowed(from, to, dependency.kind) {
                let (a, b) = (from.ring, to.ring);
                offences.push(format!(
                    "{} ({a}) depends on {} ({b}) as {:?}",
                    from.name, to.name, dependency.kind
                ));
            }
        }
    }
    report("a dependency goes outwards", &offences)
}

/// The rule holds for dialects that are still to come, too.
#[test]
fn a_dialect_knows_no_other_dialect() -> Result<()> {
    let package = |name: &str, ring| Package {
        name: name.to_owned(),
        ring,
        folder: Default::default(),
        targets: Vec::new(),
        dependencies: Vec::new(),
    };
    let (planner, app) =
        (package("kardinal-planner", Ring::Pure), package("kardinal-controllers", Ring::App));
    for one in DIALECTS.map(|name| package(name, Ring::Pure)) {
        for kind in [DependencyKind::Shipped, DependencyKind::Dev] {
            let known = DIALECTS.iter().filter(|other| allowed(&one, &package(other, Ring::Pure), kind));
            anyhow::ensure!(known.count() == 0, "{} may depend on a dialect", one.name);
            anyhow::ensure!(allowed(&one, &planner, kind) && !allowed(&planner, &one, kind), "{}", one.name);
        }
        anyhow::ensure!(allowed(&app, &one, DependencyKind::Shipped), "{}", one.name);
    }
    anyhow::ensure!(
        packages(&root()?)?.iter().any(is_dialect),
        "no package is a dialect: the check sees nothing"
    );
    Ok(())
}

#[test]
fn pure_crates_use_nothing_impure() -> Result<()> {
    let all = packages(&root()?)?;
    let offences: Vec<String> = all
        .iter()
        .filter(|package| package.ring == Ring::Pure)
        .flat_map(|package| package.dependencies.iter().map(move |dependency| (package, dependency)))
        .filter(|(package, dependency)| {
            dependency.kind == DependencyKind::Shipped && !pure_may_use(package, dependency)
        })
        .map(|(package, dependency)| format!("{} depends on {}", package.name, dependency.name))
        .collect();
    report("a pure crate depends on something impure", &offences)
}

#[test]
fn the_rings_are_not_empty() -> Result<()> {
    let all = packages(&root()?)?;
    for ring in [Ring::Pure, Ring::Io, Ring::App, Ring::Test] {
        anyhow::ensure!(
            all.iter().any(|package| package.ring == ring),
            "no crate in {ring}: the check sees nothing"
        );
    }
    Ok(())
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() -> Result<()> {
    let root = root()?;
    let mut offences = Vec::new();
    for package in packages(&root)? {
        let manifest = std::fs::read_to_string(root.join(&package.folder).join("Cargo.toml"))?;
        if !manifest.contains("[lints]\nworkspace = true") {
            offences.push(package.name);
        }
    }
    report("a crate does not take the lints of the workspace", &offences)
}
