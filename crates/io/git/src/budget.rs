//! How much one change may read and write.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::ChangeError;

/// So many bytes, read and written together. What is unpacked is held in memory, some of it more than once.
const BYTES: u64 = 64 << 20;
/// So many files and directories, read, compared and written together. They cost time even if they are empty.
const FILES: u64 = 20_000;

/// What one change has left of what it may read and write. Every read and write takes from it, by the size that the
/// object database tells, before memory is used. Clones share what is left.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Left>);

#[derive(Debug)]
struct Left {
    bytes: Amount,
    files: Amount,
}

#[derive(Debug)]
struct Amount {
    most: u64,
    left: AtomicU64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BYTES, FILES)
    }
}

impl Budget {
    /// So many bytes, and so many files and directories.
    pub(crate) fn new(bytes: u64, files: u64) -> Budget {
        let amount = |most: u64| Amount { most, left: AtomicU64::new(most) };
        Budget(Arc::new(Left { bytes: amount(bytes), files: amount(files) }))
    }

    /// Takes a file or a directory of this many bytes.
    pub fn take(&self, bytes: u64) -> Result<(), ChangeError> {
        self.take_files(1)?;
        self.0.bytes.take(bytes, "bytes")
    }

    /// Takes this many files and directories of which only the names are looked at.
    pub fn take_files(&self, files: u64) -> Result<(), ChangeError> {
        self.0.files.take(files, "files and directories")
    }
}

impl Amount {
    fn take(&self, wanted: u64, of: &str) -> Result<(), ChangeError> {
        let taken = |left: u64| left.checked_sub(wanted);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok() {
            return Ok(());
        }
        let message = format!(
            "more than {} {of} would have to be read and written, which is the most for one change: make several \
             smaller changes of it, or keep large files out of it",
            self.most
        );
        Err(ChangeError::problem(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_and_ends_with_the_number_and_the_remedy() {
        let budget = Budget::default();
        budget.take(BYTES - 1).unwrap();
        budget.clone().take(1).unwrap();
        let told = budget.take(1).unwrap_err().message;
        assert!(told.contains("67108864 bytes") && told.contains("smaller changes"), "{told}");
        budget.take_files(FILES - 3).unwrap();
        let told = budget.take_files(1).unwrap_err().message;
        assert!(told.contains("20000 files"), "{told}");
    }
}
