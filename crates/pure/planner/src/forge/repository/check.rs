//! How a Repository stands: what is on disk, against what is asked for.

use super::{Facts, Snapshot};

/// How a Repository stands.
pub(super) enum Standing<'a> {
    /// What is on disk is not used, or cannot be made, for this reason.
    Refused(&'a str),
    /// It is there, with the default branch that is asked for.
    Served(&'a Facts),
    /// It is not there yet, or has another default branch.
    Coming,
}

/// How it stands now.
pub(super) fn check<'a>(snapshot: &'a Snapshot<'a>) -> Standing<'a> {
    if let Some(problem) = snapshot.problem {
        return Standing::Refused(problem);
    }
    let branch = snapshot.repository.spec.default_branch();
    let facts = snapshot.facts.as_ref().filter(|facts| facts.default_branch == branch);
    facts.map_or(Standing::Coming, Standing::Served)
}
