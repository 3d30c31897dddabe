//! Request bodies in Kubernetes' protobuf, read into the JSON that Go would write for the same object.
//!
//! Typed Go clients (`kubectl create namespace`, every Go controller) send them unasked and have no fallback; they all take
//! JSON as the answer, so nothing here writes protobuf. The messages come from a table that `scripts/builtin-protobuf.py`
//! makes from the published types; kinds outside it, custom resources above all, are refused. This module must not know
//! requests or storage, and must survive any bytes.

mod special;
mod table;
mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use self::special::Special;
use self::table::{Field, Kind, Message, Shape};
use self::wire::{Reader, Wire};

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// How deeply messages may nest; built-in kinds nest far less, and only the schemas of definitions recurse.
const DEPTH: usize = 64;
/// How deeply the JSON that comes out may nest, which is also the bound for bodies that are JSON to begin with.
const JSON_DEPTH: usize = 128;
/// How much of a kind that a client made up is repeated to it.
const SHOWN: usize = 100;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The kind, or the way the body is packed, is not one that this decoder knows.
    #[error("`{0}` is not known in protobuf, send JSON")]
    Unknown(String),
    /// The bytes make no sense.
    #[error("the body is not valid protobuf: {0}")]
    Malformed(String),
}

/// What is wrong with the bytes, and in which field, innermost first.
#[derive(Debug)]
struct Fault {
    path: Vec<&'static str>,
    problem: &'static str,
}

impl Fault {
    fn new(problem: &'static str) -> Fault {
        Fault { path: Vec::new(), problem }
    }

    fn within(mut self, field: &'static str) -> Fault {
        self.path.push(field);
        self
    }
}

impl From<Fault> for ProtobufError {
    fn from(fault: Fault) -> ProtobufError {
        let mut path = fault.path;
        path.reverse();
        ProtobufError::Malformed(match path.is_empty() {
            true => fault.problem.to_owned(),
            false => format!("`{}`: {}", path.join("."), fault.problem),
        })
    }
}

/// Reads a whole body: the envelope with the kind, then the object, which gets its `apiVersion` and `kind` from there.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(bytes)?;
    let known = match envelope.kind {
        // The options of a delete are sent in the group of whatever is deleted.
        "DeleteOptions" => table::kind("meta.k8s.io/v1", "DeleteOptions"),
        kind => table::kind(envelope.api_version, kind),
    };
    let Some(found) = known else {
        let kind = format!("{} {}", envelope.api_version, envelope.kind);
        return Err(ProtobufError::Unknown(kind.trim().chars().take(SHOWN).collect()));
    };
    let mut object = message(found, envelope.raw, 0)?;
    if nests_beyond(&object, JSON_DEPTH) {
        return Err(Fault::new("it nests too deeply").into());
    }
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".to_owned(), envelope.api_version.into());
        map.insert("kind".to_owned(), envelope.kind.into());
    }
    Ok(object)
}

/// `runtime.Unknown`, in which every object travels.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, ProtobufError> {
        let prefix = Fault::new("it does not start with the bytes `k8s` and zero");
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(prefix)?);
        let mut envelope = Envelope::default();
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => envelope.type_meta(wire.block()?)?,
                2 => envelope.raw = wire.block()?,
                // The way the inner bytes are packed: protobuf as they are, or nothing that anybody sends.
                3 | 4 => match text(wire)? {
                    "" => {}
                    "application/vnd.kubernetes.protobuf" if number == 4 => {}
                    other => return Err(ProtobufError::Unknown(other.chars().take(SHOWN).collect())),
                },
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn type_meta(&mut self, bytes: &'a [u8]) -> Result<(), Fault> {
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => self.api_version = text(wire).map_err(|fault| fault.within("apiVersion"))?,
                2 => self.kind = text(wire).map_err(|fault| fault.within("kind"))?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn message(message: &Message, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
    if depth > DEPTH {
        return Err(Fault::new("it nests too deeply"));
    }
    let mut map = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        // Fields of newer versions are passed over, as a Go server does.
        let Some(field) = message.field(number) else { continue };
        add(&mut map, field, wire, depth).map_err(|fault| match field.inline {
            true => fault,
            false => fault.within(field.name),
        })?;
    }
    Ok(shape(message.shape, map))
}

