//! Packs: the one we send, undeltified and exactly as large as the change, and the ones we receive.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::atomic::AtomicBool,
};

use gix::{hash, objs, zlib};

use super::NewObject;
use crate::{Limits, error::Failure};

/// Encodes objects as a pack of version 2.
pub(crate) fn encode(objects: &[NewObject]) -> Result<Vec<u8>, Failure> {
    let mut seen = BTreeSet::new();
    let objects: Vec<&NewObject> = objects.iter().filter(|object| seen.insert(object.id)).collect();
    let count = u32::try_from(objects.len()).map_err(|error| Failure::corrupt("counting objects", error))?;
    let mut pack = Vec::with_capacity(1024);
    pack.extend_from_slice(b"PACK\0\0\0\x02");
    pack.extend_from_slice(&count.to_be_bytes());
    for object in objects {
        head(&mut pack, object);
        let mut stream = zlib::stream::deflate::Write::new(&mut pack, zlib::Compression::BEST_SPEED);
        stream.write_all(&object.data).map_err(|error| Failure::corrupt("packing an object", error))?;
        stream.flush().map_err(|error| Failure::corrupt("packing an object", error))?;
    }
    let mut hasher = hash::hasher(hash::Kind::Sha1);
    hasher.update(&pack);
    let trailer = hasher.try_finalize().map_err(|error| Failure::corrupt("hashing a pack", error))?;
    pack.extend_from_slice(trailer.as_slice());
    Ok(pack)
}

/// Type and size of an entry: four bits of the size, then seven at a time.
fn head(pack: &mut Vec<u8>, object: &NewObject) {
    let kind: u8 = match object.kind {
        objs::Kind::Commit => 1,
        objs::Kind::Tree => 2,
        objs::Kind::Blob => 3,
        objs::Kind::Tag => 4,
    };
    let mut size = object.data.len();
    let mut byte = (kind << 4) | (size & 0x0f) as u8;
    size >>= 4;
    while size > 0 {
        pack.push(byte | 0x80);
        byte = (size & 0x7f) as u8;
        size >>= 7;
    }
    pack.push(byte);
}

/// So much may come with a pack that is not the pack: lines and what people are told.
const BESIDES: u64 = 16 << 20;

/// How many bytes a remote may send at once.
pub(crate) fn at_once(limits: &Limits) -> u64 {
    limits.pack.saturating_add(BESIDES)
}

/// It sends more.
pub(crate) fn too_much(limit: u64) -> Failure {
    Failure::problem(format!(
        "the repository sends more than {limit} bytes at once: make it smaller, or let the operator raise \
         `--git-pack-limit`"
    ))
}

/// Bytes as they arrive: few of them in memory, many in a file without a name.
pub(crate) struct Spool {
    file: tempfile::SpooledTempFile,
    left: u64,
    limit: u64,
}

impl Spool {
    /// So many bytes stay in memory.
    const IN_MEMORY: usize = 1 << 20;

    /// An empty one, which takes up to `limit` bytes. Its file would be in the folder.
    pub(crate) fn new(folder: &Path, limit: u64) -> Spool {
        Spool { file: tempfile::spooled_tempfile_in(Self::IN_MEMORY, folder), left: limit, limit }
    }

    /// Keeps some more bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| too_much(self.limit))?;
        let kept = self.file.write_all(bytes);
        kept.map_err(|error| Failure::fault(format!("keeping what a remote sends: {error}")))
    }

    /// Reads from a position on.
    pub(crate) fn read(&mut self, from: u64) -> Result<BufReader<&mut tempfile::SpooledTempFile>, Failure> {
        let sought = self.file.seek(SeekFrom::Start(from));
        sought.map_err(|error| Failure::fault(format!("reading what a remote sent: {error}")))?;
        Ok(BufReader::with_capacity(1 << 16, &mut self.file))
    }
}

/// Indexes a pack that was looked at before.
pub(crate) fn index(repo: &gix::Repository, pack: &mut dyn BufRead) -> Result<(), Failure> {
    let directory = repo.objects.store_ref().path().join("pack");
    std::fs::create_dir_all(&directory)
        .map_err(|error| Failure::corrupt("creating the pack directory", error))?;
    let outcome = gix_pack::Bundle::write_to_directory(
        pack,
        Some(&directory),
        &mut gix::progress::Discard,
        &AtomicBool::new(false),
        Some(repo.objects.clone()),
        hash::Kind::Sha1,
        gix_pack::bundle::write::Options {
            thread_limit: Some(1),
            alloc_limit_bytes: Some(1 << 30),
            ..Default::default()
        },
    )
    .map_err(|error| Failure::fault(format!("the remote sent a pack that cannot be read: {error:#}")))?;
    if let Some(keep) = outcome.keep_path {
        forget(&keep);
    }
    Ok(())
}

/// The mark that protects a new pack from collection; nobody collects here.
fn forget(keep: &Path) {
    if let Err(error) = std::fs::remove_file(keep) {
        tracing::debug!(%error, "a .keep file stays behind");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_can_be_received() {
        let dir = tempfile::tempdir().unwrap();
        let repo = gix::init_bare(dir.path()).unwrap();
        // Sizes around the places where the length takes another byte, and one object twice.
        let sizes = [0, 1, 15, 16, 2047, 2048, 300_000];
        let mut objects: Vec<NewObject> = sizes
            .iter()
            .map(|&size| {
                NewObject::new(objs::Kind::Blob, (0..size).map(|n| (n % 251) as u8).collect()).unwrap()
            })
            .collect();
        objects.push(objects[3].clone());
        index(&repo, &mut encode(&objects).unwrap().as_slice()).unwrap();
        for object in &objects {
            assert_eq!(repo.find_blob(object.id).unwrap().data, object.data);
        }
    }

    #[test]
    fn an_empty_pack_is_fine_and_a_broken_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let repo = gix::init_bare(dir.path()).unwrap();
        for _ in 0..2 {
            index(&repo, &mut encode(&[]).unwrap().as_slice()).unwrap();
        }
        let good = encode(&[NewObject::new(objs::Kind::Blob, b"x".to_vec()).unwrap()]).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            assert!(index(&repo, &mut bad.as_slice()).is_err(), "byte {at}");
            assert!(index(&repo, &mut &good[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(repo.objects.iter().unwrap().count(), 0);
    }
}
