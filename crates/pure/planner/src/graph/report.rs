//! What to tell the user about a Graph: conditions, node states, events on transition.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kardinal_api::graph::{self as api, Graph, GraphStatus, KindReference, NodeStatus, ObjectReference};
use kardinal_graph::{NodeReport, NodeState, Wait, WaitReason};
use kardinal_object::{ObjectId, name_of};

use super::plan::{Removal, kind_reference, recorded_kinds, revision_name};
use super::state::recorded;
use super::why::who;
use super::{Checked, Memory};
use crate::condition::{self, NewCondition, Note, Truth};
use crate::sentence;

/// What one pass tells.
pub type Report = sentence::Report<GraphStatus>;

/// Folds a pass into the Graph's status.
pub fn report(graph: &Graph, checked: &Checked, memory: &Memory, now: Timestamp) -> Report {
    let old = graph.status.clone().unwrap_or_default();
    let generation = graph.metadata.generation.unwrap_or_default();
    let nodes: Vec<NodeStatus> = match &memory.walker {
        Some(walker) => walker.reports().map(|(id, report)| node_status(id, report)).collect(),
        None => Vec::new(),
    };
    let removal = memory.removal.as_ref();
    let new = [
        Some(compiled(checked)),
        Some(ready(checked, memory)),
        removal.and_then(|removal| finalizer_skipped(&removal.waits)),
        removal.and_then(|removal| teardown_blocked(&removal.waits)),
        removal
            .and_then(|removal| left_behind(&removal.left))
            .map(|message| NewCondition::new(api::LEFT_BEHIND, Truth::True, "NotAllowed", message)),
    ];
    let new: Vec<NewCondition> = new.into_iter().flatten().collect();
    let notes: Vec<Note> = new.iter().filter_map(|new| note(new, &old.conditions)).collect();
    let conditions = new.into_iter().map(|new| new.since(&old.conditions, Some(generation), now)).collect();
    let status = GraphStatus {
        observed_generation: Some(generation),
        conditions,
        revision: checked
            .running
            .as_ref()
            .map(|running| revision_name(name_of(&graph.metadata), running.generation)),
        kinds: kinds(graph, memory),
        nodes: in_room(nodes),
    };
    Report { status: (status != old).then_some(status), notes, retry: None }
}

/// Whether a status tells of more than the progress of nodes, so that somebody may wait for it.
pub fn is_urgent(graph: &Graph, report: &Report) -> bool {
    let outline = |status: Option<&GraphStatus>| {
        status.map(|status| (status.observed_generation, status.revision.clone())).unwrap_or_default()
    };
    !report.notes.is_empty() || outline(report.status.as_ref()) != outline(graph.status.as_ref())
}

/// So many bytes the records of all nodes can have as JSON. With the nodes themselves it stays below what etcd takes of one
/// object.
const ROOM: usize = 384 << 10;
/// So many bytes a text of a node has where there is not room for everything.
const SHORT: usize = 100;

/// What can be stored of the records. Where there is too much, the state of every node stays, what it says is cut, and what
/// it waits for and its objects are left out: otherwise nothing would be told at all.
fn in_room(mut nodes: Vec<NodeStatus>) -> Vec<NodeStatus> {
    if serde_json::to_vec(&nodes).map_or(0, |text| text.len()) <= ROOM {
        return nodes;
    }
    for node in &mut nodes {
        node.objects.clear();
        node.waits.clear();
        if let Some(message) = &mut node.message {
            message.truncate(message.floor_char_boundary(SHORT));
        }
    }
    nodes
}

/// The Event about a condition, when its status is another one, or there is another trouble.
fn note(new: &NewCondition, old: &[Condition]) -> Option<Note> {
    let same = condition::find(old, new.type_).filter(|before| condition::is(before, new.truth));
    let warning = new.truth == Truth::False || new.type_ == api::LEFT_BEHIND;
    same.is_none_or(|before| warning && before.reason != new.reason).then(|| new.note(warning))
}

fn compiled(checked: &Checked) -> NewCondition {
    match checked.problems.first() {
        None => {
            let message = "all expressions compile and the nodes have an order";
            NewCondition::new(api::COMPILED, Truth::True, "Compiled", message)
        }
        Some(first) => {
            let messages: Vec<String> = checked.problems.iter().take(10).map(ToString::to_string).collect();
            let reason = first.reason.to_string();
            NewCondition::new(api::COMPILED, Truth::False, reason, messages.join("; "))
        }
    }
}

