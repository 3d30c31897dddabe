//! `kardinal graph explain`: how each node stands, what it waits for and until when.

use std::fmt::Write as _;

use jiff::Timestamp;
use kardinal_api::graph::{NodeStatus, Wait};
use serde::Serialize;

use crate::args::{OutputFormat, ServerArguments};
use crate::output;

/// What is printed for scripts.
#[derive(Serialize)]
struct Explanation {
    graph: String,
    conditions: Vec<Stand>,
    nodes: Vec<NodeStatus>,
}

#[derive(Serialize)]
struct Stand {
    condition: String,
    status: String,
    reason: String,
    message: String,
}

/// Explains the Graph from its status.
pub(super) fn run(name: &str, server: &ServerArguments, format: OutputFormat) -> anyhow::Result<()> {
    let graph = crate::commands::block_on(super::fetch(name, server))?;
    let status = graph.status.unwrap_or_default();
    let stands = status.conditions.into_iter().map(|condition| Stand {
        condition: condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
    });
    let explanation =
        Explanation { graph: name.to_owned(), conditions: stands.collect(), nodes: status.nodes };
    output::value(format, &explanation, || explanation.render(Timestamp::now()))
}

impl Explanation {
    fn render(&self, now: Timestamp) -> String {
        let mut text = format!("Graph {}\n", self.graph);
        if self.conditions.is_empty() {
            text.push_str("  no controller has looked at it yet\n");
        }
        for stand in &self.conditions {
            let _ = writeln!(
                text,
                "  {} = {} ({}): {}",
                stand.condition, stand.status, stand.reason, stand.message
            );
        }
        text.push('\n');
        let rows = self.nodes.iter().map(|node| {
            let objects: Vec<String> =
                node.objects.iter().map(|object| format!("{}/{}", object.kind, object.name)).collect();
            vec![node.id.clone(), state(node), objects.join(", "), why(node, now)]
        });
        text.push_str(&output::table(&["NODE", "STATE", "OBJECT", "WHY"], rows.collect()));
        text
    }
}

fn state(node: &NodeStatus) -> String {
    let kept = if node.retained { " (kept as it was)" } else { "" };
    format!("{}{kept}", node.state.as_str())
}

fn why(node: &NodeStatus, now: Timestamp) -> String {
    let waits: Vec<String> = node.waits.iter().map(|wait| sentence(wait, now)).collect();
    match (waits.is_empty(), &node.message) {
        (false, _) => waits.join("; "),
        (true, Some(message)) => message.clone(),
        (true, None) => String::new(),
    }
}

fn sentence(wait: &Wait, now: Timestamp) -> String {
    let detail = wait.detail.as_deref().unwrap_or_default();
    let mut text = format!("{} {}: {detail}", wait.why, wait.node);
    if let Some(until) = wait.until {
        let left = until.duration_since(now);
        let seconds = left.as_secs().max(0);
        let span = jiff::SignedDuration::from_secs(seconds);
        let _ = write!(text, " (can change at {until:.0}, in {span:#})");
    }
    text
}
