//! What the controller proves to itself: that it was the one who found an environment healthy, and when.
//!
//! Whoever owns a namespace can write the status of its Bundles and steps. What the organisation's gates are told comes
//! from there, so each verification carries a seal that only the holder of the controller's key can make. A seal that
//! is copied proves what it proved before: the same Bundle, the same content, the same environment, the same time.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use kardinal_api::kardinal::{
    Bundle, EnvironmentStatus, PIPELINE_LABEL, PromotionState, PromotionStep, Provenance,
};
use sha2::{Digest as _, Sha256};

use crate::bundle::{AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, ROLLBACK_LABEL, age, last_verified, name_of};

/// What a seal is about; the version keeps later formats apart.
const VERIFICATION: &str = "kardinal-verification-v1";
/// The same for a commit.
const COMMIT: &str = "kardinal-commit-v1";

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

    /// The seal of a commit that a step has made. It holds for the place that the step writes to as it is now.
    pub fn seal_commit(&self, step: &PromotionStep, commit: &str) -> Option<String> {
        Some(STANDARD.encode(self.code_of_commit(step, commit)?.finalize().into_bytes()))
    }

    /// Whether the controller has made this commit for this step, for the Bundle that it names now and for the place
    /// that it writes to now.
    pub fn proves_commit(&self, step: &PromotionStep, commit: &str, seal: &str) -> bool {
        let (Ok(seal), Some(code)) = (STANDARD.decode(seal), self.code_of_commit(step, commit)) else {
            return false;
        };
        code.verify_slice(&seal).is_ok()
    }

    fn code_of_commit(&self, step: &PromotionStep, commit: &str) -> Option<Hmac<Sha256>> {
        let spec = &step.spec;
        let what = (&spec.bundle_ref, &spec.pipeline, &spec.update);
        let place =
            serde_json::to_vec(&(what, &spec.environment, &spec.path, &spec.git, &spec.steps)).ok()?;
        self.sum(&[
            COMMIT.as_bytes(),
            step.metadata.namespace.as_deref()?.as_bytes(),
            step.metadata.uid.as_deref()?.as_bytes(),
            &place,
            commit.as_bytes(),
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

/// A Bundle as far as the controller knows it to be true: verifications with a seal, a rollback only where there is
/// something to go back to. `steps` are those of the Bundle, `others` the other Bundles of the Pipeline.
pub fn trusted(
    key: &Key,
    pipeline: &str,
    bundle: &Bundle,
    steps: &[PromotionStep],
    others: &[Bundle],
) -> Bundle {
    let mut known = bundle.clone();
    let mut environments = sealed_record(key, pipeline, bundle);
    for step in steps.iter().filter(|step| step.spec.bundle_ref == name_of(&bundle.metadata)) {
        let Some(status) = &step.status else { continue };
        let environment = &step.spec.environment;
        if let Some(at) = proven(key, pipeline, bundle, environment, (status.verified_at, &status.seal)) {
            environments.entry(environment.clone()).or_insert_with(|| verified(at));
        }
    }
    let status = known.status.get_or_insert_default();
    status.phase = None;
    status.environments = environments;
    let was_verified = |other: &Bundle| !sealed_record(key, pipeline, other).is_empty();
    if !takes_back(bundle, others, was_verified) {
        forget_rollback(&mut known);
    }
    known
}

/// The other Bundle that was proven to be verified last in an environment.
pub fn trusted_previous(key: &Key, pipeline: &str, others: &[Bundle], environment: &str) -> Option<Bundle> {
    let known: Vec<Bundle> = others
        .iter()
        .map(|other| {
            let mut known = other.clone();
            known.status.get_or_insert_default().environments = sealed_record(key, pipeline, other);
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

fn sealed_record(key: &Key, pipeline: &str, bundle: &Bundle) -> BTreeMap<String, EnvironmentStatus> {
    let record = bundle.status.iter().flat_map(|status| &status.environments);
    let sealed = record.filter_map(|(environment, entry)| {
        let at = proven(key, pipeline, bundle, environment, (entry.verified_at, &entry.seal))?;
        Some((environment.clone(), verified(at)))
    });
    sealed.collect()
}

fn proven(
    key: &Key,
    pipeline: &str,
    bundle: &Bundle,
    environment: &str,
    (verified_at, seal): (Option<Timestamp>, &Option<String>),
) -> Option<Timestamp> {
    let claim = Claim { bundle, pipeline, environment, verified_at: verified_at? };
    key.proves(&claim, seal.as_deref()?).then_some(claim.verified_at)
}

fn verified(at: Timestamp) -> EnvironmentStatus {
    EnvironmentStatus {
        state: Some(PromotionState::Verified),
        verified_at: Some(at),
        ..EnvironmentStatus::default()
    }
}
