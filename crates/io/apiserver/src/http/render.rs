//! Objects and lists in the form a client asked for: plain, as a Table, or metadata only.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use kardinal_apimodel::model::List;
use kardinal_apimodel::registry::{Definition, Version};
use kardinal_apimodel::table::{Columns, IncludeObject};
use kardinal_apimodel::watch::{Event, bookmark};
use kardinal_apimodel::{Object, Status};
use serde_json::{Value, json};

use super::negotiate::Form;
use super::{App, Head};
use crate::clock::Clock;

/// How objects of one resource are shown to one client.
pub(crate) struct Shape {
    form: Form,
    definition: Arc<Definition>,
    api_version: String,
    include: IncludeObject,
    /// The columns, for tables only.
    columns: Option<Columns>,
    clock: Arc<dyn Clock>,
}

impl Shape {
    /// What the head of a request asks for.
    pub(crate) fn new(
        app: &App,
        head: &Head,
        definition: Arc<Definition>,
        version: &Version,
    ) -> Result<Shape, Status> {
        let include = head.query.include_object.as_deref().unwrap_or_default();
        let include = IncludeObject::from_query(include).ok_or_else(|| {
            Status::bad_request("the query parameter `includeObject` must be `None`, `Metadata` or `Object`")
        })?;
        let columns = (head.form == Form::Table).then(|| {
            if definition.custom {
                Columns::custom(&version.columns)
            } else {
                Columns::builtin(&definition.group, &definition.kind)
            }
        });
        let api_version = definition.api_version(&version.name);
        Ok(Shape { form: head.form, definition, api_version, include, columns, clock: app.clock.clone() })
    }

    /// `plural.group`
    pub(crate) fn resource(&self) -> &str {
        &self.definition.name
    }

    /// One object.
    pub(crate) fn object(&self, object: &Object) -> Bytes {
        match self.transformed(object, true) {
            Some(value) => text(&value),
            None => bytes(object.json_as(&self.api_version)),
        }
    }

    /// A list. Items are copied as text, not serialised again, unless a transformation was asked for.
    pub(crate) fn list(&self, list: &List) -> Bytes {
        match (self.form, &self.columns) {
            (Form::Table, Some(columns)) => {
                let objects: Vec<Value> =
                    list.items.iter().map(|object| object.value_as(&self.api_version)).collect();
                text(&columns.table(&objects, list.metadata(), self.include, true, self.now()))
            }
            (Form::Metadata, _) => {
                let items: Vec<Value> = list.items.iter().map(|object| partial(&object.metadata())).collect();
                text(&json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": list.metadata(),
                    "items": items,
                }))
            }
            _ => list.json().into(),
        }
    }

    /// One line of a watch stream; `first` is whether a table has to bring its column definitions.
    pub(crate) fn write_event(&self, event: &Event, first: bool, out: &mut BytesMut) {
        out.put_slice(b"{\"type\":\"");
        out.put_slice(event.kind.as_str().as_bytes());
        out.put_slice(b"\",\"object\":");
        match self.transformed(&event.object, first) {
            Some(value) => out.put_slice(&text(&value)),
            None => out.put_slice(&event.object.json_as(&self.api_version)),
        }
        out.put_slice(b"}\n");
    }

    /// A BOOKMARK in the form of the other events: an informer that asked for metadata cannot read anything else, and
    /// would list everything again.
    pub(crate) fn bookmark(&self, rv: u64, ends_initial_events: bool, first: bool) -> Bytes {
        let mut event = bookmark(&self.api_version, &self.definition.kind, rv, ends_initial_events);
        if let Some(object) = event.get_mut("object") {
            match (self.form, &self.columns) {
                (Form::Table, Some(columns)) => {
                    let metadata = json!({ "resourceVersion": rv.to_string() });
                    *object = columns.table([&*object], metadata, self.include, first, self.now());
                }
                (Form::Metadata, _) => {
                    *object = partial(object.get("metadata").unwrap_or(&Value::Null));
                }
                _ => {}
            }
        }
        let mut line = BytesMut::from(&*text(&event));
        line.put_u8(b'\n');
        line.freeze()
    }

    /// The object as a table or as metadata; nothing when it is wanted as it is.
    fn transformed(&self, object: &Object, headers: bool) -> Option<Value> {
        match (self.form, &self.columns) {
            (Form::Table, Some(columns)) => {
                let metadata = json!({ "resourceVersion": object.resource_version().to_string() });
                let value = object.value_as(&self.api_version);
                Some(columns.table([&value], metadata, self.include, headers, self.now()))
            }
            (Form::Metadata, _) => Some(partial(&object.metadata())),
            _ => None,
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

fn partial(metadata: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
    })
}

fn text(value: &Value) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// Text that may or may not be shared.
pub(crate) fn bytes(text: Cow<'_, [u8]>) -> Bytes {
    match text {
        Cow::Borrowed(text) => Bytes::copy_from_slice(text),
        Cow::Owned(text) => text.into(),
    }
}
