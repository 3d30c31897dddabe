//! Server-side apply: merges an applied configuration into the live object and settles who owns what.
//!
//! The rules are those of structured merge: the schema says which lists and maps have parts with owners of their own;
//! an applier owns exactly what it applies; what it stops applying goes away unless somebody else owns it; changing
//! what somebody else owns is a conflict unless forced.
//!
//! Preconditions (`resourceVersion`, `uid`), the reset of fields that a request may not write, defaulting and
//! validation of the result are the caller's. Nothing here reads a clock.

mod last_applied;
mod prune;
mod tree;
mod verify;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::tests::gadget as gadget_for_tests;

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::fields::{Path, Set, TypeRef, compare, field_set, values_equal};
use crate::managed::{
    BEFORE_FIRST_APPLY, Identity, ManagedError, Manager, Managers, Operation, Owned, clear, whole_second,
};
use crate::schema::Schema;

pub use crate::managed::track_update;

/// The manager name under which kubectl applies; the server keeps its client-side annotation in step.
const KUBECTL: &str = "kubectl";

/// A field that another manager owns and the applied configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager that owns the field.
    pub manager: String,
    /// How that manager wrote it.
    pub operation: Operation,
    /// The API version under which it wrote; empty for appliers.
    pub api_version: String,
    /// The subresource through which it wrote, or empty.
    pub subresource: String,
    /// The field as kubectl shows it, for example `.spec.containers[name="x"].image`.
    pub field: String,
    path: Path,
}

impl Conflict {
    /// The manager in the words of kube-apiserver: `"x" with subresource "status" using apps/v1`.
    pub fn owner(&self) -> String {
        let mut out = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {}", Value::from(self.subresource.as_str())));
        }
        if self.operation == Operation::Update {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

/// Why an applied configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the configuration would change, sorted by manager and field.
    Conflicts(Vec<Conflict>),
    /// The configuration cannot be applied at all.
    Invalid(String),
}

impl std::error::Error for ApplyError {}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = match self {
            Self::Invalid(message) => return f.write_str(message),
            Self::Conflicts(conflicts) => conflicts,
        };
        if let [only] = conflicts.as_slice() {
            let (owner, field) = (only.owner(), &only.field);
            return write!(f, "Apply failed with 1 conflict: conflict with {owner}: {field}");
        }
        write!(f, "Apply failed with {} conflicts: ", conflicts.len())?;
        let mut last = String::new();
        for (index, conflict) in conflicts.iter().enumerate() {
            let owner = conflict.owner();
            if index > 0 {
                f.write_str("\n")?;
            }
            if owner != last {
                writeln!(f, "conflicts with {owner}:")?;
                last = owner;
            }
            write!(f, "- {}", conflict.field)?;
        }
        Ok(())
    }
}

impl From<ManagedError> for ApplyError {
    fn from(error: ManagedError) -> Self {
        Self::Invalid(format!("failed to decode managed fields: {error}"))
    }
}

/// A kind as Go prints it: `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` in the core group.
pub(crate) fn shown_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// Merges an applied configuration into the live object, with the managed fields brought up to date.
///
/// `live` is `None` when the object does not exist: the answer is then the object to create. Applying what is
/// there already answers the live object unchanged, times included. The operation of `manager` is taken to be apply.
/// `live` is lent without its managed fields while the merge runs, which saves a copy of it; afterwards it is as it was.
pub fn server_side_apply(
    schema: &Schema,
    live: Option<&mut Value>,
    applied: &Value,
    manager: &Manager<'_>,
    force: bool,
    now: Timestamp,
) -> Result<Value, ApplyError> {
    check_request(applied, manager)?;
    verify::verify(schema, applied).map_err(|problem| {
        let (kind, name) = (text(applied, "/kind"), text(applied, "/metadata/name"));
        let shown = shown_kind(manager.api_version, kind);
        ApplyError::Invalid(format!("failed to create typed patch object (/{name}; {shown}): {problem}"))
    })?;
    let Some(live) = live else {
        let base = Value::Object(Map::new());
        return Apply { schema, base: &base, applied, manager, now }.finish(Managers::default(), force);
    };
    let mut managers = Managers::of(live)?;
    let managed = clear(live);
    if managers.entries.is_empty() {
        let before = Manager { name: BEFORE_FIRST_APPLY, subresource: "", ..*manager };
        managers.update(schema, None, live, &before, now);
    }
    let result = Apply { schema, base: live, applied, manager, now }.finish(managers, force);
    if let (Some(managed), Some(metadata)) =
        (managed, live.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".to_owned(), managed);
    }
    result
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn check_request(applied: &Value, manager: &Manager<'_>) -> Result<(), ApplyError> {
    let invalid = |message: String| Err(ApplyError::Invalid(message));
    if !applied.is_object() {
        return invalid("the applied configuration must be an object".to_owned());
    }
    if applied.get("metadata").is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
        return invalid("`metadata` of the applied configuration must be an object".to_owned());
    }
    if applied.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return invalid("metadata.managedFields must be nil".to_owned());
    }
    let version = text(applied, "/apiVersion");
    if version != manager.api_version {
        let expected = manager.api_version;
        return invalid(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {expected}"
        ));
    }
    Ok(())
}

