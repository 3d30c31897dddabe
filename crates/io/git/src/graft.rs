//! Carrying one commit's change of a file over to another place, as a cherry-pick does.

use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text;

use crate::FileChange;

/// Files with more lines are not merged line by line: each takes many times its size in memory.
const MAX_LINES: usize = 200_000;

/// What becomes of a file when a change that was made elsewhere is made to it, too; `None` is no file. What says it
/// already stays. Where both sides changed the same lines there is no answer, only the reason.
pub fn graft(path: &str, change: &FileChange, ours: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    if ours == after || ours == before {
        return Ok(after.map(<[u8]>::to_vec));
    }
    match (before, after, ours) {
        (Some(before), Some(after), Some(ours)) => lines(path, before, after, ours).map(Some),
        (Some(_), Some(_), None) => Err(format!(
            "`{path}` is changed by the commit, but does not exist here: add it first, or use `strategy: overlay`"
        )),
        (None, _, _) => Err(format!("`{path}` is added by the commit, but exists here with another content")),
        (_, None, _) => Err(format!("`{path}` is removed by the commit, but was changed here")),
    }
}

fn lines(path: &str, before: &[u8], after: &[u8], ours: &[u8]) -> Result<Vec<u8>, String> {
    if [before, after, ours]
        .into_iter()
        .any(|text| text.iter().filter(|byte| **byte == b'\n').count() > MAX_LINES)
    {
        return Err(format!(
            "`{path}` has more than {MAX_LINES} lines, too many to be merged: use `strategy: overlay`"
        ));
    }
    let mut merged = Vec::new();
    let mut input = gix::diff::blob::InternedInput::default();
    let labels = text::Labels { ancestor: None, current: None, other: None };
    let resolution = text(&mut merged, &mut input, labels, ours, before, after, text::Options::default());
    match resolution {
        Resolution::Complete => Ok(merged),
        _ => Err(format!(
            "`{path}` was changed here in the same lines as in the commit: settle it by hand first"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Option<&str>, after: Option<&str>) -> FileChange {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        FileChange { path: "a".to_owned(), before: bytes(before), after: bytes(after) }
    }

    fn grafted(
        before: Option<&str>,
        after: Option<&str>,
        ours: Option<&str>,
    ) -> Result<Option<String>, String> {
        let done = graft("a", &change(before, after), ours.map(str::as_bytes))?;
        Ok(done.map(|bytes| String::from_utf8(bytes).unwrap()))
    }

    #[test]
    fn what_the_commit_does_is_done_here_too() {
        let (old, new) = (Some("a\nb\nc\nd\n"), Some("a\nB\nc\nd\n"));
        assert_eq!(grafted(old, new, old), Ok(new.map(str::to_owned)));
        assert_eq!(grafted(old, new, new), Ok(new.map(str::to_owned)), "twice is once");
        assert_eq!(grafted(old, new, Some("a\nb\nc\nD\n")), Ok(Some("a\nB\nc\nD\n".to_owned())));
        assert_eq!(grafted(None, new, None), Ok(new.map(str::to_owned)));
        assert_eq!(grafted(old, None, old), Ok(None));
        assert_eq!(grafted(old, None, None), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let (old, new) = (Some("a\nb\n"), Some("a\nB\n"));
        for (before, after, ours) in [
            (old, new, Some("a\nX\n")),
            (old, new, None),
            (None, new, Some("x")),
            (old, None, Some("a\nX\n")),
        ] {
            let problem = grafted(before, after, ours).unwrap_err();
            assert!(problem.contains("`a`"), "{problem}");
        }
        let many = "\n".repeat(MAX_LINES + 1);
        let problem = grafted(Some(&many), Some(&format!("{many}x")), Some(&format!("y{many}"))).unwrap_err();
        assert!(problem.contains("too many to be merged"), "{problem}");
    }
}
