//! What can go wrong, sorted by who has to act.

use std::time::Duration;

use kardinal_reach::Refused;
use kardinal_vcs::Barrier;

/// Why an operation on a repository did not succeed. No variant ever carries a secret.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Somebody must change something first: credentials, branch protection, a path, a branch name.
    #[error("{message}")]
    Problem {
        /// What is wrong and what to do about it.
        message: String,
        /// What stands in the way.
        barrier: Barrier,
    },
    /// The commit that was asked for is not in the repository, or its short id means several.
    #[error("{0}")]
    NoCommit(String),
    /// Others have written to the order's own branch, and what they wrote is not overwritten.
    #[error("{0}")]
    Overtaken(String),
    /// The order's own change failed on the tree it was given.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The world failed: the network, the remote, a disk. The same call may succeed later.
    #[error("{message}")]
    Fault {
        /// What happened, in words.
        message: String,
        /// How long the remote asked us to stay away.
        retry_after: Option<Duration>,
    },
    /// The remote limits how often it may be asked, and the limit is reached.
    #[error("{message}")]
    Limited {
        /// Which limit.
        message: String,
        /// How long it asked us to stay away, where it said so.
        retry_after: Option<Duration>,
    },
}

impl Error {
    /// A failure of the world that names no waiting time.
    pub fn fault(message: impl Into<String>) -> Error {
        Error::Fault { message: message.into(), retry_after: None }
    }

    fn message_mut(&mut self) -> &mut String {
        match self {
            Error::Problem { message, .. }
            | Error::NoCommit(message)
            | Error::Overtaken(message)
            | Error::Change(ChangeError { message, .. })
            | Error::Fault { message, .. }
            | Error::Limited { message, .. } => message,
        }
    }

    /// A failure that stays until somebody acts.
    pub fn problem(message: impl Into<String>) -> Error {
        Error::Problem { message: message.into(), barrier: Barrier::Other }
    }

    /// The same where the credentials are what is wrong, or missing.
    pub fn not_let_in(message: impl Into<String>) -> Error {
        Error::Problem { message: message.into(), barrier: Barrier::NotLetIn }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Problem { barrier: refused.barrier(), message: refused.into() }
    }
}

/// So many characters of what went wrong are told to the caller.
const MESSAGE_LIMIT: usize = 2000;

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_LIMIT) {
        text.truncate(end);
        text.push('…');
    }
}

/// A change that could not be made.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ChangeError {
    /// What is wrong and what to do about it.
    pub message: String,
    /// Whether something outside failed, so that the same change of the same tree may succeed later.
    pub may_pass: bool,
    /// What stands in the way until somebody acts.
    pub barrier: Barrier,
}

impl ChangeError {
    /// What stays as it is until somebody changes the files, or the order.
    pub fn problem(message: impl Into<String>) -> ChangeError {
        ChangeError { message: message.into(), may_pass: false, barrier: Barrier::Other }
    }

    /// What has nothing to do with the files.
    pub fn fault(message: impl Into<String>) -> ChangeError {
        ChangeError { message: message.into(), may_pass: true, barrier: Barrier::Other }
    }
}

impl From<Refused> for ChangeError {
    fn from(refused: Refused) -> ChangeError {
        ChangeError { barrier: refused.barrier(), ..ChangeError::problem(refused) }
    }
}

/// How an operation ended inside this crate, before it is decided what the caller sees.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the caller gets to see.
    #[error(transparent)]
    Plain(#[from] Error),
    /// The branch is not where we thought it was; look again and redo the work.
    #[error("{0}")]
    Moved(String),
    /// The remote understood the push and does not want it: a hook, a protected branch.
    #[error("{message}")]
    Refused {
        /// What it said, and what to do about it.
        message: String,
        /// What stands in the way.
        barrier: Barrier,
    },
    /// The object database cannot be read; a cache is thrown away for it.
    #[error("{0}")]
    Corrupt(String),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::Plain(Error::from(refused))
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Failure {
        Failure::Plain(Error::Change(error))
    }
}

impl Failure {
    /// Shorthand for a problem.
    pub(crate) fn problem(message: impl Into<String>) -> Failure {
        Failure::Plain(Error::problem(message))
    }

    /// Shorthand for credentials that are wrong, or missing.
    pub(crate) fn not_let_in(message: impl Into<String>) -> Failure {
        Failure::Plain(Error::not_let_in(message))
    }

    /// Shorthand for a commit that is not there.
    pub(crate) fn no_commit(message: impl Into<String>) -> Failure {
        Failure::Plain(Error::NoCommit(message.into()))
    }

    /// Shorthand for a fault.
    pub(crate) fn fault(message: impl Into<String>) -> Failure {
        Failure::Plain(Error::fault(message))
    }

    /// Marks an error of the object database.
    pub(crate) fn corrupt(what: &str, error: impl std::fmt::Display) -> Failure {
        Failure::Corrupt(format!("{what}: {error:#}"))
    }

    /// What the caller sees when nothing inside could mend it. Much of it was said by servers: of long texts the beginning
    /// stays.
    pub(crate) fn into_error(self) -> Error {
        let mut error = match self {
            Failure::Plain(error) => error,
            Failure::Refused { message, barrier } => Error::Problem { message, barrier },
            Failure::Moved(message) | Failure::Corrupt(message) => Error::fault(message),
        };
        shorten(error.message_mut());
        error
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Failure {
        Failure::fault(format!("work on a repository was cut short: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_message_the_beginning_is_told() {
        let endless = "ä".repeat(60_000);
        let refused = Failure::Refused { message: endless.clone(), barrier: Barrier::Other };
        for failure in [refused, Failure::fault(endless.clone()), Failure::no_commit(endless)] {
            let told = failure.into_error().to_string();
            assert_eq!((told.chars().count(), told.ends_with("ä…")), (MESSAGE_LIMIT + 1, true));
        }
    }
}
