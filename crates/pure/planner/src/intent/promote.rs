//! Going forward: what an environment gets from those before it.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline};

use super::create::up_to;
use super::history::{History, carries_kind, is_under_way, is_verified, parts, presents};
use crate::bundle::problem::listed;
use crate::bundle::{Problem, Route, is_finished, is_rollback, name_of};

/// A wish to go forward.
#[derive(Clone, Copy, Debug)]
pub struct Promote<'a> {
    /// The Pipeline in question.
    pub pipeline: &'a Pipeline,
    /// The environment to promote to; those before it are passed on the way.
    pub environment: &'a str,
    /// The Bundle whose content is promoted. Absent: what the environments before have now.
    pub source: Option<&'a Bundle>,
    /// All Bundles of the Pipeline.
    pub bundles: &'a [&'a Bundle],
    /// Whether somebody insists on a version that was taken back or has failed there.
    pub force: bool,
}

/// How the wish comes true.
#[derive(Clone, Debug, PartialEq)]
pub enum Promotion<'a> {
    /// With a Bundle that is to be created.
    New(Box<Bundle>),
    /// With a Bundle that is on its way there already.
    OnItsWay(&'a Bundle),
    /// It has come true: this Bundle brought it.
    There(&'a Bundle),
}

/// Brings an environment what those before it have now, or what a Bundle carries.
pub fn promote<'a>(wish: &Promote<'a>, now: Timestamp) -> Result<Promotion<'a>, Problem> {
    let route = Route::whole(&wish.pipeline.spec)?;
    let Some(stop) = route.stop(wish.environment) else {
        return Err(route.unknown("environment", wish.environment));
    };
    let source = match wish.source {
        Some(source) => source,
        None if stop.upstreams.is_empty() => newest(wish)?,
        None => of_upstreams(wish, &stop.upstreams)?,
    };
    if let Some(done) = already(wish, source) {
        return Ok(done);
    }
    let history = History::of(wish.bundles, wish.environment, source.spec.kind());
    if let Some(objection) = history.objection(source).filter(|_| !wish.force) {
        return Err(objection.problem(source, wish.environment));
    }
    let bundle = up_to(wish.pipeline, wish.environment, source, wish.bundles, now)?;
    Ok(Promotion::New(Box::new(bundle)))
}

/// For an environment with none before it: the newest Bundle that nothing speaks against.
fn newest<'a>(wish: &Promote<'a>) -> Result<&'a Bundle, Problem> {
    let history = |bundle: &Bundle| History::of(wish.bundles, wish.environment, bundle.spec.kind());
    let forward = wish.bundles.iter().copied().filter(|bundle| !is_rollback(bundle));
    let age = |bundle: &Bundle| {
        (bundle.metadata.creation_timestamp.as_ref().map(|time| time.0), name_of(&bundle.metadata).to_owned())
    };
    forward
        .filter(|bundle| history(bundle).objection(bundle).is_none())
        .max_by_key(|bundle| age(bundle))
        .ok_or_else(|| {
            let environment = wish.environment;
            Problem::new("bundle", format!("there is no Bundle to promote to `{environment}`"))
                .hint("name one with `--bundle`, or create one with `kardinal create bundle`")
        })
}

/// What every environment right before has now, and is verified with. Where Bundles of several types have come, the one
/// that came last goes first, unless the environment has it.
fn of_upstreams<'a>(wish: &Promote<'a>, upstreams: &[&str]) -> Result<&'a Bundle, Problem> {
    let mut candidates: Option<Vec<&'a Bundle>> = None;
    let mut had: Vec<String> = Vec::new();
    for upstream in upstreams {
        let present = presents(wish.bundles, upstream);
        if present.is_empty() {
            return Err(nothing(format!("no Bundle has reached `{upstream}`, which comes before"), wish));
        }
        if let Some(open) = present.iter().find(|bundle| !is_verified(bundle, upstream)) {
            let name = name_of(&open.metadata);
            return Err(nothing(format!("`{upstream}` has `{name}` now, which is not verified there"), wish));
        }
        had.extend(present.iter().map(|bundle| {
            format!("`{upstream}` has {}", listed([kardinal_policy::version(&bundle.spec).as_str()]))
        }));
        candidates = Some(match candidates {
            None => present,
            Some(before) => {
                before.into_iter().filter(|one| present.iter().any(|other| is_alike(one, other))).collect()
            }
        });
    }
    let candidates = candidates.unwrap_or_default();
    let missing =
        candidates.iter().find(|bundle| !matches!(already(wish, bundle), Some(Promotion::There(_))));
    missing.or(candidates.first()).copied().ok_or_else(|| {
        nothing(format!("the environments before have different versions now: {}", had.join(", ")), wish)
    })
}

fn nothing(message: String, wish: &Promote<'_>) -> Problem {
    let environment = wish.environment;
    Problem::new("environment", message).hint(format!(
        "wait until those before `{environment}` are verified with one version, or name a Bundle with `--bundle`"
    ))
}

/// Whether two Bundles carry the same, whatever their names.
fn is_alike(one: &Bundle, other: &Bundle) -> bool {
    one.spec.kind() == other.spec.kind() && one.spec.artifacts == other.spec.artifacts
}

/// The Bundle that brings the same content to the environment already, or has brought it.
fn already<'a>(wish: &Promote<'a>, source: &Bundle) -> Option<Promotion<'a>> {
    let environment = wish.environment;
    let kind = source.spec.kind();
    let of_kind = || wish.bundles.iter().copied().filter(|bundle| carries_kind(bundle, kind));
    let same = |bundle: &&Bundle| parts(bundle, kind) == source.spec.artifacts;
    let under_way = of_kind().find(|bundle| is_under_way(bundle, environment));
    match under_way {
        Some(bundle) if same(&bundle) => return Some(Promotion::OnItsWay(bundle)),
        // Another version is about to go in; who wants this one has to say so.
        Some(_) => return None,
        None => {}
    }
    let present = History::of(wish.bundles, environment, kind).present();
    if let Some(present) = present.filter(|bundle| same(bundle) && is_verified(bundle, environment)) {
        return Some(Promotion::There(present));
    }
    of_kind().filter(same).find(|bundle| is_coming(wish, bundle)).map(Promotion::OnItsWay)
}

/// Whether a Bundle is on its way to the environment and has not begun there.
fn is_coming(wish: &Promote<'_>, bundle: &Bundle) -> bool {
    let status = bundle.status.as_ref();
    let begun = status.is_some_and(|status| status.environments.contains_key(wish.environment));
    let over = status.and_then(|status| status.phase).is_some_and(is_finished);
    let route = Route::intended(&wish.pipeline.spec, bundle.spec.intent.as_ref());
    !begun && !over && route.is_ok_and(|route| route.contains(wish.environment))
}
