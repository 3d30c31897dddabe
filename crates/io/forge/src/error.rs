//! What can go wrong with a repository.

/// Why a repository could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Somebody must act; trying again changes nothing.
    #[error("{0}")]
    Problem(String),
    /// The disk or another writer was in the way; the same call may succeed later.
    #[error("{0}")]
    Fault(String),
}

impl Error {
    pub(crate) fn fault(what: &str, error: impl std::fmt::Display) -> Error {
        Error::Fault(format!("cannot {what}: {error}"))
    }
}
