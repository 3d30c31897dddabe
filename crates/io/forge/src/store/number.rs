//! The numbers of pull requests: one that was given is never given again, even if its pull request is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;

use super::Store;
use crate::error::Error;

/// More digits than the largest number has.
const LENGTH_LIMIT: u64 = 32;
/// What every reader of an object still takes for a whole number.
const LARGEST: u64 = 1 << 53;

impl Store {
    /// The highest number that a pull request of a repository ever had; `known` is one of them. It is kept beside the
    /// repository, whose own folder may be replaced.
    pub fn highest_number(&self, namespace: &str, name: &str, known: u64) -> Result<u64, Error> {
        let file = self.path(namespace, name)?.with_extension("number");
        let kept = read(&file)?;
        if kept >= known {
            return Ok(kept);
        }
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let aside = file.with_file_name(format!(".number-{}-{count}", std::process::id()));
        let write = || {
            let mut new = OpenOptions::new().write(true).create_new(true).open(&aside)?;
            new.write_all(format!("{known}\n").as_bytes())?;
            new.sync_all()?;
            fs::rename(&aside, &file)
        };
        let written = write();
        if written.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&aside);
        }
        written.map_err(|error| Error::fault("keep the number of a pull request", error))?;
        Ok(known)
    }
}

/// Nothing that is not a plain file with a number is believed; but what cannot be read now may hold one.
fn read(file: &Path) -> Result<u64, Error> {
    let failed = |error| Error::fault("read the number of the last pull request", error);
    match file.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => return Ok(0),
    }
    let mut text = Vec::new();
    File::open(file).and_then(|file| file.take(LENGTH_LIMIT).read_to_end(&mut text)).map_err(failed)?;
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    Ok(number.filter(|number| *number <= LARGEST).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let path = store.create("default", "app.v2", "main").unwrap();
        store.create("default", "app", "main").unwrap();
        let ask = |known| store.highest_number("default", "app.v2", known).unwrap();
        assert_eq!((ask(0), ask(7), ask(0), ask(3)), (0, 7, 7, 7));
        fs::remove_dir_all(&path).unwrap();
        let again = Store::new(folder.path());
        again.create("default", "app.v2", "main").unwrap();
        assert_eq!(again.highest_number("default", "app.v2", 0), Ok(7));
        assert_eq!(again.highest_number("default", "app", 0), Ok(0), "another repository has its own");
    }

    #[test]
    fn nonsense_is_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let file = store.create("default", "app", "main").unwrap().with_extension("number");
        for text in ["", "x", "-1", "18446744073709551615", "9007199254740993", "1 1"] {
            fs::write(&file, text).unwrap();
            assert_eq!(store.highest_number("default", "app", 2), Ok(2), "{text}");
        }
    }
}
