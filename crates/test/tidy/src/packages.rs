//! The packages of the workspace, their rings and what they depend on, as `cargo metadata` tells it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The dialects. Each has kinds of its own and knows no other one; what several of them need is in a crate below them.
pub const DIALECTS: [&str; 4] =
    ["kardinal-promotion", "kardinal-fleet", "kardinal-branch", "kardinal-definitions"];
/// What all dialects stand on; it has kinds, too.
pub const PLANNER: &str = "kardinal-planner";

/// The folder under `crates/` that a package lives in; dependencies go inwards only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ring {
    /// Decides and never acts.
    Pure,
    /// Talks to one thing outside.
    Io,
    /// Puts the others together.
    App,
    /// Tests that need more than one package.
    Test,
}

/// Why a package depends on another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// For what it ships, build scripts included.
    Shipped,
    /// For its own tests, examples and benches.
    Dev,
}

/// A dependency as the manifest has it.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The name of the package that is depended on.
    pub name: String,
    /// What it is needed for.
    pub kind: DependencyKind,
    /// Whether it is a package of this workspace.
    pub ours: bool,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// The name.
    pub name: String,
    /// The ring.
    pub ring: Ring,
    /// The folder, from the root of the workspace.
    pub folder: PathBuf,
    /// The root source file of every target.
    pub targets: Vec<PathBuf>,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ring::Pure => "pure",
            Ring::Io => "io",
            Ring::App => "app",
            Ring::Test => "test",
        })
    }
}

/// Whether a package is a dialect.
pub fn is_dialect(package: &Package) -> bool {
    DIALECTS.contains(&package.name.as_str())
}

/// All packages of the workspace.
pub fn packages(root: &Path) -> Result<Vec<Package>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    list(&metadata, "packages").iter().map(|package| read_package(root, package)).collect()
}

fn read_package(root: &Path, package: &Value) -> Result<Package> {
    let manifest = Path::new(text(package, "manifest_path")?);
    let folder = manifest
        .parent()
        .and_then(|folder| folder.strip_prefix(root).ok())
        .context("a folder below the root")?;
    Ok(Package {
        name: text(package, "name")?.to_owned(),
        ring: ring_of(folder)?,
        folder: folder.to_owned(),
        targets: list(package, "targets")
            .iter()
            .map(|t| Ok(text(t, "src_path")?.into()))
            .collect::<Result<_>>()?,
        dependencies: list(package, "dependencies").iter().map(read_dependency).collect::<Result<_>>()?,
    })
}

fn ring_of(folder: &Path) -> Result<Ring> {
    let mut parts = folder.iter().map(|part| part.to_string_lossy());
    let (top, ring) = (parts.next(), parts.next());
    ensure!(top.as_deref() == Some("crates"), "`{}` is not below crates/", folder.display());
    match ring.as_deref() {
        Some("pure") => Ok(Ring::Pure),
        Some("io") => Ok(Ring::Io),
        Some("app") => Ok(Ring::App),
        Some("test") => Ok(Ring::Test),
        _ => anyhow::bail!("`{}` is in no ring: pure, io, app or test", folder.display()),
    }
}

fn read_dependency(dependency: &Value) -> Result<Dependency> {
    let dev = dependency.get("kind").and_then(Value::as_str) == Some("dev");
    Ok(Dependency {
        name: text(dependency, "name")?.to_owned(),
        kind: if dev { DependencyKind::Dev } else { DependencyKind::Shipped },
        ours: dependency.get("path").is_some_and(Value::is_string),
    })
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value.get(field).and_then(Value::as_str).with_context(|| format!("cargo metadata has no `{field}`"))
}
