//! Who wants through a gate: a Bundle and what is around it, as far as those who keep the gate believe it.

use std::borrow::Cow;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, PromotionState, PromotionStep};

use super::{EnvironmentFacts, GateContext, of};
use crate::bundle::{last_verified, pipeline_name};
use crate::promotion_step::written_to;
use crate::seal::{Door, Key, sealed, sealed_previous, trusted, trusted_previous};

/// What is read around a Bundle because gates see it, whoever asks them: the controllers and the commands fill this in at one
/// place each. Objects of another kind that gates are to see are one more field.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The other Bundles of the Pipeline.
    pub others: Vec<Bundle>,
}

impl Surroundings {
    /// The same with these Bundles in place of the others.
    #[must_use]
    pub fn with_others(mut self, others: Vec<Bundle>) -> Surroundings {
        self.others = others;
        self
    }
}

/// A Bundle that wants into an environment, and what gates see beside it.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    bundle: Cow<'a, Bundle>,
    /// The Bundle that was verified last in the environment.
    previous: Option<Cow<'a, Bundle>>,
}

impl<'a> Candidate<'a> {
    /// For the gates of a team: what stands in the objects.
    pub fn written(bundle: &'a Bundle, environment: &str, around: &'a Surroundings) -> Candidate<'a> {
        let previous = last_verified(&around.others.iter().collect::<Vec<_>>(), environment);
        Candidate { bundle: Cow::Borrowed(bundle), previous: previous.map(Cow::Borrowed) }
    }

    /// For the gates of the organisation: what the controller has proven. `steps` are those of the Bundle.
    pub fn proven(
        key: &Key,
        door: &Door<'_>,
        bundle: &Bundle,
        steps: &[PromotionStep],
        around: &Surroundings,
    ) -> Candidate<'static> {
        let known = trusted(key, door, bundle, steps, &around.others);
        Candidate::owned(known, trusted_previous(key, door, &around.others))
    }

    /// The same for those who have no key and only show something: what carries a seal. Whether it is the right one is for
    /// the controller to say. `step` is that of the Bundle and the environment.
    pub fn sealed(
        bundle: &Bundle,
        environment: &str,
        step: Option<&PromotionStep>,
        around: &Surroundings,
    ) -> Candidate<'static> {
        let pipeline = pipeline_name(bundle).unwrap_or_default();
        let place = step.map(|step| written_to(step, bundle.spec.kind()));
        let door = Door { pipeline, environment, place };
        let known = sealed(&door, bundle, &around.others);
        Candidate::owned(known, sealed_previous(&door, &around.others))
    }

    fn owned(bundle: Bundle, previous: Option<Bundle>) -> Candidate<'static> {
        Candidate { bundle: Cow::Owned(bundle), previous: previous.map(Cow::Owned) }
    }

    /// The same Bundle, taken to have been verified in these environments at an instant.
    #[must_use]
    pub fn verified_in(mut self, environments: &[String], since: Timestamp) -> Candidate<'a> {
        let record = &mut self.bundle.to_mut().status.get_or_insert_default().environments;
        for name in environments {
            let entry = record.entry(name.clone()).or_default();
            entry.state = Some(PromotionState::Verified);
            entry.verified_at = Some(since);
        }
        self
    }

    /// What the gates of the environment are told at an instant.
    pub fn context(&self, environment: EnvironmentFacts<'_>, now: Timestamp) -> GateContext {
        of(&self.bundle, self.previous.as_deref(), environment, now)
    }
}
