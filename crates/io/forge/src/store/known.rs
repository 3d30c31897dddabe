//! The known state of a repository. Its folder may have come with a clone or out of an archive, so nothing in it is trusted
//! but objects and refs: not its configuration, which could name programs to run, and nothing that leads elsewhere.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Store;
use crate::error::Error;

/// The whole configuration of every repository.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// Files that make git or the store look elsewhere, or see something else than what was pushed. Hooks are not among them:
/// nobody runs them, and copies of other repositories have samples of them.
const FOREIGN: [&str; 6] = [
    "commondir",
    "config.worktree",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

impl Store {
    /// Where a repository is that is there and in its known state. Everybody goes this way before anything in it is read.
    pub(crate) fn known(&self, namespace: &str, name: &str) -> Result<PathBuf, Error> {
        let path = self.path(namespace, name)?;
        if !path.join("HEAD").is_file() {
            let message = format!(
                "there is no repository `{namespace}/{name}`; create a Repository object of that name first"
            );
            return Err(Error::Problem(message));
        }
        let refused = |what: &str| {
            Error::Problem(format!(
                "repository `{namespace}/{name}` is not used: {what}; look where it came from, and remove that"
            ))
        };
        for folder in path.parent().into_iter().chain([path.as_path()]) {
            if !is_folder(folder) {
                return Err(refused("its folder is a link"));
            }
        }
        if let Some(file) = FOREIGN.into_iter().find(|file| path.join(file).symlink_metadata().is_ok()) {
            return Err(refused(&format!("it has a file `{file}`, which leads elsewhere")));
        }
        self.keep_config(&path)?;
        // Links were planted before we came, if at all: one look at each of its files is enough.
        if !self.walked.lock().unwrap_or_else(PoisonError::into_inner).contains(&path) {
            if let Some(odd) = odd_file(&path)? {
                let odd = odd.strip_prefix(&path).unwrap_or(&odd);
                return Err(refused(&format!("`{}` is neither a file nor a folder", odd.display())));
            }
            self.unlock(&path)?;
            self.walked.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        }
        Ok(path)
    }

    /// Removes the locks of refs that a process left behind which died while it held them: nobody else would, and the ref
    /// could never be changed again.
    fn unlock(&self, path: &Path) -> Result<(), Error> {
        let failed = |error| Error::fault("remove a lock that was left behind", error);
        let mut found = vec![path.join("packed-refs.lock"), path.join("HEAD.lock")];
        let mut folders = vec![path.join("refs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => found.push(entry.path()),
                }
            }
        }
        for lock in found.into_iter().filter(|file| file.extension().is_some_and(|end| end == "lock")) {
            let written = lock.symlink_metadata().and_then(|file| file.modified());
            if written.is_ok_and(|written| written < self.since) {
                fs::remove_file(&lock).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Replaces any other configuration; what a link points at stays as it is.
    fn keep_config(&self, path: &Path) -> Result<(), Error> {
        let file = path.join("config");
        let is_plain =
            file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == CONFIG.len() as u64);
        if is_plain && fs::read(&file).is_ok_and(|text| text == CONFIG.as_bytes()) {
            return Ok(());
        }
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let aside = path.join(format!(".config-{}-{count}", std::process::id()));
        let write = || {
            let mut new = OpenOptions::new().write(true).create_new(true).open(&aside)?;
            new.write_all(CONFIG.as_bytes())?;
            new.sync_all()?;
            fs::rename(&aside, &file)
        };
        let written = write();
        if written.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&aside);
        }
        written.map_err(|error| Error::fault("write the configuration of the repository", error))
    }
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// The first entry below a folder that is neither a file nor a folder, such as a link or a pipe.
fn odd_file(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let read = |error| Error::fault("look through the repository", error);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            // Git removes what it no longer needs.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.map_err(read)?,
        };
        for entry in entries {
            let entry = entry.map_err(read)?;
            match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(read(error)),
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {}
                Ok(_) => return Ok(Some(entry.path())),
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_lock_that_a_dead_process_left_behind_holds_no_branch() {
        let folder = tempfile::tempdir().unwrap();
        let path = Store::new(folder.path()).create("default", "app", "main").unwrap();
        let lock = |name: &str, written: SystemTime| {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            File::create(&file).unwrap().set_modified(written).unwrap();
            file
        };
        let now = SystemTime::now();
        let left = ["refs/heads/main.lock", "refs/heads/kardinal/default/b/prod.lock", "packed-refs.lock"]
            .map(|name| lock(name, now - Duration::from_secs(60)));
        let held = lock("refs/heads/feature.lock", now + Duration::from_secs(60));
        let branch = lock("refs/heads/release", now - Duration::from_secs(60));
        let again = Store::new(folder.path());
        again.known("default", "app").unwrap();
        assert_eq!(left.map(|file| file.exists()), [false; 3]);
        assert!(held.exists() && branch.exists(), "what somebody holds, and what is no lock, stays");
    }
}
