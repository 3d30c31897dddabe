//! The durable part: one redb file that holds every object, the format version and the highest version ever given out.
//!
//! It decides nothing and serves no reads after start-up; only the writer calls it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::error::Error;

/// key bytes → (resource version, object as JSON)
const OBJECTS: TableDefinition<'_, &[u8], (u64, &[u8])> = TableDefinition::new("objects");
/// name → number
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT: &str = "format";
const HIGH_WATER: &str = "high-water";
/// The newest layout this program writes and reads.
const FORMAT_VERSION: u64 = 1;
/// Pages kept in memory: enough for the writer, since reads come from the model.
const CACHE_BYTES: usize = 1024 * 1024;

/// The open database.
#[derive(Debug)]
pub(crate) struct Disk {
    database: Database,
    path: PathBuf,
}

/// One row to write or to take away.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) key: Vec<u8>,
    /// The resource version and the text; nothing means that the object is gone.
    pub(crate) value: Option<(u64, &'a [u8])>,
}

impl Disk {
    /// Opens or creates the store in a data directory that the caller has locked.
    pub(crate) fn open(dir: &Path) -> Result<Disk, Error> {
        let path = dir.join("store.redb");
        // Secrets are in there: nobody else may read it.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|source| Error::File { action: "open", path: path.clone(), source })?;
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_file(file)
            .map_err(|error| Error::Store { path: path.clone(), message: error.to_string() })?;
        Disk::with_database(database, path, dir)
    }

    fn with_database(database: Database, path: PathBuf, dir: &Path) -> Result<Disk, Error> {
        let disk = Disk { database, path };
        disk.check_format(dir)?;
        Ok(disk)
    }

    fn check_format(&self, dir: &Path) -> Result<(), Error> {
        let found = self.read_meta(FORMAT)?;
        match found {
            Some(FORMAT_VERSION) => Ok(()),
            Some(found) => {
                Err(Error::NewerFormat { path: dir.to_path_buf(), found, supported: FORMAT_VERSION })
            }
            None => self
                .write(|transaction| {
                    transaction.open_table(OBJECTS)?;
                    transaction.open_table(META)?.insert(FORMAT, FORMAT_VERSION)?;
                    Ok(())
                })
                .map_err(|error| self.error(&error)),
        }
    }

    fn error(&self, error: &redb::Error) -> Error {
        Error::Store { path: self.path.clone(), message: error.to_string() }
    }

    fn read_meta(&self, name: &str) -> Result<Option<u64>, Error> {
        let read = || -> Result<Option<u64>, redb::Error> {
            let transaction = self.database.begin_read()?;
            match transaction.open_table(META) {
                Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
                Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        read().map_err(|error| self.error(&error))
    }

    fn write(
        &self,
        fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        fill(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// The highest resource version ever made durable.
    pub(crate) fn high_water(&self) -> Result<u64, Error> {
        Ok(self.read_meta(HIGH_WATER)?.unwrap_or(0))
    }

    /// Hands every stored object to `each`, in key order, one at a time.
    pub(crate) fn load(
        &self,
        mut each: impl FnMut(&[u8], u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), Error> {
        let transaction = self.database.begin_read().map_err(|error| self.error(&error.into()))?;
        let table = transaction.open_table(OBJECTS).map_err(|error| self.error(&error.into()))?;
        let rows = table.iter().map_err(|error| self.error(&error.into()))?;
        for row in rows {
            let (key, value) = row.map_err(|error| self.error(&error.into()))?;
            let (rv, json) = value.value();
            each(key.value(), rv, json).map_err(|message| Error::Damaged {
                path: self.path.clone(),
                key: String::from_utf8_lossy(key.value()).replace('\0', "/"),
                message,
            })?;
        }
        Ok(())
    }

    /// Makes a batch durable: all of it or, when this fails, nothing that a restart would see as acknowledged.
    pub(crate) fn commit(&self, rows: &[Row<'_>], high_water: u64) -> Result<(), Error> {
        self.write(|transaction| {
            let mut objects = transaction.open_table(OBJECTS)?;
            for row in rows {
                match row.value {
                    Some(value) => {
                        objects.insert(row.key.as_slice(), value)?;
                    }
                    None => {
                        objects.remove(row.key.as_slice())?;
                    }
                }
            }
            transaction.open_table(META)?.insert(HIGH_WATER, high_water)?;
            Ok(())
        })
        .map_err(|error| self.error(&error))
    }
}

#[cfg(test)]
impl Disk {
    /// A store on any backend, for tests of what happens when the disk fails.
    pub(super) fn on(backend: impl redb::StorageBackend) -> Disk {
        let database = Database::builder().create_with_backend(backend).unwrap();
        Disk::with_database(database, PathBuf::from("test"), Path::new("test")).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(disk: &Disk) -> Vec<(Vec<u8>, u64, Vec<u8>)> {
        let mut all = Vec::new();
        disk.load(|key, rv, json| {
            all.push((key.to_vec(), rv, json.to_vec()));
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn rows_and_high_water_come_back_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        assert_eq!(disk.high_water().unwrap(), 0);
        disk.commit(
            &[
                Row { key: b"b".to_vec(), value: Some((1, b"{}")) },
                Row { key: b"a".to_vec(), value: Some((2, b"[]")) },
            ],
            2,
        )
        .unwrap();
        disk.commit(&[Row { key: b"b".to_vec(), value: None }], 3).unwrap();
        drop(disk);
        let disk = Disk::open(dir.path()).unwrap();
        assert_eq!(disk.high_water().unwrap(), 3);
        assert_eq!(rows(&disk), [(b"a".to_vec(), 2, b"[]".to_vec())]);
    }

    #[test]
    fn a_newer_format_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        disk.write(|transaction| {
            transaction.open_table(META)?.insert(FORMAT, 7)?;
            Ok(())
        })
        .unwrap();
        drop(disk);
        let refused = Disk::open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("format version 7") && refused.contains("up to version 1"), "{refused}");
    }

    #[test]
    fn a_damaged_row_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        disk.commit(&[Row { key: b"g\0r\0\0x".to_vec(), value: Some((1, b"{")) }], 1).unwrap();
        let error = disk.load(|_, _, _| Err("bad".to_owned())).unwrap_err().to_string();
        assert!(error.contains("`g/r//x`"), "{error}");
    }
}
