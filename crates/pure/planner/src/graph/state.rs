//! The states of nodes, as the walk knows them and as a status records them.
//!
//! There are two types on purpose: the walk's has an order of severity and decides what is held back, and its crate knows no
//! Kubernetes client; the other is what may be written down, in a crate without behaviour that brings the client's derives.
//! This is the only place where one becomes the other.

use kardinal_api::graph::{self as api, Graph};
use kardinal_graph::NodeState;
use kardinal_graph::render::States;

/// The state as a status records it.
pub(super) fn recorded(state: NodeState) -> api::NodeState {
    match state {
        NodeState::Ready => api::NodeState::Ready,
        NodeState::NotReady => api::NodeState::NotReady,
        NodeState::Pending => api::NodeState::Pending,
        NodeState::Excluded => api::NodeState::Excluded,
        NodeState::Blocked => api::NodeState::Blocked,
        NodeState::Conflict => api::NodeState::Conflict,
        NodeState::Error => api::NodeState::Error,
        NodeState::SystemError => api::NodeState::SystemError,
    }
}

fn walked(state: api::NodeState) -> NodeState {
    match state {
        api::NodeState::Ready => NodeState::Ready,
        api::NodeState::NotReady => NodeState::NotReady,
        api::NodeState::Pending => NodeState::Pending,
        api::NodeState::Excluded => NodeState::Excluded,
        api::NodeState::Blocked => NodeState::Blocked,
        api::NodeState::Conflict => NodeState::Conflict,
        api::NodeState::Error => NodeState::Error,
        api::NodeState::SystemError => NodeState::SystemError,
    }
}

/// The states that a Graph's status records, for drawings.
pub fn states(graph: &Graph) -> States {
    let nodes = graph.status.iter().flat_map(|status| &status.nodes);
    nodes.map(|node| (node.id.clone(), walked(node.state))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_one_word_wherever_it_stands() {
        for state in [
            NodeState::Ready,
            NodeState::NotReady,
            NodeState::Pending,
            NodeState::Excluded,
            NodeState::Blocked,
            NodeState::Conflict,
            NodeState::Error,
            NodeState::SystemError,
        ] {
            let record = recorded(state);
            assert_eq!(walked(record), state);
            assert_eq!(record.as_str(), state.as_str());
            assert_eq!(serde_json::to_value(record).unwrap(), state.as_str());
        }
    }
}
