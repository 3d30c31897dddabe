//! Everything that is printed goes through here.

use std::fmt::Write as _;

use anstream::{eprintln, print};
use serde::Serialize;

use crate::args::OutputFormat;

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Prints text as it is; colours are dropped where there is no terminal.
pub(crate) fn text(text: &str) {
    print!("{text}");
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
    let rendered = match format {
        OutputFormat::Table => for_people(),
        OutputFormat::Json => serde_json::to_string_pretty(value)?,
        OutputFormat::Yaml => serde_saphyr::to_string(value)?,
    };
    text(&rendered);
    if !rendered.ends_with('\n') {
        text("\n");
    }
    Ok(())
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
