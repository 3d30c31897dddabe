//! How a call to a forge fails.

use std::time::Duration;

use kardinal_reach::Refused;
use kardinal_vcs::Barrier;

/// Why a forge did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The user must act: the same call fails again until then.
    #[error("{message}")]
    Problem {
        /// What is wrong and what to do about it.
        message: String,
        /// What stands in the way.
        barrier: Barrier,
    },
    /// What shall be merged is in conflict with its base, or may be.
    #[error("{message}")]
    Conflict {
        /// What the forge said.
        message: String,
        /// Whether the forge said so itself. Some answer the same while they are still comparing.
        certain: bool,
    },
    /// The world failed: the same call may succeed later.
    #[error("{message}")]
    Fault {
        /// What happened.
        message: String,
        /// The earliest time at which asking again makes sense, where the forge said so.
        retry_after: Option<Duration>,
    },
    /// The repository is there, and what was asked for is not in it (yet).
    #[error("{0}")]
    Absent(String),
    /// The forge limits how often it may be asked, and the limit is reached.
    #[error("{message}")]
    Limited {
        /// Which limit.
        message: String,
        /// How long it is to be left alone.
        retry_after: Duration,
    },
}

impl Error {
    pub(crate) fn fault(message: impl Into<String>) -> Error {
        Error::Fault { message: message.into(), retry_after: None }
    }

    pub(crate) fn problem(message: impl Into<String>) -> Error {
        Error::Problem { message: message.into(), barrier: Barrier::Other }
    }

    /// A problem with the credentials.
    pub(crate) fn not_let_in(message: impl Into<String>) -> Error {
        Error::Problem { message: message.into(), barrier: Barrier::NotLetIn }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Problem { barrier: refused.barrier(), message: refused.into() }
    }
}
