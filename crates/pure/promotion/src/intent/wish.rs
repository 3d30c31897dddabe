//! What a person wants of one environment, and how it comes true.

use kardinal_api::kardinal::{Bundle, Pipeline, Presence};

use super::content::parts;
use super::history::{History, carries_kind, is_under_way, is_verified};
use super::present::gone;
use crate::bundle::{Route, is_finished};
use kardinal_planner::problem::Problem;

/// A wish to go forward or back.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The Pipeline in question.
    pub pipeline: &'a Pipeline,
    /// The environment; those before it are passed on the way.
    pub environment: &'a str,
    /// The Bundle whose content is wanted. Absent: forward, what the environments before have now; back, the newest that
    /// was verified there before the present one and was neither taken back nor has failed.
    pub bundle: Option<&'a Bundle>,
    /// All Bundles of the Pipeline.
    pub bundles: &'a [&'a Bundle],
    /// Whether somebody insists on what was taken back, has failed there or is not verified yet.
    pub force: bool,
}

/// How a wish comes true.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// With a Bundle that is to be created.
    New(Box<Bundle>),
    /// With a Bundle that is on its way there already.
    OnItsWay(&'a Bundle),
    /// It has come true: this Bundle brought it.
    There(&'a Bundle),
}

/// The Bundle that brings the same content to the environment already, or has brought it.
pub(super) fn already<'a>(wish: &Wish<'a>, source: &Bundle) -> Option<Answer<'a>> {
    let environment = wish.environment;
    let kind = source.spec.kind();
    let of_kind = || wish.bundles.iter().copied().filter(|bundle| carries_kind(bundle, kind));
    let same = |bundle: &&Bundle| parts(bundle, kind) == source.spec.artifacts;
    let under_way = || of_kind().filter(|bundle| is_under_way(bundle, environment));
    if let Some(bundle) = under_way().find(same) {
        return Some(Answer::OnItsWay(bundle));
    }
    if under_way().next().is_some() {
        // Another version is about to go in; who wants this one has to say so.
        return None;
    }
    let present = match gone(wish.pipeline, wish.bundles, environment, kind) {
        Some(_) => None,
        None => History::of(wish.bundles, environment, kind).present(),
    };
    if let Some(present) = present.filter(|bundle| same(bundle) && is_verified(bundle, environment)) {
        return Some(Answer::There(present));
    }
    of_kind().filter(same).find(|bundle| is_coming(wish, bundle)).map(Answer::OnItsWay)
}

/// Whether a Bundle is on its way to the environment and has not begun there.
fn is_coming(wish: &Wish<'_>, bundle: &Bundle) -> bool {
    let status = bundle.status.as_ref();
    let begun = status.is_some_and(|status| status.environments.contains_key(wish.environment));
    let over = status.and_then(|status| status.phase).is_some_and(is_finished);
    let route = Route::intended(&wish.pipeline.spec, bundle.spec.intent.as_ref());
    !begun && !over && route.is_ok_and(|route| route.contains(wish.environment))
}

/// The answer where the Bundle is gone that brought what an environment has: there is nothing to go on from.
pub(super) fn lost(presence: &Presence) -> Problem {
    let Presence { environment, version, bundle, .. } = presence;
    let message = format!(
        "`{environment}` has `{version}` now, which `{bundle}` brought, and that Bundle does not exist any more"
    );
    Problem::new("environment", message)
        .hint("say which version is wanted: `kardinal promote … --bundle NAME`")
}
