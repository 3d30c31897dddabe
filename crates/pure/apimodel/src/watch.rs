//! The watch log: the recent changes of every resource, bounded by count and by bytes.
//!
//! It is pulled, not pushed: a stream keeps a [`Cursor`] and asks for what came after it whenever the shell says that
//! something was committed. A stream that is too slow finds its place compacted and gets the 410 that kube gives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::{Change, ResourceName};
use crate::object::{Object, events};
use crate::selector::Selectors;
use crate::status::Status;

#[cfg(test)]
mod tests;

/// How much of the past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Changes over all resources.
    pub changes: usize,
    /// Bytes of object text that those changes hold on to, roughly.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { changes: 20_000, bytes: 8 << 20 }
    }
}

/// What a watch event says happened, as seen through the watch's selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It appeared.
    Added,
    /// It changed.
    Modified,
    /// It disappeared.
    Deleted,
}

impl EventKind {
    /// The `type` of the event.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The object to show.
    pub object: Arc<Object>,
    /// The version of the change.
    pub rv: u64,
}

/// Where a stream stands: it has seen everything up to and including this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

/// What one watch wants to see.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One namespace, or all when empty.
    pub namespace: String,
    /// Label and field selectors.
    pub selectors: Selectors,
}

impl Filter {
    /// Whether the watch sees this state of an object.
    pub fn matches(&self, object: &Object) -> bool {
        (self.namespace.is_empty() || object.namespace() == self.namespace) && self.selectors.matches(object)
    }

    /// The event that a change is, as seen through this filter.
    pub fn event(&self, change: &Change) -> Option<Event> {
        if !self.namespace.is_empty() && change.key.namespace != self.namespace {
            return None;
        }
        let before = change.old.as_ref().filter(|o| self.selectors.matches(o));
        let after = change.new.as_ref().filter(|o| self.selectors.matches(o));
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(new)) => (EventKind::Added, Arc::clone(new)),
            (Some(_), Some(new)) => (EventKind::Modified, Arc::clone(new)),
            // An object that leaves the selection is shown as it was, at the version at which it left.
            (Some(old), None) => (EventKind::Deleted, departed(change, old)),
        };
        Some(Event { kind, object, rv: change.rv })
    }
}

/// The recent changes.
#[derive(Debug)]
pub struct Log {
    limits: Limits,
    /// Versions before this were never in the log (a restart).
    floor: u64,
    resources: BTreeMap<ResourceName, Recent>,
    order: VecDeque<(ResourceName, usize)>,
    bytes: usize,
    last: u64,
}

#[derive(Debug, Default)]
struct Recent {
    changes: VecDeque<Arc<Change>>,
    compacted: u64,
}

impl Log {
    /// An empty log that begins after version `floor`.
    pub fn new(limits: Limits, floor: u64) -> Log {
        Log { limits, floor, resources: BTreeMap::new(), order: VecDeque::new(), bytes: 0, last: floor }
    }

    /// Adds a committed change and forgets the oldest ones beyond the limits.
    pub fn push(&mut self, change: Change) {
        let size = [&change.new, &change.old, &change.last].iter().map(|o| weight(o)).sum::<usize>();
        self.last = change.rv;
        let resource = Arc::clone(&change.key.resource);
        self.resources.entry(Arc::clone(&resource)).or_default().changes.push_back(Arc::new(change));
        self.order.push_back((resource, size));
        self.bytes = self.bytes.saturating_add(size);
        while self.order.len() > self.limits.changes || self.bytes > self.limits.bytes {
            if !self.forget_oldest() {
                break;
            }
        }
    }

    /// Forgets everything up to now, as a compaction of the store would.
    pub fn compact(&mut self) {
        while self.forget_oldest() {}
        self.floor = self.last;
    }

    fn forget_oldest(&mut self) -> bool {
        let Some((resource, size)) = self.order.pop_front() else { return false };
        self.bytes = self.bytes.saturating_sub(size);
        if let Some(recent) = self.resources.get_mut(&resource)
            && let Some(change) = recent.changes.pop_front()
        {
            recent.compacted = change.rv;
        }
        true
    }

    fn recent(&self, resource: &str) -> Option<&Recent> {
        self.resources.get(events::collection_of(resource))
    }

    /// How many changes are held.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The oldest version from which a watch of `resource` can start.
    pub fn oldest(&self, resource: &str) -> u64 {
        self.recent(resource).map_or(self.floor, |recent| recent.compacted.max(self.floor))
    }

    /// Whether a watch of `resource` may start after `cursor`; the error is the 410 or 504 that kube gives.
    pub fn check(&self, resource: &str, cursor: Cursor) -> Result<(), Status> {
        let oldest = self.oldest(resource);
        if cursor.0 < oldest {
            let message = format!("too old resource version: {} ({oldest})", cursor.0);
            return Err(Status::expired(message));
        }
        if cursor.0 > self.last {
            return Err(Status::too_large_resource_version(cursor.0, self.last));
        }
        Ok(())
    }

    /// The raw changes of `resource` after `cursor`, oldest first.
    pub fn changes_since(
        &self,
        resource: &str,
        cursor: Cursor,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Change>>, Status> {
        self.check(resource, cursor)?;
        let changes = self.recent(resource).map(|recent| {
            let start = recent.changes.partition_point(|change| change.rv <= cursor.0);
            recent.changes.range(start..)
        });
        Ok(changes.into_iter().flatten())
    }

    /// Up to `max` events of `resource` after `cursor` as `filter` sees them, and the new cursor.
    ///
    /// The cursor moves over changes that the filter hides too, so a quiet watch never falls out of the window;
    /// with nothing left it moves to the newest version.
    pub fn since(
        &self,
        resource: &str,
        cursor: Cursor,
        filter: &Filter,
        max: usize,
    ) -> Result<(Vec<Event>, Cursor), Status> {
        let mut events = Vec::new();
        for change in self.changes_since(resource, cursor)? {
            if let Some(event) = filter.event(change) {
                events.push(event);
            }
            if events.len() >= max {
                return Ok((events, Cursor(change.rv)));
            }
        }
        Ok((events, Cursor(self.last)))
    }
}

/// One line of a watch stream in JSON, with its line end.
pub fn event_line(event: &Event, api_version: &str) -> Vec<u8> {
    let object = event.object.json_as(api_version);
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event.kind.as_str().as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(&object);
    line.extend_from_slice(b"}\n");
    line
}

/// A BOOKMARK event; the one that ends the initial events carries the annotation that clients wait for.
pub fn bookmark(api_version: &str, kind: &str, rv: u64, ends_initial_events: bool) -> Value {
    let mut metadata = json!({"resourceVersion": rv.to_string()});
    if ends_initial_events && let Value::Object(map) = &mut metadata {
        map.insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
    }
    json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}})
}

/// An ERROR event; the stream ends after it.
pub fn error_event(status: &Status) -> Value {
    json!({"type": "ERROR", "object": status.to_json()})
}

fn departed(change: &Change, old: &Arc<Object>) -> Arc<Object> {
    if let Some(last) = &change.last {
        return Arc::clone(last);
    }
    Arc::new(Object::new(&crate::meta::with_version(old.value(), change.rv)))
}

fn weight(object: &Option<Arc<Object>>) -> usize {
    object.as_ref().map_or(0, |o| o.json().len() + 64)
}
