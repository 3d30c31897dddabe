//! Child processes that never outlive the test: a shell holds our pipe, and when the pipe closes
//! (the test ended, in whatever way) it kills the child.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A program that runs as long as this value lives.
pub struct Running {
    shell: Child,
}

/// `$0` is the log of the child's exit; the child is everything after it.
const KEEPER: &str = r#""$@" & child=$!; read -r _; kill -9 "$child" 2>/dev/null; wait "$child" 2>/dev/null"#;

impl Running {
    /// Starts the program with its output in `log`.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> anyhow::Result<Running> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let shell = Command::new("sh")
            .arg("-c")
            .arg(KEEPER)
            .arg("keeper")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Running { shell })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Closing the pipe ends the child; waiting frees its port before the next test asks for one.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// A port on loopback that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
