//! New Bundles: from images and commits, or from what another Bundle carries.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Artifacts, Bundle, BundleIntent, BundleSpec, BundleType, GitCommit, IMAGE_MESSAGE, ImageArtifact,
    PIPELINE_LABEL, Pipeline, Provenance,
};
use kardinal_object::name_of;

use super::request::SOURCE_ANNOTATION;
use crate::bundle::{EMERGENCY_LABEL, ROLLBACK_LABEL, Route};
use kardinal_planner::names::{fit, slug};
use kardinal_planner::problem::Problem;

/// The longest head of a name that still leaves room for a dash and the seconds.
pub(super) const HEAD: usize = 52;

/// A wish for a new Bundle.
#[derive(Clone, Debug, Default)]
pub struct NewBundle<'a> {
    /// The name of the Pipeline.
    pub pipeline: &'a str,
    /// Where the Pipeline lives, and the Bundle will.
    pub namespace: &'a str,
    /// The Pipeline itself, where it is at hand: the intent is then checked against it.
    pub known: Option<&'a Pipeline>,
    /// Images as `repository:tag`, `repository@digest` or both, each optionally as `name=…`.
    pub images: &'a [&'a str],
    /// A commit of a configuration repository.
    pub git_commit: Option<GitCommit>,
    /// Where it all comes from.
    pub provenance: Option<Provenance>,
    /// The last environment to promote to.
    pub target: Option<&'a str>,
    /// Environments to leave out.
    pub skip: &'a [String],
    /// Labels for gates to look at.
    pub labels: BTreeMap<String, String>,
}

/// The Bundle that is asked for, named after its version and the time.
pub fn create_bundle(new: &NewBundle<'_>, now: Timestamp) -> Result<Bundle, Problem> {
    if new.pipeline.is_empty() {
        return Err(Problem::new("pipeline", "is empty").hint("name the Pipeline to go through"));
    }
    let images = images(new.images)?;
    if let Some(commit) = &new.git_commit {
        check_commit(commit)?;
    }
    let kind = match (images.is_empty(), &new.git_commit) {
        (false, None) => BundleType::Image,
        (true, Some(_)) => BundleType::Config,
        (false, Some(_)) => BundleType::Mixed,
        (true, None) => {
            return Err(Problem::new("images", "there is nothing to promote")
                .hint("give at least one image such as `ghcr.io/myorg/my-app:1.29.0`, or a commit"));
        }
    };
    let target = new.target.map(str::to_owned);
    let intent = BundleIntent { target, skip: new.skip.to_vec() };
    let intent = (intent != BundleIntent::default()).then_some(intent);
    if let Some(pipeline) = new.known {
        Route::intended(&pipeline.spec, intent.as_ref())?;
    }
    let spec = BundleSpec {
        kind: Some(kind),
        artifacts: Artifacts { images, git_commit: new.git_commit.clone() },
        provenance: new.provenance.clone(),
        intent,
    };
    let name = name_for(new.pipeline, &spec, &[], now);
    let mut bundle = Bundle::new(&name, spec);
    bundle.metadata.namespace = Some(new.namespace.to_owned());
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.extend(new.labels.clone());
    labels.insert(PIPELINE_LABEL.to_owned(), new.pipeline.to_owned());
    Ok(bundle)
}

/// The type of a Bundle follows from what it carries; one that somebody named must agree.
pub fn check_type(bundle: &Bundle, named: Option<BundleType>) -> Result<(), Problem> {
    let kind = bundle.spec.kind();
    let Some(named) = named.filter(|named| *named != kind) else { return Ok(()) };
    let (kind, named) = (kind.as_str(), named.as_str());
    let message = format!("what is given makes a Bundle of type `{kind}`, not `{named}`");
    let hint = "`image` needs images, `config` needs a `gitCommit`, `mixed` needs both; or leave it out";
    Err(Problem::new("type", message).hint(hint))
}

/// A Bundle that brings what `source` carries up to an environment, under a name that none of `others` has.
pub(super) fn up_to(
    pipeline: &Pipeline,
    environment: &str,
    source: &Bundle,
    others: &[&Bundle],
    now: Timestamp,
) -> Result<Bundle, Problem> {
    let skip = source.spec.intent.as_ref().map(|intent| intent.skip.clone()).unwrap_or_default();
    let skip = skip.into_iter().filter(|name| name != environment).collect();
    let intent = BundleIntent { target: Some(environment.to_owned()), skip };
    let mut bundle = again(pipeline, source, intent, others, now)?;
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), "promote".to_owned());
    Ok(bundle)
}

/// A Bundle that brings what `source` carries on without an environment. Bundles cannot be changed, so it is a new one.
pub fn skip(
    pipeline: &Pipeline,
    environment: &str,
    source: &Bundle,
    now: Timestamp,
) -> Result<Bundle, Problem> {
    let mut intent = source.spec.intent.clone().unwrap_or_default();
    let route = Route::whole(&pipeline.spec)?;
    if !route.contains(environment) {
        return Err(route.unknown("environment", environment));
    }
    if intent.skip.iter().any(|name| name == environment) {
        let name = name_of(&source.metadata);
        return Err(Problem::new("environment", format!("`{name}` skips `{environment}` already"))
            .hint("nothing has to be done"));
    }
    intent.skip.push(environment.to_owned());
    again(pipeline, source, intent, &[source], now)
}

