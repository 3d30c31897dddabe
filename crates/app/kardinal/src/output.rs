//! Everything that is printed goes through here. What others wrote never steers a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;

use anstream::{eprint, eprintln, print};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::args::OutputFormat;

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// The colours that we print ourselves.
const COLOURS: [&str; 6] = [RED, CYAN, GREEN, YELLOW, PLAIN, "\x1b[31m"];

/// Prints text. Whatever would steer a terminal is shown instead of done.
pub(crate) fn text(text: &str) {
    print!("{}", clean(text));
}

/// Prints text with colours of ours in it, which are dropped where there is no terminal. What came from objects has gone
/// through [`clean_line`] or [`painted`].
pub(crate) fn coloured(text: &str) {
    print!("{}", clean_but_colours(text));
}

/// Prints what others made, byte for byte where a program reads it; a terminal gets it as [`text`].
pub(crate) fn verbatim(data: &str) {
    match std::io::stdout().is_terminal() {
        true => text(data),
        // Nobody is there to tell when the reader has gone.
        false => drop(std::io::stdout().write_all(data.as_bytes())),
    }
}

/// Prints a remark that is not part of the result.
pub(crate) fn remark(message: &str) {
    eprintln!("{}", clean(message));
}

/// Prints an error and what to do about it.
pub(crate) fn error(message: &str, hint: Option<&str>) {
    eprintln!("{RED}error:{PLAIN} {}", clean(message));
    if let Some(hint) = hint {
        eprintln!("{CYAN}hint:{PLAIN} {}", clean(hint));
    }
}

/// Text of others as a terminal may get it: lines and tabs stay, whatever else would steer the terminal or turn the
/// direction of writing is escaped.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| steers(c) && c != '\n' && c != '\t';
    escaped(text, steers, |c, clean| clean.extend(c.escape_default()))
}

/// The same for a text that is one line, or a part of one.
pub(crate) fn clean_line(text: &str) -> Cow<'_, str> {
    escaped(text, steers, |c, clean| clean.extend(c.escape_default()))
}

fn clean_but_colours(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, from) = rest.split_at(at);
        cleaned.push_str(&clean(before));
        let ours = COLOURS.iter().find(|colour| from.starts_with(**colour));
        cleaned.push_str(ours.copied().unwrap_or("\\u{1b}"));
        rest = from.get(ours.map_or(1, |colour| colour.len())..).unwrap_or_default();
    }
    cleaned.push_str(&clean(rest));
    cleaned
}

/// Control characters of both sets, and those that reorder or hide what stands around them.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, which: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match which(c) {
            true => escape(c, &mut clean),
            false => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// JSON in which every such character is an escape of JSON: the value is the same.
fn clean_json(json: &str) -> Cow<'_, str> {
    escaped(
        json,
        |c| steers(c) && c != '\n',
        |c, clean| {
            let _ = write!(clean, "\\u{:04x}", u32::from(c));
        },
    )
}

/// YAML; where it would hold such characters, JSON, which is YAML, too.
fn yaml<T: Serialize>(value: &T) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(value)?;
    match yaml.contains(|c: char| steers(c) && c != '\n') {
        false => Ok(yaml),
        true => Ok(clean_json(&serde_json::to_string_pretty(value)?).into_owned()),
    }
}

/// Prints a value for scripts, or the text made for people.
pub(crate) fn value<T: Serialize>(
    format: OutputFormat,
    value: &T,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    text(&rendered(format, value, for_people)?);
    Ok(())
}

/// The same for text with colours of ours in it; see [`coloured`].
pub(crate) fn coloured_value<T: Serialize>(
    format: OutputFormat,
    value: &T,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    coloured(&rendered(format, value, for_people)?);
    Ok(())
}

/// A value as text for scripts, or the text made for people; with a newline at its end.
pub(crate) fn rendered<T: Serialize>(
    format: OutputFormat,
    value: &T,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    let mut rendered = match format {
        OutputFormat::Table => for_people(),
        OutputFormat::Json => {
            let text = match without_managed_fields(value)? {
                Some(value) => serde_json::to_string_pretty(&value)?,
                None => serde_json::to_string_pretty(value)?,
            };
            clean_json(&text).into_owned()
        }
        OutputFormat::Yaml => match without_managed_fields(value)? {
            Some(value) => yaml(&value)?,
            None => yaml(value)?,
        },
    };
    if !rendered.ends_with('\n') {
        rendered.push('\n');
    }
    Ok(rendered)
}

