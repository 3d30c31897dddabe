//! Nothing is written for an environment while one of its gates is closed, or the Pipeline paused.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;

use super::Rest;
use crate::Scenario;
use crate::fate::Attempt;
use crate::scenario::{Asks, Gate, SOAK, TURN};

pub(super) fn check(rest: &Rest<'_>, attempts: &[Attempt]) -> anyhow::Result<()> {
    for attempt in attempts {
        let bundle = rest.bundle(&attempt.bundle)?;
        for gate in rest.scenario.gates.iter().filter(|gate| gate.environment == attempt.environment) {
            if !is_open(rest.scenario, gate, bundle, attempt.at) {
                bail!("{attempt:?} went past the closed gate {gate:?}: {:?}", bundle.status);
            }
        }
        if let Some((from, to)) = rest.scenario.pause {
            let held = attempt.at > from as f64 + hearsay(rest.scenario) && attempt.at < to as f64;
            ensure!(!held, "{attempt:?} while the Pipeline was paused from {from} to {to}");
        }
    }
    Ok(())
}

/// How long the controllers may need to hear of a change, in seconds.
fn hearsay(scenario: &Scenario) -> f64 {
    let failures = &scenario.failures;
    if failures.server + failures.watches == 0 { 5.0 } else { 240.0 }
}

/// Where everything before an environment is skipped there is nothing to soak in.
pub(super) fn never_opens(scenario: &Scenario, gate: &Gate, skip: &[String]) -> bool {
    let lasting = match gate.asks {
        Asks::Later => false,
        Asks::Soak => upstreams(scenario, &gate.environment, skip).is_empty(),
        Asks::Earlier | Asks::Never | Asks::Nonsense => true,
    };
    lasting && gate.overridden.is_none()
}

fn is_open(scenario: &Scenario, gate: &Gate, bundle: &Bundle, at: f64) -> bool {
    if gate.overridden.is_some_and(|given| given as f64 <= at) {
        return true;
    }
    match gate.asks {
        Asks::Later => at >= TURN,
        Asks::Earlier => at <= TURN + hearsay(scenario),
        Asks::Never | Asks::Nonsense => false,
        Asks::Soak => {
            let skip = bundle.spec.intent.clone().unwrap_or_default().skip;
            let before = upstreams(scenario, &gate.environment, &skip);
            let status = bundle.status.clone().unwrap_or_default();
            let verified = |name: &&str| status.environments.get(*name).and_then(|record| record.verified_at);
            let start: Option<Timestamp> = "2026-04-09T10:30:00Z".parse().ok();
            !before.is_empty()
                && before.iter().all(|name| {
                    let (Some(verified), Some(start)) = (verified(&name.as_str()), start) else {
                        return false;
                    };
                    at >= (verified.duration_since(start).as_secs() + SOAK * 60) as f64
                })
        }
    }
}

/// The environments directly before one, without those that are skipped.
fn upstreams(scenario: &Scenario, name: &str, skip: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for upstream in scenario.before(name) {
        if skip.contains(&upstream) {
            found.extend(upstreams(scenario, &upstream, skip));
        } else {
            found.insert(upstream);
        }
    }
    found
}
