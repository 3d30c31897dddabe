//! Pictures of a Graph: text tree, DOT and Mermaid, with states when there are any.
//!
//! Output depends on the Graph and the states alone, so it can be compared and committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::graph::{EdgeKind, Graph};
use crate::report::NodeState;
use crate::walk::Walker;

/// States by node id; empty for a Graph that is not running.
pub type States = BTreeMap<String, NodeState>;

/// The states of a walk.
pub fn states(walker: &Walker) -> States {
    walker.reports().map(|(id, report)| (id.to_owned(), report.state)).collect()
}

/// A tree of nodes below what they depend on. A node with several dependencies is drawn in full below the last one
/// of them in the order of the walk, and as a pointer below the others.
pub fn tree(graph: &Graph, states: &States) -> String {
    let mut parents: BTreeMap<&str, Vec<(&str, EdgeKind)>> = BTreeMap::new();
    for edge in graph.edges() {
        parents.entry(edge.to).or_default().push((edge.from, edge.kind));
    }
    let place: BTreeMap<&str, usize> = graph.order().enumerate().map(|(at, id)| (id, at)).collect();
    let mut children: BTreeMap<&str, Vec<(&str, EdgeKind, bool)>> = BTreeMap::new();
    let mut roots = Vec::new();
    for id in graph.order() {
        let own = place.get(id).copied().unwrap_or_default();
        let before = |parent: &str| place.get(parent).is_some_and(|at| *at < own);
        let list = parents.get(id).map(Vec::as_slice).unwrap_or_default();
        let home = list
            .iter()
            .map(|(parent, _)| *parent)
            .filter(|parent| before(parent))
            .max_by_key(|p| place.get(p));
        if home.is_none() {
            roots.push(id);
        }
        for (parent, kind) in list {
            children.entry(parent).or_default().push((id, *kind, Some(*parent) == home));
        }
    }
    let mut out = String::new();
    // Explicit stack: a chain of a thousand nodes must not be a thousand calls deep.
    let mut stack: Vec<(String, &str, Option<EdgeKind>, bool, bool)> =
        roots.iter().rev().map(|id| (String::new(), *id, None, true, true)).collect();
    let mut drawn = BTreeSet::new();
    while let Some((prefix, id, edge, home, last)) = stack.pop() {
        let branch = match edge {
            None => "",
            Some(_) if last => "└─ ",
            Some(_) => "├─ ",
        };
        let note = match edge {
            Some(EdgeKind::Soft) => " (optional)",
            Some(EdgeKind::Explicit) => " (dependsOn)",
            _ => "",
        };
        let full = home && drawn.insert(id);
        let line = if full { describe(graph, id, states) } else { format!("{id} ↑") };
        let _ = writeln!(out, "{prefix}{branch}{line}{note}");
        if full {
            let deeper = match edge {
                None => prefix,
                Some(_) if last => format!("{prefix}   "),
                Some(_) => format!("{prefix}│  "),
            };
            let below = children.get(id).map(Vec::as_slice).unwrap_or_default();
            for (at, (child, kind, home)) in below.iter().enumerate().rev() {
                stack.push((deeper.clone(), child, Some(*kind), *home, at + 1 == below.len()));
            }
        }
    }
    out
}

fn describe(graph: &Graph, id: &str, states: &States) -> String {
    let keyword = graph.kind(id).map_or("", |kind| kind.keyword());
    let kind = graph.gvk(id).map(|gvk| format!(" {}", gvk.kind)).unwrap_or_default();
    let finalizes = graph.finalizes(id).map(|target| format!(" finalizes {target}")).unwrap_or_default();
    let state = states.get(id).map(|state| format!(" [{state}]")).unwrap_or_default();
    format!("{id}: {keyword}{kind}{finalizes}{state}")
}

