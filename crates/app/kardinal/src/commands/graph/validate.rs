//! `kardinal graph validate`: every mistake of every Graph, each with its place in the file.

use std::path::{Path, PathBuf};

use kardinal_cel::{CompileError, Span, render_error};
use kardinal_graph::Problem;
use kardinal_planner::graph::check::compile_nodes;
use serde::Serialize;

use crate::args::OutputFormat;
use crate::failure::{Failure, Kind};
use crate::manifest::{self, Document};
use crate::output;

/// What was found in one file.
#[derive(Serialize)]
struct Finding {
    file: String,
    graphs: usize,
    problems: Vec<Mistake>,
    #[serde(skip)]
    drawing: String,
}

/// One mistake.
#[derive(Serialize)]
struct Mistake {
    graph: String,
    path: String,
    reason: String,
    message: String,
    line: usize,
}

/// Checks the files; fails when any of them has a mistake.
pub(super) fn run(files: &[PathBuf], format: OutputFormat) -> anyhow::Result<()> {
    let findings: Vec<Finding> = files.iter().map(|file| check(file)).collect::<anyhow::Result<_>>()?;
    let mistakes: usize = findings.iter().map(|finding| finding.problems.len()).sum();
    output::value(format, &findings, || findings.iter().map(render).collect())?;
    if mistakes == 0 {
        return Ok(());
    }
    Err(Failure::new(Kind::Failed, format!("{mistakes} problem(s) found")).into())
}

fn render(finding: &Finding) -> String {
    match (finding.graphs, finding.problems.is_empty()) {
        (0, _) => format!("{}: no Graph in this file\n", finding.file),
        (graphs, true) => format!("{}: {graphs} Graph(s), no problems\n", finding.file),
        _ => finding.drawing.clone(),
    }
}

fn check(path: &Path) -> anyhow::Result<Finding> {
    let text = manifest::read_text(path)?;
    let file = path.display().to_string();
    let mut finding = Finding { file, graphs: 0, problems: Vec::new(), drawing: String::new() };
    for document in manifest::read_documents(&text)? {
        if super::is_graph(&document.value) {
            finding.graphs += 1;
            finding.check(&text, &document);
        }
    }
    Ok(finding)
}

impl Finding {
    fn check(&mut self, text: &str, document: &Document) {
        let name =
            document.value.pointer("/metadata/name").and_then(|name| name.as_str()).unwrap_or_default();
        let nodes = document.value.pointer("/spec/nodes").cloned().unwrap_or_default();
        let problems = match serde_json::from_value::<Vec<kardinal_api::graph::Node>>(nodes.clone()) {
            Ok(nodes) => compile_nodes(&nodes).err().unwrap_or_default(),
            // The typed reader stops at the first mistake; ours names them all.
            Err(error) => kardinal_graph::declare::read(&nodes).err().unwrap_or_else(|| {
                vec![Problem {
                    path: "nodes".to_owned(),
                    reason: kardinal_graph::ProblemReason::DeclarationError,
                    message: error.to_string(),
                    span: None,
                }]
            }),
        };
        for problem in problems {
            let span = span_of(text, document, &problem);
            let drawn = CompileError { span, message: problem.message.clone(), hint: None };
            self.drawing.push_str(&render_error(text, &self.file, &[drawn]));
            self.drawing.push('\n');
            let before = text.get(..span.start as usize).unwrap_or_default();
            self.problems.push(Mistake {
                graph: name.to_owned(),
                path: format!("spec.{}", problem.path),
                reason: problem.reason.to_string(),
                message: problem.message,
                line: before.matches('\n').count() + 1,
            });
        }
    }
}

/// The bytes of the file that the problem is about.
fn span_of(text: &str, document: &Document, problem: &Problem) -> Span {
    let place = document.place(&format!("spec.{}", problem.path));
    let value = document.value.pointer(&pointer(&problem.path)).and_then(|value| value.as_str());
    let written = text.get(place.clone()).unwrap_or_default();
    // An expression stands in the file as it is unless the scalar is folded or escaped.
    let inside = match (problem.span, value) {
        (Some((start, end)), Some(value)) => {
            written.find(value).map(|at| place.start + at + start..place.start + at + end)
        }
        _ => None,
    };
    let place = inside.unwrap_or(place.start..place.start + written.lines().next().unwrap_or_default().len());
    let limit = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Span { start: limit(place.start), end: limit(place.end) }
}

/// `nodes[3].template` as a JSON pointer below `spec`.
fn pointer(path: &str) -> String {
    let steps = path.replace('[', ".").replace(']', "");
    format!("/spec/{}", steps.replace('~', "~0").replace('/', "~1").replace('.', "/"))
}