/// Who wrote which field is noise for most; `--show-managed-fields` shows it.
static MANAGED_FIELDS: OnceLock<bool> = OnceLock::new();

/// Says once, before anything is printed, whether `managedFields` are shown.
pub(crate) fn show_managed_fields(show: bool) {
    MANAGED_FIELDS.get_or_init(|| show);
}

/// A value without the `managedFields` of the objects in it. Nothing: there are none, or they are wanted.
fn without_managed_fields<T: Serialize>(value: &T) -> anyhow::Result<Option<Value>> {
    if MANAGED_FIELDS.get().copied().unwrap_or_default() {
        return Ok(None);
    }
    let mut value = serde_json::to_value(value)?;
    Ok(strip(&mut value).then_some(value))
}

/// Takes `metadata.managedFields` out of an object, of the items of a list and of objects further down.
fn strip(value: &mut Value) -> bool {
    match value {
        // Every item, not only up to the first that had some.
        Value::Array(items) => items.iter_mut().map(strip).fold(false, std::ops::BitOr::bitor),
        Value::Object(fields) => {
            let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
            let own = metadata.is_some_and(|metadata| metadata.remove("managedFields").is_some());
            fields.values_mut().map(strip).fold(own, std::ops::BitOr::bitor)
        }
        _ => false,
    }
}

/// A table without borders, as kubectl prints them.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What `--watch` prints to: a terminal shows the newest text only, a file gets every text that differs from the last.
#[derive(Default)]
pub(crate) struct Screen {
    last: Option<String>,
}

impl Screen {
    /// Shows a text.
    pub(crate) fn show(&mut self, new: &str) {
        if self.last.as_deref() == Some(new) {
            return;
        }
        match (std::io::stdout().is_terminal(), &self.last) {
            (true, _) => print!("\x1b[H\x1b[2J\x1b[3J"),
            (false, Some(_)) => text("\n"),
            (false, None) => {}
        }
        coloured(new);
        self.last = Some(new.to_owned());
    }
}

/// One line on standard error about work that takes a while. A terminal shows the newest, a file gets each once.
#[derive(Default)]
pub(crate) struct Progress {
    last: String,
}

impl Progress {
    /// Says where the work stands.
    pub(crate) fn say(&mut self, line: &str) {
        if self.last == line {
            return;
        }
        let shown = clean_line(line);
        match std::io::stderr().is_terminal() {
            true => eprint!("\r\x1b[2K{shown}"),
            false => eprintln!("{shown}"),
        }
        line.clone_into(&mut self.last);
    }

    /// Leaves the line, so that others can print.
    pub(crate) fn end(self) {
        if !self.last.is_empty() && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[2K");
        }
    }
}

