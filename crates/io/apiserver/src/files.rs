//! The data directory: its lock, and private files that appear whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Holds the data directory for this process until it is dropped or the process ends.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Creates `dir` if it is missing. It is its owner's alone, also when it was there before, unless it holds what is none
/// of ours: whoever names `.` or a shared directory does not want its permissions changed.
pub(crate) fn ensure_dir(dir: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file("create", dir))?;
    let mode = fs::metadata(dir).map_err(Error::file("read", dir))?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let mut entries = fs::read_dir(dir).map_err(Error::file("read", dir))?;
    if dir.join("lock").exists() || keys_in(dir).is_some() || entries.next().is_none() {
        let private = fs::Permissions::from_mode(0o700);
        return fs::set_permissions(dir, private).map_err(Error::file("change the permissions of", dir));
    }
    tracing::warn!(dir = %dir.display(), "others can list the data directory; its files stay private");
    Ok(())
}

/// A key that an earlier durable run left in a data directory.
pub(crate) fn keys_in(dir: &Path) -> Option<PathBuf> {
    [dir.join("token"), dir.join("pki").join("ca.key")].into_iter().find(|path| path.exists())
}

/// Takes the lock of a data directory, or says which process has it.
pub(crate) fn lock_dir(dir: &Path) -> Result<DirLock, Error> {
    ensure_dir(dir)?;
    let path = dir.join("lock");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(Error::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // The holder's number is only advice: failing to read it must not hide the refusal.
            let _ = file.read_to_string(&mut pid);
            let pid = pid.trim();
            let pid = if pid.is_empty() { "unknown" } else { pid };
            return Err(Error::Locked { path: dir.to_path_buf(), pid: pid.to_owned() });
        }
        Err(TryLockError::Error(source)) => {
            return Err(Error::File { action: "lock", path, source });
        }
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(Error::file("write", &path))?;
    Ok(DirLock { _file: file })
}

/// Writes a file that only its owner may read, atomically: a reader sees the old text or the new one.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary: PathBuf = path.with_file_name(name);
    let written = write_and_sync(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        // The temporary file is of no use to anybody; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
        return Err(Error::File { action: "write", path: path.to_path_buf(), source });
    }
    Ok(())
}

fn write_and_sync(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // An old temporary file may have had other permissions.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.sync_all()
}

/// Reads a text file; a missing one is `None`.
pub(crate) fn read_optional(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { action: "read", path: path.to_path_buf(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_with_directory_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock_dir(dir.path()).unwrap();
        let refused = lock_dir(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(&dir.path().display().to_string()), "{refused}");
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        lock_dir(dir.path()).unwrap();
    }

    #[test]
    fn the_data_directory_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let made = dir.path().join("made");
        ensure_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        // One that an earlier version left open is closed.
        fs::write(made.join("lock"), "").unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_dir(&made).unwrap();
        assert_eq!(mode(&made), 0o700);
        // What is somebody else's stays as it is.
        let shared = dir.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::write(shared.join("other"), "").unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        ensure_dir(&shared).unwrap();
        assert_eq!(mode(&shared), 0o755);
    }

    #[test]
    fn private_files_are_replaced_whole_and_stay_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "old and long").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(read_optional(&dir.path().join("none")).unwrap(), None);
    }
}
