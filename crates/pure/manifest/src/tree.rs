//! A manifest as a tree of nodes that know their place in the text.

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, Tag};

/// How deep collections may be nested.
const MAX_DEPTH: usize = 100;
/// How many keys, values and comments a file may have; each of them costs far more memory than its text.
const MAX_PARTS: usize = 250_000;

/// All documents of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tree {
    /// The documents in order; a file of comments has none.
    pub(crate) documents: Vec<Document>,
    /// Every comment in order, without its place.
    comments: Vec<String>,
}

/// One document.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The top node.
    pub(crate) root: Node,
    /// Where text added at the end of this document goes.
    pub(crate) end: usize,
}

/// One value or key.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The first byte, including anchor and tag.
    pub(crate) outer: usize,
    /// The first byte of the value itself.
    pub(crate) start: usize,
    /// The byte after the value.
    pub(crate) end: usize,
    /// The number of the anchor, 0 without one.
    pub(crate) anchor: usize,
    /// The tag in its long form.
    pub(crate) tag: Option<String>,
    /// The value.
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    /// A single value.
    Scalar {
        /// Its text without quotes and escapes.
        text: String,
        /// How it is written.
        style: Style,
    },
    /// A list.
    Sequence {
        /// Written in brackets.
        flow: bool,
        /// Its items.
        items: Vec<Node>,
    },
    /// A mapping.
    Mapping {
        /// Written in braces.
        flow: bool,
        /// Its keys and values, in order.
        pairs: Vec<(Node, Node)>,
    },
    /// A reference to the anchor of that number.
    Alias(usize),
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Not at all: `key:` and nothing behind it.
    Empty,
    /// Without quotes.
    Plain,
    /// In `'`.
    Single,
    /// In `"`.
    Double,
    /// As a block after `|` or `>`.
    Block,
}

/// Two documents are equal when they mean the same and are written the same way, wherever they stand.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.anchor == other.anchor && self.tag == other.tag && self.kind == other.kind
    }
}