fn ready(checked: &Checked, memory: &Memory) -> NewCondition {
    let ready =
        |truth, reason: &'static str, message: String| NewCondition::new(api::READY, truth, reason, message);
    if let Some(Removal { waits, .. }) = &memory.removal {
        return ready(
            Truth::Unknown,
            "Terminating",
            sentence(waits).unwrap_or_else(|| "objects are removed in reverse order".to_owned()),
        );
    }
    let (Some(_), Some(walker)) = (&checked.running, &memory.walker) else {
        return ready(Truth::False, "NotCompiled", "correct the problems that `Compiled` lists".to_owned());
    };
    if !checked.problems.is_empty() {
        let message = "the newest edit does not compile; the last good revision goes on running";
        return ready(Truth::False, "NotCompiled", message.to_owned());
    }
    let worst = walker.reports().map(|(_, report)| report.state).max().unwrap_or(NodeState::Ready);
    let such: Vec<(&str, &NodeReport)> =
        walker.reports().filter(|(_, report)| report.state == worst).collect();
    let truth = match worst {
        NodeState::Ready | NodeState::Excluded => {
            return match sentence(walker.removing()) {
                Some(message) => ready(Truth::Unknown, "Pruning", message),
                None => ready(Truth::True, "Ready", "all nodes are applied and ready".to_owned()),
            };
        }
        NodeState::NotReady | NodeState::Pending | NodeState::Blocked => Truth::Unknown,
        NodeState::Conflict | NodeState::Error | NodeState::SystemError => Truth::False,
    };
    let names: Vec<&str> = such.iter().map(|(id, _)| *id).take(5).collect();
    let more = such.len().saturating_sub(names.len());
    let detail = such.first().map(|(_, report)| report.message.as_str()).unwrap_or_default();
    let mut message = format!("{} of `{}`", worst.as_str(), names.join("`, `"));
    if more > 0 {
        message.push_str(&format!(" and {more} more"));
    }
    if !detail.is_empty() {
        message.push_str(&format!(": {detail}"));
    }
    ready(truth, worst.as_str(), message)
}

fn finalizer_skipped(waits: &[Wait]) -> Option<NewCondition> {
    let skipped: Vec<Wait> =
        waits.iter().filter(|wait| wait.why == WaitReason::FinalizerSkipped).cloned().collect();
    Some(NewCondition::new(api::FINALIZER_SKIPPED, Truth::True, "NotRendered", sentence(&skipped)?))
}

fn teardown_blocked(waits: &[Wait]) -> Option<NewCondition> {
    let blocking: Vec<Wait> = waits
        .iter()
        .filter(|wait| {
            matches!(wait.why, WaitReason::Terminating | WaitReason::Finalizing | WaitReason::KindUnknown)
        })
        .cloned()
        .collect();
    Some(NewCondition::new(api::TEARDOWN_BLOCKED, Truth::True, "Waiting", sentence(&blocking)?))
}

/// Which objects stay and why; `None` when there are none.
pub(super) fn left_behind(left: &BTreeMap<ObjectId, String>) -> Option<String> {
    const NAMED: usize = 10;
    let short = |why: &str| why.chars().take(300).collect::<String>();
    let parts: Vec<String> =
        left.iter().take(NAMED).map(|(id, why)| format!("{id} ({})", short(why))).collect();
    let more = match left.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!parts.is_empty()).then(|| format!("not removed, see to it yourself: {}{more}", parts.join("; ")))
}

fn sentence(waits: &[Wait]) -> Option<String> {
    let parts: Vec<String> =
        waits.iter().take(5).map(|wait| format!("`{}`: {}", wait.node, wait.detail)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Recorded kinds never shrink while the Graph lives: an object of an old kind may still be there.
fn kinds(graph: &Graph, memory: &Memory) -> Vec<KindReference> {
    let mut kinds = recorded_kinds(graph);
    if let Some(walker) = &memory.walker {
        kinds.extend(walker.graph().static_kinds());
    }
    kinds.iter().map(kind_reference).collect()
}

fn node_status(id: &str, report: &NodeReport) -> NodeStatus {
    NodeStatus {
        id: id.to_owned(),
        state: recorded(report.state),
        message: (!report.message.is_empty()).then(|| report.message.clone()),
        waits: report.waits.iter().map(wait_status).collect(),
        objects: report.objects.iter().map(object_reference).collect(),
        propagating: report.propagating,
        retained: report.retained,
    }
}

/// A status has a type of its own for the same reason as for [states](super::state). Its reason is a word: readers of
/// another version must be able to read it, too.
fn wait_status(wait: &Wait) -> api::Wait {
    api::Wait {
        node: wait.node.clone(),
        why: wait.why.as_str().to_owned(),
        who: Some(who(wait)),
        detail: (!wait.detail.is_empty()).then(|| wait.detail.clone()),
        until: wait.until,
    }
}

fn object_reference(id: &ObjectId) -> ObjectReference {
    ObjectReference {
        api_version: id.gvk.api_version(),
        kind: id.gvk.kind.to_string(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}