/// The JSON form of a message whose fields have been read.
fn shape(shape: Shape, mut map: Map<String, Value>) -> Value {
    match shape {
        Shape::Object => Value::Object(map),
        Shape::List => map.remove("items").unwrap_or_else(|| Value::Array(Vec::new())),
        Shape::SchemaOr(other) => {
            let schema = map.remove("schema");
            match (map.remove(other), schema) {
                // A schema implies `allows`, so it says more.
                (Some(Value::Bool(allows)), schema) => schema.unwrap_or(Value::Bool(allows)),
                (Some(list), _) => list,
                (None, schema) => schema.unwrap_or_default(),
            }
        }
    }
}

fn add(map: &mut Map<String, Value>, field: &Field, wire: Wire<'_>, depth: usize) -> Result<(), Fault> {
    if field.map {
        let (key, entry) = map_entry(field.kind, wire, depth)?;
        let entries = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(entries) = entries {
            entries.insert(key, entry);
        }
    } else if field.repeated {
        let items = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = items {
            repeated(items, field.kind, wire, depth)?;
        }
    } else {
        let read = value(field.kind, wire, depth)?;
        if field.inline {
            if let Value::Object(inner) = read {
                map.extend(inner);
            }
        } else if read.is_null() || (field.omit_zero && is_zero(field.kind, &read)) {
            map.remove(field.name);
        } else {
            map.insert(field.name.to_owned(), read);
        }
    }
    Ok(())
}

/// Numbers of a list come one by one or all in one block; a reader has to take both.
fn repeated(items: &mut Vec<Value>, kind: Kind, wire: Wire<'_>, depth: usize) -> Result<(), Fault> {
    if let (Kind::Int32 | Kind::Int64 | Kind::Bool, Wire::Block(block)) = (kind, wire) {
        let mut reader = Reader::new(block);
        while !reader.is_empty() {
            items.push(value(kind, Wire::Varint(reader.varint()?), depth)?);
        }
    } else {
        items.push(value(kind, wire, depth)?);
    }
    Ok(())
}

fn map_entry(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<(String, Value), Fault> {
    let zero = match kind {
        Kind::Int32 | Kind::Int64 | Kind::Bool => Wire::Varint(0),
        Kind::Double => Wire::Fixed64(0),
        Kind::Text | Kind::Bytes | Kind::Message(_) | Kind::Special(_) => Wire::Block(&[]),
    };
    let (mut key, mut entry) = ("", zero);
    let mut reader = Reader::new(wire.block()?);
    while let Some((number, wire)) = reader.next()? {
        match number {
            1 => key = text(wire)?,
            2 => entry = wire,
            _ => {}
        }
    }
    Ok((key.to_owned(), value(kind, entry, depth)?))
}

fn value(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<Value, Fault> {
    Ok(match kind {
        Kind::Text => Value::String(text(wire)?.to_owned()),
        Kind::Bytes => Value::String(STANDARD.encode(wire.block()?)),
        Kind::Bool => Value::Bool(wire.varint()? != 0),
        Kind::Int32 => Value::Number(wire.int32()?.into()),
        Kind::Int64 => Value::Number(wire.varint()?.cast_signed().into()),
        Kind::Double => Value::Number(number(f64::from_bits(wire.fixed64()?))?),
        Kind::Special(special) => special.read(wire.block()?)?,
        Kind::Message(name) => {
            let inner = table::message(name).ok_or(Fault::new("the type of the field is not known"))?;
            message(inner, wire.block()?, depth + 1)?
        }
    })
}

/// Whole numbers lose their point, as in Go's JSON, so that the same object is the same however it was sent.
fn number(double: f64) -> Result<Number, Fault> {
    /// Up to here every whole number has a double of its own.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if double.fract() == 0.0 && double.abs() <= WHOLE {
        #[allow(clippy::cast_possible_truncation)] // whole and in range
        return Ok((double as i64).into());
    }
    Number::from_f64(double).ok_or(Fault::new("the number is not finite"))
}

/// Whether a field that is not a pointer in Go holds nothing.
fn is_zero(kind: Kind, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            text.is_empty() || (matches!(kind, Kind::Special(Special::Quantity)) && text == "0")
        }
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn text(wire: Wire<'_>) -> Result<&str, Fault> {
    str::from_utf8(wire.block()?).map_err(|_| Fault::new("the text is not UTF-8"))
}

fn nests_beyond(value: &Value, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| nests_beyond(item, left)),
        Value::Object(map) => map.values().any(|item| nests_beyond(item, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
