//! Lists: selectors, pages and snapshots.
//!
//! The model holds the present; a page of an older list is the present with the logged changes since then undone.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use serde_json::Value;

use super::{Model, Target};
use crate::object::{Object, parse_resource_version};
use crate::page::Token;
use crate::registry::{Definition, Version};
use crate::schema::FieldError;
use crate::selector::Selectors;
use crate::status::Status;
use crate::watch::Cursor;

/// `resourceVersionMatch`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// At least as new as the given version.
    NotOlderThan,
    /// Exactly the given version.
    Exact,
}

impl VersionMatch {
    /// Reads the query parameter.
    pub fn parse(text: &str) -> Result<Option<VersionMatch>, Status> {
        match text {
            "" => Ok(None),
            "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
            "Exact" => Ok(Some(VersionMatch::Exact)),
            other => Err(refuse(FieldError::not_supported(
                "resourceVersionMatch",
                &other.into(),
                ["Exact", "NotOlderThan", ""],
            ))),
        }
    }
}

/// Query options of lists and collection deletes, as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`
    pub label_selector: String,
    /// `fieldSelector`
    pub field_selector: String,
    /// `limit`, 0 for none.
    pub limit: u64,
    /// `continue`
    pub continue_token: String,
    /// `resourceVersion`
    pub resource_version: String,
    /// `resourceVersionMatch`
    pub version_match: Option<VersionMatch>,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct List {
    /// The objects, in order.
    pub items: Vec<Arc<Object>>,
    /// The version of the snapshot.
    pub resource_version: u64,
    /// `metadata.continue`, empty on the last page.
    pub continue_token: String,
    /// `metadata.remainingItemCount`, known for lists without selectors.
    pub remaining: Option<u64>,
    /// The version to show the items in.
    pub api_version: String,
    /// The kind of the list.
    pub kind: String,
    /// Whether the kind comes from a definition; such lists always say where they continue, even if nowhere.
    pub custom: bool,
}

impl List {
    /// The list as JSON text; items are copied, not serialised again.
    pub fn json(&self) -> Vec<u8> {
        let size: usize = self.items.iter().map(|o| o.json().len() + 1).sum();
        let mut out = Vec::with_capacity(size + 256);
        out.extend_from_slice(self.head().as_bytes());
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&item.json_as(&self.api_version));
        }
        out.extend_from_slice(b"]}\n");
        out
    }

    /// `metadata` of the list.
    pub fn metadata(&self) -> Value {
        let mut map = serde_json::Map::new();
        map.insert("resourceVersion".into(), self.resource_version.to_string().into());
        if !self.continue_token.is_empty() {
            map.insert("continue".into(), self.continue_token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            map.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(map)
    }

    fn head(&self) -> String {
        let mut metadata = self.metadata();
        if self.custom
            && let Value::Object(map) = &mut metadata
        {
            map.entry("continue").or_insert_with(|| "".into());
        }
        format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
            self.kind, self.api_version, metadata
        )
    }
}

/// Which snapshot a list shows and where it starts.
struct Snapshot {
    rv: u64,
    /// Undo the changes after `rv`.
    rewind: bool,
    after: Option<String>,
    continued: bool,
}

impl Model {
    /// GET of a collection.
    pub fn list(&self, target: &Target, options: &ListOptions) -> Result<List, Status> {
        let (definition, version) = self.resolve(target)?;
        let selectors =
            Selectors::parse(&options.label_selector, &options.field_selector, &definition, &version)?;
        self.list_resolved(&definition, &version, &target.namespace, &selectors, options)
    }

    fn list_resolved(
        &self,
        definition: &Definition,
        version: &Version,
        namespace: &str,
        selectors: &Selectors,
        options: &ListOptions,
    ) -> Result<List, Status> {
        check_options(options)?;
        let snapshot = self.snapshot(options)?;
        let undone = self.undone(&definition.name, namespace, &snapshot)?;
        let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut list = List {
            items: Vec::new(),
            resource_version: snapshot.rv,
            continue_token: String::new(),
            remaining: None,
            api_version: definition.api_version(&version.name),
            kind: definition.list_kind.clone(),
            custom: definition.custom,
        };
        let namespace = selectors
            .fields
            .exact_namespace()
            .filter(|_| namespace.is_empty() && definition.namespaced)
            .unwrap_or(namespace);
        let mut last = String::new();
        let mut entries = self.entries(&definition.name, namespace, &snapshot, undone);
        while let Some((place, object)) = entries.next() {
            if !selectors.matches(object) {
                continue;
            }
            if list.items.len() == limit {
                list.continue_token = Token { rv: Some(snapshot.rv), after: last }.encode();
                list.remaining = selectors.is_empty().then(|| 1 + entries.count() as u64);
                break;
            }
            if limit != usize::MAX {
                last = place.to_owned();
            }
            list.items.push(Arc::clone(object));
        }
        Ok(list)
    }

