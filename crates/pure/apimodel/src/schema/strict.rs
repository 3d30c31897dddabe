//! Strict decoding: unknown and duplicate fields, for `fieldValidation=Strict|Warn`.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{Schema, prune};

/// The paths of the fields that the schema does not know, sorted.
pub fn unknown_fields(schema: &Schema, object: &Value) -> Vec<String> {
    let mut copy = object.clone();
    prune(schema, &mut copy)
}

/// The paths of the fields that occur twice in one object of the JSON text, in the order of the text.
///
/// Text that is not JSON yields what was found up to the error: the caller parses the text anyway and reports that.
pub fn duplicate_keys(json: &[u8]) -> Vec<String> {
    let mut scan = Scan { path: String::new(), found: Vec::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    // An error here is one that the real decoding reports, with its position.
    drop(Node(&mut scan).deserialize(&mut deserializer));
    scan.found
}

/// The message for unknown and duplicate fields, as kube-apiserver words it; `None` when there are neither.
pub fn strict_error(unknown: &[String], duplicate: &[String]) -> Option<String> {
    let parts: Vec<String> = duplicate
        .iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .chain(unknown.iter().map(|path| format!("unknown field \"{path}\"")))
        .collect();
    (!parts.is_empty()).then(|| format!("strict decoding error: {}", parts.join(", ")))
}

struct Scan {
    path: String,
    found: Vec<String>,
}

struct Node<'s>(&'s mut Scan);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut index = 0_usize;
        loop {
            self.0.path.push_str(&format!("[{index}]"));
            let more = seq.next_element_seed(Node(self.0))?;
            self.0.path.truncate(length);
            if more.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let length = self.0.path.len();
        let mut seen = BTreeSet::new();
        let mut reported = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if length > 0 {
                self.0.path.push('.');
            }
            self.0.path.push_str(&key);
            if !seen.insert(key.clone()) && reported.insert(key) {
                self.0.found.push(self.0.path.clone());
            }
            map.next_value_seed(Node(self.0))?;
            self.0.path.truncate(length);
        }
        Ok(())
    }
}
