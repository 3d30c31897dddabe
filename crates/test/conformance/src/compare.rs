//! Runs a case on both servers and reports where they differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use kardinal_apiserver::{Options, Server, WindowLimits};
use kardinal_testkit::world;
use serde_json::Value;

use crate::case::{Case, Step};
use crate::play::Player;

/// The intended differences: their names and reasons.
pub type Differences = BTreeMap<String, String>;

/// Reads `name: reason` lines; lines that start with `#` are comments.
pub fn parse_differences(text: &str) -> anyhow::Result<Differences> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, reason) =
                line.split_once(": ").with_context(|| format!("`{line}` is not `name: reason`"))?;
            Ok((name.to_owned(), reason.to_owned()))
        })
        .collect()
}

/// Plays a case on an embedded server of its own and on the process's real one. The error names every difference.
pub fn run(name: &str, case: &Case, known: &Differences) -> anyhow::Result<()> {
    let Some(kubeconfig) = world::real_kubeconfig()? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut options = Options::default();
        if let Some(changes) = case.window {
            options.window = WindowLimits { changes, ..options.window };
        }
        let server = Server::start(options).await?;
        let mut ours = Player::new(server.client("default"), name);
        let mut real = Player::new(world::client_of(&kubeconfig).await?, name);
        let told = both(&mut ours, &mut real, name, case, known).await;
        server.shutdown().await;
        told
    })
}

async fn both(
    ours: &mut Player,
    real: &mut Player,
    name: &str,
    case: &Case,
    known: &Differences,
) -> anyhow::Result<()> {
    let namespace = Step {
        title: "the case's namespace".to_owned(),
        method: "POST".to_owned(),
        path: "/api/v1/namespaces".to_owned(),
        body: format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#),
        ..Step::default()
    };
    let mut report = String::new();
    let mut unequal = 0;
    for step in std::iter::once(&namespace).chain(&case.steps) {
        let (our_answer, real_answer) = tokio::join!(ours.play(step), real.play(step));
        let (our_answer, real_answer) = (our_answer.context("embedded")?, real_answer.context("real")?);
        if std::env::var_os("CONFORMANCE_SHOW").is_some() {
            let _ = writeln!(report, "{name}:{} {}\n{real_answer:#}", step.line, step.title);
        }
        let complaints = judge(step, &case.intended, &our_answer, &real_answer, known);
        if !complaints.is_empty() {
            unequal += 1;
            let _ =
                writeln!(report, "{name}.http:{} {} ({} {})", step.line, step.title, step.method, step.path);
            for complaint in complaints {
                let _ = writeln!(report, "    {complaint}");
            }
        }
    }
    if unequal > 0 {
        bail!("{unequal} of {} steps differ\n{report}", case.steps.len() + 1);
    }
    Ok(())
}

/// What is wrong with a pair of answers: differences that no entry of the list excuses, and excuses without a difference.
fn judge(
    step: &Step,
    everywhere: &[(String, String)],
    ours: &Value,
    real: &Value,
    known: &Differences,
) -> Vec<String> {
    let mut found = Vec::new();
    differences("", ours, real, &mut found);
    let mut complaints = Vec::new();
    found.retain(|difference| !everywhere.iter().any(|(_, pointer)| covers(pointer, &difference.pointer)));
    for (id, pointer) in &step.intended {
        let before = found.len();
        found.retain(|difference| !covers(pointer, &difference.pointer));
        if !known.contains_key(id) {
            complaints.push(format!("`{id}` is not in the list of differences"));
        } else if found.len() == before {
            complaints.push(format!("`{id}` excuses `{pointer}`, where the answers are equal"));
        }
    }
    complaints.extend(found.iter().map(Difference::to_string));
    complaints
}

/// Whether a pointer with `*`s is, or leads to, the given one.
fn covers(pattern: &str, pointer: &str) -> bool {
    let mut parts = pointer.split('/');
    pattern.split('/').all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

#[derive(Debug, PartialEq)]
struct Difference {
    pointer: String,
    ours: Option<Value>,
    real: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "{}\n        real: {}\n        ours: {}", self.pointer, show(&self.real), show(&self.ours))
    }
}

fn differences(pointer: &str, ours: &Value, real: &Value, found: &mut Vec<Difference>) {
    let mut child = |name: &str, ours: Option<&Value>, real: Option<&Value>| {
        let pointer = format!("{pointer}/{name}");
        match (ours, real) {
            (Some(ours), Some(real)) => differences(&pointer, ours, real, found),
            (ours, real) => found.push(Difference { pointer, ours: ours.cloned(), real: real.cloned() }),
        }
    };
    match (ours, real) {
        (Value::Object(ours), Value::Object(real)) => {
            let keys: std::collections::BTreeSet<&String> = ours.keys().chain(real.keys()).collect();
            for key in keys {
                child(key, ours.get(key), real.get(key));
            }
        }
        (Value::Array(ours), Value::Array(real)) => {
            for index in 0..ours.len().max(real.len()) {
                child(&index.to_string(), ours.get(index), real.get(index));
            }
        }
        (ours, real) if ours == real => {}
        (ours, real) => found.push(Difference {
            pointer: pointer.to_owned(),
            ours: Some(ours.clone()),
            real: Some(real.clone()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(ours: Value, real: Value, intended: &[(&str, &str)], expected: usize) {
        let known = Differences::from([("known".to_owned(), "because".to_owned())]);
        let intended =
            intended.iter().map(|(id, pointer)| ((*id).to_owned(), (*pointer).to_owned())).collect();
        let step = Step { intended, ..Step::default() };
        let complaints = judge(&step, &[], &ours, &real, &known);
        assert_eq!(complaints.len(), expected, "{complaints:?}");
    }

    #[test]
    fn every_difference_needs_an_excuse_and_every_excuse_a_difference() {
        check(json!({"a": [1, 2]}), json!({"a": [1, 2]}), &[], 0);
        check(json!({"a": [1, 2]}), json!({"a": [1, 3], "b": null}), &[], 2);
        check(json!({"a": 1}), json!({"a": 2}), &[("known", "/a")], 0);
        check(json!({"a": 1}), json!({"a": 1}), &[("known", "/a")], 1);
        check(json!({"a": {"x": 1}, "ab": 1}), json!({"a": {"x": 2}, "ab": 2}), &[("known", "/a/*")], 1);
        check(json!({"a": 1}), json!({"a": 2}), &[("unknown", "/a")], 1);
    }
}
