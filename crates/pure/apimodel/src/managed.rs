//! `metadata.managedFields`: reads, writes and keeps up to date who owns which fields.
//!
//! [`track_update`] is for create, update and patch: the writer takes every field it changed, everybody else loses
//! them. Server-side apply has rules of its own, in [`crate::merge`].
//!
//! This module decides nothing about the object itself and must not read a clock.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::fields::{FieldsError, Path, PathElement, Set, TypeRef, compare, reconcile};
use crate::schema::Schema;

/// How many managers that used plain writes an object remembers one by one.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// The name under which the oldest plain writers are remembered together.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

/// The name that owns what an object had before ownership was tracked.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update or any other patch.
    Update,
}

impl Operation {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "Apply" => Some(Self::Apply),
            "Update" => Some(Self::Update),
            _ => None,
        }
    }
}

/// Who writes, and through which door.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// How it writes.
    pub operation: Operation,
    /// The API version of the request, for example `apps/v1`.
    pub api_version: &'a str,
    /// The subresource written, or empty.
    pub subresource: &'a str,
}

/// Why `metadata.managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// It is not a list of objects.
    #[error("`metadata.managedFields` must be a list of objects")]
    NotAList,
    /// An entry has an operation other than the two.
    #[error("`metadata.managedFields[{0}].operation` must be `Apply` or `Update`")]
    Operation(usize),
    /// An entry has no API version.
    #[error("`metadata.managedFields[{0}].apiVersion` must not be empty")]
    ApiVersion(usize),
    /// An entry has a format other than `FieldsV1`.
    #[error("`metadata.managedFields[{0}].fieldsType` must be `FieldsV1`")]
    FieldsType(usize),
    /// An entry has a time that is not RFC 3339.
    #[error("`metadata.managedFields[{0}].time` must be a time in RFC 3339 form")]
    Time(usize),
    /// A member is not text.
    #[error("`metadata.managedFields[{0}].{1}` must be text")]
    Text(usize, &'static str),
    /// The set of an entry cannot be read.
    #[error("`metadata.managedFields[{0}].fieldsV1`: {1}")]
    Fields(usize, FieldsError),
}

/// What tells entries apart. An applier keeps one entry whatever version it applies, so its version is left empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl Identity {
    pub(crate) fn of(manager: &Manager<'_>, operation: Operation) -> Self {
        let name = if manager.name.is_empty() { "unknown" } else { manager.name };
        Self::new(name, operation, manager.api_version, manager.subresource)
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        };
        Self { manager: manager.to_owned(), operation, api_version, subresource: subresource.to_owned() }
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) set: Set,
    pub(crate) api_version: String,
    pub(crate) time: Option<Timestamp>,
}

/// The managers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    pub(crate) entries: BTreeMap<Identity, Owned>,
}

/// Brings `metadata.managedFields` of a new object up to date after a create, update or patch.
///
/// `old` is the stored object, or `None` for a create. Managed fields that the writer sent are honoured as
/// kube-apiserver does: an empty list resets them, unreadable or missing ones are replaced by the stored ones, and a
/// write to a subresource cannot touch them.
pub fn track_update(
    schema: &Schema,
    old: Option<&Value>,
    new: &mut Value,
    manager: &Manager<'_>,
    now: Timestamp,
) {
    let mut managers = if manager.subresource.is_empty() {
        sent_or_stored(old, new)
    } else {
        old.map(stored).unwrap_or_default()
    };
    clear(new);
    if managers.entries.is_empty() && old.is_some() {
        // Somebody asked not to be tracked, so nothing is until the next apply.
        return;
    }
    managers.reconcile(schema);
    managers.update(schema, old, new, manager, now);
    managers.cap();
    managers.write(new);
}

fn sent_or_stored(old: Option<&Value>, new: &Value) -> Managers {
    let sent = new.pointer("/metadata/managedFields");
    let reset = match sent {
        Some(Value::Array(list)) => match list.as_slice() {
            [] => true,
            [Value::Object(only)] => only.is_empty(),
            _ => false,
        },
        _ => false,
    };
    if reset {
        return Managers::default();
    }
    match sent.map(Managers::read) {
        Some(Ok(managers)) if !managers.entries.is_empty() => managers,
        _ => old.map(stored).unwrap_or_default(),
    }
}

fn stored(object: &Value) -> Managers {
    Managers::of(object).unwrap_or_default()
}

/// Takes the managed fields out of an object.
pub(crate) fn clear(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.remove("managedFields")
}

/// Takes out the fields that no manager ever owns, because the server sets them or because they name the object.
fn disown(set: &mut Set) {
    static UNOWNED: std::sync::LazyLock<Set> = std::sync::LazyLock::new(|| {
        let metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let field = PathElement::field;
        let below = metadata.map(|name| Path(vec![field("metadata"), field(name)]));
        let top = ["apiVersion", "kind", "metadata"].map(|name| Path(vec![field(name)]));
        Set::from_paths(top.into_iter().chain(below))
    });
    set.subtract(&UNOWNED);
}

impl Managers {
    /// Reads the managers of an object; an object without any is fine.
    pub(crate) fn of(object: &Value) -> Result<Self, ManagedError> {
        object.pointer("/metadata/managedFields").map_or_else(|| Ok(Self::default()), Self::read)
    }

    fn read(list: &Value) -> Result<Self, ManagedError> {
        let list = match list {
            Value::Null => return Ok(Self::default()),
            Value::Array(list) => list,
            _ => return Err(ManagedError::NotAList),
        };
        let mut entries = BTreeMap::new();
        for (index, entry) in list.iter().enumerate() {
            let (identity, owned) = read_entry(index, entry)?;
            entries.insert(identity, owned);
        }
        Ok(Self { entries })
    }

