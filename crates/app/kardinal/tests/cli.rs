//! The command line as scripts see it: output, errors, exit codes.

#![expect(clippy::expect_used, reason = "a test may stop where its ground is missing")]

#[path = "cli/folder.rs"]
mod folder;
#[path = "cli/promotions.rs"]
mod promotions;

use std::io::{BufRead as _, BufReader, Lines};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/samples/graph.yaml");

fn kardinal(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kardinal"))
        .current_dir(dir)
        .env_remove("KUBECONFIG")
        .env("HOME", dir)
        .env("USER", "alice")
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
            .args(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
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
    check(dir, &["version"], 0, &[concat!("controller ", env!("CARGO_PKG_VERSION"), "\n"), "kubernetes v1."]);
    check(dir, &["graph", "explain", "absent"], 3, &["not found"]);
    let pid = up.0.id().to_string();
    check(dir, &["up", "--listen", "127.0.0.1:0"], 1, &["in use by process", &pid]);
    assert!(dir.join(".kardinal/endpoints.json").exists());
    assert_eq!(up.stop(), Some(0), "SIGTERM ends it well");
    assert!(!dir.join(".kardinal/endpoints.json").exists(), "nobody is served any more");
}

#[test]
fn sigterm_ends_the_program_within_seconds_whatever_hangs() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let up = Up::start(dir, &[]);
    // A server of repositories that takes every call and never says a word; git would wait for a minute.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/team/gitops.git", silent.local_addr().expect("its address"));
    let (call, called) = mpsc::channel();
    std::thread::spawn(move || call.send(silent.accept()));
    let config =
        CONFIG.replace("http://127.0.0.1:9/gitops-repo", &url).replace("  secret: github-token\n", "");
    std::fs::write(dir.join("kardinal.yaml"), config).expect("the configuration");
    check(dir, &["init"], 0, &["Pipeline \"my-app\" created"]);
    check(dir, &["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app:1.29.0"], 0, &["created"]);
    let _held = called.recv_timeout(Duration::from_secs(120)).expect("the repository is asked for");
    let asked = Instant::now();
    assert_eq!(up.stop(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
}

#[test]
fn an_ephemeral_up_leaves_no_data() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let up = Up::start(dir, &["--ephemeral", "--graph-controller=external"]);
    check(dir, &["version"], 0, &[concat!("controller ", env!("CARGO_PKG_VERSION"), "\n"), "kubernetes v1."]);
    assert_eq!(up.stop(), Some(0));
    assert!(!dir.join(".kardinal/store.redb").exists());
}

const CONFIG: &str = "\
app: my-app
image: ghcr.io/myorg/my-app
git:
  url: http://127.0.0.1:9/gitops-repo
  secret: github-token
environments: [dev, staging, prod]
prodApproval: pr-review
";

/// A running `kardinal up` with a Pipeline that is paused, so that nothing moves by itself.
fn up_with_pipeline(dir: &Path) -> Up {
    let up = Up::start(dir, &[]);
    std::fs::write(dir.join("kardinal.yaml"), CONFIG).expect("the configuration");
    let created = [
        "Pipeline \"my-app\" created (3 environments: dev, staging, prod)",
        "no org PolicyGates apply",
        "kardinal create bundle my-app --image ghcr.io/myorg/my-app:$TAG",
    ];
    check(dir, &["init"], 0, &created);
    check(dir, &["pause", "my-app"], 0, &["Pipeline \"my-app\" paused", "kardinal resume my-app"]);
    up
}

#[test]
fn every_command_explains_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let commands = [
        "init",
        "get",
        "create",
        "promote",
        "explain",
        "rollback",
        "pause",
        "resume",
        "history",
        "policy",
        "override",
        "diff",
        "pr",
        "doctor",
        "completion",
        "graph",
        "install",
        "version",
        "up",
        "controller",
    ];
    for command in commands {
        check(dir.path(), &[command, "--help"], 0, &["Usage: kardinal", command]);
    }
    check(
        dir.path(),
        &["create", "bundle", "--help"],
        0,
        &["Examples:", "--image ghcr.io/myorg/my-app:1.29.0"],
    );
    for shell in ["bash", "zsh", "fish"] {
        check(dir.path(), &["completion", shell], 0, &["kardinal", "explain"]);
    }
}

