//! Request bodies in Kubernetes' protobuf, read into JSON.
//!
//! Typed Go clients (`kubectl create namespace`, `kubectl auth can-i` …) send them unasked and have no fallback. Answers
//! are always JSON, which those clients accept. The table `messages.txt` was made from the `generated.proto` and
//! `types.go` files of the published `k8s.io/api` and `k8s.io/apimachinery` v0.36.3: one message a line, each field with
//! its number, JSON name, type and flags (`r` repeated, `m` map with text keys, `i` inlined into its parent, `z` left out
//! when zero, as Go's JSON encoder does for fields that are not pointers).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";
/// Built-in kinds nest far less.
const DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// The kind is not one we know in this encoding.
    #[error("`{0}` is not known in protobuf, send JSON")]
    Unknown(String),
    /// The bytes make no sense.
    #[error("the body is not valid protobuf: {0}")]
    Malformed(&'static str),
}

struct Field {
    number: u64,
    name: &'static str,
    kind: Kind,
    repeated: bool,
    map: bool,
    inline: bool,
    omit_zero: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Bool,
    Bytes,
    Double,
    Message(&'static str),
}

static MESSAGES: LazyLock<BTreeMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("protobuf/messages.txt").lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(name, fields)| (name, fields.split(',').filter_map(parse_field).collect())).collect()
});

fn parse_field(text: &'static str) -> Option<Field> {
    let mut words = text.split(' ');
    let (number, name, kind) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let flags = words.next().unwrap_or_default();
    let kind = match kind {
        "string" => Kind::Text,
        "int32" | "int64" => Kind::Integer,
        "bool" => Kind::Bool,
        "bytes" => Kind::Bytes,
        "double" => Kind::Double,
        message => Kind::Message(message),
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

/// Reads a whole body: the envelope with the kind, then the object.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::Malformed("the `k8s` prefix is missing"))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader(envelope);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Block(meta)) => {
                let mut meta = Reader(meta);
                while let Some((number, wire)) = meta.next()? {
                    match (number, wire) {
                        (1, Wire::Block(text)) => api_version = utf8(text)?,
                        (2, Wire::Block(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Block(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let name = match (kind.as_str(), group.split('.').next().unwrap_or_default()) {
        ("DeleteOptions", _) => "meta/v1.DeleteOptions".to_owned(),
        (kind, "") => format!("core/{version}.{kind}"),
        (kind, group) => format!("{group}/{version}.{kind}"),
    };
    if !MESSAGES.contains_key(name.as_str()) {
        return Err(ProtobufError::Unknown(format!("{api_version} {kind}")));
    }
    let mut object = message(&name, raw, 0)?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".to_owned(), api_version.into());
        map.insert("kind".to_owned(), kind.into());
    }
    Ok(object)
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > DEPTH {
        return Err(ProtobufError::Malformed("it nests too deeply"));
    }
    if let Some(value) = special(name, bytes)? {
        return Ok(value);
    }
    let fields = MESSAGES.get(name).ok_or_else(|| ProtobufError::Unknown(name.to_owned()))?;
    let mut map = Map::new();
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        add(&mut map, field, wire, depth)?;
    }
    // A few kinds are lists in JSON and have to be wrapped in protobuf.
    if name.ends_with(".ExtraValue") {
        return Ok(map.remove("items").unwrap_or_else(|| Value::Array(Vec::new())));
    }
    Ok(Value::Object(map))
}

fn add(
    map: &mut Map<String, Value>,
    field: &Field,
    wire: Wire<'_>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if field.map {
        let (key, entry) = map_entry(field.kind, wire, depth)?;
        let entries = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(entries) = entries {
            entries.insert(key, entry);
        }
        return Ok(());
    }
    let Some(read) = value(field.kind, wire, depth)? else { return Ok(()) };
    if field.repeated {
        let items = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(items) = items {
            items.push(read);
        }
    } else if field.inline {
        if let Value::Object(inner) = read {
            map.extend(inner);
        }
    } else if !(field.omit_zero && is_zero(&read)) {
        map.insert(field.name.to_owned(), read);
    }
    Ok(())
}

fn map_entry(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Wire::Block(bytes) = wire else {
        return Err(ProtobufError::Malformed("a map entry is not a message"));
    };
    let (mut key, mut entry) = (String::new(), None);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Block(text)) => key = utf8(text)?,
            (2, wire) => entry = value(kind, wire, depth)?,
            _ => {}
        }
    }
    let empty = match kind {
        Kind::Text | Kind::Bytes => Value::String(String::new()),
        _ => Value::Null,
    };
    Ok((key, entry.unwrap_or(empty)))
}

