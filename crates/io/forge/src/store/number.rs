//! The numbers of pull requests: one that was given is never given again, even if its pull request is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Store;
use crate::error::Error;

/// More than the largest number and the longest uid have.
const LENGTH_LIMIT: u64 = 256;
/// What every reader of an object still takes for a whole number.
const LARGEST: u64 = 1 << 53;

/// What is kept: a line with the number, and one with the uid of whoever was given it.
#[derive(Default)]
struct Kept {
    highest: u64,
    given_to: Option<String>,
}

impl Store {
    /// The highest number that a pull request of a repository ever had; `known` is one of them. It is kept beside the
    /// repository, whose own folder may be replaced.
    pub fn highest_number(&self, namespace: &str, name: &str, known: u64) -> Result<u64, Error> {
        let file = self.number_file(namespace, name)?;
        let kept = read(&file)?.highest;
        if kept < known {
            self.keep(&file, &format!("{known}\n"))?;
        }
        Ok(kept.max(known))
    }

    /// Keeps that a pull request is given a number, before anybody is told. One that is lower than another that was given
    /// is on record by that. Whoever gives the numbers of a repository does so one after the other.
    pub fn give_number(&self, namespace: &str, name: &str, number: u64, uid: &str) -> Result<(), Error> {
        let file = self.number_file(namespace, name)?;
        if read(&file)?.highest >= number {
            return Ok(());
        }
        self.keep(&file, &format!("{number}\n{uid}\n"))
    }

    /// The number that a pull request was given, as long as no other one was given a higher one.
    pub fn given_number(&self, namespace: &str, name: &str, uid: &str) -> Result<Option<u64>, Error> {
        let kept = read(&self.number_file(namespace, name)?)?;
        Ok(kept.given_to.filter(|given_to| given_to == uid).map(|_| kept.highest))
    }

    fn number_file(&self, namespace: &str, name: &str) -> Result<PathBuf, Error> {
        Ok(self.path(namespace, name)?.with_extension("number"))
    }

    fn keep(&self, file: &Path, text: &str) -> Result<(), Error> {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let aside = file.with_file_name(format!(".number-{}-{count}", std::process::id()));
        let write = || {
            let mut new = OpenOptions::new().write(true).create_new(true).open(&aside)?;
            new.write_all(text.as_bytes())?;
            new.sync_all()?;
            fs::rename(&aside, file)
        };
        let written = write();
        if written.is_err() {
            // It may not be there at all.
            let _ = fs::remove_file(&aside);
        }
        written.map_err(|error| Error::fault("keep the number of a pull request", error))
    }
}

/// Nothing that is not a plain file with a number is believed; but what cannot be read now may hold one.
fn read(file: &Path) -> Result<Kept, Error> {
    let failed = |error| Error::fault("read the number of the last pull request", error);
    match file.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => return Ok(Kept::default()),
    }
    let mut text = Vec::new();
    File::open(file).and_then(|file| file.take(LENGTH_LIMIT).read_to_end(&mut text)).map_err(failed)?;
    let mut lines = std::str::from_utf8(&text).unwrap_or_default().lines();
    let number = lines.next().and_then(|line| line.trim().parse().ok());
    let Some(highest) = number.filter(|number| *number <= LARGEST) else { return Ok(Kept::default()) };
    Ok(Kept { highest, given_to: lines.next().map(str::to_owned) })
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

    #[test]
    fn whoever_was_given_a_number_last_is_given_the_same_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create("default", "app", "main").unwrap();
        let given = |uid| Store::new(folder.path()).given_number("default", "app", uid).unwrap();
        assert_eq!(given("a"), None);
        store.give_number("default", "app", 1, "a").unwrap();
        assert_eq!((given("a"), given("b")), (Some(1), None));
        store.give_number("default", "app", 2, "b").unwrap();
        store.give_number("default", "app", 1, "a").unwrap();
        assert_eq!((given("a"), given("b")), (None, Some(2)), "a number never goes back");
        assert_eq!(store.highest_number("default", "app", 3), Ok(3));
        assert_eq!((given("a"), given("b")), (None, None));
    }
}
