//! Receiving: which branches there are, and the objects we lack.

use std::{
    collections::HashMap,
    io::{self, BufReader, Read},
    sync::Arc,
};

use bytes::Bytes;
use gix::ObjectId;
use tokio::sync::mpsc;

use super::{
    AGENT, Capabilities, Line,
    pktline::{self, Band, Packet},
    reason, text,
};
use crate::{error::Failure, objects::pack, session::blocking, store::Store};

const SERVICE: &str = "git-upload-pack";
/// A pack above this size is not taken.
const MAX_PACK: u64 = 4 << 30;

/// How much history to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What the cache needs: a little at first, then whatever is new.
    Usual,
    /// So many commits back from what is wanted.
    Commits(u32),
    /// Everything.
    Whole,
}

impl Line<'_> {
    /// The tips of some branches.
    pub(crate) async fn tips(
        &self,
        capabilities: &Capabilities,
        branches: &[String],
    ) -> Result<HashMap<String, ObjectId>, Failure> {
        let mut body = command("ls-refs", capabilities);
        for branch in branches {
            pktline::line(&mut body, format!("ref-prefix refs/heads/{branch}\n").as_bytes());
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
                return Err(Failure::fault(format!("{} answers: {error}", self.target.host())));
            }
            let mut words = line.split(' ');
            if let (Some(id), Some(name)) = (words.next(), words.next())
                && let Ok(id) = ObjectId::from_hex(id.as_bytes())
                && let Some(branch) = name.strip_prefix("refs/heads/")
                && branches.iter().any(|wanted| wanted == branch)
            {
                tips.insert(branch.to_owned(), id);
            }
        }
        Ok(tips)
    }

    /// Gets the wanted commits with everything they need into the store.
    pub(crate) async fn fetch(
        &self,
        capabilities: &Capabilities,
        store: &Arc<Store>,
        wants: &[ObjectId],
        depth: Depth,
    ) -> Result<(), Failure> {
        let body = request(capabilities, store, wants, depth)?;
        let mut response = self.send(&format!("/{SERVICE}"), Some((SERVICE, body.into()))).await?;
        let (sender, receiver) = mpsc::channel(16);
        let store = Arc::clone(store);
        let work =
            tokio::spawn(blocking(move || receive(&store, Incoming { receiver, chunk: Bytes::new() })));
        let mut size = 0;
        let cut = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    size += chunk.len() as u64;
                    if size > MAX_PACK {
                        break Some("the pack is larger than 4 GiB".to_owned());
                    }
                    if sender.send(chunk).await.is_err() {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(reason(&error)),
            }
        };
        drop(sender);
        let done = work.await?;
        match (done, cut) {
            (Err(_), Some(cut)) => {
                Err(Failure::fault(format!("fetching from {} was cut short: {cut}", self.target.host())))
            }
            (done, _) => done,
        }
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
    for option in ["thin-pack\n", "no-progress\n", "ofs-delta\n"] {
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

/// Reads the answer to a fetch and puts what it holds into the store.
fn receive(store: &Store, incoming: Incoming) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 16, incoming);
    let mut boundary = Vec::new();
    loop {
        let packet = pktline::read(&mut input).map_err(|error| cut(&error))?;
        let Some(packet) = packet else { return Err(Failure::fault("the remote sent no pack")) };
        let Packet::Line(line) = packet else { continue };
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line == "packfile" {
            break;
        }
        if let Some(error) = line.strip_prefix("ERR ") {
            return Err(refused(error));
        }
        if line.starts_with("shallow ") || line.starts_with("unshallow ") {
            boundary.push(line);
        }
    }
    let mut pack = BufReader::with_capacity(1 << 16, Band::new(&mut input));
    pack::index(&store.local(), &mut pack)?;
    io::copy(&mut pack, &mut io::sink()).map_err(|error| cut(&error))?;
    store.move_boundary(&boundary)
}

fn cut(error: &io::Error) -> Failure {
    Failure::fault(format!("the remote's answer cannot be read: {error}"))
}

fn refused(error: &str) -> Failure {
    match error.rsplit_once("not our ref ") {
        Some((_, id)) => Failure::problem(format!("there is no commit `{id}` in the repository")),
        None => Failure::fault(format!("the remote does not send what was asked for: {error}")),
    }
}

/// The body of an answer as it arrives.
struct Incoming {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        let head = self.chunk.split_to(count);
        let mut head = &*head;
        head.read(buffer)
    }
}
