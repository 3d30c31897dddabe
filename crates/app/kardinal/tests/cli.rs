//! The command line as scripts see it: output, errors, exit codes.

#![expect(clippy::expect_used, reason = "a test may stop where its ground is missing")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/samples/graph.yaml");

fn kardinal(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kardinal"))
        .current_dir(dir)
        .env_remove("KUBECONFIG")
        .env("HOME", dir)
        .args(arguments)
        .output()
        .expect("the program starts")
}

/// Runs a command and checks its exit code and what its output, both streams together, contains.
fn check(dir: &Path, arguments: &[&str], code: i32, contains: &[&str]) {
    let output = kardinal(dir, arguments);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "`{}` said: {text}", arguments.join(" "));
    for expected in contains {
        assert!(text.contains(expected), "`{}` does not say `{expected}`: {text}", arguments.join(" "));
    }
}

#[test]
fn exit_codes_and_hints_are_stable() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    check(dir, &["version", "--client"], 0, &["kardinal 0."]);
    check(dir, &["version", "--client", "-o", "json"], 0, &["\"client\""]);
    check(dir, &["nonsense"], 2, &["nonsense"]);
    check(dir, &["graph", "render"], 2, &["--file"]);
    check(
        dir,
        &["install", "--export"],
        0,
        &["kind: CustomResourceDefinition", "graphs.experimental.kro.run"],
    );
    check(dir, &["graph", "explain", "demo"], 5, &["error:", "hint:", "kardinal up"]);
    check(dir, &["graph", "validate", "absent.yaml"], 1, &["absent.yaml"]);
}

#[test]
fn graphs_are_validated_and_drawn_without_a_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    check(dir, &["graph", "validate", SAMPLE], 0, &["no problems"]);
    check(dir, &["graph", "render", "-f", SAMPLE], 0, &["staging: template ConfigMap"]);
    check(
        dir,
        &["graph", "render", "-f", SAMPLE, "--format", "dot"],
        0,
        &["digraph", "\"soak\" -> \"prod\""],
    );
    check(dir, &["graph", "render", "-f", SAMPLE, "--format", "mermaid"], 0, &["flowchart"]);

    let broken = std::fs::read_to_string(SAMPLE)
        .expect("the sample")
        .replace("${release.version}", "${relase.version}");
    std::fs::write(dir.join("broken.yaml"), broken).expect("the broken sample");
    let place = ["broken.yaml:28:22", "did you mean `release`?", "1 problem(s) found"];
    check(dir, &["graph", "validate", "broken.yaml"], 1, &place);
    check(
        dir,
        &["graph", "validate", "broken.yaml", "-o", "json"],
        1,
        &["\"spec.nodes[1].template.data.version\""],
    );
}

/// A running `kardinal up`, ended with SIGTERM.
struct Up(Child);

impl Up {
    /// Starts it and waits for its greeting.
    fn start(dir: &Path, flags: &[&str]) -> Up {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kardinal"))
            .current_dir(dir)
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let greeted = lines.any(|line| line.is_ok_and(|line| line.contains("Ctrl-C stops it")));
        assert!(greeted, "kardinal up ended before it was up");
        // Somebody has to read on, or the program could not say goodbye.
        std::thread::spawn(move || lines.count());
        Up(child)
    }

    fn stop(mut self) -> Option<i32> {
        let signalled = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        assert!(signalled.is_ok_and(|status| status.success()));
        self.0.wait().ok().and_then(|status| status.code())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn up_serves_refuses_a_second_one_and_ends_well() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let up = Up::start(dir, &[]);
    check(dir, &["version"], 0, &["server   v1."]);
    check(dir, &["graph", "explain", "absent"], 3, &["not found"]);
    let pid = up.0.id().to_string();
    check(dir, &["up", "--listen", "127.0.0.1:0"], 1, &["in use by process", &pid]);
    assert!(dir.join(".kardinal/endpoints.json").exists());
    assert_eq!(up.stop(), Some(0), "SIGTERM ends it well");
    assert!(!dir.join(".kardinal/endpoints.json").exists(), "nobody is served any more");
}

#[test]
fn an_ephemeral_up_leaves_no_data() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let up = Up::start(dir, &["--ephemeral", "--graph-controller=external"]);
    check(dir, &["version"], 0, &["server   v1."]);
    assert_eq!(up.stop(), Some(0));
    assert!(!dir.join(".kardinal/store.redb").exists());
}