/// Graphviz DOT.
pub fn dot(graph: &Graph, states: &States) -> String {
    let mut out =
        String::from("digraph graph_nodes {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\"];\n");
    for id in graph.order() {
        let label = describe(graph, id, states).replace(": ", "\\n");
        let fill = states.get(id).map_or("#ffffff", |state| colour(*state));
        let _ = writeln!(out, "  \"{id}\" [label=\"{label}\", fillcolor=\"{fill}\"];");
    }
    for edge in graph.edges() {
        let style = match edge.kind {
            EdgeKind::Hard => "solid",
            EdgeKind::Soft => "dashed",
            EdgeKind::Explicit => "bold",
        };
        let _ = writeln!(out, "  \"{}\" -> \"{}\" [style={style}];", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

/// Mermaid flowchart.
pub fn mermaid(graph: &Graph, states: &States) -> String {
    let mut out = String::from("flowchart LR\n");
    for id in graph.order() {
        let label = describe(graph, id, states).replacen(": ", "<br/>", 1).replace(['[', ']'], "");
        let _ = writeln!(out, "  n_{id}[\"{label}\"]");
    }
    for edge in graph.edges() {
        let arrow = match edge.kind {
            EdgeKind::Hard => "-->",
            EdgeKind::Soft => "-.->",
            EdgeKind::Explicit => "==>",
        };
        let _ = writeln!(out, "  n_{} {arrow} n_{}", edge.from, edge.to);
    }
    for id in graph.order() {
        if let Some(state) = states.get(id) {
            let _ = writeln!(out, "  style n_{id} fill:{}", colour(*state));
        }
    }
    out
}

fn colour(state: NodeState) -> &'static str {
    match state {
        NodeState::Ready => "#c8e6c9",
        NodeState::NotReady => "#fff9c4",
        NodeState::Pending => "#e3f2fd",
        NodeState::Excluded => "#eeeeee",
        NodeState::Blocked => "#ffe0b2",
        NodeState::Conflict | NodeState::Error | NodeState::SystemError => "#ffcdd2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compile, declare};

    fn graph() -> Graph {
        let nodes: serde_json::Value = serde_saphyr::from_str(
            "
- {id: a, def: {x: 1}}
- {id: b, template: {apiVersion: v1, kind: Pod, metadata: {name: 'b${a.x}'}}}
- {id: c, template: {apiVersion: v1, kind: Pod, metadata: {name: 'c${b.?x.orValue(1)}'}}, dependsOn: [a]}
- {id: d, template: {apiVersion: v1, kind: Pod, metadata: {name: 'd${b.x}${c.x}'}}}
- {id: f, finalizes: d, template: {apiVersion: batch/v1, kind: Job, metadata: {name: f}}}
",
        )
        .unwrap();
        compile(&declare::read(&nodes).unwrap()).unwrap()
    }

    #[test]
    fn the_tree_shows_every_node_in_full_once() {
        let states = States::from([("a".to_owned(), NodeState::Ready), ("d".to_owned(), NodeState::Pending)]);
        let expected = "\
a: def [Ready]
├─ b: template Pod
│  ├─ c: template Pod (optional)
│  │  └─ d: template Pod [Pending]
│  │     └─ f: template Job finalizes d (dependsOn)
│  └─ d ↑
└─ c ↑ (dependsOn)
";
        assert_eq!(tree(&graph(), &states), expected);
    }

    #[test]
    fn dot_and_mermaid_have_every_edge() {
        let states = States::from([("a".to_owned(), NodeState::Ready)]);
        let dot = dot(&graph(), &states);
        assert!(dot.starts_with("digraph") && dot.ends_with("}\n"));
        for line in [
            "\"a\" -> \"b\" [style=solid];",
            "\"b\" -> \"c\" [style=dashed];",
            "\"a\" -> \"c\" [style=bold];",
            "fillcolor=\"#c8e6c9\"",
        ] {
            assert!(dot.contains(line), "{line}\n{dot}");
        }
        let mermaid = mermaid(&graph(), &states);
        for line in [
            "flowchart LR\n",
            "n_a --> n_b",
            "n_b -.-> n_c",
            "n_a ==> n_c",
            "n_a[\"a<br/>def Ready\"]",
            "style n_a fill:#c8e6c9",
        ] {
            assert!(mermaid.contains(line), "{line}\n{mermaid}");
        }
    }

    #[test]
    fn a_long_chain_is_drawn_without_deep_recursion() {
        let mut nodes = vec![crate::Declaration::new("n0", crate::Body::Def(serde_json::json!(1)))];
        for at in 1..2000 {
            let body = crate::Body::Def(serde_json::json!(format!("${{n{}}}", at - 1)));
            nodes.push(crate::Declaration::new(format!("n{at}"), body));
        }
        assert_eq!(tree(&compile(&nodes).unwrap(), &States::new()).lines().count(), 2000);
    }
}
