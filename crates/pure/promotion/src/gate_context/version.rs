//! What people call a Bundle.

use kardinal_api::kardinal::BundleSpec;

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