/// Colours the answers in an explanation.
pub(crate) fn painted(explanation: &str) -> String {
    let explanation = clean(explanation);
    let mut text = String::with_capacity(explanation.len());
    for line in explanation.lines() {
        let word = ANSWERS.iter().find(|(word, _)| {
            line.contains(&format!("]   {word} "))
                || line.contains(&format!("]  {word} "))
                || line.starts_with(&format!("RESULT: {word}"))
        });
        match word {
            Some((word, colour)) => {
                let _ = writeln!(text, "{}", line.replacen(word, &format!("{colour}{word}{PLAIN}"), 1));
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

const ANSWERS: [(&str, &str); 9] = [
    ("PASS", GREEN),
    ("VERIFIED", GREEN),
    ("FAILED", RED),
    ("FAIL", RED),
    ("BLOCKED", RED),
    ("PENDING", YELLOW),
    ("WAITING", YELLOW),
    ("PROMOTING", YELLOW),
    ("IDLE", CYAN),
];

/// A word in the colour of good, doubtful or bad news.
pub(crate) fn mark(word: &str) -> String {
    let colour = match word {
        "ok" => GREEN,
        "warn" => YELLOW,
        _ => RED,
    };
    format!("{colour}{word}{PLAIN}")
}

/// How long ago something was, as kubectl prints it: `45s`, `12m`, `5h`, `3d`.
pub(crate) fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return String::new() };
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let ago = |seconds: i64| age(Some(now - jiff::SignedDuration::from_secs(seconds)), now);
        assert_eq!([ago(-5), ago(119), ago(120), ago(7200), ago(172_800)], ["0s", "119s", "2m", "2h", "2d"]);
        assert_eq!(age(None, now), "");
    }

    /// What an attacker writes into a message, a title, an author or a file.
    const HOSTILE: &str =
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[32mPASS\u{9b}31m\r\u{8}\u{7f}\u{202e}txt\u{2066}\u{200f}";

    fn steering(text: &str) -> Vec<char> {
        text.chars().filter(|c| steers(*c) && *c != '\n').collect()
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert!(matches!(clean("a\tb – ü 漢\n"), Cow::Borrowed(_)), "text stays as it is");
        assert_eq!(clean("a\u{1b}[2Jb\rc"), "a\\u{1b}[2Jb\\rc");
        assert_eq!(clean_line("a\nb"), "a\\nb");
        for cleaned in [clean(HOSTILE), clean_line(HOSTILE)] {
            assert!(steering(&cleaned).is_empty(), "{cleaned:?}");
        }
        let shown = table(&["MESSAGE"], vec![vec![HOSTILE.to_owned()]]);
        assert!(steering(&shown).is_empty(), "{shown:?}");
        let shown = painted(&format!("  soak  [org]   FAIL   {HOSTILE}\n"));
        let rest = shown.replacen(RED, "", 1).replacen(PLAIN, "", 1);
        assert!(rest != shown && steering(&rest).is_empty(), "{shown:?}");
        let shown = clean_but_colours(&format!("{GREEN}{HOSTILE}{PLAIN}"));
        let rest = COLOURS.iter().fold(shown.clone(), |text, colour| text.replace(colour, ""));
        assert!(steering(&rest).is_empty(), "{shown:?}");
    }

    #[test]
    fn json_and_yaml_hold_the_same_value_without_control_characters() {
        let value = serde_json::json!({"message": HOSTILE, "plain": "ü\nb"});
        for format in [OutputFormat::Json, OutputFormat::Yaml] {
            let shown = rendered(format, &value, String::new).unwrap();
            assert!(steering(&shown).is_empty(), "{shown:?}");
            let read: Value = serde_saphyr::from_str(&shown).unwrap();
            assert_eq!(read, value, "{shown}");
        }
        let harmless = serde_json::json!({"a": "b"});
        assert_eq!(rendered(OutputFormat::Yaml, &harmless, String::new).unwrap(), "a: b\n");
    }

    #[test]
    fn scripts_get_no_managed_fields_unless_they_ask() {
        let object =
            |name: &str| serde_json::json!({"metadata": {"name": name, "managedFields": [{"manager": "m"}]}});
        let all = serde_json::json!({"items": [object("a"), object("b")], "own": {"managedFields": 1}});
        for format in [OutputFormat::Json, OutputFormat::Yaml] {
            let text = rendered(format, &all, String::new).unwrap();
            assert!(
                !text.contains("manager") && text.contains("managedFields") && text.contains('b'),
                "{text}"
            );
        }
        assert!(without_managed_fields(&serde_json::json!([1, {"a": "b"}])).unwrap().is_none());
    }

    #[test]
    fn only_answers_are_coloured() {
        let text = "  soak  [org]   FAIL   x = 1\n\nRESULT: BLOCKED by soak\nPASS\n";
        let painted = painted(text);
        assert!(painted.contains(&format!("[org]   {RED}FAIL{PLAIN}   x")), "{painted:?}");
        assert!(painted.contains(&format!("RESULT: {RED}BLOCKED{PLAIN} by soak")), "{painted:?}");
        assert!(painted.ends_with("\nPASS\n"), "{painted:?}");
    }
}
