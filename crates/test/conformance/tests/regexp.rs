//! What the API model knows of Go's regular expressions, against the Go of this machine.

#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

#[test]
fn the_answers_of_go_regexp_on_file_are_those_of_go() -> Result<()> {
    let skipped = |why: &str| eprintln!("conformance: skipped: {why}");
    if Command::new("go").arg("version").output().is_err() {
        skipped("the comparison with Go's regexp needs Go, and there is no `go` on this machine");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let answer =
        Command::new("go").current_dir(root.join("test/testkit/go/regexp")).args(["run", "."]).output()?;
    ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let theirs = String::from_utf8(answer.stdout)?;
    let filed = std::fs::read_to_string(root.join("pure/apimodel/src/schema/go/regexp/golden.jsonl"))?;
    let release = |text: &str| -> Result<String> {
        let head: serde_json::Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
        let version = head.get("go").and_then(serde_json::Value::as_str).context("no version of Go")?;
        Ok(version.splitn(3, '.').take(2).collect::<Vec<_>>().join("."))
    };
    if release(&theirs)? != release(&filed)? {
        skipped("another release of Go may answer otherwise; the answers on file are not compared");
        return Ok(());
    }
    let different: Vec<&str> =
        theirs.lines().zip(filed.lines()).skip(1).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
    ensure!(
        different.is_empty() && theirs.lines().count() == filed.lines().count(),
        "write golden.jsonl anew: {different:?}"
    );
    Ok(())
}
