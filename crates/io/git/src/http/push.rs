//! Sending: one request carries the wish and the objects, the answer says what became of it.

use std::io::Read as _;

use gix::ObjectId;

use super::{
    AGENT, Line,
    pktline::{self, Band, Packet},
    text,
};
use crate::{error::Failure, words::barrier};

/// A branch to move. `None` stands for "not there".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Update<'a> {
    pub(crate) branch: &'a str,
    pub(crate) old: Option<ObjectId>,
    pub(crate) new: Option<ObjectId>,
}

impl Line<'_> {
    /// Moves a branch by compare-and-swap, in a single request.
    pub(crate) async fn push(&self, update: Update<'_>, pack: Vec<u8>) -> Result<(), Failure> {
        let zero = ObjectId::null(gix::hash::Kind::Sha1);
        let (old, new) = (update.old.unwrap_or(zero), update.new.unwrap_or(zero));
        let mut body = Vec::with_capacity(pack.len() + 256);
        let wish = format!(
            "{old} {new} refs/heads/{}\0 report-status side-band-64k object-format=sha1 agent={AGENT}",
            update.branch
        );
        pktline::line(&mut body, wish.as_bytes());
        pktline::flush(&mut body);
        body.extend_from_slice(&pack);
        let service = "git-receive-pack";
        let response = self.send(&format!("/{service}"), Some((service, body.into()))).await?;
        let answer = text(response).await?;
        let (report, messages) = self.report(&answer)?;
        verdict(&report, &messages, &self.target.url)
    }

    /// The lines of the report and what the remote's hooks printed.
    fn report(&self, answer: &[u8]) -> Result<(Vec<String>, String), Failure> {
        let mut band = Band::new(answer);
        let mut inner = Vec::new();
        band.read_to_end(&mut inner).map_err(|error| self.garbled(&error))?;
        // A remote that does not multiplex sends the report as it is; its first letter is no band.
        let bytes = if inner.is_empty() { answer } else { inner.as_slice() };
        let mut reader = bytes;
        let mut lines = Vec::new();
        while let Some(packet) = pktline::read(&mut reader).map_err(|error| self.garbled(&error))? {
            if let Packet::Line(line) = packet {
                lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        }
        Ok((lines, band.messages))
    }
}

/// What became of the wish, by the remote's report.
fn verdict(report: &[String], messages: &str, url: &str) -> Result<(), Failure> {
    for line in report {
        if let Some(rest) = line.strip_prefix("ng ") {
            let why = rest.split_once(' ').map_or("no reason given", |(_, why)| why);
            return Err(refusal(why, messages, url));
        }
    }
    if report.iter().any(|line| line.starts_with("ok ")) {
        return Ok(());
    }
    let unpack = report.iter().find_map(|line| line.strip_prefix("unpack ")).unwrap_or("no report");
    Err(Failure::fault(format!("`{url}` did not take the push: {unpack}")))
}

/// Sorts the reasons for which a branch is not moved.
pub(crate) fn refusal(why: &str, messages: &str, url: &str) -> Failure {
    const MOVED: [&str; 10] = [
        "failed to update ref",
        "fetch first",
        "stale",
        "non-fast-forward",
        "cannot lock",
        "failed to lock",
        "already exists",
        "incorrect old value",
        "missing necessary objects",
        "but expected",
    ];
    const PASSING: [&str; 4] = ["unpack", "internal", "timeout", "temporar"];
    let seen = why.to_lowercase();
    let hook = seen.contains("hook") || seen.contains("protected");
    if !hook && MOVED.iter().any(|reason| seen.contains(reason)) {
        return Failure::Moved(format!("`{url}` refused the push: {why}"));
    }
    if !hook && PASSING.iter().any(|reason| seen.contains(reason)) {
        return Failure::fault(format!("`{url}` could not take the push: {why}"));
    }
    let said = said(messages);
    let message = format!(
        "`{url}` refused the push: {why}{said}. Allow this user to push to the branch, or let the environment open pull requests"
    );
    Failure::Refused { message, barrier: barrier(&format!("{why}\n{messages}")) }
}

/// What hooks printed, on one line.
fn said(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(str::trim).filter(|line| !line.is_empty()).take(5).collect();
    if lines.is_empty() { String::new() } else { format!(" (it says: {})", lines.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn refusals_are_sorted() {
        for why in [
            "failed to update ref",
            "fetch first",
            "stale info",
            "non-fast-forward",
            "reference already exists",
            "cannot lock ref 'refs/heads/main': is at 1 but expected 2",
            "incorrect old value provided",
        ] {
            assert!(matches!(refusal(why, "", "u"), Failure::Moved(_)), "{why}");
        }
        for why in ["pre-receive hook declined", "protected branch hook declined", "deletion prohibited"] {
            let Failure::Refused { message: text, .. } = refusal(why, "remote: ask\n the owner\n", "u")
            else {
                panic!("{why}")
            };
            assert!(text.contains(why) && text.contains("ask; the owner"), "{text}");
        }
        assert!(matches!(refusal("unpacker error", "", "u"), Failure::Plain(Error::Fault { .. })));
    }

    #[test]
    fn a_report_without_a_verdict_is_a_fault() {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        assert!(verdict(&lines(&["unpack ok", "ok refs/heads/main"]), "", "u").is_ok());
        assert!(matches!(verdict(&[], "", "u"), Err(Failure::Plain(Error::Fault { .. }))));
        let stale = lines(&["unpack ok", "ng refs/heads/main failed to update ref"]);
        assert!(matches!(verdict(&stale, "", "u"), Err(Failure::Moved(_))));
    }
}