/// One value; nothing for a zero time, which JSON leaves out.
fn value(kind: Kind, wire: Wire<'_>, depth: usize) -> Result<Option<Value>, ProtobufError> {
    let read = match (kind, wire) {
        (Kind::Text, Wire::Block(bytes)) => Value::String(utf8(bytes)?),
        (Kind::Bytes, Wire::Block(bytes)) => Value::String(STANDARD.encode(bytes)),
        (Kind::Integer, Wire::Varint(bits)) => Value::Number(bits.cast_signed().into()),
        (Kind::Bool, Wire::Varint(bits)) => Value::Bool(bits != 0),
        (Kind::Double, Wire::Fixed64(bits)) => {
            Number::from_f64(f64::from_bits(bits)).map_or(Value::Null, Value::Number)
        }
        (Kind::Message(name), Wire::Block(bytes)) => {
            if bytes.is_empty() && matches!(name, "meta/v1.Time" | "meta/v1.MicroTime") {
                return Ok(None);
            }
            message(name, bytes, depth + 1)?
        }
        _ => return Err(ProtobufError::Malformed("a field has the wrong type")),
    };
    Ok(Some(read))
}

/// Messages whose JSON form is not an object of their fields.
fn special(name: &str, bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let known = matches!(
        name,
        "meta/v1.Time"
            | "meta/v1.MicroTime"
            | "meta/v1.Duration"
            | "meta/v1.FieldsV1"
            | "resource.Quantity"
            | "intstr.IntOrString"
            | "runtime.RawExtension"
    );
    if !known {
        return Ok(None);
    }
    let (mut numbers, mut block) = ([0u64; 4], &[][..]);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.next()? {
        match wire {
            Wire::Varint(bits) => {
                let slot = usize::try_from(number).ok().and_then(|number| numbers.get_mut(number));
                if let Some(slot) = slot {
                    *slot = bits;
                }
            }
            Wire::Block(bytes) => block = bytes,
            Wire::Fixed32 | Wire::Fixed64(_) => {}
        }
    }
    let [_, first, second, _] = numbers;
    let read = match name {
        "meta/v1.Time" => time(first, 0)?,
        "meta/v1.MicroTime" => time(first, second)?,
        "meta/v1.Duration" => Value::String(format!("{}ns", first.cast_signed())),
        "intstr.IntOrString" if first == 0 => Value::Number(second.cast_signed().into()),
        "resource.Quantity" | "intstr.IntOrString" => Value::String(utf8(block)?),
        // Embedded JSON of any kind.
        _ => {
            serde_json::from_slice(block).map_err(|_| ProtobufError::Malformed("embedded JSON is broken"))?
        }
    };
    Ok(Some(read))
}

fn time(seconds: u64, nanoseconds: u64) -> Result<Value, ProtobufError> {
    let wrong = ProtobufError::Malformed("a time is out of range");
    let nanoseconds = i32::try_from(nanoseconds.cast_signed()).map_err(|_| wrong.clone())?;
    // Objects carry microseconds at most.
    let time = Timestamp::new(seconds.cast_signed(), nanoseconds / 1000 * 1000).map_err(|_| wrong)?;
    Ok(Value::String(time.to_string()))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ProtobufError::Malformed("a text is not UTF-8")),
    }
}

/// One field as it stands on the wire.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Block(&'a [u8]),
    Fixed32,
}