impl Node {
    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The value of the key, if this is a mapping that has it.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Mapping { pairs, .. } => {
                pairs.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The child of that number: an item, or the value of a pair.
    pub(crate) fn child(&self, index: usize) -> Option<&Node> {
        match &self.kind {
            Kind::Sequence { items, .. } => items.get(index),
            Kind::Mapping { pairs, .. } => pairs.get(index).map(|(_, value)| value),
            Kind::Scalar { .. } | Kind::Alias(_) => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn child_mut(&mut self, index: usize) -> Option<&mut Node> {
        match &mut self.kind {
            Kind::Sequence { items, .. } => items.get_mut(index),
            Kind::Mapping { pairs, .. } => pairs.get_mut(index).map(|(_, value)| value),
            Kind::Scalar { .. } | Kind::Alias(_) => None,
        }
    }

    /// The node below this one.
    pub(crate) fn at(&self, place: &[usize]) -> Option<&Node> {
        place.iter().try_fold(self, |node, index| node.child(*index))
    }
}

impl Tree {
    /// Parses a text; the error says where it stops being YAML.
    pub(crate) fn parse(text: &str) -> Result<Tree, String> {
        let options = granit_parser::options! {
            emit_anchor_events: true,
            emit_comments: true,
            max_buffered_comment_events: usize::MAX,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut builder = Builder::new(text);
        let mut events = Parser::new_from_str_with_options(text, options).peekable();
        let mut parts = 0;
        while let Some(event) = events.next() {
            let (event, span) = event.map_err(|error| error.to_string())?;
            parts += usize::from(event.is_node() || matches!(event, Event::Comment(..)));
            if parts > MAX_PARTS {
                return Err(format!("it has more than {MAX_PARTS} keys, values and comments; split it"));
            }
            let anchor = events.next_if(|next| matches!(next, Ok((Event::Anchor(..), _))));
            let anchor_span = anchor.and_then(Result::ok).map(|(_, span)| span);
            builder.take(event, span, anchor_span).ok_or("it has a structure that cannot be read")?;
        }
        Ok(builder.finish())
    }
}

/// Puts events together. Every step is `None` when the parser says something that makes no sense.
struct Builder<'a> {
    text: &'a str,
    documents: Vec<Document>,
    comments: Vec<(usize, String)>,
    open: Vec<Node>,
    /// Keys waiting for their value, one slot per open collection.
    keys: Vec<Option<Node>>,
    root: Option<Node>,
    /// The end of what has been read, to find the header of a block scalar.
    seen: usize,
    /// The last document is still without an end.
    unfinished: bool,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Builder {
            text,
            documents: Vec::new(),
            comments: Vec::new(),
            open: Vec::new(),
            keys: Vec::new(),
            root: None,
            seen: 0,
            unfinished: false,
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span, anchor: Option<Span>) -> Option<()> {
        let range = span.byte_range()?;
        match event {
            Event::StreamStart | Event::StreamEnd | Event::Anchor(..) => {}
            Event::Comment(text, _) => self.comments.push((range.start, text.into_owned())),
            Event::DocumentStart(..) => {
                self.end_document(range.start);
                self.seen = range.end;
            }
            Event::DocumentEnd => {
                let root = self.root.take()?;
                self.documents.push(Document { root, end: range.start });
                self.unfinished = range.is_empty();
            }
            Event::Scalar(text, style, number, tag) => {
                let node = self.scalar(text.into_owned(), style, number, tag.as_deref(), &span, anchor)?;
                self.place(node)?;
            }
            Event::Alias(number) => {
                let kind = Kind::Alias(number);
                self.place(Node {
                    outer: range.start,
                    start: range.start,
                    end: range.end,
                    anchor: 0,
                    tag: None,
                    kind,
                })?;
            }
            Event::SequenceStart(style, number, tag) => {
                let kind = Kind::Sequence { flow: style == StructureStyle::Flow, items: Vec::new() };
                self.enter(kind, number, tag.as_deref(), &span, anchor)?;
            }
            Event::MappingStart(style, number, tag) => {
                let kind = Kind::Mapping { flow: style == StructureStyle::Flow, pairs: Vec::new() };
                self.enter(kind, number, tag.as_deref(), &span, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(range.end)?,
            _ => return None,
        }
        Some(())
    }

    fn finish(mut self) -> Tree {
        self.end_document(self.text.len());
        self.comments.sort();
        Tree {
            documents: self.documents,
            comments: self.comments.into_iter().map(|(_, text)| text).collect(),
        }
    }

    /// A document without `...` reaches to the next one or to the end of the file.
    fn end_document(&mut self, end: usize) {
        if let Some(document) = self.documents.last_mut().filter(|_| self.unfinished) {
            document.end = end;
        }
        self.unfinished = false;
    }

    fn outer(span: &Span, anchor: Option<Span>) -> Option<usize> {
        let mut outer = span.byte_range()?.start;
        for part in [span.tag_span(), anchor].into_iter().flatten() {
            outer = outer.min(part.byte_range()?.start);
        }
        Some(outer)
    }

    fn scalar(
        &mut self,
        text: String,
        style: ScalarStyle,
        anchor_number: usize,
        tag: Option<&Tag>,
        span: &Span,
        anchor: Option<Span>,
    ) -> Option<Node> {
        let range = span.byte_range()?;
        let (mut start, mut text) = (range.start, text);
        let style = match style {
            ScalarStyle::Plain if range.is_empty() => Style::Empty,
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        };
        if style == Style::Empty {
            text.clear();
        }
        if style == Style::Block {
            start = block_header(self.text, self.seen, range.start)?;
        }
        let outer = Self::outer(span, anchor)?.min(start);
        let end = range.end;
        self.seen = self.seen.max(end);
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        Some(Node { outer, start, end, anchor: anchor_number, tag, kind: Kind::Scalar { text, style } })
    }

    fn enter(
        &mut self,
        kind: Kind,
        number: usize,
        tag: Option<&Tag>,
        span: &Span,
        anchor: Option<Span>,
    ) -> Option<()> {
        let range = span.byte_range()?;
        let outer = Self::outer(span, anchor)?;
        let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
        self.seen = self.seen.max(range.end);
        self.open.push(Node { outer, start: range.start, end: range.end, anchor: number, tag, kind });
        self.keys.push(None);
        Some(())
    }

    fn leave(&mut self, end: usize) -> Option<()> {
        let mut node = self.open.pop()?;
        self.keys.pop()?;
        // The end of a block collection is reported where the next thing starts; it ends with its last child.
        node.end = match &node.kind {
            Kind::Sequence { flow: true, .. } | Kind::Mapping { flow: true, .. } => end,
            Kind::Sequence { items, .. } => items.last().map_or(node.end, |item| item.end),
            Kind::Mapping { pairs, .. } => {
                pairs.last().map_or(node.end, |(key, value)| key.end.max(value.end))
            }
            Kind::Scalar { .. } | Kind::Alias(_) => return None,
        };
        self.place(node)
    }

    fn place(&mut self, node: Node) -> Option<()> {
        self.seen = self.seen.max(node.end);
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Some(());
        };
        match &mut parent.kind {
            Kind::Sequence { items, .. } => items.push(node),
            Kind::Mapping { pairs, .. } => {
                let slot = self.keys.last_mut()?;
                match slot.take() {
                    Some(key) => pairs.push((key, node)),
                    None => *slot = Some(node),
                }
            }
            Kind::Scalar { .. } | Kind::Alias(_) => return None,
        }
        Some(())
    }
}

/// The `|` or `>` in front of a block scalar; only blanks, indicators and comments can stand before it.
fn block_header(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut comment = false;
    let between = text.get(from..to)?;
    for (at, c) in between.char_indices() {
        match c {
            '\n' | '\r' => comment = false,
            '#' => comment = true,
            '|' | '>' if !comment => return Some(from + at),
            _ => {}
        }
    }
    None
}
