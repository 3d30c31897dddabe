//! The `images` list of a kustomization, as `kustomize edit set image` understands it.

use std::collections::BTreeMap;

use crate::draft::{Draft, Place, Splice, node_mut, pair_end, pair_texts, snippet_pairs};
use crate::span;
use crate::tree::{Document, Kind, Node, Style};
use crate::{Error, Image};

/// The names under which a kustomization is looked for, in this order.
pub const FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const IMAGES: &str = "images";

/// Makes the kustomization run these images.
///
/// An image means the entries that already run its repository (by `newName`, or by `name` without one); else the
/// entries with its repository as `name`; else those with its Bundle name as `name`; else a new entry. Such an entry
/// then has this image's tag and digest and nothing left of the old ones, `newName` included.
pub fn set_images(file: &str, text: &str, images: &[Image]) -> Result<String, Error> {
    let mut draft = Draft::open(file, text)?;
    let document = document(&draft)?;
    let entries = match document {
        Some(number) => entries(&draft, number)?,
        None => Vec::new(),
    };
    let (changes, additions) = plan(file, &entries, images)?;
    for (place, image) in changes {
        change(&mut draft, place, image)?;
    }
    if !additions.is_empty() {
        add(&mut draft, document, &additions)?;
    }
    Ok(draft.into_text())
}

/// What the kustomization says now: the entry's `name`, its `newName` (else its `name`) as repository, `newTag`, `digest`.
pub fn images(file: &str, text: &str) -> Result<Vec<Image>, Error> {
    let draft = Draft::open(file, text)?;
    let entries = match document(&draft)? {
        Some(number) => entries(&draft, number)?,
        None => Vec::new(),
    };
    Ok(entries
        .into_iter()
        .map(|entry| Image {
            repository: entry.new_name.unwrap_or_else(|| entry.name.clone()),
            name: entry.name,
            tag: entry.tag,
            digest: entry.digest,
        })
        .collect())
}

/// An entry of the list.
struct Entry {
    place: Place,
    name: String,
    new_name: Option<String>,
    tag: Option<String>,
    digest: Option<String>,
}

impl Entry {
    fn runs(&self, repository: &str) -> bool {
        self.new_name.as_deref().unwrap_or(&self.name) == repository
    }
}

/// The document to edit; `None` in a file without any.
fn document(draft: &Draft<'_>) -> Result<Option<usize>, Error> {
    let documents = &draft.tree().documents;
    let is_mapping = |document: &Document| matches!(document.root.kind, Kind::Mapping { .. });
    let with_images = numbers(documents, |document| document.root.field(IMAGES).is_some());
    let mappings = numbers(documents, is_mapping);
    match (with_images.as_slice(), mappings.as_slice(), documents.as_slice()) {
        (_, _, []) => Ok(None),
        ([one], _, _) | ([], [one], _) => Ok(Some(*one)),
        ([], [], [only]) if is_empty(&only.root) => Ok(Some(0)),
        ([], [], _) => Err(draft.unfit(IMAGES, "the top level of a kustomization must be a mapping")),
        _ => Err(Error::Ambiguous {
            file: draft.file().to_owned(),
            path: IMAGES.to_owned(),
            message: format!("it has {} documents; a kustomization is one document", documents.len()),
        }),
    }
}

fn numbers(documents: &[Document], wanted: impl Fn(&Document) -> bool) -> Vec<usize> {
    documents.iter().enumerate().filter(|(_, document)| wanted(document)).map(|(number, _)| number).collect()
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, style: Style::Empty | Style::Plain } if matches!(text.as_str(), "" | "~" | "null"))
}

/// The number of the list among the fields of the top level.
fn list_number(root: &Node) -> Option<usize> {
    match &root.kind {
        Kind::Mapping { pairs, .. } => pairs.iter().position(|(key, _)| key.text() == Some(IMAGES)),
        _ => None,
    }
}

