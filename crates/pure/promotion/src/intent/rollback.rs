//! Going back: a new Bundle with what was verified before.

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Bundle, BundleIntent, BundleSpec, BundleType, PIPELINE_LABEL, Predecessor, Provenance,
};
use kardinal_object::name_of;

use super::content::parts;
use super::create::{HEAD, in_time, name_head};
use super::history::{FORCE, History, carries_kind, has_failed, is_under_way, is_verified, taken_back};
use super::objection::{objection, objection_on_the_way};
use super::present::{Present, WayBack, gone, meet, present, way_back};
use super::request::SOURCE_ANNOTATION;
use super::wish::{Answer, Wish, already, lost};
use crate::bundle::{AUTOMATIC_ANNOTATION, EMERGENCY_LABEL, ROLLBACK_LABEL, Route, pipeline_name};
use kardinal_planner::names::short_hash;
use kardinal_planner::problem::{Problem, listed};

/// What the name of a rollback says after the version that it brings.
const MARK: &str = "-rollback";

/// Takes an environment back, unless a Bundle that does the same is on its way.
pub fn rollback<'a>(wish: &Wish<'a>, emergency: bool, now: Timestamp) -> Result<Answer<'a>, Problem> {
    let environment = wish.environment;
    let route = Route::whole(&wish.pipeline.spec)?;
    if !route.contains(environment) {
        return Err(route.unknown("environment", environment));
    }
    let history = meant(wish);
    let Some((current, history)) = history.and_then(|history| Some((history.present()?, history))) else {
        // The only Bundle that ever came may be gone.
        if let Some(Present::Gone(presence)) = present(wish.pipeline, wish.bundles, environment).first() {
            return Err(lost(presence));
        }
        return Err(Problem::new("environment", format!("no Bundle has reached `{environment}` yet"))
            .hint("there is nothing to take back"));
    };
    if let Some(presence) = gone(wish.pipeline, wish.bundles, environment, current.spec.kind()) {
        return Err(lost(presence));
    }
    let good = match wish.bundle {
        Some(to) => chosen(wish, to, current, &history)?,
        None => fallback(wish, current, &history)?,
    };
    let mut bundle = back_to(current, environment, good);
    if let Some(objection) = objection(wish, &bundle).filter(|_| !wish.force) {
        return Err(objection.problem(good, environment));
    }
    if let Some(Answer::OnItsWay(coming)) = already(wish, &bundle) {
        return Ok(Answer::OnItsWay(coming));
    }
    if let Some(problem) = objection_on_the_way(wish, &bundle)? {
        return Err(problem);
    }
    let pipeline = name_of(&wish.pipeline.metadata);
    let head = name_head(pipeline, &bundle.spec, HEAD - MARK.len());
    bundle.metadata.name = Some(in_time(&format!("{head}{MARK}"), wish.bundles, now));
    bundle.metadata.namespace.clone_from(&wish.pipeline.metadata.namespace);
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), "rollback".to_owned());
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.insert(PIPELINE_LABEL.to_owned(), pipeline.to_owned());
    if emergency {
        labels.insert(EMERGENCY_LABEL.to_owned(), "true".to_owned());
    }
    Ok(Answer::New(Box::new(bundle)))
}

/// The history in which to go back: that of what came last, or of the kind of things that a chosen Bundle carries.
fn meant<'a>(wish: &Wish<'a>) -> Option<History<'a>> {
    let latest = History::latest(wish.bundles, wish.environment)?;
    let fits = |to: &Bundle| latest.present().is_some_and(|current| carries_kind(to, current.spec.kind()));
    match wish.bundle {
        Some(to) if !fits(to) => Some(History::of(wish.bundles, wish.environment, to.spec.kind())),
        _ => Some(latest),
    }
}

fn chosen<'a>(
    wish: &Wish<'a>,
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
    Ok(to)
}

fn fallback<'a>(wish: &Wish<'a>, current: &Bundle, history: &History<'a>) -> Result<&'a Bundle, Problem> {
    let (environment, name) = (wish.environment, name_of(&current.metadata));
    if taken_back(current).is_some() && is_under_way(current, environment) && !wish.force {
        let version = crate::gate_context::version(&current.spec);
        let message = format!(
            "`{name}` is bringing `{environment}` back to `{version}` now, and is not verified there yet"
        );
        return Err(Problem::new(FORCE, message).hint("wait for it, or go further back with `--force`"));
    }
    let WayBack { good, lost } =
        way_back(wish.pipeline, wish.bundles, environment, current, history.fallback());
    if let Some(lost) = lost.filter(|_| good.is_none() || !wish.force) {
        return Err(skipped(environment, &lost, good));
    }
    good.ok_or_else(|| {
        let message = format!(
            "no Bundle was verified in `{environment}` before `{name}` that was neither taken back nor has failed"
        );
        Problem::new("environment", message).hint(match of_another_kind(wish, current) {
            Some(other) => format!(
                "there is nothing of its kind to go back to; `--to {other}` takes back what `{environment}` has of another kind"
            ),
            None => "there is nothing to go back to; promote a Bundle that is good, or choose one with `--to` and `--force`"
                .to_owned(),
        })
    })
}

/// What an environment could go back to in another kind of things than a Bundle brings: the image beside a configuration.
fn of_another_kind<'a>(wish: &Wish<'a>, current: &Bundle) -> Option<&'a str> {
    let kinds = [BundleType::Image, BundleType::Config].into_iter();
    let mut others = kinds.filter(|kind| !meet(*kind, current.spec.kind()));
    let good = others.find_map(|kind| History::of(wish.bundles, wish.environment, kind).fallback())?;
    Some(name_of(&good.metadata))
}

/// The answer where the version that an environment had before cannot come back, and `good` lies further back.
fn skipped(environment: &str, lost: &Predecessor, good: Option<&Bundle>) -> Problem {
    let Predecessor { bundle, version, .. } = lost;
    let message = format!(
        "`{environment}` had `{version}` before, which `{bundle}` brought, and that Bundle does not exist any more"
    );
    let hint = match good {
        Some(good) => format!(
            "`--force` goes further back, to `{}` of `{}`; `--to` chooses another",
            crate::gate_context::version(&good.spec),
            name_of(&good.metadata)
        ),
        None => "create a Bundle with that version: `kardinal create bundle`".to_owned(),
    };
    Problem::new(if good.is_some() { FORCE } else { "environment" }, message).hint(hint)
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
/// brings, so that making it twice makes one; where one of that name has given way to another Bundle, it is the next name.
pub fn automatic_rollback(failed: &Bundle, environment: &str, good: &Bundle, others: &[&Bundle]) -> Bundle {
    let mut bundle = back_to(failed, environment, good);
    let pipeline = pipeline_name(failed).unwrap_or_default();
    let head = name_head(pipeline, &bundle.spec, HEAD - MARK.len());
    let name = |again: usize| {
        let failure = format!("{}\n{environment}", name_of(&failed.metadata));
        let failure = if again == 0 { failure } else { format!("{failure}\n{again}") };
        format!("{head}{MARK}-{}", short_hash(&failure))
    };
    let is_free = |name: &String| !others.iter().any(|other| name_of(&other.metadata) == name);
    bundle.metadata.name = (0..=others.len()).map(name).find(is_free);
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
