//! A real kustomize: built once from its published module and kept in a cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure};

const VERSION: &str = "5.7.1";

/// The program, built if this machine has not built it before. `None`, with one visible line, where Go is missing.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn program() -> anyhow::Result<Option<PathBuf>> {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: the real kustomize needs Go to be built, and there is no `go` on this machine");
        return Ok(None);
    }
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache"),
        (None, None) => bail!("neither XDG_CACHE_HOME nor HOME is set: no place to keep the built kustomize"),
    }
    .join("kardinal-test");
    let folder = cache.join(format!("kustomize-{VERSION}"));
    std::fs::create_dir_all(&folder)?;
    let target = folder.join("kustomize");
    // Tests run side by side: only one of them builds.
    let lock = std::fs::File::create(folder.join("lock"))?;
    lock.lock()?;
    if target.exists() {
        return Ok(Some(target));
    }
    let unfinished = folder.join("kustomize.unfinished");
    let status = Command::new("go")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("go/kustomize"))
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-ldflags", "-s -w", "-o"])
        .arg(&unfinished)
        .arg("sigs.k8s.io/kustomize/kustomize/v5")
        .status()?;
    ensure!(status.success(), "building kustomize failed");
    std::fs::rename(&unfinished, &target)?;
    Ok(Some(target))
}
