//! Keeps numbers and merges.

use kardinal_forge::{Author, Error, MergeOrder};
use kardinal_planner::forge::pull_request::{Effect, Outcome};

use super::Kind;
use super::observe::Observation;
use crate::forge::{on_disk, warn};

/// Carries one effect out.
pub(super) async fn act(kind: &Kind, seen: &Observation, effect: &Effect) -> Outcome {
    match carry_out(kind, seen, effect.clone()).await {
        Ok(()) => Outcome::Done,
        Err(error) => {
            warn(&seen.key, &error.to_string());
            Outcome::Failed
        }
    }
}

async fn carry_out(kind: &Kind, seen: &Observation, effect: Effect) -> Result<(), Error> {
    let (namespace, repository) = (seen.key.0.clone(), seen.request.spec.repository.clone());
    let store = &kind.local.store;
    match effect {
        Effect::KeepNumber { number } => {
            let uid = seen.uid();
            on_disk(store, move |store| store.give_number(&namespace, &repository, number, &uid)).await
        }
        Effect::Merge { base, head, expected_base, expected_head, message, author, email, time } => {
            let (expected_base, expected_head) = (Some(expected_base), Some(expected_head));
            let author = Author { name: author, email };
            let order = MergeOrder { base, head, expected_base, expected_head, message, author, time };
            on_disk(store, move |store| store.merge(&namespace, &repository, &order)).await.map(drop)
        }
    }
}
