//! What the controller proves to itself: that it was the one who found an environment healthy, and when; and how far it
//! has come with a step.
//!
//! Whoever owns a namespace can write the status of its Bundles and steps. What the organisation's gates are told comes
//! from there, so each verification carries a seal that only the holder of the controller's key can make. A seal that
//! is copied proves what it proved before: the same Bundle, the same content, the same environment, the same time.
//! The same goes for the progress of a step: an earlier status of the same step that is put back is what a crash would
//! have left, and every effect can be done again.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use kardinal_api::kardinal::{
    Bundle, EnvironmentStatus, PIPELINE_LABEL, PromotionState, PromotionStep, PromotionStepSpec,
    PromotionStepStatus, Provenance,
};
use kardinal_object::{age, name_of};
use kardinal_vcs::Written;
use sha2::{Digest as _, Sha256};

use crate::bundle::{AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, ROLLBACK_LABEL, last_verified};

/// What a seal is about; the version keeps later formats apart.
const VERIFICATION: &str = "kardinal-verification-v2";
/// The same for the progress of a step.
const PROGRESS: &str = "kardinal-progress-v1";

/// The controller's key.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A key of these bytes; fewer than 32 would be guessed one day.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        (bytes.len() >= 32).then(|| Key(bytes.to_vec()))
    }

    /// The seal of a verification. It names the place, so that one can ask where a version was verified after the step
    /// is gone.
    pub fn seal(&self, claim: &Claim<'_>) -> Option<String> {
        let code = STANDARD.encode(self.code(claim)?.finalize().into_bytes());
        Some(format!("{}.{code}", STANDARD.encode(claim.place.0)))
    }

    /// Whether this is the seal of the verification. The time that it takes says nothing about the right one.
    pub fn proves(&self, claim: &Claim<'_>, seal: &str) -> bool {
        let Some((place, code)) = seal.split_once('.') else { return false };
        let (Ok(place), Ok(seal)) = (STANDARD.decode(place), STANDARD.decode(code)) else { return false };
        place == claim.place.0 && self.code(claim).is_some_and(|code| code.verify_slice(&seal).is_ok())
    }

    /// The seal of what a step has come to. It holds for what the step brings where as its spec says it now.
    pub fn seal_progress(&self, step: &PromotionStep, status: &PromotionStepStatus) -> Option<String> {
        Some(STANDARD.encode(self.code_of_progress(step, status)?.finalize().into_bytes()))
    }

    /// Whether the controller itself wrote the status of a step, and the step is still about the same. A status that
    /// claims nothing needs no proof.
    pub fn proves_progress(&self, step: &PromotionStep) -> bool {
        let Some(status) = &step.status else { return true };
        if claims(status) == PromotionStepStatus::default() {
            return true;
        }
        let seal = status.progress_seal.as_ref().and_then(|seal| STANDARD.decode(seal).ok());
        let (Some(seal), Some(code)) = (seal, self.code_of_progress(step, status)) else { return false };
        code.verify_slice(&seal).is_ok()
    }

    fn code_of_progress(&self, step: &PromotionStep, status: &PromotionStepStatus) -> Option<Hmac<Sha256>> {
        let PromotionStepSpec {
            pipeline,
            environment,
            bundle_ref,
            path,
            git,
            update,
            approval,
            pr,
            steps,
            // What is looked at and waited for is asked anew each time: nothing was done by it.
            health: _,
            delivery: _,
            upstream_verified: _,
            required_gates: _,
        } = &step.spec;
        let what = (bundle_ref, pipeline, update, approval, pr);
        let place = (environment, path, git, steps);
        self.sum(&[
            PROGRESS.as_bytes(),
            step.metadata.namespace.as_deref()?.as_bytes(),
            step.metadata.uid.as_deref()?.as_bytes(),
            &serde_json::to_vec(&(what, place)).ok()?,
            &serde_json::to_vec(&claims(status)).ok()?,
        ])
    }

    fn code(&self, claim: &Claim<'_>) -> Option<Hmac<Sha256>> {
        let metadata = &claim.bundle.metadata;
        let artifacts = serde_json::to_vec(&claim.bundle.spec.artifacts).ok()?;
        let verified_at = claim.verified_at.to_string();
        self.sum(&[
            VERIFICATION.as_bytes(),
            metadata.namespace.as_deref()?.as_bytes(),
            metadata.uid.as_deref()?.as_bytes(),
            &Sha256::digest(&artifacts),
            claim.pipeline.as_bytes(),
            claim.environment.as_bytes(),
            &claim.place.0,
            verified_at.as_bytes(),
        ])
    }

    fn sum(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in parts {
            // The length keeps one part from reaching into the next.
            code.update(&u64::try_from(part.len()).ok()?.to_be_bytes());
            code.update(part);
        }
        Some(code)
    }
}

