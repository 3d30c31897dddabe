//! Whether the expressions in files compile; without a server.

use std::path::{Path, PathBuf};

use kardinal_promotion::view::{TestedGate, test_gates, unusable};
use serde_json::Value;

use crate::args::OutputFormat;
use crate::failure::{Failure, Kind};
use crate::{manifest, output};

pub(super) fn run(files: &[PathBuf], format: OutputFormat) -> anyhow::Result<()> {
    let mut tested = Vec::new();
    for file in files {
        tested.extend(test(file)?);
    }
    output::value(format, &tested, || tested.iter().map(TestedGate::render).collect())?;
    match unusable(&tested) {
        None => Ok(()),
        Some(problem) => {
            Err(Failure { kind: Kind::Failed, message: problem.message, hint: problem.hint }.into())
        }
    }
}

fn test(path: &Path) -> anyhow::Result<Vec<TestedGate>> {
    let text = manifest::read_text(path)?;
    let documents = manifest::read_documents(&text).unwrap_or_default();
    let documents: Vec<&Value> = documents.iter().map(|one| &one.value).collect();
    Ok(test_gates(&path.display().to_string(), &text, &documents).map_err(Failure::from)?)
}
