//! Lines as a user types them, run by a shell in the folder of the fixtures, with a home of their own.
//!
//! `kubectl` caches what it discovers under its home, so every scenario has another one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// Only a failing test ever waits that long, in seconds.
const PATIENCE: u64 = 120;

/// What a line printed, and how it ended.
pub(crate) struct Answer {
    line: String,
    code: i32,
    /// What it printed.
    pub(crate) out: String,
    /// What it complained about.
    pub(crate) err: String,
}

impl Answer {
    /// The whole exchange, for a failure's message.
    fn transcript(&self) -> String {
        format!("$ {}\n{}{}(exit code {})", self.line, self.out, self.err, self.code)
    }

    /// The line succeeded.
    pub(crate) fn succeeded(self) -> anyhow::Result<Answer> {
        ensure!(self.code == 0, "should succeed:\n{}", self.transcript());
        Ok(self)
    }

    /// The line failed, and its complaint contains every one of the fragments.
    pub(crate) fn refused(self, fragments: &[&str]) -> anyhow::Result<Answer> {
        ensure!(self.code != 0, "should fail:\n{}", self.transcript());
        for fragment in fragments {
            ensure!(self.err.contains(fragment), "the error should say `{fragment}`:\n{}", self.transcript());
        }
        Ok(self)
    }

    /// The line ended with this code.
    pub(crate) fn ended(self, code: i32) -> anyhow::Result<Answer> {
        ensure!(self.code == code, "the exit code should be {code}:\n{}", self.transcript());
        Ok(self)
    }

    /// The output contains every one of the fragments.
    pub(crate) fn with(self, fragments: &[&str]) -> anyhow::Result<Answer> {
        for fragment in fragments {
            ensure!(self.out.contains(fragment), "should print `{fragment}`:\n{}", self.transcript());
        }
        Ok(self)
    }

    /// Neither the output nor the complaint contains any of the fragments.
    pub(crate) fn without(self, fragments: &[&str]) -> anyhow::Result<Answer> {
        for fragment in fragments {
            let said = self.out.contains(fragment) || self.err.contains(fragment);
            ensure!(!said, "should not print `{fragment}`:\n{}", self.transcript());
        }
        Ok(self)
    }

    /// The words of every line of the output: columns, whatever their width.
    pub(crate) fn rows(&self) -> Vec<Vec<&str>> {
        self.out.lines().map(|line| line.split_whitespace().collect()).collect()
    }
}

/// A shell whose `kubectl` talks to one server, in one namespace.
pub(crate) struct Shell {
    /// The namespace that is used unless a line names another one.
    pub(crate) namespace: String,
    home: tempfile::TempDir,
    folder: PathBuf,
}

impl Shell {
    /// A shell with a copy of the kubeconfig, which knows no namespace yet.
    pub(crate) fn new(kubeconfig: &Path, folder: &Path) -> anyhow::Result<Shell> {
        let home = tempfile::tempdir()?;
        std::fs::copy(kubeconfig, home.path().join("kubeconfig")).context("copying the kubeconfig")?;
        Ok(Shell { namespace: "default".to_owned(), home, folder: folder.to_owned() })
    }

    /// Makes a namespace and stays in it.
    pub(crate) fn enter_new_namespace(&mut self, name: &str) -> anyhow::Result<()> {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        self.feed("kubectl create -f -", &namespace)?.succeeded()?;
        self.ok(&format!("kubectl config set-context --current --namespace={name}"))?;
        self.namespace = name.to_owned();
        Ok(())
    }

    /// Runs a line, whatever comes of it.
    pub(crate) fn run(&self, line: &str) -> anyhow::Result<Answer> {
        self.feed(line, "")
    }

    /// Runs a line with this text on its input.
    pub(crate) fn feed(&self, line: &str, input: &str) -> anyhow::Result<Answer> {
        let mut child = self.spawn(line)?;
        let mut stdin = child.stdin.take().context("the input is a pipe")?;
        // A line that fails early does not read its input; its answer says why.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok(Answer {
            line: line.to_owned(),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a line that must succeed.
    pub(crate) fn ok(&self, line: &str) -> anyhow::Result<Answer> {
        self.run(line)?.succeeded()
    }

    /// Runs a line that must succeed and print every one of the fragments.
    pub(crate) fn says(&self, line: &str, fragments: &[&str]) -> anyhow::Result<Answer> {
        self.ok(line)?.with(fragments)
    }

    /// Runs a line until it succeeds and prints every one of the fragments: for what a server publishes a moment
    /// after it answered, such as the description of a new kind.
    pub(crate) fn soon_says(&self, line: &str, fragments: &[&str]) -> anyhow::Result<Answer> {
        let deadline = Instant::now() + Duration::from_secs(PATIENCE / 2);
        loop {
            let answer = self.says(line, fragments);
            if answer.is_ok() || Instant::now() > deadline {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a line that must succeed and print exactly this, line ends aside.
    pub(crate) fn prints(&self, line: &str, expected: &str) -> anyhow::Result<()> {
        let answer = self.ok(line)?;
        ensure!(
            answer.out.trim_end() == expected,
            "should print exactly `{expected}`:\n{}",
            answer.transcript()
        );
        Ok(())
    }

    /// Makes an empty ConfigMap.
    pub(crate) fn make_map(&self, name: &str) -> anyhow::Result<()> {
        let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        self.feed("kubectl create -f -", &map)?.succeeded()?;
        Ok(())
    }

    /// Runs a line that must fail with a complaint that contains every one of the fragments.
    pub(crate) fn refuses(&self, line: &str, fragments: &[&str]) -> anyhow::Result<Answer> {
        self.run(line)?.refused(fragments)
    }

    /// Writes a manifest to this shell's home and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let path = self.home.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// Starts a line that goes on until it is stopped.
    pub(crate) fn follow(&self, line: &str) -> anyhow::Result<Following> {
        let mut child = self.spawn(line)?;
        let output = child.stdout.take().context("the output is a pipe")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Following { line: line.to_owned(), child, lines })
    }

    fn spawn(&self, line: &str) -> anyhow::Result<Child> {
        let mut command = Command::new("timeout");
        command.arg(PATIENCE.to_string()).args(["sh", "-c", line]).current_dir(&self.folder);
        command.env("HOME", self.home.path()).env("KUBECONFIG", self.home.path().join("kubeconfig"));
        command.env("KUBECACHEDIR", self.home.path().join("cache")).env("NS", &self.namespace);
        command.env("TMPDIR", self.home.path());
        command.env_remove("KUBE_EDITOR").env_remove("EDITOR").env_remove("KUBERNETES_SERVICE_HOST");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().with_context(|| format!("starting `{line}`"))
    }
}

/// A line that goes on, with what it prints.
pub(crate) struct Following {
    line: String,
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    /// Waits for a line of output that contains all fragments, and returns it.
    pub(crate) fn until(&self, fragments: &[&str]) -> anyhow::Result<String> {
        let deadline = Instant::now() + Duration::from_secs(PATIENCE / 2);
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if fragments.iter().all(|fragment| line.contains(fragment)) {
                return Ok(line);
            }
            seen.push(line);
        }
        bail!("`{}` should print a line with {fragments:?}, but printed {seen:#?}", self.line);
    }

    /// Waits until it ends by itself, and says whether it succeeded.
    pub(crate) fn ends(mut self) -> anyhow::Result<bool> {
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // `timeout` passes the signal on to the line; one that has ended already needs none.
        let _ = Command::new("kill").arg(self.child.id().to_string()).output();
        let _ = self.child.wait();
    }
}
