//! Regular expressions for files that are not YAML.

use regex::{Captures, Regex, RegexBuilder};
use regex_automata::util::interpolate;

use crate::draft::check_size;
use crate::{Error, MAX_BYTES};

/// How large a compiled pattern may be, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;
/// How much of `with` is worked off at most, counted anew for every match: most of it may come to nothing.
const MAX_WORK: usize = 4 * MAX_BYTES;

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
    let once = replace_all(&regex, text, with).map_err(bad)?;
    match replace_all(&regex, &once, with) {
        Ok(twice) if twice == once => Ok(once),
        _ => Err(bad(
            "replacing a second time would change the text again; match the whole old value".to_owned()
        )),
    }
}

/// Replaces every match, or says what would be too much.
fn replace_all(regex: &Regex, text: &str, with: &str) -> Result<String, String> {
    let names: Vec<Option<&str>> = regex.capture_names().collect();
    let (mut out, mut done, mut work) = (String::new(), 0, 0_usize);
    for captures in regex.captures_iter(text) {
        let Some(whole) = captures.get(0) else { continue };
        out.push_str(text.get(done..whole.start()).unwrap_or_default());
        work = work.saturating_add(with.len());
        if work > MAX_WORK {
            return Err(format!(
                "there are so many matches that more than {MAX_WORK} bytes of `with` would be worked off; shorten it, \
                 or match less often"
            ));
        }
        if !expand(&captures, &names, with, &mut out) {
            return Err(too_long());
        }
        done = whole.end();
    }
    let rest = text.get(done..).unwrap_or_default();
    if out.len().saturating_add(rest.len()) > MAX_BYTES {
        return Err(too_long());
    }
    out.push_str(rest);
    Ok(out)
}

/// Does what [`Captures::expand`] does, but says `false` before the text grows beyond [`MAX_BYTES`]: a few bytes of
/// `with` may name a long group many thousands of times.
fn expand(captures: &Captures<'_>, names: &[Option<&str>], with: &str, out: &mut String) -> bool {
    let mut fits = true;
    let append = |group: usize, out: &mut String| {
        let text = captures.get(group).map_or("", |found| found.as_str());
        fits = fits && out.len().saturating_add(text.len()) <= MAX_BYTES;
        if fits {
            out.push_str(text);
        }
    };
    let index = |name: &str| names.iter().position(|known| *known == Some(name));
    interpolate::string(with, append, index, out);
    fits && out.len() <= MAX_BYTES
}

fn too_long() -> String {
    format!("the result has more than {MAX_BYTES} bytes; match less often, or shorten `with`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_that_names_a_long_group_often_never_grows_beyond_the_limit() {
        let text = "a".repeat(100_000);
        let regex = Regex::new("(?<all>a+)").unwrap();
        let names: Vec<Option<&str>> = regex.capture_names().collect();
        for with in ["${1}".repeat(1000), "$all;".repeat(1000)] {
            let mut out = String::new();
            assert!(!expand(&regex.captures(&text).unwrap(), &names, &with, &mut out));
            assert!(out.capacity() <= 2 * MAX_BYTES, "{} bytes were used", out.capacity());
        }
        let told = replace("f", &text, "(a+)", &"${1}".repeat(1000)).unwrap_err().to_string();
        assert!(told.contains("more than 4194304 bytes"), "{told}");
    }

    #[test]
    fn what_comes_to_nothing_is_worked_off_only_so_often() {
        let told = replace("f", &"a".repeat(100_000), "a()", &"$1".repeat(1000)).unwrap_err().to_string();
        assert!(told.contains("so many matches"), "{told}");
    }

    #[test]
    fn groups_are_put_in_as_the_crate_does_it() {
        let regex = Regex::new("(?<name>[a-z]+)=(\\d+)|(x)").unwrap();
        let names: Vec<Option<&str>> = regex.capture_names().collect();
        for with in ["$name:$2", "${name}x$0", "$$1$", "$9${nothing}$namex", "${", "$3-"] {
            let (text, mut usual, mut ours) = ("abc=12", String::new(), String::new());
            let captures = regex.captures(text).unwrap();
            captures.expand(with, &mut usual);
            assert!(expand(&captures, &names, with, &mut ours));
            assert_eq!(ours, usual, "{with}");
        }
    }
}
