//! What a Repository waits for, as data.

use kardinal_api::forge::Repository;

use super::check::Standing;
use crate::condition::NewCondition;
use crate::why::{Subject, Wait, WaitOn, Who};

/// What it waits for; the condition has the words. One that is being deleted, or is served, waits for nothing.
pub(super) fn wait(repository: &Repository, standing: &Standing<'_>, ready: &NewCondition) -> Option<Wait> {
    let (on, who) = match standing {
        Standing::Served(_) => return None,
        Standing::Refused(_) => (WaitOn::Action, Who::Person),
        Standing::Coming => (WaitOn::Controller, Who::Kardinal),
    };
    if repository.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let subject = Subject::object("Repository", name);
    Some(Wait::new(on, &ready.reason, subject, who).detail(ready.message.as_str()))
}
