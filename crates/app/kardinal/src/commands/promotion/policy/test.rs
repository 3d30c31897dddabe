//! Whether the expressions in files compile; without a server.

use std::path::{Path, PathBuf};

use kardinal_api::kardinal::PolicyGate;
use kardinal_promotion::gate_context::check_expression;
use kardinal_promotion::view::gate_problems;
use serde::Serialize;
use serde_json::Value;

use crate::args::OutputFormat;
use crate::failure::{Failure, Kind};
use crate::{manifest, output};

/// One expression and what is wrong with it.
#[derive(Serialize)]
struct Tested {
    file: String,
    gate: String,
    expression: String,
    problems: Vec<String>,
}

pub(super) fn run(files: &[PathBuf], format: OutputFormat) -> anyhow::Result<()> {
    let mut tested = Vec::new();
    for file in files {
        tested.extend(test(file)?);
    }
    output::value(format, &tested, || tested.iter().map(Tested::render).collect())?;
    let wrong = tested.iter().filter(|one| !one.problems.is_empty()).count();
    match wrong {
        0 => Ok(()),
        count => Err(Failure::new(Kind::Failed, format!("{count} of {} gates cannot be used", tested.len()))
            .hint("a gate that does not compile holds every promotion; the attributes are those of bundle, schedule, environment and previousBundle")
            .into()),
    }
}

impl Tested {
    fn render(&self) -> String {
        let Tested { file, gate, .. } = self;
        match self.problems.as_slice() {
            [] => format!("{file}: {gate}: ok\n"),
            problems => format!("{file}: {gate}:\n{}\n", problems.join("\n")),
        }
    }
}

fn test(path: &Path) -> anyhow::Result<Vec<Tested>> {
    let file = path.display().to_string();
    let text = manifest::read_text(path)?;
    let documents = manifest::read_documents(&text).unwrap_or_default();
    let objects: Vec<&Value> =
        documents.iter().map(|one| &one.value).filter(|value| value.get("kind").is_some()).collect();
    if objects.is_empty() {
        let expression = text.trim().to_owned();
        let problems = check_expression(&expression).err().into_iter().collect();
        return Ok(vec![Tested { file, gate: "expression".to_owned(), expression, problems }]);
    }
    let gates =
        objects.into_iter().filter(|object| object.get("kind").and_then(Value::as_str) == Some("PolicyGate"));
    let tested: Vec<Tested> = gates.map(|object| one(&file, object)).collect();
    if tested.is_empty() {
        return Err(Failure::new(Kind::NotFound, format!("there is no PolicyGate in `{file}`")).into());
    }
    Ok(tested)
}

fn one(file: &str, object: &Value) -> Tested {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("(no name)");
    let expression = object.pointer("/spec/expression").and_then(Value::as_str).unwrap_or_default();
    let problems = match serde_json::from_value::<PolicyGate>(object.clone()) {
        Err(error) => vec![error.to_string()],
        Ok(gate) => gate_problems(&gate.spec),
    };
    Tested { file: file.to_owned(), gate: name.to_owned(), expression: expression.to_owned(), problems }
}
