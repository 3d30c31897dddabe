//! Going back: a new Bundle with what was verified before.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleIntent, BundleSpec, PIPELINE_LABEL, Pipeline, Provenance};

use super::create::{HEAD, in_time, name_head};
use super::history::{History, carries_kind, has_failed, is_verified, parts};
use super::request::SOURCE_ANNOTATION;
use crate::bundle::names::short_hash;
use crate::bundle::problem::listed;
use crate::bundle::{
    AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, Problem, ROLLBACK_LABEL, Route, name_of, pipeline_name,
};

/// A wish to go back.
#[derive(Clone, Copy, Debug)]
pub struct Rollback<'a> {
    /// The Pipeline in question.
    pub pipeline: &'a Pipeline,
    /// The environment to bring back; those before it are brought back on the way.
    pub environment: &'a str,
    /// The Bundle to go back to. Absent: the newest that was verified there before the present one and was neither taken
    /// back nor has failed.
    pub to: Option<&'a Bundle>,
    /// All Bundles of the Pipeline.
    pub bundles: &'a [&'a Bundle],
    /// Whether people wait for it.
    pub emergency: bool,
    /// Whether somebody insists on a Bundle that was taken back or has failed there.
    pub force: bool,
}

/// What the name of a rollback says after the version that it brings.
const MARK: &str = "-rollback";

/// The Bundle that takes an environment back.
pub fn rollback(wish: &Rollback<'_>, now: Timestamp) -> Result<Bundle, Problem> {
    let environment = wish.environment;
    let route = Route::whole(&wish.pipeline.spec)?;
    if !route.contains(environment) {
        return Err(route.unknown("environment", environment));
    }
    let history = History::latest(wish.bundles, environment);
    let Some((current, history)) = history.and_then(|history| Some((history.present()?, history))) else {
        return Err(Problem::new("environment", format!("no Bundle has reached `{environment}` yet"))
            .hint("there is nothing to take back"));
    };
    let good = match wish.to {
        Some(to) => chosen(wish, to, current, &history)?,
        None => fallback(wish, current, &history)?,
    };
    let pipeline = name_of(&wish.pipeline.metadata);
    let mut bundle = back_to(current, environment, good);
    let head = name_head(pipeline, &bundle.spec, HEAD - MARK.len());
    bundle.metadata.name = Some(in_time(&format!("{head}{MARK}"), wish.bundles, now));
    bundle.metadata.namespace.clone_from(&wish.pipeline.metadata.namespace);
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), "rollback".to_owned());
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(PIPELINE_LABEL.to_owned(), pipeline.to_owned());
    if wish.emergency {
        labels.insert(EMERGENCY_LABEL.to_owned(), "true".to_owned());
    }
    Ok(bundle)
}

fn chosen<'a>(
    wish: &Rollback<'a>,
    to: &'a Bundle,
    current: &Bundle,
    history: &History<'_>,
) -> Result<&'a Bundle, Problem> {
    let name = name_of(&to.metadata);
    let environment = wish.environment;
    let kind = current.spec.kind();
    if to.metadata.name == current.metadata.name {
        return Err(Problem::new("to", format!("`{name}` is what `{environment}` has now"))
            .hint("choose a Bundle that was verified there before"));
    }
    if !is_verified(to, environment) && !has_failed(to, environment) {
        return Err(Problem::new("to", format!("`{name}` was never verified in `{environment}`"))
            .hint(format!("verified there were {}", listed(history.verified()))));
    }
    if !carries_kind(to, kind) {
        return Err(Problem::new("to", format!("`{name}` does not carry what would have to be taken back"))
            .hint("choose a Bundle of the same type"));
    }
    if parts(to, kind) == parts(current, kind) {
        let present = name_of(&current.metadata);
        let message = format!("`{name}` carries what `{environment}` has now, with `{present}`");
        return Err(Problem::new("to", message).hint("choose a Bundle with another version"));
    }
    if let Some(objection) = history.objection(to).filter(|_| !wish.force) {
        return Err(objection.problem(to, environment));
    }
    Ok(to)
}

fn fallback<'a>(wish: &Rollback<'a>, current: &Bundle, history: &History<'a>) -> Result<&'a Bundle, Problem> {
    let environment = wish.environment;
    history.fallback().ok_or_else(|| {
        let name = name_of(&current.metadata);
        let message = format!(
            "no Bundle was verified in `{environment}` before `{name}` that was neither taken back nor has failed"
        );
        Problem::new("environment", message).hint(
            "there is nothing to go back to; promote a Bundle that is good, or choose one with `--to` and `--force`",
        )
    })
}

/// The Bundle that an environment goes back to from `current`: the newest that was verified there before, with other
/// content, and was neither taken back nor has failed. `current` counts as having come last if its record does not say.
pub fn verified_before<'a>(
    bundles: &[&'a Bundle],
    environment: &str,
    current: &'a Bundle,
) -> Option<&'a Bundle> {
    let kind = current.spec.kind();
    let all: Vec<&'a Bundle> = bundles.iter().copied().chain([current]).collect();
    let history = History::of(&all, environment, kind);
    match history.arrived(current) {
        true => history.below(current),
        false => history.newest_but(current),
    }
}

/// The Bundle that brings an environment back after a failure. Its name follows from the failure and from what it
/// brings, so that making it twice makes one.
pub fn automatic_rollback(failed: &Bundle, environment: &str, good: &Bundle) -> Bundle {
    let mut bundle = back_to(failed, environment, good);
    let failure = short_hash(&format!("{}\n{environment}", name_of(&failed.metadata)));
    let pipeline = pipeline_name(failed).unwrap_or_default();
    let head = name_head(pipeline, &bundle.spec, HEAD - MARK.len());
    bundle.metadata.name = Some(format!("{head}{MARK}-{failure}"));
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(AUTOMATIC_ANNOTATION.to_owned(), "true".to_owned());
    annotations.insert(SOURCE_ANNOTATION.to_owned(), "automatic".to_owned());
    bundle
}

/// A Bundle with the content of `good` that takes `current` back.
fn back_to(current: &Bundle, environment: &str, good: &Bundle) -> Bundle {
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
    let mut bundle = Bundle::new("", spec);
    bundle.metadata.namespace.clone_from(&current.metadata.namespace);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(ROLLBACK_LABEL.to_owned(), "true".to_owned());
    if let Some(pipeline) = current.metadata.labels.as_ref().and_then(|labels| labels.get(PIPELINE_LABEL)) {
        labels.insert(PIPELINE_LABEL.to_owned(), pipeline.clone());
    }
    bundle
}
