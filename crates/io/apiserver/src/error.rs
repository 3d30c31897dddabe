//! What can go wrong when a server is started or served.
//!
//! Errors of single requests are Kubernetes `Status` objects and never appear here.

use std::path::PathBuf;

/// Why the server could not start or serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// What was tried, as a verb (`read`, `write`, `create` …).
        action: &'static str,
        /// Which file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Another process holds the data directory.
    #[error(
        "data directory `{}` is in use by process {pid}; stop that process or choose another directory with `--data-dir`",
        path.display()
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that holds it, as far as its lock file tells.
        pid: String,
    },
    /// The data was written by a newer program.
    #[error(
        "data directory `{}` has format version {found}, this program reads up to version {supported}; use a newer kardinal or another directory",
        path.display()
    )]
    NewerFormat {
        /// The data directory.
        path: PathBuf,
        /// The version found there.
        found: u64,
        /// The newest version this program knows.
        supported: u64,
    },
    /// The store's file cannot be used.
    #[error(
        "the store `{}` cannot be used: {message}; if it is damaged, restore a backup with `kardinal restore FILE --data-dir {} --force`",
        path.display(), dir.display()
    )]
    Store {
        /// The file.
        path: PathBuf,
        /// What the database said.
        message: String,
        /// The data directory.
        dir: PathBuf,
    },
    /// A stored object is not what was written.
    #[error(
        "the store `{}` holds a damaged object under `{key}`: {message}; restore a backup with `kardinal restore FILE --data-dir {} --force`",
        path.display(), dir.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The object's key.
        key: String,
        /// What is wrong with it.
        message: String,
        /// The data directory.
        dir: PathBuf,
    },
    /// The objects are gone, but the keys of an earlier run are there.
    #[error(
        "the store `{}` {state}, but `{}` is there from an earlier run; restore a backup with `kardinal restore FILE --data-dir {} --force`, or move `{}` away to start afresh",
        path.display(), key.display(), dir.display(), dir.display()
    )]
    Lost {
        /// Where the store should be.
        path: PathBuf,
        /// What is there instead.
        state: &'static str,
        /// What an earlier run left.
        key: PathBuf,
        /// The data directory.
        dir: PathBuf,
    },
    /// There is no store to read.
    #[error("there is no store in `{}`; name the directory of `kardinal up` with `--data-dir`", path.display())]
    Absent {
        /// The data directory.
        path: PathBuf,
    },
    /// A backup cannot be written, read or restored.
    #[error("the backup cannot be used: {0}")]
    Backup(String),
    /// An object that every server has could not be created.
    #[error("cannot create the first objects ({name}): {message}")]
    Bootstrap {
        /// What was to be created.
        name: String,
        /// The server's own answer.
        message: String,
    },
    /// A certificate could not be made or used.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The operating system gave no randomness.
    #[error("the operating system gave no random bytes: {0}")]
    Random(String),
    /// The listener's own address is unknown.
    #[error("cannot serve on this socket: {0}")]
    Listen(std::io::Error),
}

impl Error {
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }
}