/// Walks over the fields of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Wire::Fixed64(bytes.iter().rev().fold(0, |bits, byte| (bits << 8) | u64::from(*byte)))
            }
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                Wire::Block(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(ProtobufError::Malformed("a field has an unknown wire type")),
        };
        Ok(Some((tag >> 3, wire)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut bits = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(ProtobufError::Malformed("it is cut off"))?;
            self.0 = rest;
            bits |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(bits);
            }
        }
        Err(ProtobufError::Malformed("a number is too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ProtobufError::Malformed("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length >= 128 {
            out.push(u8::try_from(length & 127).unwrap() | 128);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        out.extend_from_slice(bytes);
        out
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [block(1, api_version.as_bytes()), block(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), block(1, &meta), block(2, raw), block(3, b""), block(4, b"")].concat()
    }

    #[test]
    fn a_namespace_as_kubectl_sends_it() {
        // Go writes every field that is not a pointer, empty ones too; JSON does not have them.
        let metadata =
            [block(1, b"team"), block(2, b""), block(6, b""), number(7, 0), block(8, b"")].concat();
        let raw = [block(1, &metadata), block(2, b""), block(3, &block(1, b""))].concat();
        assert_eq!(
            decode(&body("v1", "Namespace", &raw)).unwrap(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "spec": {}, "status": {}})
        );
    }

    #[test]
    fn maps_bytes_lists_inlines_and_special_kinds() {
        let entry = |key: &str, value: &[u8]| [block(1, key.as_bytes()), block(2, value)].concat();
        let raw = [block(2, &entry("k", b"\x00\xff")), block(3, b"Opaque")].concat();
        assert_eq!(decode(&body("v1", "Secret", &raw)).unwrap()["data"], json!({"k": "AP8="}));

        // spec.template.spec.volumes[0] with an inlined source, spec.replicas 0 kept because it is a pointer.
        let volume = [block(1, b"v"), block(2, &block(2, b""))].concat();
        let port = [number(3, 80)].concat();
        let container = [block(1, b"c"), block(2, b"i"), block(6, &port)].concat();
        let pod = [block(1, &volume), block(2, &container)].concat();
        let strategy = block(
            2,
            &[block(1, &[number(1, 1), block(3, b"25%")].concat()), block(2, &number(2, 1))].concat(),
        );
        let spec = [number(1, 0), block(3, &block(2, &pod)), block(4, &strategy)].concat();
        let read = decode(&body("apps/v1", "Deployment", &block(2, &spec))).unwrap();
        assert_eq!(read["spec"]["replicas"], 0);
        assert_eq!(read["spec"]["template"]["spec"]["volumes"], json!([{"name": "v", "emptyDir": {}}]));
        assert_eq!(read["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"], 80);
        assert_eq!(
            read["spec"]["strategy"]["rollingUpdate"],
            json!({"maxUnavailable": "25%", "maxSurge": 1})
        );

        let options = [number(1, 5), block(4, b"Foreground"), block(5, b"All")].concat();
        let read = decode(&body("v1", "DeleteOptions", &options)).unwrap();
        assert_eq!(read["propagationPolicy"], "Foreground");
        assert_eq!((&read["gracePeriodSeconds"], &read["dryRun"]), (&json!(5), &json!(["All"])));
    }

    #[test]
    fn every_message_that_the_table_names_is_in_it() {
        for (name, fields) in MESSAGES.iter() {
            assert!(!name.is_empty());
            for field in fields {
                if let Kind::Message(other) = field.kind {
                    let known =
                        MESSAGES.contains_key(other) || special(other, b"").is_ok_and(|v| v.is_some());
                    let embedded = matches!(other, "runtime.RawExtension" | "meta/v1.FieldsV1");
                    assert!(known || embedded, "{name}.{} is a {other}", field.name);
                }
            }
        }
    }

    #[test]
    fn broken_bodies_are_refused() {
        let good = body("v1", "Namespace", &block(1, &block(1, b"team")));
        for end in 0..good.len() {
            // Cut anywhere: an answer, never a panic.
            let _ = decode(&good[..end]);
        }
        assert_eq!(decode(b"{}"), Err(ProtobufError::Malformed("the `k8s` prefix is missing")));
        assert!(matches!(decode(&body("example.com/v1", "Widget", b"")), Err(ProtobufError::Unknown(_))));
        assert!(decode(&body("v1", "Namespace", &[0xff; 32])).is_err());
        assert!(decode(&body("v1", "Namespace", &block(1, &number(1, 1)))).is_err());
    }
}
