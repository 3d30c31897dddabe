//! A text being edited: each edit replaces a few bytes and is accepted only if nothing else changes.

use std::ops::Range;

use serde_json::Value;

use crate::path::{self, Found};
use crate::scalar;
use crate::span;
use crate::tree::{Kind, Node, Style, Tree};
use crate::{Error, MAX_BYTES};

/// A node of a file: its document, and the children to descend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the document.
    pub(crate) document: usize,
    /// The number of the child at each level.
    pub(crate) steps: Vec<usize>,
}

/// Replaces a range of bytes.
pub(crate) type Splice = (Range<usize>, String);

/// A text with its tree.
pub(crate) struct Draft<'a> {
    file: &'a str,
    text: String,
    tree: Tree,
    /// The whole text is JSON and should stay so.
    json: bool,
}

impl<'a> Draft<'a> {
    /// Reads a text.
    pub(crate) fn open(file: &'a str, text: &str) -> Result<Self, Error> {
        check_size(file, text)?;
        let tree = Tree::parse(text).map_err(|message| Error::NotYaml { file: file.to_owned(), message })?;
        let json = text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok();
        Ok(Draft { file, text: text.to_owned(), tree, json })
    }

    /// The text with all edits.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The tree of the text so far.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The file name, for errors.
    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    /// The whole text is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The node at a place.
    pub(crate) fn node(&self, place: &Place) -> Option<&Node> {
        self.tree.documents.get(place.document)?.root.at(&place.steps)
    }

    /// The node at a place, its parent being the mapping with the key.
    fn key(&self, place: &Place) -> Option<&Node> {
        let (last, above) = place.steps.split_last()?;
        match &self.tree.documents.get(place.document)?.root.at(above)?.kind {
            Kind::Mapping { pairs, .. } => pairs.get(*last).map(|(key, _)| key),
            _ => None,
        }
    }

    /// The place is inside braces or brackets.
    fn in_flow(&self, place: &Place) -> bool {
        let mut node = self.tree.documents.get(place.document).map(|document| &document.root);
        for step in &place.steps {
            match node.map(|node| &node.kind) {
                Some(Kind::Mapping { flow: true, .. } | Kind::Sequence { flow: true, .. }) => return true,
                _ => node = node.and_then(|node| node.child(*step)),
            }
        }
        false
    }

    /// The only document that has the path.
    pub(crate) fn locate(&self, path: &str) -> Result<Place, Error> {
        let steps = path::parse(self.file, path)?;
        if steps.is_empty() {
            return Err(Error::BadPath {
                file: self.file.to_owned(),
                path: path.to_owned(),
                message: "it names no field".to_owned(),
            });
        }
        let mut places = Vec::new();
        let mut missing = None;
        for (document, content) in self.tree.documents.iter().enumerate() {
            match path::find(&content.root, &steps) {
                Found::At(steps) => places.push(Place { document, steps }),
                Found::Missing(message) => missing = missing.or(Some(message)),
                Found::Blocked(message) => return Err(self.unfit(path, message)),
            }
        }
        let documents = self.tree.documents.len();
        match (places.pop(), places.is_empty()) {
            (Some(place), true) => Ok(place),
            (Some(_), false) => Err(Error::Ambiguous {
                file: self.file.to_owned(),
                path: path.to_owned(),
                message: format!(
                    "{} of its {documents} documents have it; keep it in one of them",
                    places.len() + 1
                ),
            }),
            (None, _) => Err(Error::Missing {
                file: self.file.to_owned(),
                path: path.to_owned(),
                message: match (documents, missing) {
                    (1, Some(message)) => message,
                    (0, _) => "the file is empty".to_owned(),
                    _ => format!("none of its {documents} documents has it"),
                },
            }),
        }
    }

    /// An error for a field that has an unsuitable shape.
    pub(crate) fn unfit(&self, path: &str, message: impl Into<String>) -> Error {
        Error::Unfit { file: self.file.to_owned(), path: path.to_owned(), message: message.into() }
    }

    /// An error for an edit that would change something else.
    pub(crate) fn not_safe(&self, path: &str) -> Error {
        Error::Unsafe { file: self.file.to_owned(), path: path.to_owned() }
    }

