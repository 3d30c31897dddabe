//! Backups: every object at one resource version as lines of text, and back into a store.
//!
//! The first line says what follows, then each object has two lines: its key, version and checksum, and its text. The last
//! line closes the backup, so that one which was cut off is not taken for a whole one.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kardinal_apimodel::{Key, Model, Object};
use serde::{Deserialize, Serialize};

use crate::error::Error;
pub use crate::files::DirLock;
use crate::files::lock_dir;
use crate::store::{Disk, Open, Row, checksum, objects_of};

/// The newest layout of backups that this program writes and reads.
const FORMAT: u64 = 1;
/// Rows that a restore makes durable at a time.
const ROWS: usize = 1000;
/// How much text a piece of a streamed backup has at least, but for the last one.
const PIECE: usize = 64 * 1024;
/// No line is longer: the server takes no such object.
const LINE: u64 = 64 * 1024 * 1024;
/// Versions left out after a restore. Whoever watched the server before then asks for a version that the restored
/// server has never had, and is told to list anew, instead of missing what happens.
const GAP: u64 = 1_000_000;

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// How many objects there are.
    pub objects: u64,
    /// The version that all of them were read at.
    pub resource_version: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    kardinal_backup: u64,
    resource_version: u64,
    objects: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    key: String,
    version: u64,
    /// In hexadecimal: JSON's numbers are too short for it in some languages.
    checksum: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct End {
    end_of_objects: u64,
    resource_version: u64,
}

/// All objects of one moment. Taking it costs a pointer for each of them.
#[derive(Debug)]
pub(crate) struct Snapshot {
    resource_version: u64,
    objects: Vec<(Key, Arc<Object>)>,
}

impl Snapshot {
    pub(crate) fn of(model: &Model) -> Snapshot {
        let collections = model.collections().flat_map(|(resource, collection)| {
            collection.iter().map(|object| {
                (Key::new(resource.clone(), object.namespace(), object.name()), Arc::clone(object))
            })
        });
        Snapshot { resource_version: model.resource_version(), objects: collections.collect() }
    }

    fn summary(&self) -> Summary {
        let objects = u64::try_from(self.objects.len()).unwrap_or(u64::MAX);
        Summary { objects, resource_version: self.resource_version }
    }