fn entries(draft: &Draft<'_>, number: usize) -> Result<Vec<Entry>, Error> {
    let Some(root) = draft.tree().documents.get(number).map(|document| &document.root) else {
        return Ok(Vec::new());
    };
    if let Kind::Mapping { pairs, .. } = &root.kind
        && pairs.iter().filter(|(key, _)| key.text() == Some(IMAGES)).count() > 1
    {
        return Err(draft.unfit(IMAGES, "it is there twice"));
    }
    let Some((list, node)) = list_number(root).and_then(|list| Some((list, root.child(list)?))) else {
        return Ok(Vec::new());
    };
    let items = match &node.kind {
        Kind::Sequence { items, .. } => items,
        _ if is_empty(node) => return Ok(Vec::new()),
        _ => return Err(draft.unfit(IMAGES, "it must be a list")),
    };
    let read = |(index, item): (usize, &Node)| {
        let field = |name: &str| {
            item.field(name).filter(|value| !is_empty(value)).and_then(Node::text).map(str::to_owned)
        };
        let Some(name) = field("name") else {
            return Err(draft.unfit(&format!("images[{index}]"), "it must be a mapping with a `name`"));
        };
        let place = Place { document: number, steps: vec![list, index] };
        Ok(Entry { place, name, new_name: field("newName"), tag: field("newTag"), digest: field("digest") })
    };
    items.iter().enumerate().map(read).collect()
}

