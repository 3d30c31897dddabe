//! What the dependencies of a node allow it to do, and what it sees of them.

use jiff::Timestamp;
use kardinal_cel::Scope;
use serde_json::Value;

use super::{NodeValue, Pass, Reach, Walker};
use crate::graph::Node;
use crate::report::{Wait, WaitReason};

/// The dependencies of a node that are not simply there, by what is the matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    pub(super) excluded: Vec<Wait>,
    pub(super) failed: Vec<Wait>,
    pub(super) out: Vec<Wait>,
    pub(super) closed: Vec<Wait>,
    pub(super) held: Vec<Wait>,
}

impl Walker {
    pub(super) fn gate(&self, node: &Node) -> Gate {
        let mut gate = Gate::default();
        for source in node.sources.iter().filter(|source| source.gates()) {
            let (Some(walk), id) = (self.nodes.get(source.node), self.graph.id_of(source.node)) else {
                continue;
            };
            match &walk.reach {
                Reach::Open => {}
                // In a circle of optional references each would wait for the other to come to rest.
                Reach::Held if source.circular => {}
                Reach::Held => {
                    let detail = format!("`{id}` is being updated");
                    gate.held.push(Wait::new(id, WaitReason::Updating, detail));
                }
                Reach::Closed(waits) => gate.closed.extend(waits.iter().cloned()),
                Reach::Out => {
                    let detail = format!("`{id}` is not applied and observed yet");
                    gate.out.push(Wait::new(id, WaitReason::NotInScope, detail));
                }
                Reach::Failed => {
                    let detail = format!("`{id}` is {}", walk.report.state);
                    gate.failed.push(Wait::new(id, WaitReason::DependencyFailed, detail));
                }
                Reach::Excluded => {
                    let detail = format!("`{id}` is excluded");
                    gate.excluded.push(Wait::new(id, WaitReason::Excluded, detail));
                }
            }
        }
        gate
    }

    /// Whether everything that `includeWhen` needs is in scope.
    pub(super) fn can_decide_inclusion(&self, node: &Node) -> bool {
        let open =
            |at: usize| self.nodes.get(at).is_some_and(|n| matches!(n.reach, Reach::Open | Reach::Held));
        node.sources.iter().filter(|source| source.include).all(|source| open(source.node))
    }

    /// The value of a node, whether or not it may be seen.
    pub(super) fn value<'a>(&'a self, position: usize, pass: &Pass<'a>) -> Option<&'a Value> {
        match &self.nodes.get(position)?.value {
            NodeValue::None => None,
            NodeValue::Object(id) => pass.world.object(id).present(),
            NodeValue::Computed(value) => Some(value),
        }
    }
}

/// What the expressions of one node see of the others.
pub(super) struct NodeScope<'a> {
    pub(super) walker: &'a Walker,
    pub(super) pass: &'a Pass<'a>,
    pub(super) node: &'a Node,
}

impl NodeScope<'_> {
    fn position(&self, name: &str) -> Option<usize> {
        self.walker.graph.index.get(name).copied()
    }
}

impl Scope for NodeScope<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        let position = self.position(name)?;
        let reach = &self.walker.nodes.get(position)?.reach;
        if matches!(reach, Reach::Open | Reach::Held)
            && let Some(value) = self.walker.value(position, self.pass)
        {
            return Some(value);
        }
        let source = self.node.sources.binary_search_by_key(&position, |source| source.node).ok()?;
        let soft = self.node.sources.get(source).is_some_and(|source| source.soft && !source.hard);
        soft.then_some(&self.walker.absent)
    }

    fn now(&self) -> Timestamp {
        self.pass.now
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        self.walker.nodes.get(self.position(name)?)?.value_until
    }
}
