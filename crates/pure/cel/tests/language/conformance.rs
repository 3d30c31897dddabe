//! The public conformance data of the language. It is not part of this repository: the Go module that publishes it is
//! downloaded when the test runs. Cases that need protobuf messages or a type checker are left out.
//!
//! `baseline.txt` pins how many cases of a file pass, `failures.txt` names every case that does not and says why.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its own functions too"
)]

mod cases;
mod textproto;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use cases::{Outcome, run};

/// The version of the data that the baseline is about.
const MODULE: &str = "cel.dev/expr@v0.25.3";
const BASELINE: &str = include_str!("conformance/baseline.txt");
const FAILURES: &str = include_str!("conformance/failures.txt");
/// The share of the cases that has to pass.
const TARGET: f64 = 0.97;

/// Writes a line past the capture of the test runner: the pass rates are what this test is run for.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[derive(Default)]
struct Tally {
    passed: usize,
    run: usize,
    left_out: usize,
}

#[test]
fn conformance() {
    let Some(folder) = data_folder() else { return };
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    for path in files(&folder) {
        let text = read(&path);
        let file = textproto::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = file.text("name").unwrap_or_default();
        let tally = tallies.entry(name.clone()).or_default();
        for section in file.messages("section") {
            for test in section.messages("test") {
                let id = format!(
                    "{name}/{}/{}",
                    section.text("name").unwrap_or_default(),
                    test.text("name").unwrap_or_default()
                );
                match run(&name, test) {
                    Outcome::LeftOut => tally.left_out += 1,
                    Outcome::Passed => {
                        tally.run += 1;
                        tally.passed += 1;
                    }
                    Outcome::Failed(why) => {
                        tally.run += 1;
                        failures.insert(id, why);
                    }
                }
            }
        }
    }
    let rate = print_table(&tallies);
    compare_failures(&failures);
    compare_baseline(&tallies);
    assert!(rate >= TARGET, "{rate:.3} of the cases pass, {TARGET} have to");
}

#[test]
fn a_wrong_result_is_noticed() {
    let outcome = |text: &str| match run("basic", &textproto::parse(text).unwrap()) {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::LeftOut => "left out",
    };
    assert_eq!(outcome("expr: '1 + 1' value { int64_value: 2 }"), "passed");
    assert_eq!(outcome("expr: '1 + 1' value { int64_value: 3 }"), "failed");
    assert_eq!(outcome("expr: '1 + 1' value { uint64_value: 2 }"), "failed");
    assert_eq!(outcome("expr: '1 + 1' eval_error { errors { message: 'x' } }"), "failed");
    assert_eq!(outcome("expr: '1 / 0' eval_error { errors { message: 'x' } }"), "passed");
    assert_eq!(outcome("expr: '1 +' eval_error { errors { message: 'x' } }"), "failed");
    assert_eq!(outcome("expr: '1 == 2'"), "failed");
    assert_eq!(outcome("expr: 'a.B{}' value { bool_value: true }"), "left out");
}

fn print_table(tallies: &BTreeMap<String, Tally>) -> f64 {
    say(&format!("{:<18} {:>6} {:>6} {:>7} {:>9}", "file", "passed", "of", "rate", "left out"));
    let mut all = Tally::default();
    for (name, tally) in tallies {
        print_line(name, tally);
        all.passed += tally.passed;
        all.run += tally.run;
        all.left_out += tally.left_out;
    }
    print_line("all", &all);
    all.passed as f64 / all.run as f64
}

fn print_line(name: &str, tally: &Tally) {
    let rate = match tally.run {
        0 => "-".to_owned(),
        run => format!("{:.1}%", 100.0 * tally.passed as f64 / run as f64),
    };
    say(&format!("{name:<18} {:>6} {:>6} {rate:>7} {:>9}", tally.passed, tally.run, tally.left_out));
}

fn compare_failures(failures: &BTreeMap<String, String>) {
    let known: BTreeMap<&str, &str> = lines(FAILURES).filter_map(|line| line.split_once(": ")).collect();
    let mut wrong = Vec::new();
    for (id, why) in failures {
        if !known.contains_key(id.as_str()) {
            wrong.push(format!("fails but is not in failures.txt: {id}: {why}"));
        }
    }
    for id in known.keys() {
        if !failures.contains_key(*id) {
            wrong.push(format!("is in failures.txt but passes (or is gone): {id}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn compare_baseline(tallies: &BTreeMap<String, Tally>) {
    let expected: BTreeMap<&str, usize> = lines(BASELINE)
        .filter_map(|line| line.split_once(' '))
        .map(|(name, count)| (name, count.trim().parse().unwrap()))
        .collect();
    let found: BTreeMap<&str, usize> =
        tallies.iter().map(|(name, tally)| (name.as_str(), tally.passed)).collect();
    let text: Vec<String> = found.iter().map(|(name, count)| format!("{name} {count}")).collect();
    assert_eq!(found, expected, "baseline.txt should now hold:\n{}", text.join("\n"));
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Where the Go tool keeps the data, or nothing (with a line that says so) when there is no Go tool.
#[expect(clippy::disallowed_methods, reason = "the data comes from outside; the crate itself starts nothing")]
fn data_folder() -> Option<PathBuf> {
    let answer = match std::process::Command::new("go").args(["mod", "download", "-json", MODULE]).output() {
        Ok(answer) => answer,
        Err(error) => {
            say(&format!("SKIPPED: the conformance data of {MODULE} needs the `go` command ({error})"));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&answer.stdout);
    assert!(answer.status.success(), "go mod download: {text} {}", String::from_utf8_lossy(&answer.stderr));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let folder = json["Dir"].as_str().expect("go mod download names the folder");
    Some(PathBuf::from(folder).join("tests/simple/testdata"))
}

fn files(folder: &PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "textproto")).collect();
    files.sort();
    files
}

#[expect(clippy::disallowed_methods, reason = "the data comes from outside; the crate itself reads nothing")]
fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}