type Plan<'e, 'i> = (Vec<(&'e Place, &'i Image)>, Vec<&'i Image>);

/// Which entry gets which image, and which images get a new entry.
fn plan<'e, 'i>(file: &str, entries: &'e [Entry], images: &'i [Image]) -> Result<Plan<'e, 'i>, Error> {
    let conflict = |what: &str, one: &Image, other: &Image| Error::Ambiguous {
        file: file.to_owned(),
        path: IMAGES.to_owned(),
        message: format!("the images `{}` and `{}` of the Bundle both mean {what}", one.name, other.name),
    };
    let same = |one: &Image, other: &Image| {
        one.repository == other.repository && one.tag == other.tag && one.digest == other.digest
    };
    let mut taken: BTreeMap<usize, &Image> = BTreeMap::new();
    let mut additions: Vec<&Image> = Vec::new();
    for image in images {
        if image.version().is_none() {
            return Err(Error::BadImage {
                name: image.name.clone(),
                reference: image.repository.clone(),
                message: "it has neither a tag nor a digest".to_owned(),
            });
        }
        if let Some(other) =
            images.iter().find(|other| other.repository == image.repository && !same(image, other))
        {
            return Err(conflict(&format!("`{}`", image.repository), image, other));
        }
        let meant = meant(entries, image);
        for number in &meant {
            if let Some(other) = taken.insert(*number, image).filter(|other| !same(image, other)) {
                return Err(conflict(&format!("entry {number}"), other, image));
            }
        }
        if meant.is_empty() && !additions.iter().any(|other| other.repository == image.repository) {
            additions.push(image);
        }
    }
    let changes = taken.into_iter().filter_map(|(number, image)| Some((&entries.get(number)?.place, image)));
    Ok((changes.collect(), additions))
}

/// The numbers of the entries that an image means.
fn meant(entries: &[Entry], image: &Image) -> Vec<usize> {
    let all = |wanted: &dyn Fn(&Entry) -> bool| -> Vec<usize> {
        entries.iter().enumerate().filter(|(_, entry)| wanted(entry)).map(|(number, _)| number).collect()
    };
    let running = all(&|entry| entry.runs(&image.repository));
    if !running.is_empty() {
        return running;
    }
    let named = all(&|entry| entry.name == image.repository);
    if !named.is_empty() {
        return named;
    }
    all(&|entry| entry.name == image.name)
}

/// Makes an entry mean the image: sets what is there, removes what no longer holds, adds what is missing.
fn change(draft: &mut Draft<'_>, place: &Place, image: &Image) -> Result<(), Error> {
    let path = format!("images[{}]", place.steps.last().copied().unwrap_or_default());
    let name = draft.node(place).and_then(|entry| entry.field("name")).and_then(Node::text);
    let new_name = Some(image.repository.as_str()).filter(|repository| name != Some(repository));
    let fields = [
        ("newName", new_name),
        ("newTag", image.tag.as_deref()),
        ("digest", image.digest.as_deref()),
        // kustomize appends this to the tag; the Bundle names the whole tag.
        ("tagSuffix", None),
    ];
    let mut missing = Vec::new();
    for (field, value) in fields {
        match (key_number(draft, place, field), value) {
            (Some(number), Some(value)) => {
                let mut place = place.clone();
                place.steps.push(number);
                draft.set(&place, &format!("{path}.{field}"), &value.into())?;
            }
            (Some(number), None) => draft.remove_pair(place, number, &format!("{path}.{field}"))?,
            (None, Some(value)) => missing.push((field, value)),
            (None, None) => {}
        }
    }
    // A new field follows the last of those that are written before it.
    for (field, value) in missing {
        let before = ["newTag", "newName", "name"].into_iter().skip_while(|before| match field {
            "digest" => false,
            "newTag" => *before == "newTag",
            _ => *before != "name",
        });
        let behind = before.filter_map(|before| key_number(draft, place, before)).next();
        let path = format!("{path}.{field}");
        let behind = behind.ok_or_else(|| draft.not_safe(&path))?;
        draft.insert_pairs(place, behind, &[(field, value)], &path)?;
    }
    Ok(())
}

fn key_number(draft: &Draft<'_>, place: &Place, field: &str) -> Option<usize> {
    match &draft.node(place)?.kind {
        Kind::Mapping { pairs, .. } => pairs.iter().position(|(key, _)| key.text() == Some(field)),
        _ => None,
    }
}

/// The fields of a new entry.
fn fields(image: &Image) -> Vec<(&str, &str)> {
    let mut fields = vec![("name", image.repository.as_str())];
    fields.extend(image.tag.as_deref().map(|tag| ("newTag", tag)));
    fields.extend(image.digest.as_deref().map(|digest| ("digest", digest)));
    fields
}

/// Adds entries, and the list when there is none.
fn add(draft: &mut Draft<'_>, document: Option<usize>, images: &[&Image]) -> Result<(), Error> {
    let (splices, new, document) = addition(draft, document, images).ok_or_else(|| draft.not_safe(IMAGES))?;
    draft.apply(IMAGES, splices, |tree| {
        let Kind::Sequence { flow, items } = new.1.kind.clone() else { return None };
        let Some(number) = document else {
            let kind = Kind::Mapping { flow: false, pairs: vec![new] };
            tree.documents.push(Document {
                root: Node { outer: 0, start: 0, end: 0, anchor: 0, tag: None, kind },
                end: 0,
            });
            return Some(());
        };
        let root = node_mut(tree, &Place { document: number, steps: Vec::new() })?;
        if is_empty(root) {
            root.kind = Kind::Mapping { flow: false, pairs: Vec::new() };
        }
        let list = list_number(root);
        let Kind::Mapping { pairs, .. } = &mut root.kind else { return None };
        let Some((_, value)) = list.and_then(|list| pairs.get_mut(list)) else {
            pairs.push(new);
            return Some(());
        };
        match &mut value.kind {
            Kind::Sequence { items: old, flow: was_flow } if !old.is_empty() => {
                (*was_flow == flow).then(|| old.extend(items))
            }
            kind => {
                *kind = Kind::Sequence { flow, items };
                Some(())
            }
        }
    })
}

/// The bytes to change, the new list by itself, and the document.
type Addition = (Vec<Splice>, (Node, Node), Option<usize>);

fn addition(draft: &Draft<'_>, document: Option<usize>, images: &[&Image]) -> Option<Addition> {
    let text = draft.text();
    let Some(number) = document else {
        let lines = block_list(images, "");
        let splice = draft.lines_after(text.len(), &lines_of_list("", &lines));
        return Some((vec![splice], list_of(&lines_of_list("", &lines))?, None));
    };
    let found = draft.tree().documents.get(number)?;
    let root = &found.root;
    let in_flow = matches!(root.kind, Kind::Mapping { flow: true, .. });
    let flow = flow_list(images, draft.is_json());
    let flow_node =
        || list_of(&[format!("{}[{flow}]", if draft.is_json() { "\"images\": " } else { "images: " })]);
    let Some((key, list)) = list_number(root).and_then(|list| match &root.kind {
        Kind::Mapping { pairs, .. } => pairs.get(list),
        _ => None,
    }) else {
        if in_flow {
            return Some((vec![flow_pair(draft, root, &flow)?], flow_node()?, document));
        }
        let (outer, inner) = (root_indent(text, root), list_indent(text, root));
        let lines = lines_of_list(&outer, &block_list(images, &format!("{outer}{inner}")));
        return Some((vec![draft.lines_after(found.end, &lines)], list_of(&lines)?, document));
    };
    match &list.kind {
        Kind::Sequence { flow: true, items } if in_flow || !items.is_empty() => {
            let splice = match items.last() {
                Some(last) => (last.end..last.end, format!(", {flow}")),
                None => (list.start + 1..list.start + 1, flow.clone()),
            };
            Some((vec![splice], flow_node()?, document))
        }
        Kind::Sequence { flow: false, items } => {
            let last = items.last()?;
            let lines = block_list(images, &dash_indent(text, last.outer)?);
            let splice = draft.lines_after(last_byte(text, last), &lines);
            Some((vec![splice], list_of(&lines_of_list("", &lines))?, document))
        }
        // The list is there but empty: `images:`, `images: null` or `images: []`.
        _ if in_flow => Some((vec![(list.start..list.end, format!("[{flow}]"))], flow_node()?, document)),
        _ => {
            let (outer, inner) = (root_indent(text, root), list_indent(text, root));
            let lines = block_list(images, &format!("{outer}{inner}"));
            let end = pair_end(text, key, list);
            let colon = span::after(text, key.end, ':')?;
            let splices = vec![(colon + 1..end, String::new()), draft.lines_after(end, &lines)];
            Some((splices, list_of(&lines_of_list(&outer, &lines))?, document))
        }
    }
}

/// Where the last line of an item ends.
fn last_byte(text: &str, item: &Node) -> usize {
    match &item.kind {
        Kind::Mapping { flow: false, pairs } => {
            pairs.last().map_or(item.end, |(key, value)| pair_end(text, key, value))
        }
        _ => item.end,
    }
}

fn list_of(lines: &[String]) -> Option<(Node, Node)> {
    snippet_pairs(&lines.join("\n"))?.pop()
}

fn lines_of_list(indent: &str, items: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{indent}{IMAGES}:")];
    lines.extend_from_slice(items);
    lines
}

fn block_list(images: &[&Image], indent: &str) -> Vec<String> {
    let entry = |image: &&Image| {
        let pairs = pair_texts(&fields(image), false, false);
        let line = |(number, pair): (usize, &String)| {
            format!("{indent}{}{pair}", if number == 0 { "- " } else { "  " })
        };
        pairs.iter().enumerate().map(line).collect::<Vec<_>>()
    };
    images.iter().flat_map(entry).collect()
}

fn flow_list(images: &[&Image], json: bool) -> String {
    let entry = |image: &&Image| format!("{{{}}}", pair_texts(&fields(image), true, json).join(", "));
    images.iter().map(entry).collect::<Vec<_>>().join(", ")
}

/// Adds the list to a top level written in braces.
fn flow_pair(draft: &Draft<'_>, root: &Node, flow: &str) -> Option<Splice> {
    let Kind::Mapping { pairs, .. } = &root.kind else { return None };
    let text = draft.text();
    let pair = format!("{}: [{flow}]", if draft.is_json() { "\"images\"" } else { IMAGES });
    let Some((key, value)) = pairs.last() else { return Some((root.start + 1..root.start + 1, pair)) };
    let end = pair_end(text, key, value);
    let separator = if span::is_first_on_line(text, key.outer) {
        format!(",{}{}", span::newline(text), span::indent(text, key.outer))
    } else {
        ", ".to_owned()
    };
    Some((end..end, format!("{separator}{pair}")))
}

fn root_indent(text: &str, root: &Node) -> String {
    match &root.kind {
        Kind::Mapping { .. } => span::indent(text, root.outer),
        _ => String::new(),
    }
}

/// How much deeper than its key a list is written in this file.
fn list_indent(text: &str, root: &Node) -> String {
    let Kind::Mapping { pairs, .. } = &root.kind else { return String::new() };
    let indent = pairs.iter().find_map(|(key, value)| match &value.kind {
        Kind::Sequence { flow: false, items } => {
            let dash = dash_indent(text, items.first()?.outer)?;
            Some(dash.len().saturating_sub(span::indent(text, key.outer).len()))
        }
        _ => None,
    });
    " ".repeat(indent.unwrap_or_default())
}

/// The blanks before the dash of an item; the dash may stand on an earlier line than the item.
fn dash_indent(text: &str, item: usize) -> Option<String> {
    let mut at = item;
    loop {
        let start = span::line_start(text, at);
        let line = text.get(start..)?;
        let dash = span::skip_blanks(text, start);
        if line.trim_start_matches([' ', '\t']).starts_with('-') && dash < item {
            return Some(text.get(start..dash)?.to_owned());
        }
        at = start.checked_sub(1)?;
    }
}