    /// Makes the value at a place equal to `value`, in the style it has now.
    pub(crate) fn set(&mut self, place: &Place, path: &str, value: &Value) -> Result<(), Error> {
        let node = self.node(place).ok_or_else(|| self.not_safe(path))?;
        if means(node, value) {
            return Ok(());
        }
        if let Some(tag) = node.tag.as_ref().filter(|_| !(is_string_tag(node) && value.is_string())) {
            return Err(self.unfit(path, format!("it carries the tag `{tag}`; remove the tag")));
        }
        let style = match node.kind {
            _ if self.json => Style::Double,
            Kind::Scalar { style, .. } => style,
            _ => Style::Plain,
        };
        let raw = match value {
            Value::String(text) => scalar::write(text, style, self.in_flow(place)),
            other => other.to_string(),
        };
        let splice = self.replacement(place, node, &raw).ok_or_else(|| self.not_safe(path))?;
        let mut wanted =
            snippet(&raw).filter(|wanted| means(wanted, value)).ok_or_else(|| self.not_safe(path))?;
        wanted.anchor = node.anchor;
        wanted.tag.clone_from(&node.tag);
        self.apply(path, vec![splice], |tree| {
            *node_mut(tree, place)? = wanted;
            Some(())
        })
    }

    fn replacement(&self, place: &Place, node: &Node, raw: &str) -> Option<Splice> {
        let text = self.text.as_str();
        match node.kind {
            Kind::Scalar { style: Style::Empty, .. } => {
                let at = match self.key(place) {
                    _ if node.outer < node.start => node.start,
                    Some(key) => match span::after(text, key.end, ':') {
                        Some(colon) => colon + 1,
                        None => return Some((key.end..key.end, format!(": {raw}"))),
                    },
                    None => empty_item(text, node.start)?,
                };
                // Blanks that led nowhere go, unless a comment needs them.
                let next = span::skip_blanks(text, at);
                let end = if text.get(next..)?.starts_with('#') { at } else { next };
                Some((at..end, format!(" {raw}")))
            }
            Kind::Scalar { style: Style::Block, .. } => {
                let end = text.get(..node.end)?.trim_end_matches(['\n', '\r', ' ', '\t']).len();
                Some((node.start..end.max(node.start), raw.to_owned()))
            }
            Kind::Scalar { .. }
            | Kind::Alias(_)
            | Kind::Sequence { flow: true, .. }
            | Kind::Mapping { flow: true, .. } => Some((node.start..node.end, raw.to_owned())),
            // A block collection gives way to a value behind the colon of its key.
            Kind::Sequence { .. } | Kind::Mapping { .. } => {
                let colon = span::after(text, self.key(place)?.end, ':')?;
                Some((colon + 1..node.end, format!(" {raw}")))
            }
        }
    }

    /// Removes a pair of the mapping at a place; comments behind it stay.
    pub(crate) fn remove_pair(&mut self, place: &Place, index: usize, path: &str) -> Result<(), Error> {
        let splices = self.removal(place, index).ok_or_else(|| self.not_safe(path))?;
        self.apply(path, splices, |tree| {
            let Kind::Mapping { pairs, .. } = &mut node_mut(tree, place)?.kind else { return None };
            (index < pairs.len()).then(|| drop(pairs.remove(index)))
        })
    }

    fn removal(&self, place: &Place, index: usize) -> Option<Vec<Splice>> {
        let text = self.text.as_str();
        let Kind::Mapping { flow, pairs } = &self.node(place)?.kind else { return None };
        let (key, value) = pairs.get(index)?;
        let (start, end) = (key.outer, pair_end(text, key, value));
        let next = pairs.get(index + 1).map(|(key, _)| key.outer);
        if *flow {
            let before = index.checked_sub(1).and_then(|before| pairs.get(before));
            return flow_removal(text, start, end, before.map(|(key, value)| pair_end(text, key, value)));
        }
        let range = if span::is_first_on_line(text, start) && span::is_last_on_line(text, end) {
            match span::next_line(text, end) {
                Some(next) => span::line_start(text, start)..next,
                // The last line of a text without a final line end takes the line end before it along.
                None => {
                    text.get(..span::line_start(text, start))?.trim_end_matches(['\n', '\r']).len()
                        ..text.len()
                }
            }
        } else {
            match next {
                Some(next)
                    if !span::is_first_on_line(text, start) && text.get(end..next)?.trim().is_empty() =>
                {
                    start..next
                }
                _ => start..span::skip_blanks(text, end),
            }
        };
        Some(vec![(range, String::new())])
    }

