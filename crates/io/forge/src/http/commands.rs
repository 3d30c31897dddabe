//! The ref commands at the beginning of a push, read before git gets to see them.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};

use super::access::Identity;
use super::answer::Refusal;

/// The most that the commands of one push may take: some hundred thousand refs.
const COMMANDS_LIMIT: usize = 32 * 1024 * 1024;
/// The longest line of the protocol, its length included.
const LINE_LIMIT: usize = 65_520;
/// The id that stands for nothing.
const ZERO: &str = "0000000000000000000000000000000000000000";

/// A ref that a push wants to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The full name, such as `refs/heads/main`.
    pub name: String,
    /// Where it was; nothing when it is new.
    pub old: Option<String>,
    /// Where it shall be; nothing when it is deleted.
    pub new: Option<String>,
}

impl RefChange {
    /// The branch, if it is one.
    pub fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }
}

/// The commands of a push.
#[derive(Debug, Default)]
pub(super) struct Push {
    /// Everything read so far, for git to read again; a little more than the commands.
    pub(super) raw: Vec<u8>,
    /// What it wants to move.
    pub(super) changes: Vec<RefChange>,
    /// What the client understands.
    capabilities: Vec<String>,
}

/// A ref that may not move.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) name: String,
    pub(super) reason: &'static str,
}

impl Push {
    pub(super) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    /// Refs that may not move. If there is one, none of the push moves: half a push is what nobody asked for.
    pub(super) fn refused(&self, identity: &Identity, protected: impl Fn(&str) -> bool) -> Vec<Rejected> {
        let reasons: Vec<Option<&'static str>> =
            self.changes.iter().map(|change| reason(change, identity, &protected)).collect();
        if reasons.iter().all(Option::is_none) {
            return Vec::new();
        }
        let pairs = self.changes.iter().zip(reasons);
        pairs
            .map(|(change, reason)| Rejected {
                name: change.name.clone(),
                reason: reason.unwrap_or("not pushed: another ref of this push is refused"),
            })
            .collect()
    }
}

fn reason(
    change: &RefChange,
    identity: &Identity,
    protected: &impl Fn(&str) -> bool,
) -> Option<&'static str> {
    match change.branch() {
        Some(branch) if blocks_kardinal(branch) && change.new.is_some() => {
            Some("kept for `kardinal/<namespace>/<bundle>/<environment>`: choose another name")
        }
        Some(branch) if protected(branch) && change.new.is_none() => {
            Some("protected branch: it cannot be deleted")
        }
        Some(branch) if protected(branch) && !identity.trusted => {
            Some("protected branch: open a pull request")
        }
        Some(_) => None,
        None if change.name.starts_with("refs/tags/") || change.name.starts_with("refs/notes/") => None,
        None => Some("only branches, tags and notes are kept here"),
    }
}

/// Whether a branch leaves no room for those that kardinal makes: a branch is a file, and theirs are files in folders.
/// Upper and lower case are the same here, because there are disks on which they are.
fn blocks_kardinal(branch: &str) -> bool {
    let mut parts = branch.split('/');
    parts.next().is_some_and(|first| first.eq_ignore_ascii_case("kardinal")) && parts.count() != 3
}

/// Reads until the end of the commands. What comes after them stays in the stream or at the end of `raw`.
pub(super) async fn read(
    body: &mut (impl Stream<Item = std::io::Result<Bytes>> + Unpin),
) -> Result<Push, Refusal> {
    let mut push = Push::default();
    let mut position = 0;
    loop {
        match next_line(&push.raw, position)? {
            Some(Line::Data { start, end }) => {
                let line = push.raw.get(start..end).unwrap_or_default().to_vec();
                position = end;
                push.command(&line)?;
            }
            Some(Line::Flush) => return Ok(push),
            None if push.raw.len() > COMMANDS_LIMIT => {
                return Err(Refusal::bad("too many refs in one push: push fewer at a time"));
            }
            None => match body.next().await {
                Some(chunk) => push.raw.extend_from_slice(&chunk.map_err(too_much)?),
                None => return Err(Refusal::bad("the push ends before its commands do")),
            },
        }
    }
}

/// A body that breaks off or is too large; the client that did it hardly reads on.
pub(super) fn too_much(error: std::io::Error) -> Refusal {
    let status = match error.kind() {
        std::io::ErrorKind::FileTooLarge => http::StatusCode::PAYLOAD_TOO_LARGE,
        std::io::ErrorKind::TimedOut => http::StatusCode::REQUEST_TIMEOUT,
        _ => http::StatusCode::BAD_REQUEST,
    };
    Refusal::Bad(status, error.to_string())
}

enum Line {
    Data { start: usize, end: usize },
    Flush,
}

/// The line at `position`, or nothing while it is not all there.
fn next_line(raw: &[u8], position: usize) -> Result<Option<Line>, Refusal> {
    let Some(length) = raw.get(position..position + 4) else { return Ok(None) };
    let length = std::str::from_utf8(length)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|text| usize::from_str_radix(text, 16).ok());
    match length {
        Some(0) => Ok(Some(Line::Flush)),
        Some(length @ 5..=LINE_LIMIT) if raw.len() >= position + length => {
            Ok(Some(Line::Data { start: position + 4, end: position + length }))
        }
        Some(5..=LINE_LIMIT) => Ok(None),
        _ => Err(Refusal::bad("the push is not in the form that git sends")),
    }
}

impl Push {
    fn command(&mut self, line: &[u8]) -> Result<(), Refusal> {
        let unknown = || Refusal::bad("the push is not in the form that git sends");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        // Whatever follows a zero byte is not part of the command, on the first line and on any other.
        let mut parts = line.splitn(2, |byte| *byte == 0);
        let command = std::str::from_utf8(parts.next().unwrap_or_default()).map_err(|_| unknown())?;
        if let Some(capabilities) = parts.next() {
            let capabilities = String::from_utf8_lossy(capabilities);
            self.capabilities.extend(capabilities.split_ascii_whitespace().map(str::to_owned));
        }
        if command.starts_with("push-cert") {
            return Err(Refusal::bad("signed pushes are not taken: push without `--signed`"));
        }
        if let Some(id) = command.strip_prefix("shallow ") {
            return if is_id(id) { Ok(()) } else { Err(unknown()) };
        }
        let mut words = command.splitn(3, ' ');
        let (Some(old), Some(new), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err(unknown());
        };
        if !is_id(old) || !is_id(new) || name.is_empty() || name.chars().any(char::is_control) {
            return Err(unknown());
        }
        let id = |id: &str| (id != ZERO).then(|| id.to_ascii_lowercase());
        self.changes.push(RefChange { name: name.to_owned(), old: id(old), new: id(new) });
        Ok(())
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ZERO.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