    fn snapshot(&self, options: &ListOptions) -> Result<Snapshot, Status> {
        if !options.continue_token.is_empty() {
            let token = Token::decode(&options.continue_token)?;
            let rv = token.rv.unwrap_or(self.rv);
            let after = Some(token.after);
            return Ok(Snapshot { rv, rewind: token.rv.is_some(), after, continued: true });
        }
        let asked = match options.resource_version.as_str() {
            "" => 0,
            text => parse_resource_version(text)?,
        };
        if asked > self.rv {
            return Err(Status::too_large_resource_version(asked, self.rv));
        }
        let exact = match options.version_match {
            Some(kind) => kind == VersionMatch::Exact,
            // Without a match rule, a limited list at a version means that version.
            None => asked > 0 && options.limit > 0,
        };
        let rv = if exact { asked } else { self.rv };
        Ok(Snapshot { rv, rewind: exact, after: None, continued: false })
    }

    /// What the places changed since the snapshot held at its time.
    fn undone(
        &self,
        resource: &str,
        namespace: &str,
        snapshot: &Snapshot,
    ) -> Result<BTreeMap<String, Option<Arc<Object>>>, Status> {
        let mut undone = BTreeMap::new();
        if !snapshot.rewind {
            return Ok(undone);
        }
        let changes = self.log.changes_since(resource, Cursor(snapshot.rv));
        let changes = changes.map_err(|status| too_old(status, snapshot))?;
        // Newest first, so that the oldest change of a place has the last word.
        for change in changes.rev() {
            if namespace.is_empty() || change.key.namespace == namespace {
                undone.insert(change.key.place(), change.old.clone());
            }
        }
        Ok(undone)
    }

    fn entries<'a>(
        &'a self,
        resource: &str,
        namespace: &str,
        snapshot: &Snapshot,
        undone: BTreeMap<String, Option<Arc<Object>>>,
    ) -> Entries<'a, impl Iterator<Item = (&'a str, &'a Arc<Object>)> + use<'a>> {
        let after = snapshot.after.clone();
        let present = self.collection(resource);
        let present = present.into_iter().flat_map({
            let (namespace, after) = (namespace.to_owned(), after.clone());
            move |collection| collection.range(&namespace, after.as_deref())
        });
        let mut undone = undone;
        if let Some(after) = &after {
            undone.retain(|place, _| place > after);
        }
        let past: Vec<(String, Option<Arc<Object>>)> = undone.into_iter().collect();
        Entries { present: present.peekable(), past, next_past: 0 }
    }
}

/// The present merged with the undone changes, in order. It lends out what it yields.
struct Entries<'a, I: Iterator<Item = (&'a str, &'a Arc<Object>)>> {
    present: Peekable<I>,
    past: Vec<(String, Option<Arc<Object>>)>,
    next_past: usize,
}

impl<'a, I: Iterator<Item = (&'a str, &'a Arc<Object>)>> Entries<'a, I> {
    fn next(&mut self) -> Option<(&str, &Arc<Object>)> {
        loop {
            let past_place = self.past.get(self.next_past).map(|(place, _)| place.as_str());
            let Some(past_place) = past_place else { return self.present.next() };
            match self.present.peek() {
                Some((place, _)) if *place < past_place => return self.present.next(),
                Some((place, _)) if *place == past_place => {
                    self.present.next();
                }
                _ => {}
            }
            let index = self.next_past;
            self.next_past += 1;
            if matches!(self.past.get(index), Some((_, Some(_)))) {
                let (place, object) = self.past.get(index)?;
                return Some((place, object.as_ref()?));
            }
        }
    }

    fn count(mut self) -> usize {
        let mut count = 0;
        while self.next().is_some() {
            count += 1;
        }
        count
    }
}

/// Refuses what cannot be a page of a collection that is about to be deleted; deleting too much would be worse.
pub(super) fn check_deletion(options: &ListOptions) -> Result<(), Status> {
    check_options(options)?;
    if !options.continue_token.is_empty() {
        Token::decode(&options.continue_token)?;
        return Err(Status::bad_request(
            "continue is not allowed when a collection is deleted: use selectors",
        ));
    }
    if !options.resource_version.is_empty() {
        parse_resource_version(&options.resource_version)?;
    }
    Ok(())
}

fn check_options(options: &ListOptions) -> Result<(), Status> {
    let path = "resourceVersionMatch";
    let problem = match options.version_match {
        None => None,
        Some(_) if options.resource_version.is_empty() => {
            Some("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        Some(_) if !options.continue_token.is_empty() => {
            Some("resourceVersionMatch is forbidden when continue is provided")
        }
        Some(VersionMatch::Exact) if options.resource_version == "0" => {
            Some("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        Some(_) => None,
    };
    if let Some(problem) = problem {
        return Err(refuse(FieldError::forbidden(path, problem)));
    }
    if !options.continue_token.is_empty()
        && !options.resource_version.is_empty()
        && options.resource_version != "0"
    {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(())
}

fn refuse(error: FieldError) -> Status {
    Status::invalid_fields("ListOptions.meta.k8s.io", "", vec![error])
}

fn too_old(status: Status, snapshot: &Snapshot) -> Status {
    if status.code != 410 {
        return status;
    }
    if !snapshot.continued {
        return Status::expired("The resourceVersion for the provided list is too old.");
    }
    let after = snapshot.after.clone().unwrap_or_default();
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = Token { rv: None, after }.encode();
    status
}
