//! Small questions about places in a text: lines, blanks, line ends.

/// The line end of this text, by its first one.
pub(crate) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|before| before.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

/// The first byte of the line that holds `at`.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    // A byte order mark is not part of the first line.
    if start == 0 && text.starts_with('\u{feff}') { '\u{feff}'.len_utf8().min(at) } else { start }
}

/// The first byte of the line after `at`, or `None` when the text ends first. The start of a line is its own end.
pub(crate) fn next_line(text: &str, at: usize) -> Option<usize> {
    if text.get(..at).is_some_and(|before| before.ends_with('\n')) {
        return Some(at);
    }
    text.get(at..).and_then(|rest| rest.find('\n')).map(|newline| at + newline + 1)
}

/// The first byte at or after `at` that is no space or tab.
pub(crate) fn skip_blanks(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + (rest.len() - rest.trim_start_matches([' ', '\t']).len())
}

/// The end of the blanks before `at`.
pub(crate) fn blanks_before(text: &str, at: usize) -> usize {
    text.get(..at).map_or(at, |before| before.trim_end_matches([' ', '\t']).len())
}

/// There is only blank space between the start of the line and `at`.
pub(crate) fn is_first_on_line(text: &str, at: usize) -> bool {
    blanks_before(text, at) <= line_start(text, at)
}

/// There is only blank space between `at` and the end of the line.
pub(crate) fn is_last_on_line(text: &str, at: usize) -> bool {
    let rest = text.get(skip_blanks(text, at)..).unwrap_or_default();
    rest.is_empty() || rest.starts_with(['\n', '\r'])
}

/// The column of `at` in characters, as spaces.
pub(crate) fn indent(text: &str, at: usize) -> String {
    let columns = text.get(line_start(text, at)..at).map_or(0, |before| before.chars().count());
    " ".repeat(columns)
}

/// The place of `wanted` after `at`, when only blank space and comments stand between.
pub(crate) fn after(text: &str, at: usize, wanted: char) -> Option<usize> {
    let mut comment = false;
    for (offset, c) in text.get(at..)?.char_indices() {
        match c {
            '\n' => comment = false,
            _ if comment => {}
            c if c == wanted => return Some(at + offset),
            '#' => comment = true,
            ' ' | '\t' | '\r' => {}
            _ => return None,
        }
    }
    None
}
