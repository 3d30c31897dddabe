//! The answer to a connection that may not be made.

use std::error::Error;
use std::fmt;

use kardinal_vcs::Barrier;

/// Why a host may not be talked to, and what to do about it. It travels inside the errors of clients, where
/// [`Refused::within`] finds it again: what the operator has to allow is no fault of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    barrier: Barrier,
    reason: String,
}

impl Refused {
    /// The operator does not permit to reach the host.
    pub(super) fn host(reason: String) -> Refused {
        Refused { barrier: Barrier::HostNotAllowed, reason }
    }

    /// The URL itself is wrong; the operator has nothing to do with it.
    pub(super) fn url(reason: String) -> Refused {
        Refused { barrier: Barrier::Other, reason }
    }

    /// What stands in the way.
    pub fn barrier(&self) -> Barrier {
        self.barrier
    }

    /// The refusal behind an error, if there is one.
    pub fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Refused> {
        // An error of input and output names what it holds only to those who ask for it.
        let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let behind = held.map(|held| held as &(dyn Error + 'static)).or(error.source());
        error.downcast_ref().or_else(|| behind.and_then(Refused::within))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Error for Refused {}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.reason
    }
}