/// What decisions are made from. Messages, waits and conditions are for people: they may change while the key cannot be read.
fn claims(status: &PromotionStepStatus) -> PromotionStepStatus {
    PromotionStepStatus {
        observed_generation: None,
        message: None,
        waits: Vec::new(),
        conditions: Vec::new(),
        progress_seal: None,
        ..status.clone()
    }
}

/// A verification: which Bundle was found healthy where and when.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The Bundle, as the server has it.
    pub bundle: &'a Bundle,
    /// The Pipeline of the step.
    pub pipeline: &'a str,
    /// The environment of the step.
    pub environment: &'a str,
    /// Where the step writes.
    pub place: Place,
    /// When the environment was found healthy.
    pub verified_at: Timestamp,
}

/// Where a step writes: repository, branch and files. An environment is only a name, which its team can give to another
/// place at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place([u8; PLACE]);

/// How many bytes of its digest stand for a place.
const PLACE: usize = 16;

impl Place {
    /// The place of these files.
    pub fn of(repository: &str, branch: &str, files: &[Written]) -> Place {
        let mut hash = Sha256::new();
        let mut names: Vec<String> = files.iter().map(Written::to_string).collect();
        names.sort_unstable();
        for part in [repository, branch].into_iter().chain(names.iter().map(String::as_str)) {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        Place::short(hash)
    }

    /// The same place for what came there in spite of a closed gate. It was verified, and it soaks; but going back to it is
    /// no rollback: the gates have never let it in.
    #[must_use]
    pub fn forced(self) -> Place {
        let mut hash = Sha256::new();
        hash.update(b"forced");
        hash.update(self.0);
        Place::short(hash)
    }

    fn short(hash: Sha256) -> Place {
        let mut short = [0; PLACE];
        short.iter_mut().zip(hash.finalize()).for_each(|(byte, digest)| *byte = digest);
        Place(short)
    }

    /// No place at all: nothing was ever verified there.
    pub const NOWHERE: Place = Place([0; PLACE]);

    /// The place that a seal names; whether that is true is for the key to say.
    fn named_by(seal: &str) -> Option<Place> {
        let bytes = STANDARD.decode(seal.split_once('.')?.0).ok()?;
        Some(Place(bytes.try_into().ok()?))
    }
}

/// Where a Bundle wants in.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// The Pipeline.
    pub pipeline: &'a str,
    /// The environment.
    pub environment: &'a str,
    /// Where its step writes; absent where people are only shown something, and no step is there yet.
    pub place: Option<Place>,
}

impl Door<'_> {
    /// Whether something that was verified in an environment was verified behind this door.
    fn leads_to(&self, environment: &str, place: Place) -> bool {
        self.environment == environment && self.place.is_none_or(|own| own == place)
    }
}

/// Tells since when and at which place a Bundle counts as verified in an environment, from a time and the seal beside it.
type Proof<'a> = &'a dyn Fn(&Bundle, &str, Option<Timestamp>, Option<&str>) -> Option<(Timestamp, Place)>;

/// A Bundle on its way into an environment, as far as the controller knows it to be true: verifications with a seal, a
/// rollback only where the environment has something to go back to. `steps` are those of the Bundle, `others` the other
/// Bundles of the Pipeline.
pub fn trusted(
    key: &Key,
    door: &Door<'_>,
    bundle: &Bundle,
    steps: &[PromotionStep],
    others: &[Bundle],
) -> Bundle {
    known(&proof(key, door.pipeline), door, bundle, steps, others)
}

/// The same for whoever has no key: a seal counts, and whether it is the right one is for the controller to say.
pub fn sealed(door: &Door<'_>, bundle: &Bundle, others: &[Bundle]) -> Bundle {
    known(&any_seal, door, bundle, &[], others)
}

fn known(
    proof: Proof<'_>,
    door: &Door<'_>,
    bundle: &Bundle,
    steps: &[PromotionStep],
    others: &[Bundle],
) -> Bundle {
    let mut known = bundle.clone();
    let mut environments: BTreeMap<String, EnvironmentStatus> = sealed_record(proof, bundle)
        .map(|(environment, at, _)| (environment.to_owned(), verified(at)))
        .collect();
    for step in steps.iter().filter(|step| step.spec.bundle_ref == name_of(&bundle.metadata)) {
        let Some(status) = &step.status else { continue };
        let verified_in = &step.spec.environment;
        if let Some((at, _)) = proof(bundle, verified_in, status.verified_at, status.seal.as_deref()) {
            environments.entry(verified_in.clone()).or_insert_with(|| verified(at));
        }
    }
    let status = known.status.get_or_insert_default();
    status.phase = None;
    status.environments = environments;
    let was_verified = |other: &Bundle| {
        sealed_record(proof, other).any(|(environment, _, place)| door.leads_to(environment, place))
    };
    if !takes_back(bundle, others, was_verified) {
        forget_rollback(&mut known);
    }
    known
}