#[test]
fn gates_are_tested_without_a_server() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let gate = |expression: &str| {
        format!(
            "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {{name: g}}\nspec: {{expression: '{expression}'}}\n"
        )
    };
    std::fs::write(dir.join("good.yaml"), gate("!schedule.isWeekend")).expect("a gate");
    std::fs::write(dir.join("bad.yaml"), gate("!schedule.isWeeknd")).expect("a gate");
    std::fs::write(dir.join("bare.cel"), "bundle.upstreamSoakMinutes >= 30\n").expect("an expression");
    check(
        dir,
        &["policy", "test", "good.yaml", "bare.cel"],
        0,
        &["good.yaml: g: ok", "bare.cel: expression: ok"],
    );
    check(dir, &["policy", "test", "bad.yaml"], 1, &["isWeeknd", "^^^", "1 of 1 gates cannot be used"]);
    let hasty = gate("true").replace("spec: {", "spec: {recheckInterval: 0s, ");
    std::fs::write(dir.join("hasty.yaml"), hasty).expect("a gate");
    let short =
        ["spec.recheckInterval: `0s` is too short", "write `10s` or more", "1 of 1 gates cannot be used"];
    check(dir, &["policy", "test", "hasty.yaml"], 1, &short);
    check(dir, &["policy", "test", "absent.yaml"], 1, &["absent.yaml"]);
    check(dir, &["policy", "test"], 2, &["FILE"]);
}

#[test]
fn policy_test_refuses_what_cannot_be_true_or_false() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    for (file, expression) in [("version.cel", "bundle.version\n"), ("sum.cel", "1 + 1\n")] {
        std::fs::write(dir.join(file), expression).expect("an expression");
        check(dir, &["policy", "test", file], 1, &[file, "true or false", "1 of 1 gates cannot be used"]);
    }
}

#[test]
fn wrong_orders_are_refused_before_a_server_is_asked() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    check(dir, &["create", "bundle", "my-app"], 2, &["--image"]);
    let no_tag = ["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app"];
    check(dir, &no_tag, 2, &["`ghcr.io/myorg/my-app` has neither a tag nor a digest", "hint:"]);
    let no_commit = ["create", "bundle", "my-app", "--git-commit", "https://example.com/r"];
    check(dir, &no_commit, 2, &["--git-commit", "hint:"]);
    let mismatch = ["create", "bundle", "my-app", "--image", "r/a:1", "--type", "config"];
    check(dir, &mismatch, 2, &["`image`, not `config`"]);
    check(dir, &["create", "bundle", "my-app", "--image", "r/a:1", "--label", "x"], 2, &["key=value"]);
    check(dir, &["history", "my-app", "--limit", "0"], 2, &["--limit", "'0'", "1.."]);
    check(dir, &["explain", "my-app"], 5, &["kardinal up"]);
    check(dir, &["doctor"], 1, &["fail", "server", "kardinal up"]);
    check(dir, &["init"], 2, &["kardinal.yaml", "kardinal init --help"]);
    std::fs::write(dir.join("kardinal.yaml"), "app: my-app\nnonsense: 1\n").expect("a configuration");
    check(dir, &["init", "--dry-run"], 2, &["nonsense"]);
    std::fs::write(dir.join("kardinal.yaml"), CONFIG).expect("a configuration");
    check(dir, &["init", "--dry-run"], 0, &["kind: Pipeline", "approval: pr-review"]);
    check(dir, &["init", "--mode", "graph"], 2, &["--from"]);
}

#[test]
fn a_pipeline_is_made_held_and_explained() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let _up = up_with_pipeline(dir);
    check(dir, &["init"], 1, &["Pipeline `my-app` exists already", "hint:"]);
    check(dir, &["pause", "my-app"], 0, &["is paused already"]);
    check(dir, &["get", "pipelines"], 0, &["PIPELINE", "DEV", "STAGING", "PROD", "my-app [PAUSED]"]);
    check(dir, &["get", "pipelines", "-A"], 0, &["NAMESPACE", "default"]);
    let made = ["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app:1.29.0", "--author", "alice"];
    check(dir, &made, 0, &["Bundle \"my-app-v1-29-0-", "created (v1.29.0)"]);
    check(dir, &["get", "bundles", "my-app"], 0, &["v1.29.0", "image", "alice"]);
    let lines = [
        "PROMOTION: my-app / dev\n  Bundle: v1.29.0\n",
        "freeze-my-app  [team]   FAIL",
        "paused by alice",
        "no ETA: needs a person to run `kardinal resume my-app`",
        "RESULT: BLOCKED by freeze-my-app\n",
    ];
    check(dir, &["explain", "my-app", "--env", "dev"], 0, &lines);
    check(dir, &["explain", "my-app", "--env", "dev", "-o", "json"], 0, &["\"outcome\": \"BLOCKED\""]);
    check(dir, &["explain", "my-app", "--env", "dev", "-o", "yaml"], 0, &["outcome: BLOCKED"]);
    check(dir, &["get", "steps", "my-app"], 0, &["freeze-my-app", "FAIL"]);
    check(dir, &["init", "--mode", "graph", "--from", "my-app"], 0, &["kind: Graph", "kind: PromotionStep"]);
    let again = ["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app:1.30.0", "--dry-run"];
    check(dir, &again, 0, &["would be created"]);
    check(dir, &["promote", "my-app", "--env", "dev"], 0, &["v1.29.0 is on its way to dev already"]);
    let output = kardinal(dir, &["get", "pipelines", "-o", "json"]);
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows.pointer("/0/name").and_then(serde_json::Value::as_str), Some("my-app"));
    assert_eq!(rows.pointer("/0/paused").and_then(serde_json::Value::as_bool), Some(true));
    check(
        dir,
        &["doctor"],
        1,
        &["ok", "kinds: ", "Secret github-token: it does not exist", "kubectl -n default create secret"],
    );
}