struct Apply<'a> {
    schema: &'a Schema,
    /// The live object without its managed fields.
    base: &'a Value,
    applied: &'a Value,
    manager: &'a Manager<'a>,
    now: Timestamp,
}

impl Apply<'_> {
    fn finish(&self, mut managers: Managers, force: bool) -> Result<Value, ApplyError> {
        managers.reconcile(self.schema);
        let (mut object, managers) = if self.manager.name == KUBECTL {
            let (mut object, managers) = self.run_for_kubectl(managers, force)?;
            last_applied::refresh(&mut object, self.applied);
            (object, managers)
        } else {
            self.run(managers, force)?
        };
        managers.write(&mut object);
        Ok(object)
    }

    fn run(&self, mut managers: Managers, force: bool) -> Result<(Value, Managers), ApplyError> {
        let identity = Identity::of(self.manager, Operation::Apply);
        let ty = TypeRef::root(self.schema);
        let mut object = tree::merge(ty, self.base, self.applied).map_err(ApplyError::Invalid)?;
        let set = field_set(self.schema, self.applied);
        let api_version = self.manager.api_version.to_owned();
        let last = managers.entries.remove(&identity);
        let time = last.as_ref().and_then(|last| last.time);
        managers.entries.insert(identity.clone(), Owned { set, api_version, time });
        if let Some(last) = last {
            object = prune::prune(ty, object, &managers, &identity, &last.set);
        }
        tree::drop_nulls(ty, &mut object);
        self.take_fields(&object, &mut managers, &identity, force)?;
        managers.strip(&identity);
        if !values_equal(self.base, &object)
            && let Some(owned) = managers.entries.get_mut(&identity)
        {
            owned.time = Some(whole_second(self.now));
        }
        Ok((object, managers))
    }

    /// The same for kubectl, whose client-side annotation excuses conflicts.
    fn run_for_kubectl(&self, managers: Managers, force: bool) -> Result<(Value, Managers), ApplyError> {
        match self.run(managers.clone(), force) {
            Err(ApplyError::Conflicts(conflicts)) => {
                let rest = last_applied::without_allowed(self.schema, self.base, conflicts, self.manager);
                if rest.is_empty() { self.run(managers, true) } else { Err(ApplyError::Conflicts(rest)) }
            }
            other => other,
        }
    }

    /// Finds the conflicts and, if there are none or they are forced, takes the changed fields from everybody else.
    fn take_fields(
        &self,
        object: &Value,
        managers: &mut Managers,
        identity: &Identity,
        force: bool,
    ) -> Result<(), ApplyError> {
        let (removed, written) = compare(self.schema, self.base, object).split();
        if !force {
            let conflicts = conflicts(managers, identity, &written);
            if !conflicts.is_empty() {
                return Err(ApplyError::Conflicts(conflicts));
            }
        }
        managers.take(&removed, &written, Some(identity));
        Ok(())
    }
}

fn conflicts(managers: &Managers, except: &Identity, written: &Set) -> Vec<Conflict> {
    let mut out = Vec::new();
    for (identity, owned) in managers.entries.iter().filter(|(identity, _)| *identity != except) {
        for path in owned.set.intersection(written).paths() {
            out.push(Conflict {
                manager: identity.manager.clone(),
                operation: identity.operation,
                api_version: identity.api_version.clone(),
                subresource: identity.subresource.clone(),
                field: path.to_string(),
                path,
            });
        }
    }
    out
}
