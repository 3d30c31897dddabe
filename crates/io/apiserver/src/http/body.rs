//! Request bodies: read within a bound, parsed once, duplicate keys noticed on the way.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kardinal_apimodel::protobuf::{self, ProtobufError};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::negotiate::BodyType;

/// How deeply a YAML body may nest: twice this overflows a worker's stack in an unoptimised build. JSON's own bound is 128.
const DEPTH: usize = 64;
/// Duplicate keys listed at most, so that a hostile body cannot blow up the answer.
const DUPLICATES: usize = 16;

/// Why a body cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// It is larger than the limit in bytes.
    #[error("request body is larger than the limit of {0} bytes")]
    TooLarge(usize),
    /// The connection broke or the client misbehaved.
    #[error("cannot read the request body: {0}")]
    Broken(String),
    /// It is not the JSON or YAML it claims to be.
    #[error("{0}")]
    Malformed(String),
    /// Its encoding cannot carry this kind.
    #[error("{0}")]
    Unsupported(String),
}

/// A parsed body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    /// Paths of keys that occur twice in one map; the last value counts.
    pub(crate) duplicates: Vec<String>,
}

/// Reads a body of at most `limit` bytes. One that announces more is refused before any of it is read.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let announced = hyper::body::Body::size_hint(&body).lower();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(BodyError::TooLarge(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge(limit)),
        Err(error) => Err(BodyError::Broken(error.to_string())),
    }
}

/// Parses JSON.
pub(crate) fn parse_json(text: &[u8]) -> Result<Parsed, BodyError> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node { parent: None, duplicates: &duplicates }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| BodyError::Malformed(format!("the body is not valid JSON: {error}")))?;
    Ok(Parsed { value, duplicates: duplicates.into_inner() })
}

/// Parses YAML; a body that starts like a JSON object is tried as JSON first, since nearly all are.
pub(crate) fn parse_yaml(text: &[u8]) -> Result<Parsed, BodyError> {
    if text.trim_ascii_start().first() == Some(&b'{')
        && let Ok(parsed) = parse_json(text)
    {
        return Ok(parsed);
    }
    let mut options = serde_saphyr::options! { with_snippet: false };
    if let Some(budget) = options.budget.as_mut() {
        budget.max_depth = DEPTH;
    }
    let value: Value = serde_saphyr::from_slice_with_options(text, options)
        .map_err(|error| BodyError::Malformed(format!("the body is not valid YAML: {error}")))?;
    Ok(Parsed { value, duplicates: Vec::new() })
}

/// Parses a body that holds one object, in whichever way it is written.
pub(crate) fn parse_object(kind: Option<BodyType>, text: &[u8]) -> Result<Parsed, BodyError> {
    match kind {
        Some(BodyType::Json) => parse_json(text),
        Some(BodyType::Yaml) => parse_yaml(text),
        Some(BodyType::Protobuf) => match protobuf::decode(text) {
            Ok(value) => Ok(Parsed { value, duplicates: Vec::new() }),
            Err(error @ ProtobufError::Unknown(_)) => Err(BodyError::Unsupported(error.to_string())),
            Err(error) => Err(BodyError::Malformed(error.to_string())),
        },
        _ => Err(BodyError::Unsupported("the body is not an object".to_owned())),
    }
}

/// Where in the document a value stands: a chain of frames on the stack, so that paths cost nothing until needed.
struct Frame<'a> {
    parent: Option<&'a Frame<'a>>,
    step: Step<'a>,
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.parent.is_some() => write!(f, ".{key}"),
            Step::Key(key) => f.write_str(key),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Builds one value and notes keys that come twice.
#[derive(Clone, Copy)]
struct Node<'a> {
    parent: Option<&'a Frame<'a>>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let frame = Frame { parent: self.parent, step: Step::Index(items.len()) };
            match access.next_element_seed(Node { parent: Some(&frame), duplicates: self.duplicates })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let frame = Frame { parent: self.parent, step: Step::Key(&key) };
            let value = access.next_value_seed(Node { parent: Some(&frame), duplicates: self.duplicates })?;
            if map.contains_key(&key) {
                let mut duplicates = self.duplicates.borrow_mut();
                if duplicates.len() < DUPLICATES {
                    let mut path = String::new();
                    // Writing to a string cannot fail.
                    let _ = write!(path, "{frame}");
                    duplicates.push(path);
                }
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_serde_json() {
        for text in [
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5",
            "1e400",
            r#""a\u00e9\n""#,
            r#"[1,[],{"a":{}}]"#,
            r#"{"a":1,"b":[{"c":null}]}"#,
            "",
            "{",
            "[1,]",
            "{} x",
            "01",
        ] {
            let ours = parse_json(text.as_bytes()).ok().map(|parsed| parsed.value);
            assert_eq!(ours, serde_json::from_str::<Value>(text).ok(), "{text}");
        }
    }

    #[test]
    fn duplicate_keys_are_named_with_their_path() {
        let parsed = parse_json(br#"{"a":1,"s":{"x":1,"l":[{"k":1,"k":2}],"x":3},"a":2}"#).unwrap();
        assert_eq!(parsed.duplicates, ["s.l[0].k", "s.x", "a"]);
        assert_eq!(parsed.value["a"], 2);
        let many = format!("{{{}}}", vec![r#""a":1"#; 1000].join(","));
        assert_eq!(parse_json(many.as_bytes()).unwrap().duplicates.len(), DUPLICATES);
    }

    #[test]
    fn depth_bombs_end_in_an_error() {
        for bomb in ["[".repeat(1_000_000), "{\"a\":".repeat(100_000)] {
            assert!(matches!(parse_json(bomb.as_bytes()), Err(BodyError::Malformed(_))));
            assert!(matches!(parse_yaml(bomb.as_bytes()), Err(BodyError::Malformed(_))));
        }
        let aliases = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
        assert!(matches!(parse_yaml(aliases.as_bytes()), Err(BodyError::Malformed(_))));
    }

    #[test]
    fn yaml_is_read_as_json() {
        let parsed =
            parse_yaml(b"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: \"1\"\n  b: |\n    two\n").unwrap();
        assert_eq!(
            parsed.value,
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "two\n"}})
        );
    }

    #[tokio::test]
    async fn large_bodies_are_refused_unread() {
        let announced = Body::from(vec![b' '; 11]);
        assert_eq!(read(announced, 10).await, Err(BodyError::TooLarge(10)));
        let chunks =
            futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 1024])));
        // An endless stream: this test ends only because reading stops at the limit.
        assert_eq!(read(Body::from_stream(chunks), 1 << 20).await, Err(BodyError::TooLarge(1 << 20)));
        assert_eq!(read(Body::from("ok"), 10).await.unwrap(), "ok");
    }
}
