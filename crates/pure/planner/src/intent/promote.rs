//! Going forward: what an environment gets from those before it.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Presence};
use kardinal_object::{age, name_of};

use super::create::up_to;
use super::history::{History, Objection, came, carries_kind, is_verified, parts, reached};
use super::ledger;
use super::present::{Present, arrived, gone, present};
use super::wish::{Answer, Wish, already, lost};
use crate::bundle::{Route, is_rollback};
use crate::problem::{Problem, listed};

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

/// Why a new Bundle is not to come to an environment that it passes on its way, unless somebody insists. Where it changes
/// nothing nobody is asked: there an attempt may have failed for reasons of its own.
pub(super) fn objection_on_the_way(wish: &Wish<'_>, bundle: &Bundle) -> Result<Option<Problem>, Problem> {
    let route = Route::intended(&wish.pipeline.spec, bundle.spec.intent.as_ref())?;
    let mut passed = route.names().filter(|name| *name != wish.environment && !wish.force);
    Ok(passed.find_map(|environment| {
        let there = Wish { environment, ..*wish };
        if matches!(already(&there, bundle), Some(Answer::There(_))) {
            return None;
        }
        Some(objection(&there, bundle)?.problem(bundle, environment))
    }))
}

/// Why a Bundle is not to come to the environment (again): by the Bundles that exist, or by what the Pipeline remembers of
/// a rollback that was deleted.
fn objection(wish: &Wish<'_>, source: &Bundle) -> Option<Objection> {
    let kind = source.spec.kind();
    let history = History::of(wish.bundles, wish.environment, kind);
    let by_record = || {
        let Some(rollback) = gone(wish.pipeline, wish.bundles, wish.environment, kind) else {
            let was_there = history
                .arrivals()
                .iter()
                .any(|one| parts(one, kind) == parts(source, kind) && is_verified(one, wish.environment));
            let is_gone = || ledger::is_taken_back(wish.pipeline, wish.bundles, wish.environment, source);
            return (was_there && is_gone()).then_some(Objection::TakenBack(None));
        };
        is_taken_back_by(wish, source, rollback).then(|| Objection::TakenBack(Some(rollback.bundle.clone())))
    };
    history.objection(source).or_else(by_record)
}

/// Whether a rollback whose Bundle was deleted took back what a Bundle carries: what it names, and all that had come since
/// the version that it brought back.
fn is_taken_back_by(wish: &Wish<'_>, source: &Bundle, rollback: &Presence) -> bool {
    let Some(named) = &rollback.rollback_of else { return false };
    let kind = source.spec.kind();
    let version = kardinal_policy::version(&source.spec);
    let here = |bundle: &&&Bundle| {
        carries_kind(bundle, kind)
            && reached(bundle, wish.environment)
            && came(bundle, wish.environment) <= arrived(rollback)
    };
    let brought = wish.bundles.iter().filter(here);
    let brought = brought.filter(|bundle| kardinal_policy::version(&bundle.spec) == rollback.version);
    let brought_at = brought.map(|bundle| came(bundle, wish.environment)).max().flatten();
    let mut same =
        wish.bundles.iter().filter(here).filter(|bundle| kardinal_policy::version(&bundle.spec) == version);
    version != rollback.version
        && same
            .any(|bundle| name_of(&bundle.metadata) == named || came(bundle, wish.environment) > brought_at)
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
            format!("`{upstream}` has {}", listed([kardinal_policy::version(&bundle.spec).as_str()]))
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
