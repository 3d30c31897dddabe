//! The product's own binary, started as a user starts it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::child::Running;

const START_LIMIT: Duration = Duration::from_secs(60);

/// A running `kardinal up`.
pub struct Up {
    /// The kubeconfig it wrote.
    pub kubeconfig: PathBuf,
    _running: Running,
    dir: tempfile::TempDir,
}

impl Up {
    /// Starts it on a fresh data directory and any port, and waits until it is ready.
    pub fn start(flags: &[&str]) -> anyhow::Result<Up> {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        let mut arguments = vec!["up".to_owned(), "--data-dir".to_owned(), data.display().to_string()];
        for address in ["--listen", "--http"] {
            arguments.extend([address.to_owned(), "127.0.0.1:0".to_owned()]);
        }
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let log = dir.path().join("log");
        let running = Running::start(&binary()?, &arguments, &log)?;
        let kubeconfig = data.join("kubeconfig");
        wait_ready(&kubeconfig, &data.join("endpoints.json"), &log)?;
        Ok(Up { kubeconfig, _running: running, dir })
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// `endpoints.json` is written last, when everything is served.
fn wait_ready(kubeconfig: &Path, endpoints: &Path, log: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    while started.elapsed() < START_LIMIT {
        if endpoints.exists() && kubeconfig.exists() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!(
        "kardinal up was not ready in time; it said:\n{}",
        std::fs::read_to_string(log).unwrap_or_default()
    );
}

/// The `kardinal` binary that belongs to this build.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("KARDINAL_BIN") {
        return Ok(path.into());
    }
    // Test binaries are in target/<profile>/deps.
    let this = std::env::current_exe()?;
    let profile =
        this.parent().and_then(Path::parent).context("the test binary is not in a target directory")?;
    let binary = profile.join("kardinal");
    if !binary.exists() {
        let status = Command::new(env!("CARGO")).args(["build", "--package", "kardinal"]).status()?;
        if !status.success() || !binary.exists() {
            bail!("`{}` is missing: build it with `cargo build --package kardinal`", binary.display());
        }
    }
    Ok(binary)
}
