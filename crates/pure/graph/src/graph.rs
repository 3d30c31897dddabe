//! A compiled Graph: nodes in a fixed order, programs, and the edges between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::SignedDuration;
use kardinal_cel::{PathStep, Program, Template};
use kardinal_object::Gvk;
use serde_json::Value;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKind {
    /// Creates and owns an object.
    Template,
    /// Contributes fields to an object of somebody else.
    Patch,
    /// Reads one object.
    Ref,
    /// Reads a set of objects.
    Watch,
    /// Computes a value.
    Def,
}

impl NodeKind {
    /// The keyword in the manifest.
    pub fn keyword(self) -> &'static str {
        match self {
            NodeKind::Template => "template",
            NodeKind::Patch => "patch",
            NodeKind::Ref => "ref",
            NodeKind::Watch => "watch",
            NodeKind::Def => "def",
        }
    }

    /// Whether nodes of this kind write objects.
    pub fn writes(self) -> bool {
        matches!(self, NodeKind::Template | NodeKind::Patch)
    }
}

/// Why one node comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// An expression needs the other node's data.
    Hard,
    /// An expression uses the other node's data when it is there.
    Soft,
    /// `dependsOn`, or `finalizes`.
    Explicit,
}

/// One dependency: `to` depends on `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge<'a> {
    /// The node whose data flows.
    pub from: &'a str,
    /// The node that uses it.
    pub to: &'a str,
    /// What kind of dependency.
    pub kind: EdgeKind,
}

/// How a node uses another one.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) node: usize,
    pub(crate) hard: bool,
    pub(crate) soft: bool,
    pub(crate) explicit: bool,
    /// `includeWhen` cannot be decided without it.
    pub(crate) include: bool,
    /// The node uses this one back, by way of an optional reference.
    pub(crate) circular: bool,
    /// The field paths that are read; an empty path is the whole value.
    pub(crate) paths: Vec<Vec<PathStep>>,
}

impl Source {
    /// Whether the node waits for this one.
    pub(crate) fn gates(&self) -> bool {
        self.hard || self.explicit
    }
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) id: String,
    /// The id in lower case, as it stands in labels.
    pub(crate) key: String,
    pub(crate) kind: NodeKind,
    /// 1-based layer over hard and explicit edges.
    pub(crate) layer: usize,
    pub(crate) body: Template,
    pub(crate) for_each: Vec<(String, Program)>,
    pub(crate) include: Vec<Program>,
    pub(crate) ready: Vec<Condition>,
    pub(crate) propagate: Vec<Condition>,
    pub(crate) finalizes: Option<usize>,
    pub(crate) sources: Vec<Source>,
    /// Nodes that use this one, each with the position in its `sources`.
    pub(crate) dependents: Vec<(usize, usize)>,
    pub(crate) recheck_after: Option<SignedDuration>,
    pub(crate) force: bool,
    /// The text of the body as written, to quote from.
    pub(crate) written: Box<str>,
    /// Kind as far as it is literal.
    pub(crate) gvk: Option<Gvk>,
}

impl Node {
    /// Whether the node's value is a list.
    pub(crate) fn is_list(&self) -> bool {
        self.kind == NodeKind::Watch || self.is_collection()
    }

    pub(crate) fn is_collection(&self) -> bool {
        !self.for_each.is_empty()
    }
}

/// A `readyWhen` or `propagateWhen` expression.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) program: Program,
    /// Whether it speaks about `each` element of the node's list.
    pub(crate) each: bool,
}

/// A compiled Graph. It does not change and can be shared.
#[derive(Clone)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) index: BTreeMap<String, usize>,
    /// Lower-case id to position, for labels.
    pub(crate) keys: BTreeMap<String, usize>,
    /// Positions of the nodes with `finalizes`.
    pub(crate) finalizers: Vec<usize>,
    pub(crate) hash: String,
}

impl Graph {
    /// Node ids in the order of the walk.
    pub fn order(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.id.as_str())
    }

    /// 1-based layer of a node; dependents are higher.
    pub fn layer(&self, id: &str) -> Option<usize> {
        self.find(id).map(|node| node.layer)
    }

    /// What a node is.
    pub fn kind(&self, id: &str) -> Option<NodeKind> {
        self.find(id).map(|node| node.kind)
    }

    /// The kind of object a node writes or reads, when it is literal.
    pub fn gvk(&self, id: &str) -> Option<&Gvk> {
        self.find(id)?.gvk.as_ref()
    }

    /// The node whose removal `id` finalizes.
    pub fn finalizes(&self, id: &str) -> Option<&str> {
        let target = self.find(id)?.finalizes?;
        self.nodes.get(target).map(|node| node.id.as_str())
    }

    /// All edges, ordered by the node that depends.
    pub fn edges(&self) -> impl Iterator<Item = Edge<'_>> {
        self.nodes.iter().flat_map(|node| edges_into(self, node))
    }

    /// Kinds that template and patch nodes write, as far as they are literal.
    pub fn static_kinds(&self) -> BTreeSet<Gvk> {
        let writers = self.nodes.iter().filter(|node| node.kind.writes());
        writers.filter_map(|node| node.gvk.clone()).collect()
    }

    /// Kinds that ref and watch nodes read, as far as they are literal.
    pub fn reads(&self) -> BTreeSet<Gvk> {
        let readers = self.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Ref | NodeKind::Watch));
        readers.filter_map(|node| node.gvk.clone()).collect()
    }

    /// Whether some node writes or reads a kind that is known only when it runs.
    pub fn has_dynamic_kinds(&self) -> bool {
        self.nodes.iter().any(|node| node.kind != NodeKind::Def && node.gvk.is_none())
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Hash of the content; the order in which nodes are listed does not matter.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    fn find(&self, id: &str) -> Option<&Node> {
        self.nodes.get(*self.index.get(id)?)
    }

    pub(crate) fn node(&self, position: usize) -> Option<&Node> {
        self.nodes.get(position)
    }

    pub(crate) fn id_of(&self, position: usize) -> &str {
        self.nodes.get(position).map_or("", |node| node.id.as_str())
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.order()).finish()
    }
}

fn edges_into<'a>(graph: &'a Graph, node: &'a Node) -> impl Iterator<Item = Edge<'a>> {
    node.sources.iter().flat_map(move |source| {
        let kinds = [
            (source.hard, EdgeKind::Hard),
            (source.soft && !source.hard, EdgeKind::Soft),
            (source.explicit && !source.hard, EdgeKind::Explicit),
        ];
        let from = graph.id_of(source.node);
        let to = node.id.as_str();
        kinds.into_iter().filter(|(applies, _)| *applies).map(move |(_, kind)| Edge { from, to, kind })
    })
}

/// Whether a string has no expression in it.
pub(crate) fn literal(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.contains("${"))
}
