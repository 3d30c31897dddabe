//! Manifests with positions: which bytes of a YAML file a field's value stands in.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use anyhow::Context as _;
use saphyr_parser::{Event, Parser, Span};
use serde_json::Value;

/// One document of a file.
pub(crate) struct Document {
    /// Its content.
    pub(crate) value: Value,
    /// Field path, such as `spec.nodes[0].id`, to the bytes of its value.
    places: BTreeMap<String, Range<usize>>,
}

impl Document {
    /// The bytes of the value at this path, or of the nearest field above it.
    pub(crate) fn place(&self, path: &str) -> Range<usize> {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return place.clone();
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = path.get(..end).unwrap_or_default(),
                None => return self.places.get("").cloned().unwrap_or(0..0),
            }
        }
    }
}

/// The text of a file; `-` is standard input.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// All documents of a YAML text.
pub(crate) fn read_documents(text: &str) -> anyhow::Result<Vec<Document>> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut places = locate(text)?.into_iter();
    // Empty documents have no value, so the two lists are matched in order.
    Ok(values
        .into_iter()
        .map(|value| Document { value, places: places.next().unwrap_or_default() })
        .filter(|document| !document.value.is_null())
        .collect())
}

/// Where every value of every document stands.
fn locate(text: &str) -> anyhow::Result<Vec<BTreeMap<String, Range<usize>>>> {
    let offsets: Vec<usize> = text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect();
    let byte = |index: usize| offsets.get(index).copied().unwrap_or(text.len());
    let mut locator = Locator::default();
    for event in Parser::new_from_str(text) {
        let (event, Span { start, end }) = event.map_err(|error| anyhow::anyhow!("{error}"))?;
        locator.take(event, byte(start.index())..byte(end.index()));
    }
    Ok(locator.documents)
}

/// Follows the parser and keeps the path of the value that comes next.
#[derive(Default)]
struct Locator {
    documents: Vec<BTreeMap<String, Range<usize>>>,
    open: Vec<Open>,
}

/// A mapping or sequence that has not ended.
struct Open {
    path: String,
    next: Next,
}

enum Next {
    Key,
    Value(String),
    Item(usize),
}

impl Locator {
    fn take(&mut self, event: Event<'_>, place: Range<usize>) {
        match event {
            Event::DocumentStart(_) => self.documents.push(BTreeMap::new()),
            Event::Scalar(text, ..) => self.scalar(&text, place),
            Event::Alias(_) => self.scalar("", place),
            Event::MappingStart(..) => self.container(place, Next::Key),
            Event::SequenceStart(..) => self.container(place, Next::Item(0)),
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
            }
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, place: Range<usize>) {
        if let Some(open @ Open { next: Next::Key, .. }) = self.open.last_mut() {
            open.next = Next::Value(text.to_owned());
            return;
        }
        self.value(place);
    }

    fn container(&mut self, place: Range<usize>, next: Next) {
        let path = self.value(place);
        self.open.push(Open { path, next });
    }

    /// Notes a value and returns its path.
    fn value(&mut self, place: Range<usize>) -> String {
        let path = self.open.last_mut().map(Open::advance).unwrap_or_default();
        if let Some(places) = self.documents.last_mut() {
            places.insert(path.clone(), place);
        }
        path
    }
}

impl Open {
    /// The path of the value that begins here.
    fn advance(&mut self) -> String {
        match std::mem::replace(&mut self.next, Next::Key) {
            Next::Item(index) => {
                self.next = Next::Item(index + 1);
                format!("{}[{index}]", self.path)
            }
            Next::Value(key) if self.path.is_empty() => key,
            Next::Value(key) => format!("{}.{key}", self.path),
            Next::Key => self.path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_where_it_stands() {
        let text = "a:\n  - b: \u{e9}one\n    c: 'two'\n---\nx: [1, {y: three}]\n";
        let documents = read_documents(text).unwrap();
        let at = |document: usize, path: &str| &text[documents[document].place(path)];
        assert_eq!(at(0, "a[0].b"), "\u{e9}one");
        assert_eq!(at(0, "a[0].c"), "'two'");
        assert_eq!(at(1, "x[1].y"), "three");
        assert_eq!(documents[1].value["x"][0], 1);
        assert_eq!(documents[0].place("a[0].absent"), documents[0].place("a[0]"), "the nearest field above");
    }
}
