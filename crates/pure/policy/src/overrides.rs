//! Which promotions an override lets pass.

use jiff::Timestamp;
use kardinal_api::kardinal::GateOverride;
use kardinal_api::{PolicyGate, PolicyGateSpec};

use crate::gate::Target;
use kardinal_vcs::{Written, means_branch};

/// The promotion that an override may be meant for.
#[derive(Clone, Copy, Debug)]
pub struct Promotion<'a> {
    /// The environment that it goes to.
    pub environment: &'a str,
    /// Its namespace.
    pub namespace: Option<&'a str>,
    /// Its Pipeline.
    pub pipeline: Option<&'a str>,
    /// Its Bundle.
    pub bundle: Option<&'a str>,
    /// When that was created, by the server's clock, as far as that is known.
    pub created: Option<Timestamp>,
}

impl Promotion<'_> {
    /// Whether an override is meant for this promotion; what it leaves open fits everybody.
    pub fn is_meant_by(&self, given: &GateOverride) -> bool {
        let fits = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
        fits(&given.stage, Some(self.environment))
            && fits(&given.namespace, self.namespace)
            && fits(&given.pipeline, self.pipeline)
            && fits(&given.bundle, self.bundle)
            && (given.bundle.is_none() || self.was_there(given))
    }

    /// Whether the Bundle is the one that somebody had before them, and not another one that was given its name later.
    fn was_there(&self, given: &GateOverride) -> bool {
        match (given.created_at, self.created) {
            (Some(given_at), Some(created)) => created <= given_at,
            _ => true,
        }
    }
}

/// Whether an override lets this promotion pass the gate now.
pub fn is_overridden(gate: &PolicyGateSpec, promotion: &Promotion<'_>, now: Timestamp) -> bool {
    gate.overrides.iter().any(|given| is_active(given, now) && promotion.is_meant_by(given))
}

/// A gate with those of its overrides that are meant for where a promotion really writes. The name of an environment is its
/// team's to choose: where the gate guards places, an override for one environment has to name its place, too.
pub fn at_place(gate: &PolicyGate, target: &Target) -> PolicyGate {
    let mut gate = gate.clone();
    let overrides = std::mem::take(&mut gate.spec.overrides);
    gate.spec.overrides = overrides.into_iter().filter(|given| names_place(&gate, given, target)).collect();
    gate
}

fn names_place(gate: &PolicyGate, given: &GateOverride, target: &Target) -> bool {
    if given.stage.is_none() {
        return true;
    }
    let spec = &gate.spec;
    let is_named = |branch: &String| given.branches.iter().any(|pattern| means_branch(pattern, branch));
    let is_guarded = |branch: &&String| spec.applies_to_branches.iter().any(|one| means_branch(one, branch));
    let lies_there = |path: &Written| given.paths.iter().any(|pattern| path.lies_in(pattern));
    let (base, others) = target.branches.split_at(target.branches.len().min(1));
    let paths: Vec<&Written> = target
        .paths
        .iter()
        .filter(|path| spec.applies_to_paths.iter().any(|one| path.is_meant_by(one)))
        .collect();
    // The branch of a pull request belongs to the Bundle and is no place of its own.
    let by_others_only = paths.is_empty()
        && !base.iter().any(|one| is_guarded(&one))
        && others.iter().any(|one| is_guarded(&one));
    if by_others_only {
        return base.iter().all(is_named) && target.paths.iter().all(lies_there);
    }
    paths.into_iter().all(lies_there) && base.iter().filter(is_guarded).all(is_named)
}

/// Whether an override has not ended yet.
pub fn is_active(given: &GateOverride, now: Timestamp) -> bool {
    given.expires_at.is_none_or(|expires| expires > now)
}
