//! The durable part: one redb file that holds every object with a checksum, the format version and the highest version ever
//! given out.
//!
//! It decides nothing and serves no reads after start-up; only the writer calls it. What comes back from the disk is
//! checked: each record against its checksum, and all of them together against their number and sum, so that damage is
//! found at the start and never served.

mod seal;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

use self::seal::Totals;
pub(crate) use self::seal::checksum;
use crate::error::Error;
use crate::files::keys_in;

/// key bytes → (resource version, checksum, object as JSON)
const RECORDS: TableDefinition<'_, &[u8], (u64, u64, &[u8])> = TableDefinition::new("records");
/// What format 1 had: key bytes → (resource version, object as JSON)
const UNSEALED: TableDefinition<'_, &[u8], (u64, &[u8])> = TableDefinition::new("objects");
/// name → number
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT: &str = "format";
/// Only format 1 kept it apart from the other totals.
const HIGH_WATER: &str = "high-water";
/// The newest layout this program writes and reads. Format 1, without checksums, is brought up to it when it is opened.
const FORMAT_VERSION: u64 = 2;
/// Pages kept in memory: enough for the writer, since reads come from the model.
const CACHE_BYTES: usize = 1024 * 1024;
/// The file's name in a data directory.
pub(crate) const FILE: &str = "store.redb";

/// Opens the database again, after a failure.
type Reopen = Box<dyn Fn() -> Result<Database, redb::Error> + Send>;

/// The store on the disk.
pub(crate) struct Disk {
    /// Nothing after a failed write: redb refuses everything from then on, so the file has to be opened anew.
    database: Option<Database>,
    path: PathBuf,
    reopen: Reopen,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

/// One row to write or to take away.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) key: Vec<u8>,
    /// The resource version and the text; nothing means that the object is gone.
    pub(crate) value: Option<(u64, &'a [u8])>,
}

/// Whether a store may begin in a directory, or must be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    /// A directory without keys of an earlier run gets an empty store.
    OrCreate,
    /// Only what is there.
    Existing,
}

