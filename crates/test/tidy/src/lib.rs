//! What the compiler does not check about this workspace, as data: its packages and its files.
//!
//! The checks are the tests of this crate. Each returns every offence it finds, not only the first.

pub mod kinds;
pub mod packages;
pub mod sources;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the workspace.
pub fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().context("the workspace has a root")
}

/// Fails with the list of offences, if there are any.
pub fn report(rule: &str, offences: &[String]) -> Result<()> {
    anyhow::ensure!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
    Ok(())
}