    /// The backup, piece by piece.
    pub(crate) fn pieces(self) -> impl Iterator<Item = Bytes> + Send {
        let Summary { objects, resource_version } = self.summary();
        let head = line(&Head { kardinal_backup: FORMAT, resource_version, objects });
        let end = line(&End { end_of_objects: objects, resource_version });
        let lines = self.objects.into_iter().map(|(key, object)| record(&key, &object));
        let mut lines = std::iter::once(head).chain(lines).chain(std::iter::once(end));
        std::iter::from_fn(move || {
            let mut piece = lines.next()?;
            while piece.len() < PIECE {
                let Some(more) = lines.next() else { break };
                piece.extend_from_slice(&more);
            }
            Some(piece.into())
        })
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // These types cannot fail to be written.
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    text
}

fn record(key: &Key, object: &Object) -> Vec<u8> {
    let (path, version) = (key.to_path(), object.resource_version());
    let checksum = format!("{:016x}", checksum(path.as_bytes(), version, object.json()));
    let mut text = line(&Record { key: path, version, checksum });
    text.extend_from_slice(object.json());
    text.push(b'\n');
    text
}

/// Writes a backup of a data directory that no server uses. [`Error::Locked`] means that one does: ask it instead.
pub fn of_directory(dir: &Path, out: &mut impl Write) -> Result<Summary, Error> {
    if !dir.is_dir() {
        return Err(Error::Absent { path: dir.to_path_buf() });
    }
    let _lock = lock_dir(dir)?;
    let (objects, resource_version) = objects_of(&Disk::open(dir, Open::Existing)?)?;
    let objects = objects.into_iter().map(|(key, object)| (key, Arc::new(object))).collect();
    let snapshot = Snapshot { resource_version, objects };
    let summary = snapshot.summary();
    for piece in snapshot.pieces() {
        out.write_all(&piece).map_err(|error| Error::Backup(format!("it cannot be written: {error}")))?;
    }
    Ok(summary)
}

/// Holds a data directory as a server would, or says which process does.
pub fn hold(dir: &Path) -> Result<DirLock, Error> {
    lock_dir(dir)
}

/// Reads a backup to its end and checks every line of it.
pub fn check(input: impl BufRead) -> Result<Summary, Error> {
    read(input, |_, _, _| Ok(()))
}

/// Makes the store of a new data directory from a backup. Nothing in a directory that has a store already is touched.
pub fn restore(input: impl BufRead, dir: &Path) -> Result<Summary, Error> {
    let _lock = lock_dir(dir)?;
    let mut disk = Disk::open(dir, Open::OrCreate)?;
    if disk.high_water()? != 0 {
        return Err(Error::Backup(format!("`{}` has a store already", dir.display())));
    }
    let mut rows: Vec<(Vec<u8>, u64, Vec<u8>)> = Vec::new();
    let mut write = |rows: &mut Vec<(Vec<u8>, u64, Vec<u8>)>, high_water: u64| {
        let written: Vec<Row<'_>> = rows
            .iter()
            .map(|(key, version, text)| Row { key: key.clone(), value: Some((*version, text)) })
            .collect();
        disk.commit(&written, high_water)
            .map_err(|refusal| Error::Backup(format!("`{}` cannot be written: {refusal}", dir.display())))?;
        rows.clear();
        Ok(())
    };
    let summary = read(input, |key, version, text| {
        rows.push((key.as_bytes().to_vec(), version, text.to_vec()));
        if rows.len() < ROWS { Ok(()) } else { write(&mut rows, 0) }
    })?;
    write(&mut rows, summary.resource_version.saturating_add(GAP))?;
    Ok(summary)
}

/// Hands every object to `each` after its checksum was found right.
fn read(
    mut input: impl BufRead,
    mut each: impl FnMut(&str, u64, &[u8]) -> Result<(), Error>,
) -> Result<Summary, Error> {
    let head: Head = parse(&next(&mut input)?, "its first line")?;
    if head.kardinal_backup != FORMAT {
        let found = head.kardinal_backup;
        return Err(Error::Backup(format!("it has format {found}, this program reads format {FORMAT}")));
    }
    for number in 0..head.objects {
        let record: Record = parse(&next(&mut input)?, &format!("object {number}"))?;
        let text = next(&mut input)?;
        let damaged = |what: &str| Error::Backup(format!("the object `{}` {what}", record.key));
        let sum = checksum(record.key.as_bytes(), record.version, &text);
        if record.checksum != format!("{sum:016x}") {
            return Err(damaged("does not match its checksum"));
        }
        let key = Key::from_path(&record.key).ok_or_else(|| damaged("has no key"))?;
        let object =
            Object::from_json(&text).map_err(|error| damaged(&format!("cannot be read: {error}")))?;
        if object.resource_version() != record.version
            || (object.namespace(), object.name()) != (&*key.namespace, &*key.name)
        {
            return Err(damaged("says that it is another one"));
        }
        each(&record.key, record.version, &text)?;
    }
    let end: End = parse(&next(&mut input)?, "its last line")?;
    if (end.end_of_objects, end.resource_version) != (head.objects, head.resource_version) {
        return Err(Error::Backup("its last line does not match its first".to_owned()));
    }
    Ok(Summary { objects: head.objects, resource_version: head.resource_version })
}

fn next(input: &mut impl BufRead) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let mut bounded = std::io::Read::take(input, LINE);
    bounded
        .read_until(b'\n', &mut text)
        .map_err(|error| Error::Backup(format!("it cannot be read: {error}")))?;
    match text.pop() {
        Some(b'\n') => Ok(text),
        _ => Err(Error::Backup("it is cut off".to_owned())),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|error| Error::Backup(format!("{what} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Vec<u8> {
        let objects = ["a", "b"].map(|name| {
            let value = serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "resourceVersion": "7"}});
            (Key::new("namespaces", "", name), Arc::new(Object::new(&value)))
        });
        let snapshot = Snapshot { resource_version: 9, objects: objects.into() };
        snapshot.pieces().flatten().collect()
    }

    #[test]
    fn a_backup_comes_back_whole() {
        let dir = tempfile::tempdir().unwrap();
        let summary = Summary { objects: 2, resource_version: 9 };
        assert_eq!(restore(&*backup(), dir.path()).unwrap(), summary);
        let mut again = Vec::new();
        let found = of_directory(dir.path(), &mut again).unwrap();
        assert_eq!(found, Summary { objects: 2, resource_version: 9 + GAP });
        let body =
            |text: &[u8]| text.split(|b| *b == b'\n').skip(1).take(4).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(body(&again), body(&backup()));
        let refused = restore(&*backup(), dir.path()).unwrap_err().to_string();
        assert!(refused.contains("has a store already"), "{refused}");
    }

    #[test]
    fn a_backup_that_was_cut_off_or_changed_is_refused() {
        let whole = backup();
        check(&*whole).unwrap();
        for length in 0..whole.len() {
            assert!(check(&whole[..length]).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(check(&*changed).is_err(), "byte {at}: {}", String::from_utf8_lossy(&changed));
        }
    }
}