impl Disk {
    /// Opens or creates the store in a data directory that the caller has locked.
    pub(crate) fn open(dir: &Path, how: Open) -> Result<Disk, Error> {
        let path = dir.join(FILE);
        let length = match std::fs::metadata(&path) {
            Ok(metadata) => Some(metadata.len()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::File { action: "read", path, source }),
        };
        let keys = keys_in(dir);
        // Keys are written after the first objects, so a store without any beside them has lost them.
        let lost = |state: &'static str, key: &PathBuf| Error::Lost {
            path: path.clone(),
            state,
            key: key.clone(),
            dir: dir.to_path_buf(),
        };
        match (length, &keys) {
            (None, Some(key)) => return Err(lost("is missing", key)),
            (Some(0), Some(key)) => return Err(lost("is empty", key)),
            (None | Some(0), None) if how == Open::Existing => {
                return Err(Error::Absent { path: dir.to_path_buf() });
            }
            _ => {}
        }
        // Secrets are in there: nobody else may read it.
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|source| Error::File { action: "open", path: path.clone(), source })?;
        let again = path.clone();
        let reopen: Reopen = Box::new(move || Ok(builder().open(&again)?));
        let opened = catch_unwind(AssertUnwindSafe(|| match length {
            None | Some(0) => builder().create_file(file).map_err(redb::Error::from),
            // Whatever is in the file, it is not overwritten.
            Some(_) => {
                drop(file);
                reopen()
            }
        }));
        let database = match opened {
            Ok(Ok(database)) => database,
            Ok(Err(error)) => return Err(unusable(&path, error.to_string())),
            Err(_) => return Err(unusable(&path, "it is damaged".to_owned())),
        };
        let mut disk = Disk { database: Some(database), path: path.clone(), reopen };
        disk.check_format(dir)?;
        match &keys {
            Some(key) if disk.totals()?.high_water == 0 => Err(lost("holds nothing", key)),
            _ => Ok(disk),
        }
    }

    fn check_format(&mut self, dir: &Path) -> Result<(), Error> {
        let found = self.guarded(|database| read_meta(database, FORMAT))?;
        match found {
            Some(FORMAT_VERSION) => Ok(()),
            Some(1) => {
                tracing::info!(path = %self.path.display(), "adding checksums to the store");
                self.guarded(add_checksums)
            }
            Some(found) => {
                Err(Error::NewerFormat { path: dir.to_path_buf(), found, supported: FORMAT_VERSION })
            }
            None => self.guarded(|database| {
                write(database, |transaction| {
                    transaction.open_table(RECORDS)?;
                    let mut meta = transaction.open_table(META)?;
                    meta.insert(FORMAT, FORMAT_VERSION)?;
                    Totals::default().store(&mut meta)
                })
            }),
        }
    }

    /// Calls the database; a damaged file may make it panic, which is an answer like any other.
    fn guarded<T>(&self, call: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Error> {
        let Some(database) = &self.database else {
            return Err(unusable(&self.path, "it is closed".to_owned()));
        };
        match catch_unwind(AssertUnwindSafe(|| call(database))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(unusable(&self.path, error.to_string())),
            Err(_) => Err(unusable(&self.path, "it is damaged".to_owned())),
        }
    }

    fn totals(&self) -> Result<Totals, Error> {
        let found = self.guarded(|database| {
            let transaction = database.begin_read()?;
            Totals::load(&transaction.open_table(META)?)
        })?;
        found.ok_or_else(|| unusable(&self.path, "its totals do not match their checksum".to_owned()))
    }

    /// The highest resource version ever made durable.
    pub(crate) fn high_water(&self) -> Result<u64, Error> {
        Ok(self.totals()?.high_water)
    }

    /// Hands every stored object to `each`, in key order, one at a time, and only if its checksum is right. Fails when
    /// anything is damaged, missing or too much.
    pub(crate) fn load(
        &self,
        mut each: impl FnMut(&[u8], u64, &[u8]) -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut seen = Totals { high_water: self.high_water()?, ..Totals::default() };
        let mut damaged = None;
        self.guarded(|database| {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(RECORDS)?;
            for row in table.iter()? {
                let (key, value) = row?;
                let (rv, sum, json) = value.value();
                let checked = if checksum(key.value(), rv, json) == sum {
                    each(key.value(), rv, json)
                } else {
                    Err("it does not match its checksum".to_owned())
                };
                if let Err(message) = checked {
                    let key = String::from_utf8_lossy(key.value()).replace('\0', "/");
                    damaged = Some((key, message));
                    return Ok(());
                }
                seen.add(sum);
            }
            Ok(())
        })?;
        if let Some((key, message)) = damaged {
            let dir = self.path.parent().unwrap_or(Path::new("")).to_path_buf();
            return Err(Error::Damaged { path: self.path.clone(), key, message, dir });
        }
        if seen != self.totals()? {
            return Err(unusable(&self.path, "records are missing or too many".to_owned()));
        }
        Ok(())
    }

    /// Whether commits are possible at all; otherwise [`Disk::reopen`] comes first.
    pub(crate) fn is_open(&self) -> bool {
        self.database.is_some()
    }

    /// Opens the file again after a failed commit. Whether that commit is in it after all is not known: the caller
    /// writes what memory has for the keys concerned.
    pub(crate) fn reopen(&mut self) -> Result<(), Refusal> {
        // Nobody else may hold the file while it is opened.
        self.database = None;
        match catch_unwind(AssertUnwindSafe(|| (self.reopen)())) {
            Ok(Ok(database)) => {
                self.database = Some(database);
                Ok(())
            }
            Ok(Err(error)) => Err(Refusal::from(error)),
            Err(_) => Err(Refusal::Other("the database panicked".to_owned())),
        }
    }

    /// Makes a batch durable: all of it or, when this fails, nothing that a restart would see as acknowledged. After a
    /// failure the file is closed.
    pub(crate) fn commit(&mut self, rows: &[Row<'_>], high_water: u64) -> Result<(), Refusal> {
        let Some(database) = &self.database else {
            return Err(Refusal::Other("the file is closed".to_owned()));
        };
        let committed = catch_unwind(AssertUnwindSafe(|| {
            write(database, |transaction| commit_rows(transaction, rows, high_water))
        }));
        let refusal = match committed {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => Refusal::from(error),
            Err(_) => Refusal::Other("the database panicked".to_owned()),
        };
        let closing = self.database.take();
        // Closing a file that cannot be written fails, too; the first failure is the one to tell.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(closing)));
        Err(refusal)
    }
}

/// Why a commit failed. Both kinds pass, one when there is space again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("no space is left on the disk")]
    Full,
    #[error("{0}")]
    Other(String),
}

