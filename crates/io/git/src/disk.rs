//! Branches of a repository on this machine, moved by compare-and-swap.

use std::collections::HashMap;

use gix::{
    ObjectId,
    refs::{
        FullName, Target,
        transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog},
    },
};

use crate::error::Failure;

/// The full name of a branch, or why it cannot be one.
pub(crate) fn full_name(branch: &str) -> Result<FullName, Failure> {
    let plain = !branch.starts_with('-') && !branch.starts_with("refs/");
    match FullName::try_from(format!("refs/heads/{branch}")) {
        Ok(name) if plain => Ok(name),
        _ => Err(Failure::problem(format!(
            "`{}` is not a branch name: letters, digits, `-`, `_`, `.` and `/` are safe",
            branch.escape_debug()
        ))),
    }
}

/// Where the branch points to.
fn tip(repo: &gix::Repository, branch: &str) -> Result<Option<ObjectId>, Failure> {
    let name = full_name(branch)?;
    let found = repo
        .try_find_reference(name.as_ref())
        .map_err(|error| Failure::corrupt(&format!("reading the branch `{branch}`"), error))?;
    match found {
        None => Ok(None),
        Some(mut reference) => {
            let id = reference
                .peel_to_id()
                .map_err(|error| Failure::corrupt(&format!("reading the branch `{branch}`"), error))?;
            Ok(Some(id.detach()))
        }
    }
}

/// Where some branches point to; those that do not exist are left out.
pub(crate) fn tips(
    repo: &gix::Repository,
    branches: Vec<String>,
) -> Result<HashMap<String, ObjectId>, Failure> {
    let mut tips = HashMap::new();
    for branch in branches {
        if let Some(tip) = tip(repo, &branch)? {
            tips.insert(branch, tip);
        }
    }
    Ok(tips)
}

/// Where all branches point to.
pub(crate) fn heads(repo: &gix::Repository) -> Result<Vec<ObjectId>, Failure> {
    let failed = |error: gix::Error| Failure::corrupt("reading the branches", error);
    let references = repo.references().map_err(failed)?;
    let branches = references.local_branches().map_err(failed)?;
    Ok(branches.filter_map(|branch| branch.ok()?.try_id().map(gix::Id::detach)).collect())
}

/// Moves, creates (`old` is none) or deletes (`new` is none) a branch if it is still at `old`.
pub(crate) fn swap(
    repo: &gix::Repository,
    branch: &str,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<(), Failure> {
    let expected = match old {
        Some(old) => PreviousValue::MustExistAndMatch(Target::Object(old)),
        None => PreviousValue::MustNotExist,
    };
    let change = match new {
        Some(new) => {
            let log =
                LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: "push".into() };
            Change::Update { log, expected, new: Target::Object(new) }
        }
        None => Change::Delete { expected, log: RefLog::AndReference },
    };
    let edit = RefEdit { change, name: full_name(branch)?, deref: false };
    let committer = gix::actor::SignatureRef {
        name: "kardinal".into(),
        email: "kardinal@localhost".into(),
        time: "0 +0000",
    };
    match repo.edit_references_as(Some(edit), Some(committer)) {
        Ok(_) => Ok(()),
        // Another writer holds the lock or was faster; either way the next look at the branch tells.
        Err(error) => Err(Failure::Moved(format!("the branch `{branch}` could not be moved: {error:#}"))),
    }
}
