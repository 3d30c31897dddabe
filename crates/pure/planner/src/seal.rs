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
    Bundle, EnvironmentStatus, PIPELINE_LABEL, PromotionState, PromotionStep, PromotionStepStatus, Provenance,
};
use sha2::{Digest as _, Sha256};

use crate::bundle::{AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, ROLLBACK_LABEL, age, last_verified, name_of};

/// What a seal is about; the version keeps later formats apart.
const VERIFICATION: &str = "kardinal-verification-v1";
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

    /// The seal of a verification.
    pub fn seal(&self, claim: &Claim<'_>) -> Option<String> {
        Some(STANDARD.encode(self.code(claim)?.finalize().into_bytes()))
    }

    /// Whether this is the seal of the verification. The time that it takes says nothing about the right one.
    pub fn proves(&self, claim: &Claim<'_>, seal: &str) -> bool {
        let (Ok(seal), Some(code)) = (STANDARD.decode(seal), self.code(claim)) else { return false };
        code.verify_slice(&seal).is_ok()
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
        let spec = &step.spec;
        let what = (&spec.bundle_ref, &spec.pipeline, &spec.update, spec.approval, spec.pr);
        let place = (&spec.environment, &spec.path, &spec.git, &spec.steps);
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

/// What decisions are made from. Messages and conditions are for people: they may change while the key cannot be read.
fn claims(status: &PromotionStepStatus) -> PromotionStepStatus {
    PromotionStepStatus {
        observed_generation: None,
        message: None,
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
    /// When the environment was found healthy.
    pub verified_at: Timestamp,
}

/// Tells since when a Bundle counts as verified in an environment, from a time and the seal beside it.
type Proof<'a> = &'a dyn Fn(&Bundle, &str, Option<Timestamp>, Option<&str>) -> Option<Timestamp>;

/// A Bundle on its way into an environment, as far as the controller knows it to be true: verifications with a seal, a
/// rollback only where the environment has something to go back to. `steps` are those of the Bundle, `others` the other
/// Bundles of the Pipeline.
pub fn trusted(
    key: &Key,
    (pipeline, environment): (&str, &str),
    bundle: &Bundle,
    steps: &[PromotionStep],
    others: &[Bundle],
) -> Bundle {
    known(&proof(key, pipeline), environment, bundle, steps, others)
}

/// The same for whoever has no key: a seal counts, and whether it is the right one is for the controller to say.
pub fn sealed(environment: &str, bundle: &Bundle, others: &[Bundle]) -> Bundle {
    known(&any_seal, environment, bundle, &[], others)
}

fn known(
    proof: Proof<'_>,
    environment: &str,
    bundle: &Bundle,
    steps: &[PromotionStep],
    others: &[Bundle],
) -> Bundle {
    let mut known = bundle.clone();
    let mut environments = sealed_record(proof, bundle);
    for step in steps.iter().filter(|step| step.spec.bundle_ref == name_of(&bundle.metadata)) {
        let Some(status) = &step.status else { continue };
        let verified_in = &step.spec.environment;
        if let Some(at) = proof(bundle, verified_in, status.verified_at, status.seal.as_deref()) {
            environments.entry(verified_in.clone()).or_insert_with(|| verified(at));
        }
    }
    let status = known.status.get_or_insert_default();
    status.phase = None;
    status.environments = environments;
    let was_verified = |other: &Bundle| sealed_record(proof, other).contains_key(environment);
    if !takes_back(bundle, others, was_verified) {
        forget_rollback(&mut known);
    }
    known
}

/// The other Bundle that was proven to be verified last in an environment.
pub fn trusted_previous(key: &Key, pipeline: &str, others: &[Bundle], environment: &str) -> Option<Bundle> {
    known_previous(&proof(key, pipeline), others, environment)
}

/// The same for whoever has no key, see [`sealed`].
pub fn sealed_previous(others: &[Bundle], environment: &str) -> Option<Bundle> {
    known_previous(&any_seal, others, environment)
}

fn known_previous(proof: Proof<'_>, others: &[Bundle], environment: &str) -> Option<Bundle> {
    let known: Vec<Bundle> = others
        .iter()
        .map(|other| {
            let mut known = other.clone();
            known.status.get_or_insert_default().environments = sealed_record(proof, other);
            known
        })
        .collect();
    last_verified(&known.iter().collect::<Vec<_>>(), environment).cloned()
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
    ours.any(|other| age(other) < age(reverted) && carries_at_least(other, bundle) && was_verified(other))
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

fn sealed_record(proof: Proof<'_>, bundle: &Bundle) -> BTreeMap<String, EnvironmentStatus> {
    let record = bundle.status.iter().flat_map(|status| &status.environments);
    let sealed = record.filter_map(|(environment, entry)| {
        let at = proof(bundle, environment, entry.verified_at, entry.seal.as_deref())?;
        Some((environment.clone(), verified(at)))
    });
    sealed.collect()
}

fn proof(
    key: &Key,
    pipeline: &str,
) -> impl Fn(&Bundle, &str, Option<Timestamp>, Option<&str>) -> Option<Timestamp> {
    move |bundle, environment, verified_at, seal| {
        let claim = Claim { bundle, pipeline, environment, verified_at: verified_at? };
        key.proves(&claim, seal?).then_some(claim.verified_at)
    }
}

fn any_seal(_: &Bundle, _: &str, verified_at: Option<Timestamp>, seal: Option<&str>) -> Option<Timestamp> {
    verified_at.filter(|_| seal.is_some())
}

fn verified(at: Timestamp) -> EnvironmentStatus {
    EnvironmentStatus {
        state: Some(PromotionState::Verified),
        verified_at: Some(at),
        ..EnvironmentStatus::default()
    }
}