/// A new Bundle with the content of another one and its own intent.
fn again(
    pipeline: &Pipeline,
    source: &Bundle,
    intent: BundleIntent,
    others: &[&Bundle],
    now: Timestamp,
) -> Result<Bundle, Problem> {
    Route::intended(&pipeline.spec, Some(&intent))?;
    let mut spec = BundleSpec { intent: Some(intent), ..source.spec.clone() };
    if let Some(provenance) = &mut spec.provenance {
        provenance.rollback_of = None;
    }
    let name = name_for(name_of(&pipeline.metadata), &spec, others, now);
    let mut bundle = Bundle::new(&name, spec);
    bundle.metadata.namespace.clone_from(&pipeline.metadata.namespace);
    // Labels are what gates look at; they come along. But going forward is no rollback, and the marks of the Graph that
    // runs the source would make the new Bundle look like that Graph's own.
    bundle.metadata.labels.clone_from(&source.metadata.labels);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.retain(|key, _| key != ROLLBACK_LABEL && key != EMERGENCY_LABEL && !is_mark(key));
    labels.insert(PIPELINE_LABEL.to_owned(), name_of(&pipeline.metadata).to_owned());
    Ok(bundle)
}

/// Whether a Graph wrote the label.
fn is_mark(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix.ends_with(kardinal_graph::DOMAIN))
}

/// `my-app-v1-29-0-1712567890`, or `my-app-config-abc123de-1712567890` for a commit alone. A head that is too long is cut,
/// the seconds never.
fn name_for(pipeline: &str, spec: &BundleSpec, others: &[&Bundle], now: Timestamp) -> String {
    in_time(&name_head(pipeline, spec, HEAD), others, now)
}

/// The head with the first second from now on at which no other Bundle has the name: what is ordered within the second
/// of another order is another Bundle.
pub(super) fn in_time(head: &str, others: &[&Bundle], now: Timestamp) -> String {
    let mut second = now.as_second();
    loop {
        let name = format!("{head}-{second}");
        if others.iter().all(|other| name_of(&other.metadata) != name) {
            return name;
        }
        second += 1;
    }
}

/// `my-app-v1-29-0`, or `my-app-config-abc123de`: what a Bundle is called after, in no more than `limit` characters.
pub(super) fn name_head(pipeline: &str, spec: &BundleSpec, limit: usize) -> String {
    let version = crate::gate_context::version(spec);
    let head = match spec.kind() {
        BundleType::Config => format!("{pipeline}-config-{version}"),
        BundleType::Image | BundleType::Mixed => format!("{pipeline}-v{}", version.trim_start_matches('v')),
    };
    fit(&slug(&head), limit)
}

fn images(texts: &[&str]) -> Result<Vec<ImageArtifact>, Problem> {
    let mut names = BTreeSet::new();
    let mut images = Vec::new();
    for (position, text) in texts.iter().enumerate() {
        let field = format!("images[{position}]");
        let image = image(&field, text)?;
        if !names.insert(image.name.clone()) {
            return Err(Problem::new(field, format!("a second image is named `{}`", image.name))
                .hint("give it another name with `name=reference`"));
        }
        images.push(image);
    }
    Ok(images)
}

fn image(field: &str, text: &str) -> Result<ImageArtifact, Problem> {
    let wrong = |message: String| {
        Problem::new(field, message).hint(
            "write it as `ghcr.io/myorg/my-app:1.29.0`, with `@sha256:…` at the end if you know the digest",
        )
    };
    let (given, reference) = match text.split_once('=') {
        Some((name, reference)) => (Some(name), reference),
        None => (None, text),
    };
    let parsed = kardinal_manifest::Image::parse(given.unwrap_or_default(), reference, None)
        .map_err(|error| wrong(format!("`{text}`: {error}")))?;
    if has_capitals(&parsed.repository) {
        return Err(wrong(format!("`{text}`: {IMAGE_MESSAGE}")));
    }
    if parsed.tag.is_none() && parsed.digest.is_none() {
        return Err(wrong(format!("`{text}` has neither a tag nor a digest")));
    }
    if parsed.digest.is_none() && reference.contains('@') {
        return Err(wrong(format!("the digest of `{text}` is not `sha256:` and 64 hexadecimal digits")));
    }
    let name = match given {
        Some(name) => name,
        None => parsed.repository.rsplit('/').next().unwrap_or(&parsed.repository),
    };
    if name.is_empty() {
        return Err(wrong(format!("`{text}` has an empty name")));
    }
    let tag = parsed.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
    Ok(ImageArtifact {
        name: name.to_owned(),
        reference: format!("{}{tag}", parsed.repository),
        digest: parsed.digest,
    })
}

/// Whether a repository has capitals beyond its host, as the schema of Bundles sees it.
fn has_capitals(repository: &str) -> bool {
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
    let path = match repository.split_once('/') {
        Some((first, rest)) if is_host(first) => rest,
        _ => repository,
    };
    path.contains(|letter: char| letter.is_ascii_uppercase())
}

/// A commit as people write it, `https://example.com/repo@abc123`; the last `@` counts, for a URL may have one of its own.
pub fn commit_of(text: &str) -> Result<GitCommit, Problem> {
    match text.rsplit_once('@') {
        Some((repository, sha)) if !repository.is_empty() && !sha.is_empty() && !sha.contains(['/', ':']) => {
            Ok(GitCommit { repository: repository.to_owned(), sha: sha.to_owned(), message: None })
        }
        _ => Err(Problem::new("gitCommit", "it is not a repository and a commit")
            .hint("write it as `https://github.com/myorg/app-config@abc123def456`")),
    }
}

fn check_commit(commit: &GitCommit) -> Result<(), Problem> {
    let hex = commit.sha.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !(7..=64).contains(&commit.sha.len()) || !hex {
        return Err(Problem::new("gitCommit.sha", format!("`{}` is not the id of a commit", commit.sha))
            .hint("give 7 to 64 hexadecimal digits"));
    }
    if commit.repository.is_empty() {
        return Err(Problem::new("gitCommit.repository", "is empty").hint("give the URL of the repository"));
    }
    Ok(())
}