impl From<redb::Error> for Refusal {
    fn from(error: redb::Error) -> Refusal {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match error {
            redb::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded) => Refusal::Full,
            other => Refusal::Other(other.to_string()),
        }
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn unusable(path: &Path, message: String) -> Error {
    let dir = path.parent().unwrap_or(Path::new("")).to_path_buf();
    Error::Store { path: path.to_path_buf(), message, dir }
}

fn read_meta(database: &Database, name: &str) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    match transaction.open_table(META) {
        Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(
    database: &Database,
    fill: impl FnOnce(&redb::WriteTransaction) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    fill(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn commit_rows(
    transaction: &redb::WriteTransaction,
    rows: &[Row<'_>],
    high_water: u64,
) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    let mut totals = Totals::load(&meta)?.ok_or_else(damaged_totals)?;
    let mut records = transaction.open_table(RECORDS)?;
    for row in rows {
        put(&mut records, &mut totals, row)?;
    }
    totals.high_water = high_water;
    totals.store(&mut meta)
}

fn put(
    records: &mut Table<'_, &'static [u8], (u64, u64, &'static [u8])>,
    totals: &mut Totals,
    row: &Row<'_>,
) -> Result<(), redb::Error> {
    let old = match row.value {
        Some((rv, json)) => {
            let sum = checksum(&row.key, rv, json);
            totals.add(sum);
            records.insert(row.key.as_slice(), (rv, sum, json))?
        }
        None => records.remove(row.key.as_slice())?,
    };
    if let Some(old) = old {
        totals.take(old.value().1);
    }
    Ok(())
}

fn damaged_totals() -> redb::Error {
    redb::Error::Corrupted("the totals do not match their checksum".to_owned())
}

/// Brings a store of format 1 up to date, in one step.
fn add_checksums(database: &Database) -> Result<(), redb::Error> {
    write(database, |transaction| {
        let mut meta = transaction.open_table(META)?;
        let high_water = meta.remove(HIGH_WATER)?.map_or(0, |value| value.value());
        let mut totals = Totals { high_water, ..Totals::default() };
        {
            let unsealed = transaction.open_table(UNSEALED)?;
            let mut records = transaction.open_table(RECORDS)?;
            for row in unsealed.iter()? {
                let (key, value) = row?;
                let row = Row { key: key.value().to_vec(), value: Some(value.value()) };
                put(&mut records, &mut totals, &row)?;
            }
        }
        transaction.delete_table(UNSEALED)?;
        meta.insert(FORMAT, FORMAT_VERSION)?;
        totals.store(&mut meta)
    })
}

#[cfg(test)]
impl Disk {
    /// A store on any backend, for tests of what happens when the disk fails.
    pub(super) fn on<B: redb::StorageBackend>(backend: impl Fn() -> B + Send + 'static) -> Disk {
        let reopen: Reopen = Box::new(move || Ok(Database::builder().create_with_backend(backend())?));
        let mut disk = Disk { database: Some(reopen().unwrap()), path: PathBuf::from("test"), reopen };
        disk.check_format(Path::new("test")).unwrap();
        disk
    }
}

#[cfg(test)]
mod tests;