    /// Adds pairs to the mapping at a place, behind the pair of that number.
    pub(crate) fn insert_pairs(
        &mut self,
        place: &Place,
        behind: usize,
        pairs: &[(&str, &str)],
        path: &str,
    ) -> Result<(), Error> {
        let (splice, new) = self.insertion(place, behind, pairs).ok_or_else(|| self.not_safe(path))?;
        self.apply(path, vec![splice], |tree| {
            let Kind::Mapping { pairs, .. } = &mut node_mut(tree, place)?.kind else { return None };
            pairs.splice(behind + 1..behind + 1, new);
            Some(())
        })
    }

    fn insertion(
        &self,
        place: &Place,
        behind: usize,
        new: &[(&str, &str)],
    ) -> Option<(Splice, Vec<(Node, Node)>)> {
        let text = self.text.as_str();
        let Kind::Mapping { flow, pairs } = &self.node(place)?.kind else { return None };
        let (key, value) = pairs.get(behind)?;
        let end = pair_end(text, key, value);
        let lines = pair_texts(new, *flow || self.in_flow(place), self.json);
        let nodes = lines.iter().map(|line| snippet_pairs(line)?.pop()).collect::<Option<Vec<_>>>()?;
        let indent = span::indent(text, key.outer);
        if !*flow {
            let lines: Vec<String> = lines.iter().map(|line| format!("{indent}{line}")).collect();
            return Some((self.lines_after(end, &lines), nodes));
        }
        let separator = if span::is_first_on_line(text, key.outer) {
            format!(",{}{indent}", span::newline(text))
        } else {
            ", ".to_owned()
        };
        Some(((end..end, lines.iter().map(|line| format!("{separator}{line}")).collect()), nodes))
    }

    /// Puts whole lines behind the line that ends at or after `at`, and keeps a missing final line end missing.
    pub(crate) fn lines_after(&self, at: usize, lines: &[String]) -> Splice {
        let (text, newline) = (self.text.as_str(), span::newline(&self.text));
        let ended = |lines: &[String]| lines.iter().map(|line| format!("{line}{newline}")).collect();
        match span::next_line(text, at) {
            Some(next) => (next..next, ended(lines)),
            None if text.trim_start_matches('\u{feff}').is_empty() => (text.len()..text.len(), ended(lines)),
            None => (text.len()..text.len(), lines.iter().map(|line| format!("{newline}{line}")).collect()),
        }
    }

    /// Applies the splices if the text then has exactly the tree that `change` makes of the present one.
    pub(crate) fn apply(
        &mut self,
        path: &str,
        mut splices: Vec<Splice>,
        change: impl FnOnce(&mut Tree) -> Option<()>,
    ) -> Result<(), Error> {
        let mut wanted = self.tree.clone();
        change(&mut wanted).ok_or_else(|| self.not_safe(path))?;
        splices.sort_by_key(|(range, _)| range.start);
        let mut text = String::with_capacity(self.text.len() + 64);
        let mut done = 0;
        for (range, new) in &splices {
            text.push_str(self.text.get(done..range.start).ok_or_else(|| self.not_safe(path))?);
            text.push_str(new);
            done = range.end;
        }
        text.push_str(self.text.get(done..).ok_or_else(|| self.not_safe(path))?);
        check_size(self.file, &text)?;
        let tree = Tree::parse(&text).map_err(|_| self.not_safe(path))?;
        if tree != wanted || (self.json && serde_json::from_str::<Value>(&text).is_err()) {
            return Err(self.not_safe(path));
        }
        self.text = text;
        self.tree = tree;
        Ok(())
    }
}

/// A text may have [`MAX_BYTES`], before an edit and after it.
pub(crate) fn check_size(file: &str, text: &str) -> Result<(), Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::TooLarge { file: file.to_owned(), size: text.len(), limit: MAX_BYTES });
    }
    Ok(())
}

/// The node at a place of a tree, to be changed.
pub(crate) fn node_mut<'t>(tree: &'t mut Tree, place: &Place) -> Option<&'t mut Node> {
    let root = &mut tree.documents.get_mut(place.document)?.root;
    place.steps.iter().try_fold(root, |node, step| node.child_mut(*step))
}