/// The other Bundle that was proven to be verified last in an environment.
pub fn trusted_previous(key: &Key, door: &Door<'_>, others: &[Bundle]) -> Option<Bundle> {
    known_previous(&proof(key, door.pipeline), door, others)
}

/// The same for whoever has no key, see [`sealed`].
pub fn sealed_previous(door: &Door<'_>, others: &[Bundle]) -> Option<Bundle> {
    known_previous(&any_seal, door, others)
}

fn known_previous(proof: Proof<'_>, door: &Door<'_>, others: &[Bundle]) -> Option<Bundle> {
    let known: Vec<Bundle> = others
        .iter()
        .map(|other| {
            let mut known = other.clone();
            let behind = sealed_record(proof, other)
                .filter(|(environment, _, place)| door.leads_to(environment, *place))
                .map(|(environment, at, _)| (environment.to_owned(), verified(at)));
            known.status.get_or_insert_default().environments = behind.collect();
            known
        })
        .collect();
    last_verified(&known.iter().collect::<Vec<_>>(), door.environment).cloned()
}

/// When a Bundle was verified in an environment at a place, by the record that it has of it, forced or not.
pub fn proven_at(
    key: &Key,
    (pipeline, environment): (&str, &str),
    bundle: &Bundle,
    place: Place,
) -> Option<Timestamp> {
    let proof = proof(key, pipeline);
    let mut record = sealed_record(&proof, bundle);
    let is_there = |found: Place| found == place || found == place.forced();
    record.find_map(|(name, at, found)| (name == environment && is_there(found)).then_some(at))
}

/// Whether a Bundle takes another one back: that one exists, and what this one carries was verified before, by a Bundle
/// that is older than the one that is taken back. Labels and annotations alone mean nothing.
pub fn takes_back(bundle: &Bundle, others: &[Bundle], was_verified: impl Fn(&Bundle) -> bool) -> bool {
    let named = bundle.spec.provenance.as_ref().and_then(|provenance| provenance.rollback_of.as_deref());
    let pipeline = |bundle: &Bundle| bundle.metadata.labels.as_ref()?.get(PIPELINE_LABEL).cloned();
    let mut ours = others
        .iter()
        .filter(|other| pipeline(other) == pipeline(bundle) && other.metadata.name != bundle.metadata.name);
    let Some(reverted) = ours.clone().find(|other| Some(name_of(&other.metadata)) == named) else {
        return false;
    };
    ours.any(|other| {
        age(&other.metadata) < age(&reverted.metadata)
            && carries_at_least(other, bundle)
            && was_verified(other)
    })
}

/// Whether everything that a Bundle carries is in another one, too.
fn carries_at_least(other: &Bundle, bundle: &Bundle) -> bool {
    let (has, wanted) = (&other.spec.artifacts, &bundle.spec.artifacts);
    (wanted.images.is_empty() || has.images == wanted.images)
        && (wanted.git_commit.is_none() || has.git_commit == wanted.git_commit)
}

fn forget_rollback(bundle: &mut Bundle) {
    if let Some(Provenance { rollback_of, .. }) = &mut bundle.spec.provenance {
        *rollback_of = None;
    }
    if let Some(labels) = &mut bundle.metadata.labels {
        labels.retain(|name, _| name != ROLLBACK_LABEL && name != EMERGENCY_LABEL);
    }
    if let Some(annotations) = &mut bundle.metadata.annotations {
        annotations.remove(AUTOMATIC_ANNOTATION);
    }
}

/// What a Bundle's record proves: the environments where it was verified, when and at which place.
fn sealed_record<'a>(
    proof: Proof<'a>,
    bundle: &'a Bundle,
) -> impl Iterator<Item = (&'a str, Timestamp, Place)> {
    let record = bundle.status.iter().flat_map(|status| &status.environments);
    record.filter_map(move |(environment, entry)| {
        let (at, place) = proof(bundle, environment, entry.verified_at, entry.seal.as_deref())?;
        Some((environment.as_str(), at, place))
    })
}

fn proof(
    key: &Key,
    pipeline: &str,
) -> impl Fn(&Bundle, &str, Option<Timestamp>, Option<&str>) -> Option<(Timestamp, Place)> {
    move |bundle, environment, verified_at, seal| {
        let (seal, verified_at) = (seal?, verified_at?);
        let place = Place::named_by(seal)?;
        let claim = Claim { bundle, pipeline, environment, place, verified_at };
        key.proves(&claim, seal).then_some((verified_at, place))
    }
}

fn any_seal(
    _: &Bundle,
    _: &str,
    verified_at: Option<Timestamp>,
    seal: Option<&str>,
) -> Option<(Timestamp, Place)> {
    Some((verified_at?, Place::named_by(seal?).unwrap_or(Place::NOWHERE)))
}

fn verified(at: Timestamp) -> EnvironmentStatus {
    EnvironmentStatus {
        state: Some(PromotionState::Verified),
        verified_at: Some(at),
        ..EnvironmentStatus::default()
    }
}
