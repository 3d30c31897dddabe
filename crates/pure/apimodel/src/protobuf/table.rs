//! The table of messages: which fields they have, and what those are in JSON.
//!
//! It is embedded as text and parsed once, when the first body in protobuf comes. It must not know any bytes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::special::Special;

/// One message.
pub(super) struct Message {
    /// Sorted by number.
    fields: Vec<Field>,
    pub(super) shape: Shape,
}

impl Message {
    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(index)
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> &[Field] {
        &self.fields
    }
}

/// What a message is in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    /// The list that is its only field.
    List,
    /// Its field `schema`, or else the one named.
    SchemaOr(&'static str),
}

/// One field of a message.
pub(super) struct Field {
    pub(super) number: u64,
    /// The name in JSON.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) repeated: bool,
    /// A map with text keys.
    pub(super) map: bool,
    /// Its fields stand in the parent itself.
    pub(super) inline: bool,
    /// It is no pointer in Go, so that it is written when zero, and JSON leaves it out then.
    pub(super) omit_zero: bool,
}

/// What a field, an item of a list or a value of a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Special(Special),
    Message(&'static str),
}

/// The messages by name. The lines of the kinds are told by the space between API version and kind.
pub(super) static MESSAGES: LazyLock<BTreeMap<&'static str, Message>> = LazyLock::new(|| {
    let messages = lines().filter(|(name, _)| !name.contains(' '));
    messages.map(|(name, fields)| (name, parse_message(name, fields))).collect()
});

/// The names of the messages by API version and kind.
pub(super) static KINDS: LazyLock<BTreeMap<&'static str, &'static str>> =
    LazyLock::new(|| lines().filter(|(name, _)| name.contains(' ')).collect());

/// The message of that name.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message of that kind.
pub(super) fn kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    message(KINDS.get(format!("{api_version} {kind}").as_str())?)
}

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("../builtin/protobuf.txt").lines().filter_map(|line| line.split_once('\t'))
}

fn parse_message(name: &str, fields: &'static str) -> Message {
    let shape = match name {
        "apiextensions/v1.JSONSchemaPropsOrArray" => Shape::SchemaOr("jSONSchemas"),
        "apiextensions/v1.JSONSchemaPropsOrBool" => Shape::SchemaOr("allows"),
        "apiextensions/v1.JSONSchemaPropsOrStringArray" => Shape::SchemaOr("property"),
        _ if fields.ends_with('l') && fields.starts_with("1 items ") => Shape::List,
        _ => Shape::Object,
    };
    Message { fields: fields.split(',').filter_map(parse_field).collect(), shape }
}

fn parse_field(text: &'static str) -> Option<Field> {
    let mut words = text.split(' ');
    let (number, name, kind) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let flags = words.next().unwrap_or_default();
    let kind = match kind {
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "double" => Kind::Double,
        message => Special::named(message).map_or(Kind::Message(message), Kind::Special),
    };
    Some(Field {
        number,
        name,
        kind,
        repeated: flags.contains('r'),
        map: flags.contains('m'),
        inline: flags.contains('i'),
        omit_zero: flags.contains('z'),
    })
}
