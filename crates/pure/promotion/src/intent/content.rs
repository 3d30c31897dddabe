//! What Bundles carry, when that is the same, and what stands when another one comes: one rule for the histories that Bundles
//! tell and for the ledgers that Pipelines keep.

use kardinal_api::kardinal::{Artifacts, Bundle, BundleType, Predecessor};
use sha2::{Digest, Sha256};

use super::history::taken_back;

/// So many bytes of a digest tell what Bundles carry apart.
const DIGEST: usize = 16;

/// What a Bundle carries, as far as a Bundle of another type would.
pub(super) fn parts(bundle: &Bundle, kind: BundleType) -> Artifacts {
    let all = bundle.spec.artifacts.clone();
    match kind {
        BundleType::Image => Artifacts { git_commit: None, ..all },
        BundleType::Config => Artifacts { images: Vec::new(), ..all },
        BundleType::Mixed => all,
    }
}

/// The same as a record keeps it, which outlives the Bundle.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// How people call it.
    pub(super) version: String,
    /// Tells it apart from all else, also from what people call the same.
    pub(super) digest: String,
}

impl Content {
    /// What a Bundle carries, as far as a Bundle of another type would.
    pub(super) fn of(bundle: &Bundle, kind: BundleType) -> Content {
        let text = serde_json::to_string(&parts(bundle, kind)).unwrap_or_default();
        let digest = Sha256::digest(text.as_bytes());
        let digest = digest.iter().take(DIGEST).map(|byte| format!("{byte:02x}")).collect();
        Content { version: crate::gate_context::version(&bundle.spec), digest }
    }

    /// Whether this is what a record tells of. One from before records had a digest tells the version only.
    pub(super) fn is(&self, one: &Predecessor) -> bool {
        match &one.content {
            Some(digest) => *digest == self.digest,
            None => one.version == self.version,
        }
    }
}

/// One that stands in an environment when a Bundle comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing<'a> {
    /// The Bundle that brought it.
    pub(super) bundle: &'a str,
    /// Whether the one that comes carries the same.
    pub(super) is_same: bool,
    /// Whether the environment was found healthy with it.
    pub(super) is_verified: bool,
}

/// How many of those that stand, the newest first, leave when a Bundle comes. What goes forward is put on top, in the place
/// of the same; what goes back takes everything away down to the version that it brings. One that was verified stays below
/// the same until that is verified, too: if that never happens, it is still what one can go back to.
pub(super) fn leaving<'a>(
    bundle: &Bundle,
    is_verified: bool,
    mut standing: impl Iterator<Item = Standing<'a>> + Clone,
) -> usize {
    let named = taken_back(bundle);
    let same = standing.clone().enumerate().find(|(_, one)| one.is_same);
    match (named, same) {
        (None, Some((1.., _)) | None) => 0,
        (_, Some((at, one))) => at + usize::from(is_verified || !one.is_verified),
        // Where the version that it brings has left the history, what it names is all that is known to be gone.
        (Some(named), None) => standing.position(|one| one.bundle == named).map_or(0, |at| at + 1),
    }
}
