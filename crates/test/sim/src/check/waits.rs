//! Every Bundle comes to an end that can be explained, or waits for something that does not come by itself.

use anyhow::{bail, ensure};
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{Bundle, BundlePhase, BundleType, PromotionState};

use super::gates::never_opens;
use super::{Rest, message_of, name_of};
use crate::hands::is_forgotten;
use crate::world::NAMESPACE;

pub(super) fn check(rest: &Rest<'_>) -> anyhow::Result<()> {
    for bundle in &rest.bundles {
        match bundle.status.as_ref().and_then(|status| status.phase) {
            None | Some(BundlePhase::Available | BundlePhase::Promoting) => {
                waits(rest, bundle, &mut Vec::new())?
            }
            Some(BundlePhase::Superseded) => is_superseded(rest, bundle)?,
            Some(BundlePhase::Failed) => has_failed(rest, bundle)?,
            Some(BundlePhase::Verified | BundlePhase::SkipDenied) => {}
        }
    }
    Ok(())
}

/// A Bundle that is not at its end names what it waits for in each environment. `before` are those that wait for it.
fn waits<'a>(rest: &'a Rest<'_>, bundle: &'a Bundle, before: &mut Vec<&'a str>) -> anyhow::Result<()> {
    let (name, message) = (name_of(bundle), message_of(bundle));
    ensure!(!before.contains(&name), "{before:?} wait for each other: {message}");
    before.push(name);
    let mut explained = false;
    for part in message.split("; `") {
        let environment = part.trim_start_matches('`').split('`').next().unwrap_or_default();
        if part.contains(" to be Verified") {
            // So does something that comes before it.
            continue;
        }
        let reason = match holder(part) {
            Some((other, place)) if place == environment => holds(rest, other, place, before)?,
            Some((other, place)) => bail!("Bundle `{name}` waits for `{other}` in another place: {place}"),
            None => at_gate(rest, bundle, environment, part) || at_people(rest, name, environment),
        };
        ensure!(reason, "Bundle `{name}` should not wait any more: {part:?} in {message}");
        explained = true;
    }
    before.pop();
    ensure!(explained, "Bundle `{name}` does not say what it waits for: {message}");
    Ok(())
}

/// Bundle and environment of `waiting for BUNDLE to leave ENVIRONMENT: …`.
fn holder(part: &str) -> Option<(&str, &str)> {
    let (_, rest) = part.split_once("waiting for `")?;
    let (bundle, rest) = rest.split_once("` to leave `")?;
    Some((bundle, rest.split_once('`')?.0))
}

/// Whether a Bundle has a good reason to be in an environment that others wait for.
fn holds<'a>(
    rest: &'a Rest<'_>,
    name: &str,
    environment: &str,
    before: &mut Vec<&'a str>,
) -> anyhow::Result<bool> {
    if at_people(rest, name, environment) {
        return Ok(true);
    }
    let bundle = rest.bundle(name)?;
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let on_the_way = matches!(phase, None | Some(BundlePhase::Available | BundlePhase::Promoting));
    ensure!(on_the_way, "`{name}` is {phase:?} and still has `{environment}`: {before:?} wait for it");
    waits(rest, bundle, before)?;
    Ok(true)
}

fn at_gate(rest: &Rest<'_>, bundle: &Bundle, environment: &str, part: &str) -> bool {
    let skip = bundle.spec.intent.clone().unwrap_or_default().skip;
    let mut gates = rest.scenario.gates.iter().filter(|gate| gate.environment == environment);
    gates.any(|gate| part.contains(&gate.name) && never_opens(rest.scenario, gate, &skip))
}

/// Whether a Bundle has a pull request that everybody has forgotten.
fn at_people(rest: &Rest<'_>, bundle: &str, environment: &str) -> bool {
    let head = format!("kardinal/{NAMESPACE}/{bundle}/{environment}");
    let mut own = rest.requests.iter().filter(|request| request.spec.head == head);
    own.any(|request| {
        let state = request.status.as_ref().and_then(|status| status.state);
        let forgotten = is_forgotten(request.metadata.name.as_deref().unwrap_or_default());
        state == Some(PullRequestState::Open) && forgotten
    })
}

/// A Bundle gives way only to a newer one that carries at least the same; one that is pinned only to what takes it back.
fn is_superseded(rest: &Rest<'_>, bundle: &Bundle) -> anyhow::Result<()> {
    let (name, message) = (name_of(bundle), message_of(bundle));
    let newer = rest.bundle(message.split('`').nth(1).unwrap_or_default())?;
    let age = |bundle: &Bundle| {
        let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, bundle.metadata.name.clone())
    };
    ensure!(age(newer) > age(bundle), "`{name}` gave way to an older one: {message}");
    let (own, other) = (bundle.spec.kind(), newer.spec.kind());
    ensure!(
        own == other || other == BundleType::Mixed,
        "`{name}` is {own:?} and gave way to {other:?}: {message}"
    );
    let pinned = bundle.metadata.annotations.iter().flatten().any(|(key, _)| key == "kardinal.io/pin");
    let provenance = newer.spec.provenance.as_ref();
    let takes_back = provenance.and_then(|provenance| provenance.rollback_of.as_deref()) == Some(name);
    ensure!(!pinned || takes_back, "`{name}` is pinned and gave way: {message}");
    Ok(())
}

/// A Bundle fails where its pull request was closed, or where something does not run.
fn has_failed(rest: &Rest<'_>, bundle: &Bundle) -> anyhow::Result<()> {
    let name = name_of(bundle);
    let records = bundle.status.iter().flat_map(|status| &status.environments);
    let mut failed = records.filter(|(_, record)| record.state == Some(PromotionState::Failed)).peekable();
    ensure!(failed.peek().is_some(), "`{name}` failed nowhere: {}", message_of(bundle));
    for (environment, record) in failed {
        let message = record.message.as_deref().unwrap_or_default();
        let closed = message.contains("was closed without merging");
        let broken = message.starts_with("not healthy after") && rest.scenario.breaks_in(environment);
        ensure!(closed || broken, "`{name}` should not have failed in `{environment}`: {message}");
    }
    Ok(())
}
