//! Names that are the same on every pass: ids of nodes, names of objects, values of labels.

use std::collections::BTreeSet;

use kardinal_graph::{Body, Declaration, compile};
use sha2::{Digest, Sha256};

/// The longest DNS label, label value and node id.
const LIMIT: usize = 63;
/// How many hex digits tell cut or colliding names apart.
const HASH: usize = 8;
/// A trailing number of at least this many digits is a time stamp.
const STAMP: usize = 10;

/// The first hex digits of the SHA-256 of a text.
pub fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(HASH).map(hex_digit).collect()
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

/// A DNS label: lower case, everything but letters and digits a dash, no dash at the ends.
pub fn slug(text: &str) -> String {
    let dashed: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    dashed.trim_matches('-').to_owned()
}

/// Cuts a name to `limit` characters; what was cut lives on in a hash.
pub fn fit(name: &str, limit: usize) -> String {
    if name.len() <= limit {
        return name.to_owned();
    }
    let head: String = name.chars().take(limit.saturating_sub(HASH + 1)).collect();
    format!("{}-{}", head.trim_end_matches(['-', '.']), short_hash(name))
}

/// A name as the value of a label, which cannot hold as much as a name can.
pub fn label_value(name: &str) -> String {
    fit(name, LIMIT)
}

/// A Bundle's name without the time stamp at its end.
pub fn base(bundle: &str) -> &str {
    match bundle.rsplit_once('-') {
        Some((head, stamp))
            if !head.is_empty()
                && stamp.len() >= STAMP
                && stamp.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            head
        }
        _ => bundle,
    }
}

/// The name of an object of a promotion, from its parts.
pub fn object_name(parts: &[&str]) -> String {
    let whole = parts.join("-");
    let slugged = slug(&whole);
    if slugged.is_empty() { short_hash(&whole) } else { fit(&slugged, LIMIT) }
}

/// `no-weekend-deploys` → `noWeekendDeploys`.
pub fn camel_case(name: &str) -> String {
    let mut id = String::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if !id.is_empty() => id.push(first.to_ascii_uppercase()),
            Some(first) => id.push(first.to_ascii_lowercase()),
            None => {}
        }
        id.extend(letters);
    }
    id
}

/// Ids of the nodes of one Graph: unique even when case is ignored, and none that an expression could not name.
#[derive(Debug, Default)]
pub struct Ids {
    taken: BTreeSet<String>,
}

impl Ids {
    /// The id for a name; `identity` tells things of the same name apart.
    pub fn take(&mut self, name: &str, identity: &str) -> String {
        let mut wanted = camel_case(name);
        if !wanted.starts_with(|c: char| c.is_ascii_alphabetic()) {
            wanted = format!("n{wanted}");
        }
        let mut id = wanted.clone();
        let mut round = 0_u32;
        while id.len() > LIMIT || self.taken.contains(&id.to_ascii_lowercase()) || is_reserved(&id) {
            let head: String = wanted.chars().take(LIMIT - HASH - 1).collect();
            id = format!("{head}X{}", short_hash(&format!("{identity}#{round}")));
            round = round.saturating_add(1);
        }
        self.taken.insert(id.to_ascii_lowercase());
        id
    }
}

/// Names of objects of one kind, unique in one Graph.
#[derive(Debug, Default)]
pub struct ObjectNames {
    taken: BTreeSet<String>,
}

impl ObjectNames {
    /// The name made of these parts, with a hash of `identity` where another object has it already.
    pub fn take(&mut self, parts: &[&str], identity: &str) -> String {
        let mut name = object_name(parts);
        let mut round = 0_u32;
        while self.taken.contains(&name) {
            let hash = short_hash(&format!("{identity}#{round}"));
            name = object_name(&[parts.join("-").as_str(), hash.as_str()]);
            round = round.saturating_add(1);
        }
        self.taken.insert(name.clone());
        name
    }
}

/// Whether expressions cannot use the id; the Graph itself is asked, so the lists cannot differ.
fn is_reserved(id: &str) -> bool {
    compile(&[Declaration::new(id, Body::Def(serde_json::Value::from(1)))]).is_err()
}
