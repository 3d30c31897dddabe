//! What a Repository's status says.

use jiff::SignedDuration;
use kardinal_api::forge::{READY, RepositoryStatus};

use super::check::Standing;
use super::{Outcome, Snapshot, why};
use crate::condition::{NewCondition, Note, Truth};
use crate::forge::RETRY;
use crate::sentence::Report;

/// What the status says after an effect.
pub fn report(snapshot: &Snapshot<'_>, outcome: &Outcome) -> Report<RepositoryStatus> {
    match outcome {
        Outcome::Done => Report { retry: Some(SignedDuration::ZERO), ..Report::default() },
        Outcome::Refused(why) => {
            let (status, notes) = status(snapshot, &Standing::Refused(why));
            Report { status, notes, retry: None }
        }
        Outcome::Failed => {
            let (status, notes) = status(snapshot, &Standing::Coming);
            Report { status, notes, retry: Some(RETRY) }
        }
    }
}

/// The status, where it is another one than before, and its transition.
pub(super) fn status(
    snapshot: &Snapshot<'_>,
    standing: &Standing<'_>,
) -> (Option<RepositoryStatus>, Vec<Note>) {
    let meta = &snapshot.repository.metadata;
    let old = snapshot.repository.status.clone().unwrap_or_default();
    let generation = Some(meta.generation.unwrap_or_default());
    let ready = ready(standing);
    let note = ready.is_news(&old.conditions).then(|| ready.note(ready.truth == Truth::False));
    let wait = why::wait(snapshot.repository, standing, &ready);
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let prefix = snapshot.clone_prefix.trim_end_matches('/');
    let head = match standing {
        Standing::Served(facts) => facts.head.clone(),
        Standing::Refused(_) | Standing::Coming => None,
    };
    let status = RepositoryStatus {
        observed_generation: generation,
        clone_url: snapshot.facts.as_ref().map(|_| format!("{prefix}/{namespace}/{name}.git")),
        head,
        conditions: vec![ready.since(&old.conditions, generation, snapshot.now)],
        waits: wait.into_iter().collect(),
    };
    ((status != old).then_some(status), note.into_iter().collect())
}

fn ready(standing: &Standing<'_>) -> NewCondition {
    let (truth, reason, message) = match standing {
        Standing::Refused(problem) => (Truth::False, "Refused", *problem),
        Standing::Served(_) => (Truth::True, "Served", "it can be cloned and pushed to"),
        Standing::Coming => (Truth::Unknown, "Creating", "it is being created"),
    };
    NewCondition::new(READY, truth, reason, message)
}
