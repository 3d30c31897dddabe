//! `kardinal graph validate|render|explain`.

mod explain;
mod validate;

use std::path::Path;

use kardinal_api::graph::Graph;
use kardinal_graph::render;
use kardinal_planner::graph::check::compile_nodes;
use kardinal_planner::graph::states;
use kardinal_promotion::intent::check_name;
use kube::Api;

use crate::args::{Drawing, GraphArguments, GraphCommand, GraphSource, ServerArguments};
use crate::failure::{Failure, Kind};
use crate::server::not_a_name;
use crate::{connect, manifest, output};

/// Runs the subcommand.
pub(crate) fn run(arguments: GraphArguments) -> anyhow::Result<()> {
    match arguments.command {
        GraphCommand::Validate { files, output } => validate::run(&files, output),
        GraphCommand::Render { source, format } => draw(&source, format),
        GraphCommand::Explain { name, server, output } => explain::run(&name, &server, output),
    }
}

fn draw(source: &GraphSource, format: Drawing) -> anyhow::Result<()> {
    let graph = match (&source.file, &source.name) {
        (Some(file), _) => from_file(file)?,
        (None, Some(name)) => super::block_on(fetch(name, &source.server))?,
        (None, None) => return Err(Failure::new(Kind::Usage, "name a Graph, or a file with `--file`").into()),
    };
    let compiled = compile_nodes(&graph.spec.nodes).map_err(|problems| {
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::new(Kind::Failed, format!("the Graph does not compile: {}", messages.join("; ")))
            .hint("`kardinal graph validate FILE` points at each mistake")
    })?;
    let states = states(&graph);
    output::text(&match format {
        Drawing::Tree => render::tree(&compiled, &states),
        Drawing::Dot => render::dot(&compiled, &states),
        Drawing::Mermaid => render::mermaid(&compiled, &states),
    });
    Ok(())
}

fn from_file(path: &Path) -> anyhow::Result<Graph> {
    let documents = manifest::read_documents(&manifest::read_text(path)?)?;
    let found = documents.into_iter().find(|document| is_graph(&document.value));
    let document = found
        .ok_or_else(|| Failure::new(Kind::NotFound, format!("there is no Graph in `{}`", path.display())))?;
    Ok(serde_json::from_value(document.value)?)
}

/// Whether a manifest is a Graph of ours.
fn is_graph(manifest: &serde_json::Value) -> bool {
    let group = manifest.get("apiVersion").and_then(|version| version.as_str()).unwrap_or_default();
    group.starts_with(kardinal_api::graph::GROUP)
        && manifest.get("kind").and_then(|kind| kind.as_str()) == Some("Graph")
}

async fn fetch(name: &str, server: &ServerArguments) -> anyhow::Result<Graph> {
    check_name("graph", name).map_err(not_a_name)?;
    let client = connect::client(server).await?;
    let api: Api<Graph> = Api::default_namespaced(client);
    let graph = api.get(name).await;
    Ok(graph.map_err(|error| Failure::of_server(&format!("Graph `{name}`"), error))?)
}
