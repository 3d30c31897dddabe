//! Nodes that run before another one is removed.
//!
//! While things are being removed there is no walk, so values come from the objects that carry our labels.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::action::Action;
use crate::condition::check_own;
use crate::desired::{Desired, Unaddressed, address, kind};
use crate::expand::{Stop, expand};
use crate::graph::{Graph, Node, NodeKind};
use crate::identity::Marks;
use crate::observe::Seen;
use crate::removal::Removal;
use crate::scope::Values;
use crate::selector::Selector;

/// How far a finalizing node is.
#[derive(Clone, Debug)]
pub(crate) enum Finalizer {
    /// It has done its work.
    Done,
    /// It still works.
    Busy { actions: Vec<Action>, detail: String, until: Option<Timestamp> },
    /// It cannot be made; the removal goes on without it.
    Skipped(String),
}

/// Looks after the finalizing node at `position` for these objects of its target.
pub(crate) fn finalize(
    graph: &Graph,
    position: usize,
    targets: &[&Value],
    removal: &Removal<'_>,
) -> Finalizer {
    let Some(node) = graph.node(position) else { return Finalizer::Done };
    let scope = scope(graph, node, targets, removal);
    if let Some(permit) = removal.unanswered() {
        let detail = format!("it is not known yet whether the ServiceAccount may read {permit}");
        return Finalizer::Busy { actions: Vec::new(), detail, until: None };
    }
    let bodies = match expand(node, &scope, removal.limits) {
        Ok((bodies, _)) => bodies,
        Err(Stop::Missing(detail) | Stop::Failed(detail)) => {
            return Finalizer::Skipped(format!("could not be rendered: {detail}"));
        }
    };
    let mut actions = Vec::new();
    let mut objects = Vec::new();
    for (at, body) in bodies.into_iter().enumerate() {
        match object(node, at, body, removal) {
            Ok(Ok(object)) => objects.push(object.clone()),
            Ok(Err(action)) => actions.extend(action),
            Err(note) => return Finalizer::Skipped(note),
        }
    }
    let target = node.finalizes.map(|target| graph.id_of(target)).unwrap_or_default();
    if !actions.is_empty() {
        return Finalizer::Busy {
            actions,
            detail: format!("is created before `{target}` is removed"),
            until: None,
        };
    }
    let own = if node.is_collection() { Value::Array(objects) } else { objects.pop().unwrap_or_default() };
    let ready = check_own(&node.ready, &node.id, &own, &scope, removal.limits);
    if let Some(error) = ready.error {
        return Finalizer::Skipped(format!("readyWhen failed: {error}"));
    }
    if ready.holds() {
        return Finalizer::Done;
    }
    let waits: Vec<&str> = ready
        .unmet
        .iter()
        .map(|(s, _)| s)
        .chain(ready.missing.iter().map(|(s, _)| s))
        .map(String::as_str)
        .collect();
    let detail = format!("must finish before `{target}` is removed: `{}`", waits.join("`, `"));
    Finalizer::Busy { actions, detail, until: ready.until }
}

/// The object of the finalizing node when it is there, or what makes it.
fn object<'a>(
    node: &Node,
    at: usize,
    body: Value,
    removal: &Removal<'a>,
) -> Result<Result<&'a Value, Option<Action>>, String> {
    let id = address(&body, removal.owner, removal.world).map_err(|error| match error {
        Unaddressed::Unserved(gvk) => format!("{gvk} is not served"),
        Unaddressed::Invalid(message) => message,
    })?;
    removal.fence.write(removal.owner, &id)?;
    removal.fence.content(&id, &body)?;
    let observed = match removal.world.object(&id) {
        Seen::Unknown => return Ok(Err(None)),
        Seen::Absent if node.kind == NodeKind::Patch => return Err(format!("{id} does not exist")),
        Seen::Absent => None,
        Seen::Present(object) => Some(object),
    };
    let marks = observed.map(|object| Marks::read(object, &removal.owner.uid)).unwrap_or_default();
    if let (Some(other), NodeKind::Template) = (&marks.foreign, node.kind)
        && !(node.force && removal.fence.takes_from(removal.owner, other))
    {
        return Err(format!("{id} belongs to the Graph `{other}`"));
    }
    if let Some(object) = observed.filter(|_| marks.ours.contains_key(&node.key)) {
        return Ok(Ok(object));
    }
    let index = node.is_collection().then_some(at);
    let desired = Desired::new(node, removal.owner, id, body, index, observed)?;
    Ok(Err(Some(desired.action(node))))
}

fn scope(graph: &Graph, node: &Node, targets: &[&Value], removal: &Removal<'_>) -> Values {
    let mut needed = BTreeSet::new();
    let mut open: Vec<usize> = node.sources.iter().map(|source| source.node).collect();
    while let Some(position) = open.pop() {
        if needed.insert(position) && Some(position) != node.finalizes {
            open.extend(graph.node(position).into_iter().flat_map(|n| n.sources.iter().map(|s| s.node)));
        }
    }
    let mut scope = Values { values: BTreeMap::new(), now: removal.now };
    for position in needed {
        let Some(source) = graph.node(position) else { continue };
        let value = if Some(position) == node.finalizes {
            join(source, targets.to_vec())
        } else {
            value_of(source, &scope, removal)
        };
        // An absent value is an empty map, on which optional selection gives nothing.
        scope.values.insert(source.id.clone(), value.unwrap_or_else(|| Value::Object(Map::new())));
    }
    scope
}

fn join(node: &Node, objects: Vec<&Value>) -> Option<Value> {
    if node.is_list() {
        return Some(Value::Array(objects.into_iter().cloned().collect()));
    }
    objects.first().map(|object| (*object).clone())
}

fn value_of(node: &Node, scope: &Values, removal: &Removal<'_>) -> Option<Value> {
    match node.kind {
        NodeKind::Template | NodeKind::Patch => {
            let kept = removal.owned.kept(&node.key, node.is_collection());
            join(node, kept.iter().filter_map(|id| removal.world.object(id).present()).collect())
        }
        NodeKind::Def => {
            let (mut bodies, _) = expand(node, scope, removal.limits).ok()?;
            if node.is_collection() { Some(Value::Array(bodies)) } else { bodies.pop() }
        }
        NodeKind::Ref => {
            let (bodies, _) = expand(node, scope, removal.limits).ok()?;
            let addresses = bodies.iter().filter_map(|body| address(body, removal.owner, removal.world).ok());
            let ids: Vec<_> =
                addresses.filter(|id| removal.may(removal.fence.read(removal.owner, id))).collect();
            join(node, ids.iter().filter_map(|id| removal.world.object(id).present()).collect())
        }
        NodeKind::Watch => {
            let (bodies, _) = expand(node, scope, removal.limits).ok()?;
            let body = bodies.first()?;
            let (gvk, _) = kind(body, removal.world).ok()?;
            let namespace = body.pointer("/metadata/namespace").and_then(Value::as_str);
            let selector = Selector::read(body.get("selector")).ok()?;
            if !removal.may(removal.fence.list(removal.owner, &gvk, namespace)) {
                return None;
            }
            join(node, removal.world.select(&gvk, namespace, &selector)?)
        }
    }
}
