//! Going back: a new Bundle with what was verified before.

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Artifacts, Bundle, BundleIntent, BundleSpec, BundleType, EnvironmentStatus, PIPELINE_LABEL, Pipeline,
    Provenance,
};

use super::create::stamped_name;
use crate::bundle::names::object_name;
use crate::bundle::problem::listed;
use crate::bundle::{AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, Problem, ROLLBACK_LABEL, Route, name_of};

/// A wish to go back.
#[derive(Clone, Copy, Debug)]
pub struct Rollback<'a> {
    /// The Pipeline in question.
    pub pipeline: &'a Pipeline,
    /// The environment to bring back; those before it are brought back on the way.
    pub environment: &'a str,
    /// The Bundle to go back to. Absent: the one that was verified there before the present one.
    pub to: Option<&'a Bundle>,
    /// All Bundles of the Pipeline.
    pub bundles: &'a [&'a Bundle],
    /// Whether people wait for it.
    pub emergency: bool,
}

/// The Bundle that takes an environment back.
pub fn rollback(wish: &Rollback<'_>, now: Timestamp) -> Result<Bundle, Problem> {
    let environment = wish.environment;
    let route = Route::whole(&wish.pipeline.spec)?;
    if !route.contains(environment) {
        return Err(route.unknown("environment", environment));
    }
    let Some(current) = present(wish.bundles, environment) else {
        return Err(Problem::new("environment", format!("no Bundle has reached `{environment}` yet"))
            .hint("there is nothing to take back"));
    };
    let good = match wish.to {
        Some(to) => chosen(wish, to, current)?,
        None => before_present(wish, current)?,
    };
    let version = kardinal_policy::version(&good.spec);
    let pipeline = name_of(&wish.pipeline.metadata);
    let name = stamped_name(&[pipeline, &format!("v{}", version.trim_start_matches('v')), "rollback"], now);
    let mut bundle = back_to(&name, current, environment, good);
    bundle.metadata.namespace.clone_from(&wish.pipeline.metadata.namespace);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(PIPELINE_LABEL.to_owned(), pipeline.to_owned());
    if wish.emergency {
        labels.insert(EMERGENCY_LABEL.to_owned(), "true".to_owned());
    }
    Ok(bundle)
}

fn chosen<'a>(wish: &Rollback<'a>, to: &'a Bundle, current: &Bundle) -> Result<&'a Bundle, Problem> {
    let name = name_of(&to.metadata);
    let environment = wish.environment;
    if to.metadata.name == current.metadata.name {
        return Err(Problem::new("to", format!("`{name}` is what `{environment}` has now"))
            .hint("choose a Bundle that was verified there before"));
    }
    if entry(to, environment).and_then(|entry| entry.verified_at).is_none() {
        let verified = wish
            .bundles
            .iter()
            .filter(|bundle| entry(bundle, environment).is_some_and(|entry| entry.verified_at.is_some()))
            .map(|bundle| name_of(&bundle.metadata));
        return Err(Problem::new("to", format!("`{name}` was never verified in `{environment}`"))
            .hint(format!("verified there were {}", listed(verified))));
    }
    if !has_parts(to, current) {
        return Err(Problem::new("to", format!("`{name}` does not carry what would have to be taken back"))
            .hint("choose a Bundle of the same type"));
    }
    Ok(to)
}

fn before_present<'a>(wish: &Rollback<'a>, current: &Bundle) -> Result<&'a Bundle, Problem> {
    let environment = wish.environment;
    verified_before(wish.bundles, environment, current).ok_or_else(|| {
        let name = name_of(&current.metadata);
        Problem::new("environment", format!("no Bundle was verified in `{environment}` before `{name}`"))
            .hint("there is nothing to go back to; promote a Bundle that is good")
    })
}

/// The Bundle whose change an environment has now: the one that reached it last.
fn present<'a>(bundles: &[&'a Bundle], environment: &str) -> Option<&'a Bundle> {
    let reached = |bundle: &Bundle| entry(bundle, environment).and_then(|e| e.promoted_at.or(e.verified_at));
    bundles
        .iter()
        .copied()
        .filter(|bundle| reached(bundle).is_some())
        .max_by_key(|bundle| (reached(bundle), name_of(&bundle.metadata)))
}

fn entry<'a>(bundle: &'a Bundle, environment: &str) -> Option<&'a EnvironmentStatus> {
    bundle.status.as_ref()?.environments.get(environment)
}

/// The Bundle that an environment was verified with last before `current` was, or at all if that never was; with other
/// content. Only times of verification are compared, for those are of one clock: when a change went in is what a forge
/// says, and its clock may be another one and count whole seconds only.
pub fn verified_before<'a>(
    bundles: &[&'a Bundle],
    environment: &str,
    current: &Bundle,
) -> Option<&'a Bundle> {
    let before = entry(current, environment).and_then(|entry| entry.verified_at).unwrap_or(Timestamp::MAX);
    let verified =
        |bundle: &Bundle| entry(bundle, environment)?.verified_at.filter(|verified| *verified <= before);
    bundles
        .iter()
        .copied()
        .filter(|bundle| bundle.metadata.name != current.metadata.name)
        .filter(|bundle| has_parts(bundle, current))
        .filter(|bundle| parts(bundle, current.spec.kind()) != current.spec.artifacts)
        .filter(|bundle| verified(bundle).is_some())
        .max_by_key(|bundle| (verified(bundle), name_of(&bundle.metadata)))
}

/// Whether a Bundle carries at least the kinds of things that another one does.
fn has_parts(bundle: &Bundle, other: &Bundle) -> bool {
    bundle.spec.kind() == other.spec.kind() || bundle.spec.kind() == BundleType::Mixed
}

/// What a Bundle carries, as far as a Bundle of another type would.
fn parts(bundle: &Bundle, kind: BundleType) -> Artifacts {
    let all = bundle.spec.artifacts.clone();
    match kind {
        BundleType::Image => Artifacts { git_commit: None, ..all },
        BundleType::Config => Artifacts { images: Vec::new(), ..all },
        BundleType::Mixed => all,
    }
}

/// The Bundle that brings an environment back after a failure. Its name follows from the failure, so that making it
/// twice makes one.
pub fn automatic_rollback(failed: &Bundle, environment: &str, good: &Bundle) -> Bundle {
    let name = object_name(&[name_of(&failed.metadata), "rollback", environment]);
    let mut bundle = back_to(&name, failed, environment, good);
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(AUTOMATIC_ANNOTATION.to_owned(), "true".to_owned());
    bundle
}

/// A Bundle with the content of `good` that takes `current` back.
fn back_to(name: &str, current: &Bundle, environment: &str, good: &Bundle) -> Bundle {
    let provenance = Provenance {
        rollback_of: Some(name_of(&current.metadata).to_owned()),
        ..good.spec.provenance.clone().unwrap_or_default()
    };
    let spec = BundleSpec {
        kind: current.spec.kind,
        artifacts: parts(good, current.spec.kind()),
        provenance: Some(provenance),
        intent: Some(BundleIntent { target: Some(environment.to_owned()), skip: Vec::new() }),
    };
    let mut bundle = Bundle::new(name, spec);
    bundle.metadata.namespace.clone_from(&current.metadata.namespace);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(ROLLBACK_LABEL.to_owned(), "true".to_owned());
    if let Some(pipeline) = current.metadata.labels.as_ref().and_then(|labels| labels.get(PIPELINE_LABEL)) {
        labels.insert(PIPELINE_LABEL.to_owned(), pipeline.clone());
    }
    bundle
}
