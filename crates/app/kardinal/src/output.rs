//! Everything that is printed goes through here.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use anstream::{eprint, eprintln, print};
use jiff::Timestamp;
use serde::Serialize;

use crate::args::OutputFormat;

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Prints text as it is; colours are dropped where there is no terminal.
pub(crate) fn text(text: &str) {
    print!("{text}");
}

/// Prints a remark that is not part of the result.
pub(crate) fn remark(message: &str) {
    eprintln!("{message}");
}

/// Prints an error and what to do about it.
pub(crate) fn error(message: &str, hint: Option<&str>) {
    eprintln!("{RED}error:{PLAIN} {message}");
    if let Some(hint) = hint {
        eprintln!("{CYAN}hint:{PLAIN} {hint}");
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

/// A value as text for scripts, or the text made for people; with a newline at its end.
pub(crate) fn rendered<T: Serialize>(
    format: OutputFormat,
    value: &T,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<String> {
    let mut rendered = match format {
        OutputFormat::Table => for_people(),
        OutputFormat::Json => serde_json::to_string_pretty(value)?,
        OutputFormat::Yaml => serde_saphyr::to_string(value)?,
    };
    if !rendered.ends_with('\n') {
        rendered.push('\n');
    }
    Ok(rendered)
}

/// A table without borders, as kubectl prints them.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
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
            (true, _) => text("\x1b[H\x1b[2J\x1b[3J"),
            (false, Some(_)) => text("\n"),
            (false, None) => {}
        }
        text(new);
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
        match std::io::stderr().is_terminal() {
            true => eprint!("\r\x1b[2K{line}"),
            false => eprintln!("{line}"),
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

    #[test]
    fn only_answers_are_coloured() {
        let text = "  soak  [org]   FAIL   x = 1\n\nRESULT: BLOCKED by soak\nPASS\n";
        let painted = painted(text);
        assert!(painted.contains(&format!("[org]   {RED}FAIL{PLAIN}   x")), "{painted:?}");
        assert!(painted.contains(&format!("RESULT: {RED}BLOCKED{PLAIN} by soak")), "{painted:?}");
        assert!(painted.ends_with("\nPASS\n"), "{painted:?}");
    }
}
