//! Regular expressions for files that are not YAML.

use regex::RegexBuilder;

use crate::draft::check_size;
use crate::{Error, MAX_BYTES};

/// How large a compiled pattern may be, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;

/// Replaces every match. In `with`, `$1` and `${name}` stand for groups and `$$` for a dollar sign; `^` and `$` in the
/// pattern mean the ends of a line. At least one match is required, and a pattern that would change the result again
/// is refused.
pub fn replace(file: &str, text: &str, pattern: &str, with: &str) -> Result<String, Error> {
    check_size(file, text)?;
    let bad =
        |message: String| Error::BadPattern { file: file.to_owned(), pattern: pattern.to_owned(), message };
    let regex = RegexBuilder::new(pattern)
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .nest_limit(100)
        .build()
        .map_err(|error| bad(error.to_string()))?;
    if !regex.is_match(text) {
        return Err(Error::NoMatch { file: file.to_owned(), pattern: pattern.to_owned() });
    }
    let once = replace_all(&regex, text, with)
        .ok_or_else(|| bad(format!("the result has more than {MAX_BYTES} bytes")))?;
    let twice = replace_all(&regex, &once, with);
    if twice.as_deref() != Some(once.as_str()) {
        return Err(bad(
            "replacing a second time would change the text again; match the whole old value".to_owned()
        ));
    }
    Ok(once)
}

/// `None` when the result would be too large.
fn replace_all(regex: &regex::Regex, text: &str, with: &str) -> Option<String> {
    let mut out = String::new();
    let mut done = 0;
    for captures in regex.captures_iter(text) {
        let whole = captures.get(0)?;
        out.push_str(text.get(done..whole.start())?);
        captures.expand(with, &mut out);
        done = whole.end();
        if out.len() > MAX_BYTES {
            return None;
        }
    }
    out.push_str(text.get(done..)?);
    (out.len() <= MAX_BYTES).then_some(out)
}
