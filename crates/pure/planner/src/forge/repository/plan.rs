//! What to do about a Repository.

use super::check::{Standing, check};
use super::report::status;
use super::{Effect, Plan, Snapshot};
use crate::forge::RETRY;

/// Decides what becomes of a Repository.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let repository = snapshot.repository;
    let create = || Effect::Create { default_branch: repository.spec.default_branch().to_owned() };
    let standing = check(snapshot);
    let (effect, wake) = match standing {
        Standing::Refused(_) => (None, Some(snapshot.now + RETRY)),
        Standing::Served(_) => (None, None),
        Standing::Coming => (repository.metadata.deletion_timestamp.is_none().then(create), None),
    };
    let (status, notes) = status(snapshot, &standing);
    Plan { status, notes, wake, ..Plan::in_order(effect) }
}
