//! Why nothing comes of a request.

use kardinal_planner::problem::Problem;

/// A request that cannot be fulfilled as it is, by what its author can do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It names something that does not exist.
    NotFound(Problem),
    /// It can be understood in several ways, or in none.
    Unclear(Problem),
    /// It is understood, and something speaks against it.
    Refused(Problem),
}

impl Error {
    /// What is wrong, and what to do next.
    pub fn problem(&self) -> &Problem {
        match self {
            Error::NotFound(problem) | Error::Unclear(problem) | Error::Refused(problem) => problem,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error::Refused(problem)
    }
}
