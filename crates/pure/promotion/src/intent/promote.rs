//! Going forward: what an environment gets from those before it.

use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;
use kardinal_object::{age, name_of};

use super::create::up_to;
use super::history::is_verified;
use super::objection::{objection, objection_on_the_way};
use super::present::{Present, present};
use super::wish::{Answer, Wish, already, lost};
use crate::bundle::{Route, is_rollback};
use kardinal_planner::problem::{Problem, listed};

/// Brings an environment what those before it have now, or what a Bundle carries.
pub fn promote<'a>(wish: &Wish<'a>, now: Timestamp) -> Result<Answer<'a>, Problem> {
    let route = Route::whole(&wish.pipeline.spec)?;
    let Some(stop) = route.stop(wish.environment) else {
        return Err(route.unknown("environment", wish.environment));
    };
    let source = match wish.bundle {
        Some(source) => source,
        None if stop.upstreams.is_empty() => newest(wish)?,
        None => of_upstreams(wish, &stop.upstreams)?,
    };
    if let Some(done) = already(wish, source) {
        return Ok(done);
    }
    if let Some(objection) = objection(wish, source).filter(|_| !wish.force) {
        return Err(objection.problem(source, wish.environment));
    }
    let bundle = up_to(wish.pipeline, wish.environment, source, wish.bundles, now)?;
    if let Some(problem) = objection_on_the_way(wish, &bundle)? {
        return Err(problem);
    }
    Ok(Answer::New(Box::new(bundle)))
}

/// For an environment with none before it: the newest Bundle that nothing speaks against.
fn newest<'a>(wish: &Wish<'a>) -> Result<&'a Bundle, Problem> {
    let forward = wish.bundles.iter().copied().filter(|bundle| !is_rollback(bundle));
    forward
        .filter(|bundle| objection(wish, bundle).is_none())
        .max_by_key(|bundle| age(&bundle.metadata))
        .ok_or_else(|| {
            let environment = wish.environment;
            Problem::new("bundle", format!("there is no Bundle to promote to `{environment}`"))
                .hint("name one with `--bundle`, or create one with `kardinal create bundle`")
        })
}

/// What every environment right before has now, and is verified with. Where Bundles of several types have come, the one
/// that came last goes first, unless the environment has it.
fn of_upstreams<'a>(wish: &Wish<'a>, upstreams: &[&str]) -> Result<&'a Bundle, Problem> {
    let mut candidates: Option<Vec<&'a Bundle>> = None;
    let mut had: Vec<String> = Vec::new();
    for upstream in upstreams {
        let mut here: Vec<&'a Bundle> = Vec::new();
        for one in present(wish.pipeline, wish.bundles, upstream) {
            match one {
                Present::Bundle(bundle) => here.push(bundle),
                Present::Gone(presence) => return Err(lost(presence)),
            }
        }
        if here.is_empty() {
            return Err(nothing(format!("no Bundle has reached `{upstream}`, which comes before"), wish));
        }
        if let Some(open) = here.iter().find(|bundle| !is_verified(bundle, upstream)) {
            let name = name_of(&open.metadata);
            return Err(nothing(format!("`{upstream}` has `{name}` now, which is not verified there"), wish));
        }
        had.extend(here.iter().map(|bundle| {
            format!("`{upstream}` has {}", listed([crate::gate_context::version(&bundle.spec).as_str()]))
        }));
        candidates = Some(match candidates {
            None => here,
            Some(before) => {
                before.into_iter().filter(|one| here.iter().any(|other| is_alike(one, other))).collect()
            }
        });
    }
    let candidates = candidates.unwrap_or_default();
    let missing = candidates.iter().find(|bundle| !matches!(already(wish, bundle), Some(Answer::There(_))));
    missing.or(candidates.first()).copied().ok_or_else(|| {
        nothing(format!("the environments before have different versions now: {}", had.join(", ")), wish)
    })
}

fn nothing(message: String, wish: &Wish<'_>) -> Problem {
    let environment = wish.environment;
    Problem::new("environment", message).hint(format!(
        "wait until those before `{environment}` are verified with one version, or name a Bundle with `--bundle`"
    ))
}

/// Whether two Bundles carry the same, whatever their names.
fn is_alike(one: &Bundle, other: &Bundle) -> bool {
    one.spec.kind() == other.spec.kind() && one.spec.artifacts == other.spec.artifacts
}
