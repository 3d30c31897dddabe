//! `kardinal` as a process that a test talks to: what it prints, and how it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// How long something that must happen may take. Only a failing test ever waits that long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A running program that dies with this value.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `kardinal` in a folder, with nobody's settings but the test's. Both streams go to `log`.
    pub fn start(
        folder: &Path,
        log: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Process> {
        let log = folder.join(log);
        let output = File::create(&log)?;
        let child = Command::new(crate::up::binary()?)
            .args(arguments)
            .current_dir(folder)
            .env_remove("KUBECONFIG")
            .env_remove("RUST_LOG")
            .env("HOME", folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting kardinal")?;
        Ok(Process { child, log })
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has printed what is looked for.
    pub fn wait_for<T>(&mut self, what: &str, look: impl Fn(&str) -> Option<T>) -> anyhow::Result<T> {
        let started = Instant::now();
        loop {
            let printed = self.printed();
            if let Some(found) = look(&printed) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{what}: it ended with {status} and said:\n{printed}");
            }
            if started.elapsed() > PATIENCE {
                bail!("{what}: not so after {PATIENCE:?}; it said:\n{printed}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let pid = self.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status()?;
        anyhow::ensure!(sent.success(), "kill -s {name} {pid}");
        Ok(())
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(mut self) -> anyhow::Result<ExitStatus> {
        self.signal("TERM")?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > PATIENCE {
                bail!("it does not end; it said:\n{}", self.printed());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
