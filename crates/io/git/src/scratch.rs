//! Folders for a while: keys for a program, the files of a repository. They go with their owner, and what a process that was
//! killed has left is removed by the next one.

use std::{
    fs::{File, Metadata, Permissions},
    io::{Error, ErrorKind, Result},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Once,
};

use rustix::process::geteuid;
use tempfile::TempDir;

/// How their names begin.
const PREFIX: &str = "kardinal-scratch-";
/// The file that whoever uses a folder holds; that ends with the process, however it ends.
const LOCK: &str = "lock";
/// The folder itself, beside it.
const INSIDE: &str = "inside";
/// So often a folder can be taken for left behind in the moment between its creation and its lock.
const ATTEMPTS: usize = 8;

/// A folder that nobody else on the machine can look into. It is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    inside: PathBuf,
    // In this order: what is not locked is nobody's.
    _folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// An empty one.
    pub fn new() -> Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    fn within(root: &Path) -> Result<Scratch> {
        for _ in 0..ATTEMPTS {
            let only_us = Permissions::from_mode(0o700);
            let folder = tempfile::Builder::new().prefix(PREFIX).permissions(only_us).tempdir_in(root)?;
            let path = folder.path().join(LOCK);
            let lock = File::create_new(&path)?;
            if lock.try_lock().is_ok() && path.exists() {
                let inside = folder.path().join(INSIDE);
                std::fs::create_dir(&inside)?;
                return Ok(Scratch { inside, _folder: folder, _lock: lock });
            }
        }
        Err(Error::new(ErrorKind::ResourceBusy, "somebody else removes every new folder"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inside
    }
}

/// Removes what dead processes have left, once for this process.
pub(crate) fn sweep() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| sweep_in(&std::env::temp_dir()));
}

fn sweep_in(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        // Everybody may write to such a place: only what is our own is touched.
        let is_ours = |data: &Metadata| data.is_dir() && data.uid() == geteuid().as_raw();
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            || !entry.metadata().is_ok_and(|data| is_ours(&data))
        {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if lock.try_lock().is_ok()
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(%error, "what a dead process has left cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_have_left_is_removed_and_what_the_living_use_is_not() {
        let root = tempfile::tempdir().unwrap();
        let used = Scratch::within(root.path()).unwrap();
        std::fs::write(used.path().join("key"), "k").unwrap();
        let mode = std::fs::metadata(used.path().parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        // Nobody holds its lock.
        let left = root.path().join(format!("{PREFIX}x"));
        std::fs::create_dir_all(left.join(INSIDE)).unwrap();
        std::fs::write(left.join(LOCK), "").unwrap();
        let strange = root.path().join("else");
        std::fs::create_dir(&strange).unwrap();
        std::fs::write(strange.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&strange, root.path().join(format!("{PREFIX}y"))).unwrap();
        sweep_in(root.path());
        assert!(!left.exists());
        assert!(strange.join(LOCK).exists() && used.path().join("key").exists());
        let was = used.path().parent().unwrap().to_owned();
        drop(used);
        assert!(!was.exists());
    }
}