    /// Writes the managers into an object, in the order in which kube-apiserver lists them.
    pub(crate) fn write(&self, object: &mut Value) {
        let Some(root) = object.as_object_mut() else { return };
        let metadata = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Some(metadata) = metadata.as_object_mut() else { return };
        if self.entries.is_empty() {
            metadata.remove("managedFields");
            return;
        }
        let mut sorted: Vec<(&Identity, &Owned)> = self.entries.iter().collect();
        sorted.sort_by_cached_key(|(identity, owned)| {
            let time = owned.time.map_or(0, Timestamp::as_second);
            let names = (identity.manager.clone(), owned.api_version.clone(), identity.subresource.clone());
            (identity.operation, time, names)
        });
        let list = sorted.into_iter().map(|(identity, owned)| write_entry(identity, owned)).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(list));
    }

    pub(crate) fn reconcile(&mut self, schema: &Schema) {
        for owned in self.entries.values_mut() {
            owned.set = reconcile(TypeRef::root(schema), std::mem::take(&mut owned.set));
        }
    }

    /// Takes fields that are gone or written by another from everybody but one manager.
    ///
    /// Entries written under another version of the kind are treated alike: versions share their field paths here.
    pub(crate) fn take(&mut self, removed: &Set, written: &Set, except: Option<&Identity>) {
        self.entries.retain(|identity, owned| {
            if Some(identity) != except {
                owned.set.subtract(written);
                owned.set.subtract(removed);
            }
            !owned.set.is_empty()
        });
    }

    /// Records a plain write: the writer takes what it changed.
    pub(crate) fn update(
        &mut self,
        schema: &Schema,
        old: Option<&Value>,
        new: &Value,
        manager: &Manager<'_>,
        now: Timestamp,
    ) {
        let nothing = Value::Object(Map::new());
        let comparison = compare(schema, old.unwrap_or(&nothing), new);
        if comparison.is_empty() {
            return;
        }
        let (removed, mut taken) = comparison.split();
        self.take(&removed, &taken, None);
        disown(&mut taken);
        if taken.is_empty() {
            return;
        }
        let identity = Identity::of(manager, Operation::Update);
        let set = match self.entries.get(&identity) {
            Some(previous) => taken.union(&previous.set),
            None => taken,
        };
        let api_version = manager.api_version.to_owned();
        self.entries.insert(identity, Owned { set, api_version, time: Some(whole_second(now)) });
    }

    /// The set of one manager is replaced after an apply; the fields nobody owns are taken out.
    pub(crate) fn strip(&mut self, identity: &Identity) {
        if let Some(owned) = self.entries.get_mut(identity) {
            disown(&mut owned.set);
            if owned.set.is_empty() {
                self.entries.remove(identity);
            }
        }
    }

    /// Joins the oldest plain writers until at most [`MAX_UPDATE_MANAGERS`] are left.
    fn cap(&mut self) {
        let mut updaters: Vec<(i64, Identity)> = self
            .entries
            .iter()
            .filter(|(identity, _)| identity.operation == Operation::Update)
            .map(|(identity, owned)| (owned.time.map_or(0, Timestamp::as_second), identity.clone()))
            .collect();
        let mut count = updaters.len();
        if count <= MAX_UPDATE_MANAGERS {
            return;
        }
        updaters.sort();
        let mut first_of_version: BTreeMap<String, Identity> = BTreeMap::new();
        for (_, identity) in updaters {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let Some(first) = first_of_version.get(&identity.api_version) else {
                first_of_version.insert(identity.api_version.clone(), identity);
                continue;
            };
            let bucket = Identity::new(ANCIENT_CHANGES, Operation::Update, &identity.api_version, "");
            if !self.entries.contains_key(&bucket)
                && let Some(owned) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), owned);
            }
            if bucket == identity {
                continue;
            }
            if let Some(merged) = self.entries.remove(&identity) {
                if let Some(ancient) = self.entries.get_mut(&bucket) {
                    ancient.set = ancient.set.union(&merged.set);
                    // The joined entry is as young as the youngest of its parts.
                    ancient.time = merged.time;
                }
                count -= 1;
            }
        }
    }
}

/// Times on the wire have whole seconds.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn read_entry(index: usize, entry: &Value) -> Result<(Identity, Owned), ManagedError> {
    let entry = entry.as_object().ok_or(ManagedError::NotAList)?;
    let text = |name: &'static str| match entry.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(ManagedError::Text(index, name)),
    };
    let operation = Operation::from_name(text("operation")?).ok_or(ManagedError::Operation(index))?;
    let api_version = text("apiVersion")?;
    if api_version.is_empty() {
        return Err(ManagedError::ApiVersion(index));
    }
    if text("fieldsType")? != "FieldsV1" {
        return Err(ManagedError::FieldsType(index));
    }
    let time = match text("time")? {
        "" => None,
        time => Some(time.parse::<Timestamp>().map_err(|_| ManagedError::Time(index))?),
    };
    let set = match entry.get("fieldsV1") {
        None | Some(Value::Null) => Set::new(),
        Some(fields) => Set::from_fields(fields).map_err(|error| ManagedError::Fields(index, error))?,
    };
    let identity = Identity::new(text("manager")?, operation, api_version, text("subresource")?);
    Ok((identity, Owned { set, api_version: api_version.to_owned(), time }))
}

fn write_entry(identity: &Identity, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    };
    text("manager", &identity.manager);
    text("operation", identity.operation.as_str());
    text("apiVersion", &owned.api_version);
    text("subresource", &identity.subresource);
    text("fieldsType", "FieldsV1");
    if let Some(time) = owned.time {
        text("time", &whole_second(time).to_string());
    }
    entry.insert("fieldsV1".to_owned(), owned.set.to_fields());
    Value::Object(entry)
}
