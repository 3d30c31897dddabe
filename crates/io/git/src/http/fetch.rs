//! Receiving: which branches there are, and the objects we lack.

use std::{
    collections::HashMap,
    io::{self, BufReader, Read},
    sync::Arc,
};

use gix::ObjectId;

use super::{
    AGENT, Capabilities, Line, one_line,
    pktline::{self, Band, Packet},
    reason, text,
};
use crate::{
    Limits,
    error::Failure,
    objects::{
        pack::{self, Spool},
        parse_id,
        scan::scan,
    },
    store::Store,
};

const SERVICE: &str = "git-upload-pack";
/// More commits than this at which history ends are not remembered.
pub(crate) const MAX_BOUNDARY: usize = 100_000;

/// How much history to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What the cache needs: a little at first, then whatever is new.
    Usual,
    /// So many commits back from what is wanted.
    Commits(u32),
    /// Everything.
    Whole,
    /// All commits, and nothing else if the remote can leave the rest out. Not for a cache.
    History,
}

impl Line<'_> {
    /// The tips of some branches, or of all when none is named.
    pub(crate) async fn tips(
        &self,
        capabilities: &Capabilities,
        branches: &[String],
    ) -> Result<HashMap<String, ObjectId>, Failure> {
        let mut body = command("ls-refs", capabilities);
        for branch in branches {
            pktline::line(&mut body, format!("ref-prefix refs/heads/{branch}\n").as_bytes());
        }
        if branches.is_empty() {
            pktline::line(&mut body, b"ref-prefix refs/heads/\n");
        }
        pktline::flush(&mut body);
        let response = self.send(&format!("/{SERVICE}"), Some((SERVICE, body.into()))).await?;
        let answer = text(response).await?;
        let mut reader = answer.as_slice();
        let mut tips = HashMap::new();
        while let Some(packet) = pktline::read(&mut reader).map_err(|error| self.garbled(&error))? {
            let Packet::Line(line) = packet else { continue };
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(error) = line.strip_prefix("ERR ") {
                return Err(self.answered(error));
            }
            let mut words = line.split(' ');
            if let (Some(id), Some(name)) = (words.next(), words.next())
                && let Ok(id) = ObjectId::from_hex(id.as_bytes())
                && let Some(branch) = name.strip_prefix("refs/heads/")
                && (branches.is_empty() || branches.iter().any(|wanted| wanted == branch))
            {
                tips.insert(branch.to_owned(), id);
            }
        }
        Ok(tips)
    }

    /// Gets the wanted commits with everything they need, as a pack for the store.
    pub(crate) async fn fetch(
        &self,
        capabilities: &Capabilities,
        store: &Arc<Store>,
        (wants, depth): (&[ObjectId], Depth),
        limits: Limits,
    ) -> Result<Received, Failure> {
        let body = request(capabilities, store, wants, depth)?;
        let mut response = self.send(&format!("/{SERVICE}"), Some((SERVICE, body.into()))).await?;
        let mut spool = Spool::new(&store.path, pack::at_once(&limits));
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => spool.add(&chunk)?,
                Ok(None) => break,
                Err(error) => {
                    let (host, why) = (self.target.host(), reason(&error));
                    return Err(Failure::fault(format!("fetching from {host} was cut short: {why}")));
                }
            }
        }
        Ok(Received { spool })
    }
}

fn command(name: &str, capabilities: &Capabilities) -> Vec<u8> {
    let mut body = Vec::new();
    pktline::line(&mut body, format!("command={name}\n").as_bytes());
    if capabilities.has("agent") {
        pktline::line(&mut body, format!("agent={AGENT}\n").as_bytes());
    }
    if capabilities.has("object-format") {
        pktline::line(&mut body, b"object-format=sha1\n");
    }
    pktline::delimiter(&mut body);
    body
}

fn request(
    capabilities: &Capabilities,
    store: &Store,
    wants: &[ObjectId],
    depth: Depth,
) -> Result<Vec<u8>, Failure> {
    let mut body = command("fetch", capabilities);
    let mut line = |text: String| pktline::line(&mut body, text.as_bytes());
    // No thin packs: what a delta costs must be seen in the pack alone.
    for option in ["no-progress\n", "ofs-delta\n"] {
        line(option.to_owned());
    }
    let haves = store.haves();
    for id in store.shallow()? {
        line(format!("shallow {id}\n"));
    }
    match depth {
        Depth::Usual if haves.is_empty() => line("deepen 50\n".to_owned()),
        Depth::Usual => {}
        Depth::Commits(count) => line(format!("deepen {count}\n")),
        Depth::Whole => line(format!("deepen {}\n", i32::MAX)),
        Depth::History if capabilities.filter => line("filter tree:0\n".to_owned()),
        Depth::History => {}
    }
    for id in wants {
        line(format!("want {id}\n"));
    }
    for id in haves {
        line(format!("have {id}\n"));
    }
    line("done\n".to_owned());
    pktline::flush(&mut body);
    Ok(body)
}

/// The answer to a fetch, not looked at yet.
pub(crate) struct Received {
    spool: Spool,
}

impl Received {
    /// Puts what it holds into the store, unless that would cost more than the limits allow.
    pub(crate) fn keep(mut self, store: &Store, limits: &Limits) -> Result<(), Failure> {
        let boundary = preface(&mut self.spool.read(0)?)?;
        let start = boundary.start;
        scan(&mut BufReader::new(Band::new(&mut self.spool.read(start)?)), limits)?;
        pack::index(&store.local(), &mut BufReader::new(Band::new(&mut self.spool.read(start)?)))?;
        if boundary.lines.is_empty() {
            return Ok(());
        }
        // What the remote takes back (`unshallow`) is seen by what it has sent.
        let ends = boundary.lines.iter().filter_map(|line| line.strip_prefix("shallow "));
        store.move_boundary(ends.map(parse_id).collect::<Result<Vec<_>, _>>()?)
    }
}

/// What stands before the pack.
struct Preface {
    /// Where the history that comes with it ends.
    lines: Vec<String>,
    /// How long it is.
    start: u64,
}

fn preface(input: &mut dyn Read) -> Result<Preface, Failure> {
    let mut preface = Preface { lines: Vec::new(), start: 0 };
    loop {
        let packet = pktline::read(input).map_err(|error| cut(&error))?;
        let Some(packet) = packet else { return Err(Failure::fault("the remote sent no pack")) };
        let Packet::Line(line) = packet else {
            preface.start += 4;
            continue;
        };
        preface.start += line.len() as u64 + 4;
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line == "packfile" {
            return Ok(preface);
        }
        if let Some(error) = line.strip_prefix("ERR ") {
            return Err(refused(error));
        }
        if line.starts_with("shallow ") || line.starts_with("unshallow ") {
            preface.lines.push(line);
        }
        if preface.lines.len() > MAX_BOUNDARY {
            return Err(too_many_ends());
        }
    }
}

/// History that ends at more places than are remembered.
pub(crate) fn too_many_ends() -> Failure {
    Failure::fault("the remote names too many ends of its history")
}

fn cut(error: &io::Error) -> Failure {
    Failure::fault(format!("the remote's answer cannot be read: {error}"))
}

fn refused(error: &str) -> Failure {
    let error = one_line(error);
    match error.rsplit_once("not our ref ") {
        Some((_, id)) => Failure::no_commit(format!("there is no commit `{id}` in the repository")),
        None => Failure::fault(format!("the remote does not send what was asked for: {error}")),
    }
}
