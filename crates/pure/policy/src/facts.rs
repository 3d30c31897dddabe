//! What a gate is asked about: a Bundle at the door of an environment.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::Approval;
use kardinal_api::{Bundle, BundleSpec};

/// Everything that a gate may look at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The Bundle that wants to pass.
    pub bundle: &'a Bundle,
    /// Where it wants to go.
    pub environment: EnvironmentFacts<'a>,
    /// The Bundle that was verified there last.
    pub previous: Option<&'a Bundle>,
    /// The one `now` of this evaluation.
    pub now: Timestamp,
}

/// The environment behind the gate.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who lets a change in.
    pub approval: Approval,
    /// The environments directly before it.
    pub upstreams: &'a [String],
}

/// How people call what a Bundle carries: the tag of its first image, else the start of its commit, else the start of
/// the first image's digest. Empty when it carries nothing.
pub fn version(bundle: &BundleSpec) -> String {
    let image = bundle.artifacts.images.first();
    if let Some(tag) = image.and_then(|image| tag(&image.reference)) {
        return tag.to_owned();
    }
    if let Some(commit) = &bundle.artifacts.git_commit {
        return commit.sha.chars().take(8).collect();
    }
    let digest = image.and_then(|image| {
        image.digest.as_deref().or_else(|| image.reference.split_once('@').map(|(_, digest)| digest))
    });
    let hex = digest.map(|digest| digest.split_once(':').map_or(digest, |(_, hex)| hex));
    hex.unwrap_or_default().chars().take(12).collect()
}

/// The tag of an image reference; the colon of `host:port/` makes none.
fn tag(reference: &str) -> Option<&str> {
    let name = reference.split_once('@').map_or(reference, |(name, _)| name);
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag).filter(|tag| !tag.is_empty())
}

/// How long the Bundle has been verified in all of the direct upstreams, which is the time since the last of them was
/// verified. Nothing when one of them is not verified yet, or when there is none.
pub fn soak(bundle: &Bundle, upstreams: &[String], now: Timestamp) -> Option<SignedDuration> {
    let since = soaking_since(bundle, upstreams)?;
    Some(now.duration_since(since).max(SignedDuration::ZERO))
}

/// When the last of the upstreams was verified.
pub(crate) fn soaking_since(bundle: &Bundle, upstreams: &[String]) -> Option<Timestamp> {
    let environments = &bundle.status.as_ref()?.environments;
    let mut latest = None;
    for upstream in upstreams {
        latest = latest.max(Some(environments.get(upstream)?.verified_at?));
    }
    latest
}
