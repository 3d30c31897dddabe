//! Makes repositories.

use kardinal_forge::Error;
use kardinal_planner::forge::repository::{Effect, Outcome};

use super::Kind;
use super::observe::Observation;
use crate::forge::{on_disk, warn};

/// Carries one effect out.
pub(super) async fn act(kind: &Kind, seen: &Observation, effect: &Effect) -> Outcome {
    let done = match effect {
        Effect::Create { default_branch } => {
            let ((namespace, name), branch) = (seen.key.clone(), default_branch.clone());
            on_disk(&kind.local.store, move |store| store.create(&namespace, &name, &branch)).await
        }
    };
    match done {
        Ok(_) => Outcome::Done,
        Err(Error::Problem(why)) => Outcome::Refused(why),
        Err(Error::Fault(why)) => {
            warn(&seen.key, &why);
            Outcome::Failed
        }
    }
}
