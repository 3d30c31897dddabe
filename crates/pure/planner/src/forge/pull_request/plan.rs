//! What to do about a pull request.

use kardinal_api::forge::Desired;
use kardinal_object::whole_second;

use super::check::{Standing, check};
use super::report::{self, status};
use super::{Effect, Numbers, Plan, Snapshot};
use crate::forge::RETRY;

/// Who merges when nobody says so.
const NOBODY: &str = "kardinal";
/// So many merges are tried at once: a branch that moves each time is looked at again when it has moved once more.
pub(super) const MERGES_AT_ONCE: u32 = 3;
/// Below this every reader of an object takes a number for a whole one. Who can write a status can write a larger one, and
/// none would be left for others.
const LIMIT: u64 = 1 << 53;

/// Decides what becomes of a pull request.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let numbers = &snapshot.numbers;
    let standing = check(snapshot);
    let wake = is_untold(snapshot, &standing).then(|| snapshot.now + RETRY);
    let has_number = report::number(snapshot);
    let Some(number) = has_number.or_else(|| new_number(numbers)) else {
        return Plan { wake, ..Plan::default() };
    };
    let (status, notes) = status(snapshot, &standing, number);
    let keep = is_kept_first(numbers, number).then_some(Effect::KeepNumber { number });
    let plan = |effects: Vec<Effect>| {
        let stages = if effects.is_empty() { Vec::new() } else { vec![effects] };
        Plan { stages, wake, ..Plan::default() }
    };
    match merge(snapshot, &standing, number) {
        // The number stands in the merge, so it has to be this pull request's before.
        Some(_) if has_number.is_none() => {
            Plan { status, wake: Some(snapshot.now), ..plan(keep.into_iter().collect()) }
        }
        // Its own number is kept beside the merge: one does not wait for the other.
        merge => Plan { status, notes, ..plan(keep.into_iter().chain(merge).collect()) },
    }
}

/// The number that a pull request gets. Where nobody knows which were given, it gets none.
fn new_number(numbers: &Numbers<'_>) -> Option<u64> {
    let given = numbers.given.filter(|given| !numbers.taken.contains(given));
    let known = numbers.taken.iter().copied().chain(numbers.highest);
    let highest = known.filter(|number| *number < LIMIT).max();
    given.or_else(|| numbers.highest.and(highest).map(|highest| highest.saturating_add(1)))
}

fn is_kept_first(numbers: &Numbers<'_>, number: u64) -> bool {
    numbers.is_on_disk && number < LIMIT && numbers.highest.is_some_and(|highest| highest < number)
}

/// Whether nobody tells when it is better: the numbers cannot be read, or the repository is not on disk although its status
/// says so.
fn is_untold(snapshot: &Snapshot<'_>, standing: &Standing<'_>) -> bool {
    let status = snapshot.repository.and_then(|repository| repository.status.as_ref());
    let is_said_to_be_there = status.is_some_and(|status| status.clone_url.is_some());
    let is_gone = matches!(standing, Standing::NoRepository { coming: true }) && is_said_to_be_there;
    snapshot.numbers.highest.is_none() || is_gone
}

fn merge(snapshot: &Snapshot<'_>, standing: &Standing<'_>, number: u64) -> Option<Effect> {
    let spec = &snapshot.pull_request.spec;
    let Standing::Fits { base, head } = standing else { return None };
    let is_wanted =
        spec.desired() == Desired::Merged && snapshot.pull_request.metadata.deletion_timestamp.is_none();
    if !is_wanted || snapshot.merges >= MERGES_AT_ONCE {
        return None;
    }
    let author = spec.merged_by.as_deref().unwrap_or(NOBODY).to_owned();
    Some(Effect::Merge {
        base: spec.base.clone(),
        head: spec.head.clone(),
        expected_base: (*base).to_owned(),
        expected_head: (*head).to_owned(),
        message: format!("Merge pull request #{number} from {}\n\n{}\n", spec.head, spec.title.trim()),
        email: email(&author),
        author,
        time: whole_second(snapshot.now),
    })
}

/// An address that shows who it was, and that nobody will try to write to.
fn email(name: &str) -> String {
    let local: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '-' }).collect();
    if name.contains('@') { name.to_owned() } else { format!("{local}@localhost") }
}