/// The node that a piece of text is by itself.
pub(crate) fn snippet(raw: &str) -> Option<Node> {
    let mut documents = Tree::parse(raw).ok()?.documents;
    let document = documents.pop()?;
    documents.is_empty().then_some(document.root)
}

/// The pairs of a mapping given as text.
pub(crate) fn snippet_pairs(raw: &str) -> Option<Vec<(Node, Node)>> {
    match snippet(raw)?.kind {
        Kind::Mapping { pairs, .. } => Some(pairs),
        _ => None,
    }
}

/// `key: value` for each pair.
pub(crate) fn pair_texts(pairs: &[(&str, &str)], flow: bool, json: bool) -> Vec<String> {
    let write = |text: &str| match json {
        true => scalar::double_quoted(text),
        false => scalar::write(text, Style::Plain, flow),
    };
    pairs.iter().map(|(key, value)| format!("{}: {}", write(key), write(value))).collect()
}

/// The byte behind a pair, which is the colon's when there is no value.
pub(crate) fn pair_end(text: &str, key: &Node, value: &Node) -> usize {
    match value.kind {
        Kind::Scalar { style: Style::Empty, .. } if value.outer == value.start => {
            span::after(text, key.end, ':').map_or(key.end, |colon| colon + 1)
        }
        Kind::Scalar { style: Style::Block, .. } => {
            text.get(..value.end).map_or(value.end, |before| before.trim_end_matches(['\n', '\r']).len())
        }
        _ => value.end,
    }
}

/// The byte behind the dash of an item without a value, which the parser puts behind the comment of that line.
fn empty_item(text: &str, at: usize) -> Option<usize> {
    let start = span::line_start(text, at);
    let comment = text.get(start..at)?.find('#').map_or(at, |comment| start + comment);
    Some(span::blanks_before(text, comment))
}

/// Removes a pair with one comma, and its line when it stands alone on it.
fn flow_removal(text: &str, start: usize, end: usize, before: Option<usize>) -> Option<Vec<Splice>> {
    let none = String::new;
    let commented = |range: Range<usize>| text.get(range).is_some_and(|between| between.contains('#'));
    if let Some(comma) = span::after(text, end, ',') {
        if commented(end..comma) {
            return Some(vec![(start..end, none()), (comma..comma + 1, none())]);
        }
        if span::is_first_on_line(text, start)
            && span::is_last_on_line(text, comma + 1)
            && let Some(next) = span::next_line(text, comma)
        {
            return Some(vec![(span::line_start(text, start)..next, none())]);
        }
        return Some(vec![(start..span::skip_blanks(text, comma + 1), none())]);
    }
    let Some(comma) = before.and_then(|before| span::after(text, before, ',')) else {
        return Some(vec![(start..end, none())]);
    };
    if commented(comma..start) {
        return Some(vec![(comma..comma + 1, none()), (start..end, none())]);
    }
    Some(vec![(comma..end, none())])
}

fn is_string_tag(node: &Node) -> bool {
    matches!(node.tag.as_deref(), Some("tag:yaml.org,2002:str" | "!"))
}

/// The node is this value for every reader, so there is nothing to edit.
pub(crate) fn means(node: &Node, value: &Value) -> bool {
    match (&node.kind, value) {
        (Kind::Scalar { text, style }, Value::String(wanted)) => {
            let sure = match style {
                Style::Plain | Style::Empty => is_string_tag(node) || !scalar::is_typed(text),
                Style::Single | Style::Double | Style::Block => true,
            };
            text == wanted && sure && (node.tag.is_none() || is_string_tag(node))
        }
        (Kind::Scalar { text, style: Style::Plain | Style::Empty }, wanted) => {
            node.tag.is_none() && scalar::resolve(text) == *wanted
        }
        (Kind::Sequence { items, .. }, Value::Array(wanted)) => {
            items.len() == wanted.len() && items.iter().zip(wanted).all(|(item, wanted)| means(item, wanted))
        }
        (Kind::Mapping { pairs, .. }, Value::Object(wanted)) => {
            let same = |(key, value): &(Node, Node)| {
                key.text().and_then(|key| wanted.get(key)).is_some_and(|wanted| means(value, wanted))
            };
            pairs.len() == wanted.len() && pairs.iter().all(same)
        }
        _ => false,
    }
}
