//! The lines of the guide to Graphs, run as they are printed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kardinal_testkit::up;

use crate::shell::Shell;

/// The guide whose lines are run.
const GUIDE: &str = "docs/guides/graphs.md";

/// Only a failing test ever waits that long.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The commands of the guide that come after the start of the server, in order.
fn lines(guide: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in guide.lines() {
        if line.starts_with("```") {
            in_code = line == "```sh";
        } else if in_code && (line.starts_with("kubectl ") || line.starts_with("target/release/kardinal ")) {
            found.push(line);
        }
    }
    found
}

/// `kardinal up` in a folder that looks like a fresh clone after `make build`.
struct Demo {
    folder: tempfile::TempDir,
    program: Child,
}

impl Demo {
    fn start() -> anyhow::Result<Demo> {
        let folder = tempfile::tempdir()?;
        let binary = folder.path().join("target/release/kardinal");
        std::fs::create_dir_all(binary.parent().context("the binary is in a folder")?)?;
        std::os::unix::fs::symlink(up::binary()?, &binary)?;
        let samples = folder.path().join("deploy/samples");
        std::fs::create_dir_all(&samples)?;
        for sample in std::fs::read_dir(crate::repository().join("deploy/samples"))? {
            let sample = sample?;
            std::fs::copy(sample.path(), samples.join(sample.file_name()))?;
        }
        let log = std::fs::File::create(folder.path().join("log"))?;
        // As the guide does, but on any ports: the usual ones may be taken.
        let program = Command::new(&binary)
            .args(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let demo = Demo { folder, program };
        let started = Instant::now();
        while !demo.path().join(".kardinal/endpoints.json").exists() {
            if started.elapsed() > START_LIMIT {
                bail!("kardinal up did not start: {}", demo.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(demo)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    /// Asks it to stop, as Ctrl-C does, and waits for the end.
    fn stop(mut self) -> anyhow::Result<()> {
        Command::new("kill").args(["-TERM", &self.program.id().to_string()]).status()?;
        let status = self.program.wait()?;
        ensure!(status.success(), "kardinal up should end well, but ended with {status}: {}", self.log());
        ensure!(
            !self.path().join(".kardinal/endpoints.json").exists(),
            "the endpoints are gone with the program"
        );
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // A program that has ended already needs neither.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn the_lines_of_the_guide_work_as_printed() -> anyhow::Result<()> {
    if !crate::has_kubectl() {
        return Ok(());
    }
    let guide = std::fs::read_to_string(crate::repository().join(GUIDE))?;
    let lines = lines(&guide);
    ensure!(lines.len() >= 12, "{GUIDE} has too few commands: {lines:#?}");
    let demo = Demo::start()?;
    let shell = Shell::new(&demo.path().join(".kardinal/kubeconfig"), demo.path())?;
    let told = tell(&shell, &lines).with_context(|| format!("kardinal up said:\n{}", demo.log()));
    told?;
    ensure!(!demo.log().contains("panicked"), "kardinal up panicked:\n{}", demo.log());
    demo.stop()
}

/// Runs the lines and checks what the text between them promises.
fn tell(shell: &Shell, lines: &[&str]) -> anyhow::Result<()> {
    for line in lines {
        // A reader has not set it.
        let line = format!("unset KUBECONFIG; {line}");
        let line = line.as_str();
        if line.contains("get configmaps -l app=demo") {
            // A reader is slower than the controller.
            shell.ok("kubectl wait configmap/demo-staging --for=create --timeout=60s")?;
            shell.ok(line)?.with(&["demo-staging"])?.without(&["demo-soak", "demo-prod"])?;
        } else if line.contains("graph explain demo") {
            shell.ok(line)?.with(&["staging", "prod"])?;
        } else if line.contains("get configmap demo-prod") {
            shell.ok(line)?.with(&["release 1.29.0 of the demo, soaking since 2"])?;
        } else if line.contains("graph validate") {
            shell.ok(line)?.with(&["no problems"])?;
        } else if line.contains("graph render") {
            shell.ok(line)?.with(&["staging: template ConfigMap"])?;
        } else {
            shell.ok(line)?;
        }
    }
    shell.ok("kubectl wait configmap -l app=demo --for=delete --timeout=60s")?;
    shell.prints("kubectl get graphs,configmaps -l app=demo -o name", "")
}
