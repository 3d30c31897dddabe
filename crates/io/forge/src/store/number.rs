//! The numbers of pull requests: one that was given is never given again, even if its pull request is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::Store;
use crate::error::Error;

/// More than the largest number and the longest uid have.
const LENGTH_LIMIT: u64 = 256;
/// Below this every reader of an object takes a number for a whole one.
const LIMIT: u64 = 1 << 53;

/// The number that was given last in a repository, which is the highest one: a line with it, and one with the uid of whoever
/// was given it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastNumber {
    /// The number; 0 where none was given yet.
    pub number: u64,
    /// The uid of the pull request, if that is known.
    pub given_to: Option<String>,
}

impl Store {
    /// The number that was given last, even if its pull request is gone. It is kept beside the repository, whose own folder
    /// may be replaced.
    pub fn last_number(&self, namespace: &str, name: &str) -> Result<LastNumber, Error> {
        read(&self.number_file(namespace, name)?)
    }

    /// Keeps that a pull request is given a number, before anybody is told. One that is lower than another that was given
    /// is on record by that. Whoever gives the numbers of a repository does so one after the other.
    pub fn give_number(&self, namespace: &str, name: &str, number: u64, uid: &str) -> Result<(), Error> {
        if number >= LIMIT {
            let why = format!("`{number}` is no number of a pull request: those are below {LIMIT}");
            return Err(Error::Problem(why));
        }
        let file = self.number_file(namespace, name)?;
        if read(&file)?.number >= number {
            return Ok(());
        }
        self.keep(&file, &format!("{number}\n{uid}\n"))
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
fn read(file: &Path) -> Result<LastNumber, Error> {
    let failed = |error| Error::fault("read the number of the last pull request", error);
    match file.symlink_metadata() {
        Ok(found) if found.is_file() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => return Ok(LastNumber::default()),
    }
    let mut text = Vec::new();
    File::open(file).and_then(|file| file.take(LENGTH_LIMIT).read_to_end(&mut text)).map_err(failed)?;
    let mut lines = std::str::from_utf8(&text).unwrap_or_default().lines();
    let number = lines.next().and_then(|line| line.trim().parse().ok());
    let Some(number) = number.filter(|number| *number < LIMIT) else { return Ok(LastNumber::default()) };
    Ok(LastNumber { number, given_to: lines.next().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(store: &Store, name: &str) -> (u64, Option<String>) {
        let LastNumber { number, given_to } = store.last_number("default", name).unwrap();
        (number, given_to)
    }

    fn given(number: u64, uid: &str) -> (u64, Option<String>) {
        (number, Some(uid.to_owned()))
    }

    #[test]
    fn a_number_never_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let path = store.create("default", "app.v2", "main").unwrap();
        store.create("default", "app", "main").unwrap();
        assert_eq!(last(&store, "app.v2"), (0, None));
        assert!(store.give_number("default", "app.v2", LIMIT, "a").is_err());
        for (number, uid) in [(7, "a"), (3, "b"), (7, "c")] {
            store.give_number("default", "app.v2", number, uid).unwrap();
            assert_eq!(last(&store, "app.v2"), given(7, "a"), "after {number}");
        }
        fs::remove_dir_all(&path).unwrap();
        let again = Store::new(folder.path());
        again.create("default", "app.v2", "main").unwrap();
        assert_eq!(last(&again, "app.v2"), given(7, "a"));
        assert_eq!(last(&again, "app"), (0, None), "another repository has its own");
    }

    #[test]
    fn nonsense_is_no_number_and_looking_at_it_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let file = store.create("default", "app", "main").unwrap().with_extension("number");
        for text in ["", "x", "-1", "18446744073709551615", "9007199254740992", "1 1"] {
            fs::write(&file, text).unwrap();
            assert_eq!(last(&store, "app"), (0, None), "{text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            store.give_number("default", "app", 2, "a").unwrap();
            assert_eq!(last(&store, "app"), given(2, "a"), "after {text}");
        }
    }

    #[test]
    fn whoever_was_given_a_number_last_is_known_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create("default", "app", "main").unwrap();
        for (number, uid, expected) in [
            (1, "a", given(1, "a")),
            (2, "b", given(2, "b")),
            (1, "a", given(2, "b")),
            (3, "c", given(3, "c")),
        ] {
            store.give_number("default", "app", number, uid).unwrap();
            assert_eq!(last(&Store::new(folder.path()), "app"), expected, "{number} to {uid}");
        }
        // Such a file was written before anybody kept to whom.
        fs::write(folder.path().join("default/app.number"), "5\n").unwrap();
        assert_eq!(last(&store, "app"), (5, None));
    }
}
