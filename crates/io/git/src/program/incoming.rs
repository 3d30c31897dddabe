//! A place of its own for what the git program fetches: nothing of it gets into the cache before it was looked at, and
//! what is left of a fetch that failed goes with the folder.

use std::{
    fs::File,
    io::{BufReader, ErrorKind},
    path::{Path, PathBuf},
};

use gix::ObjectId;
use tempfile::TempDir;

use crate::{
    Limits, cache,
    error::Failure,
    http::fetch,
    objects::{parse_id, scan},
    store::Store,
};

/// How its folder in the cache begins.
const PREFIX: &str = "incoming-";

/// A repository that has the objects of the cache at hand and takes the new ones.
pub(crate) struct Incoming {
    folder: TempDir,
}

impl Incoming {
    /// An empty one. It knows the commits from which a fetch can start, and where their history ends.
    pub(super) fn new(store: &Store, limits: &Limits) -> Result<Incoming, Failure> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&store.path);
        let folder = folder.map_err(|error| failed(&error))?;
        cache::init(folder.path(), limits).map_err(|error| failed(&error))?;
        lay_out(folder.path(), store).map_err(|error| failed(&error))?;
        Ok(Incoming { folder })
    }

    /// Where the program fetches to.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts what has come into the store, unless it is more than the limits allow.
    pub(crate) fn keep(self, store: &Store, limits: &Limits) -> Result<(), Failure> {
        let packs = self.packs().map_err(|error| failed(&error))?;
        for pack in &packs {
            let file = File::open(pack).map_err(|error| failed(&error))?;
            scan::scan_indexed(&mut BufReader::with_capacity(1 << 16, file), limits)?;
        }
        let boundary = self.boundary()?;
        for pack in packs {
            take_over(&pack, store).map_err(|error| failed(&error))?;
        }
        store.move_boundary(boundary)
    }

    fn packs(&self) -> std::io::Result<Vec<PathBuf>> {
        let mut packs = Vec::new();
        for entry in std::fs::read_dir(self.path().join("objects/pack"))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pack") {
                packs.push(path);
            }
        }
        Ok(packs)
    }

    /// The commits at which history ends now.
    fn boundary(&self) -> Result<Vec<ObjectId>, Failure> {
        let path = self.path().join("shallow");
        let text = match std::fs::metadata(&path) {
            Ok(file) if file.len() > fetch::MAX_BOUNDARY as u64 * LINE => return Err(fetch::too_many_ends()),
            Ok(_) => std::fs::read_to_string(&path).map_err(|error| failed(&error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        text.lines().map(parse_id).collect()
    }
}

/// The digits of a commit and the end of the line.
const LINE: u64 = 41;

fn lay_out(folder: &Path, store: &Store) -> std::io::Result<()> {
    let info = folder.join("objects/info");
    std::fs::create_dir_all(&info)?;
    std::fs::write(info.join("alternates"), "../../objects\n")?;
    match std::fs::copy(store.path.join("shallow"), folder.join("shallow")) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let refs = folder.join("refs/kept");
    std::fs::create_dir_all(&refs)?;
    for id in store.haves().into_iter().filter(|id| store.has(*id)) {
        std::fs::write(refs.join(id.to_string()), format!("{id}\n"))?;
    }
    Ok(())
}

/// A pack is found by its index, which therefore comes last.
fn take_over(pack: &Path, store: &Store) -> std::io::Result<()> {
    let name = pack.file_name().ok_or(ErrorKind::NotFound)?;
    let to = store.path.join("objects/pack");
    std::fs::create_dir_all(&to)?;
    let to = to.join(name);
    std::fs::rename(pack, &to)?;
    std::fs::rename(pack.with_extension("idx"), to.with_extension("idx"))
}

/// Removes what a process that died has left in a cache.
pub(crate) fn clear(cache: &Path) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    {
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, "what is left of a fetch cannot be removed");
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::fault(format!("keeping what the git program has fetched: {error}"))
}