#[test]
fn what_does_not_exist_is_told_with_what_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let _up = up_with_pipeline(dir);
    let environments = "it has `dev`, `staging` and `prod`";
    let commands: [&[&str]; 9] = [
        &["explain", "nope"],
        &["get", "steps", "nope"],
        &["get", "bundles", "nope"],
        &["create", "bundle", "nope", "--image", "r/a:1"],
        &["promote", "nope", "--env", "dev"],
        &["rollback", "nope", "--env", "dev"],
        &["history", "nope"],
        &["pause", "nope"],
        &["resume", "nope"],
    ];
    for command in commands {
        check(dir, command, 3, &["there is no Pipeline `nope`", "there are `my-app`"]);
    }
    let commands: [&[&str]; 6] = [
        &["explain", "my-app", "--env", "qa"],
        &["promote", "my-app", "--env", "qa"],
        &["rollback", "my-app", "--env", "qa"],
        &["history", "my-app", "--env", "qa"],
        &["create", "bundle", "my-app", "--image", "r/a:1", "--target", "qa"],
        &["policy", "simulate", "--pipeline", "my-app", "--env", "qa"],
    ];
    for command in commands {
        check(dir, command, 3, &["has no environment `qa`", environments]);
    }
    check(dir, &["diff", "a", "b"], 3, &["there is no Bundle `a`", "hint:"]);
    check(dir, &["promote", "my-app", "--env", "prod"], 1, &["no Bundle has reached `staging`"]);
    check(dir, &["rollback", "my-app", "--env", "prod"], 1, &["no Bundle has reached `prod` yet"]);
    let wish = ["override", "my-app", "--gate", "soak", "--reason", "outage"];
    check(dir, &wish, 3, &["waits at a gate `soak`", "hint:"]);
    check(
        dir,
        &["override", "my-app", "--gate", "soak", "--reason", "outage", "--expires-in", "soon"],
        2,
        &["--expires-in"],
    );
    check(dir, &["pr", "list"], 0, &["there are no open pull requests"]);
    check(dir, &["pr", "merge", "3"], 3, &["there is no pull request #3"]);
    check(dir, &["history", "my-app"], 0, &["nothing was promoted"]);
    check(dir, &["resume", "my-app"], 0, &["goes on"]);
    check(dir, &["resume", "my-app"], 0, &["is not paused"]);
}

#[test]
fn gates_are_simulated_at_another_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let _up = up_with_pipeline(dir);
    let simulate = |time: &'static str| {
        vec!["policy", "simulate", "--pipeline", "my-app", "--env", "prod", "--time", time]
    };
    check(dir, &simulate("Saturday 3pm"), 0, &["no gates guard this environment", "RESULT: PASS"]);
    check(dir, &simulate("sometime"), 2, &["--time: `sometime`"]);
    check(dir, &["policy", "list"], 0, &["freeze-my-app", "pause"]);
}

/// A command that goes on printing, killed at the end.
struct Watcher {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watcher {
    fn start(dir: &Path, arguments: &[&str]) -> Watcher {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kardinal"))
            .current_dir(dir)
            .env_remove("KUBECONFIG")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Watcher { child, lines }
    }

    fn expect(&mut self, text: &str) {
        let found = self.lines.any(|line| line.is_ok_and(|line| line.contains(text)));
        assert!(found, "the program ended before it said `{text}`");
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watching_prints_again_when_something_changes() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let _up = up_with_pipeline(dir);
    let mut explained = Watcher::start(dir, &["explain", "my-app", "--env", "dev", "--watch"]);
    let mut listed = Watcher::start(dir, &["get", "pipelines", "--watch"]);
    explained.expect("RESULT: IDLE");
    listed.expect("my-app [PAUSED]");
    check(dir, &["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app:1.29.0"], 0, &["created"]);
    explained.expect("RESULT: BLOCKED by freeze-my-app");
    listed.expect("v1.29.0 BLOCKED");
}
