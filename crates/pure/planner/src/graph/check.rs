//! Is the Graph well formed, and which revision of it runs?

use std::sync::Arc;

use kardinal_api::graph::{Graph, GraphRevision, Node};
use kardinal_graph::{Problem, ProblemReason, compile, declare};

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What runs: the Graph as it stands, or the newest revision that compiles when it does not.
    pub running: Option<Running>,
    /// What the user has to correct in the Graph as it stands.
    pub problems: Vec<Problem>,
}

/// A compiled Graph and where it came from.
#[derive(Debug, Clone)]
pub struct Running {
    /// The compiled Graph.
    pub graph: Arc<kardinal_graph::Graph>,
    /// The generation of the Graph that it was compiled from.
    pub generation: i64,
}

/// Compiles the Graph. A broken edit never stops what runs: the newest good revision goes on.
pub fn check(graph: &Graph, revisions: &[GraphRevision]) -> Checked {
    let generation = graph.metadata.generation.unwrap_or_default();
    match compile_nodes(&graph.spec.nodes) {
        Ok(compiled) => {
            let running = Running { graph: Arc::new(compiled), generation };
            Checked { running: Some(running), problems: Vec::new() }
        }
        Err(problems) => Checked { running: newest_good(revisions), problems },
    }
}

fn newest_good(revisions: &[GraphRevision]) -> Option<Running> {
    revisions.iter().rev().find_map(|revision| {
        let compiled = compile_nodes(&revision.spec.nodes).ok()?;
        Some(Running { graph: Arc::new(compiled), generation: revision.spec.generation })
    })
}

/// So many nodes a Graph can have. A pass looks at all of them, so one that is much larger would take the time of others.
pub const NODES: usize = 1_000;
/// So many bytes they can have as JSON. A Graph is stored with what its status says of each node, and its nodes once more
/// in each revision; etcd takes 1.5 MiB of one object.
pub const BYTES: usize = 1 << 20;

/// What there is too much of in a Graph with these nodes, with the numbers; `None`: it can be stored and run.
pub fn excess(nodes: &[Node]) -> Option<String> {
    if nodes.len() > NODES {
        return Some(format!("{} nodes, and a Graph can have {NODES}", nodes.len()));
    }
    let bytes = serde_json::to_vec(nodes).map_or(0, |text| text.len());
    (bytes > BYTES).then(|| format!("nodes of {bytes} bytes, and a Graph can have {BYTES}"))
}

/// Compiles nodes as they stand in a Graph's spec.
pub fn compile_nodes(nodes: &[Node]) -> Result<kardinal_graph::Graph, Vec<Problem>> {
    if let Some(excess) = excess(nodes) {
        return Err(vec![Problem {
            path: "nodes".to_owned(),
            reason: ProblemReason::DeclarationError,
            message: format!("this Graph has {excess}: split it into several"),
            span: None,
        }]);
    }
    let nodes = serde_json::to_value(nodes).map_err(|error| {
        vec![Problem {
            path: "nodes".to_owned(),
            reason: ProblemReason::DeclarationError,
            message: error.to_string(),
            span: None,
        }]
    })?;
    compile(&declare::read(&nodes)?)
}
