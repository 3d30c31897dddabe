//! `kardinal up --demo` as a new user meets it: the commands that it prints are typed as they are printed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use kardinal_testkit::process::Process;

const DEMO: [&str; 6] = ["up", "--demo", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];

/// The commands that were printed: the lines after a remark.
fn commands(printed: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| match pair {
        [remark, command] if remark.trim_start().starts_with("# ") => Some(command.trim().to_owned()),
        _ => None,
    });
    pairs.collect()
}

fn command(printed: &str, part: &str) -> Option<String> {
    commands(printed).into_iter().find(|command| command.contains(part))
}

/// Types a command into a shell in the demo's directory.
fn typed(folder: &Path, command: &str) -> anyhow::Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder);
    shell.env_remove("KUBECONFIG").env("HOME", folder).env("USER", "alice");
    let output = shell.output()?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "`{command}` ended with {} and said:\n{said}", output.status);
    Ok(said)
}

/// A line of the board: an environment, a version and how it stands.
fn told(printed: &str, environment: &str, version: &str, state: &str) -> Option<()> {
    let mut lines = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .any(|words| match words.as_slice() {
            [_, place, tag, rest @ ..] => {
                *place == environment && *tag == version && rest.join(" ").starts_with(state)
            }
            _ => false,
        })
        .then_some(())
}

/// Follows `explain --watch` until it has said something, as a person would who then presses Ctrl-C.
fn watched(folder: &Path, command: &str, part: &str) -> anyhow::Result<()> {
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    let mut watching = Process::start(folder, "watch.log", &arguments, &[])?;
    watching.wait_for(command, |said| said.contains(part).then_some(()))
}

#[test]
fn the_whole_way() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let mut demo = Process::start(folder, "first.log", &DEMO, &[])?;
    let merge = demo.wait_for("the pull request waits", |printed| command(printed, " pr merge "))?;
    ensure!(commands(&demo.printed()).len() == 4, "four commands: {}", demo.printed());
    let open = command(&demo.printed(), " pr open ").context("the page is offered")?;
    ensure!(typed(folder, &format!("{open} --print"))?.contains("/forge/default/demo/pulls/1?code="));
    for (environment, version) in
        [("dev", "v1.0.0"), ("prod", "v1.0.0"), ("dev", "v1.1.0"), ("staging", "v1.1.0")]
    {
        told(&demo.printed(), environment, version, "verified")
            .with_context(|| format!("{environment} {version}: {}", demo.printed()))?;
    }
    ensure!(told(&demo.printed(), "prod", "v1.1.0", "verified").is_none(), "prod waits for a person");
    ensure!(told(&demo.printed(), "prod", "v1.1.0", "waits for staging-soak, opens in").is_some());

    let explain = command(&demo.printed(), " explain ").context("explain is offered")?;
    watched(folder, &explain, "WAITING for PR #1 to be merged")?;

    // A second start finds everything and makes nothing twice.
    ensure!(demo.terminate()?.success(), "SIGTERM ends it well");
    let mut demo = Process::start(folder, "second.log", &DEMO, &[])?;
    let again = demo.wait_for("the pull request still waits", |printed| command(printed, " pr merge "))?;
    ensure!(again == merge, "the same pull request: {again}");
    ensure!(!demo.printed().contains("  new  "), "nothing is new: {}", demo.printed());

    let said = typed(folder, &again)?;
    ensure!(said.contains("merged"), "{said}");
    demo.wait_for("prod is verified", |printed| told(printed, "prod", "v1.1.0", "verified"))?;

    let broken = command(&demo.printed(), "broken").context("a broken version is offered")?;
    typed(folder, &broken)?;
    demo.wait_for("dev fails", |printed| told(printed, "dev", "v1.2.0-broken", "FAILED"))?;
    demo.wait_for("a rollback is made", |printed| told(printed, "rollback", "v1.1.0", "Bundle"))?;
    demo.wait_for("dev is back", |printed| {
        let (_, after) = printed.split_once("rollback")?;
        told(after, "dev", "v1.1.0", "verified")
    })?;
    ensure!(told(&demo.printed(), "staging", "v1.2.0-broken", "").is_none(), "it went no further");
    ensure!(demo.terminate()?.success(), "SIGTERM ends it well");
    Ok(())
}

#[test]
fn in_memory_nothing_remains() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let flags = [&DEMO[..], &["--ephemeral", "--data-dir", "some where"]].concat();
    for round in ["first.log", "second.log"] {
        let mut demo = Process::start(folder.path(), round, &flags, &[])?;
        demo.wait_for("1.0.0 is verified", |printed| told(printed, "dev", "v1.0.0", "verified"))?;
        let explain = demo.wait_for("commands are offered", |printed| command(printed, " explain "))?;
        // The directory is not the usual one, so the command names it.
        let once = explain.replace(" --watch", "");
        ensure!(typed(folder.path(), &once)?.contains("PROMOTION: my-app / prod"));
        ensure!(demo.terminate()?.success());
        ensure!(
            !folder.path().join("some where/repositories").exists(),
            "repositories are in memory's place"
        );
    }
    Ok(())
}
