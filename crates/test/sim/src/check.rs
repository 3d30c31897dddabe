//! What must hold, always and in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use kardinal_api::forge::{PullRequest, PullRequestState};
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_testkit::outside::workloads::version;
use kardinal_testkit::shop::git;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::Scenario;
use crate::fate::{Attempt, promotion};
use crate::hands::{Stranger, is_forgotten};
use crate::scenario::{Asks, Gate, OPENING, SOAK};
use crate::world::{NAMESPACE, REPOSITORY, World};

/// How long a failing world may need to hear of a change.
const HEARSAY: Duration = Duration::from_secs(240);

/// Looks again and again; ends when something is wrong.
pub(crate) async fn watch(world: &World, scenario: &Scenario) -> anyhow::Result<()> {
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), NAMESPACE);
    let pinned: BTreeSet<&str> = scenario
        .bundles
        .iter()
        .filter(|release| release.pinned)
        .map(|release| release.name.as_str())
        .collect();
    let mut since: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let mut open: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for request in api.list(&ListParams::default()).await?.items {
            let state = request.status.and_then(|status| status.state).unwrap_or_default();
            let mut parts = request.spec.head.split('/').skip(1);
            let (bundle, environment) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            // A pinned Bundle asks for its own way beside the others.
            if state == PullRequestState::Open && !pinned.contains(bundle) {
                open.entry(environment.to_owned()).or_default().push(request.spec.head.clone());
            }
        }
        open.retain(|_, heads| heads.len() > 1);
        since.retain(|environment, _| open.contains_key(environment));
        for (environment, heads) in &open {
            let first = *since.entry(environment.clone()).or_insert_with(Instant::now);
            ensure!(
                first.elapsed() < HEARSAY,
                "`{environment}` has more than one open pull request: {heads:?}"
            );
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
    }
}

/// Looks at what is left.
pub(crate) async fn at_rest(
    world: &World,
    scenario: &Scenario,
    strangers: &[Stranger],
) -> anyhow::Result<()> {
    let api: Api<Bundle> = Api::namespaced(world.client.clone(), NAMESPACE);
    let bundles = api.list(&ListParams::default()).await?.items;
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), NAMESPACE);
    let requests = api.list(&ListParams::default()).await?.items;
    let path = world.workshop.forge.store.path(NAMESPACE, REPOSITORY)?;
    let log = git(&path, &["log", "--format=%H %s", "--topo-order", "main"])?;
    let log: Vec<(&str, &str)> = log.lines().filter_map(|line| line.split_once(' ')).collect();
    for bundle in &bundles {
        ends_or_waits(scenario, bundle, &requests)?;
    }
    gates_were_open(scenario, &bundles, &world.log.attempts())?;
    nobody_is_lost(&path, &log, strangers)?;
    let mut seen = BTreeSet::new();
    for promoted in log.iter().filter_map(|(_, subject)| promotion(subject)) {
        ensure!(seen.insert(promoted.clone()), "{promoted:?} was committed twice: {log:#?}");
    }
    for environment in &scenario.environments {
        let file = format!("main:environments/{}/kustomization.yaml", environment.name);
        let content = version(&git(&path, &["show", &file])?).context("the file names a version")?;
        content_is_known(&environment.name, &content, &bundles, &log)?;
    }
    Ok(())
}

/// A Bundle that is not at its end names what it waits for, and that is something that does not come by itself.
fn ends_or_waits(scenario: &Scenario, bundle: &Bundle, requests: &[PullRequest]) -> anyhow::Result<()> {
    let name = bundle.metadata.name.as_deref().unwrap_or_default();
    let status = bundle.status.clone().unwrap_or_default();
    if !matches!(status.phase, None | Some(BundlePhase::Available | BundlePhase::Promoting)) {
        return Ok(());
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let message = ready.map(|condition| condition.message.as_str()).unwrap_or_default();
    ensure!(message.contains('`'), "Bundle `{name}` does not say what it waits for: {status:?}");
    let skip = bundle.spec.intent.clone().unwrap_or_default().skip;
    let closed = scenario.gates.iter().filter(|gate| never_opens(scenario, gate, &skip));
    let at_gate = closed.into_iter().any(|gate| message.contains(&gate.name));
    let mine = format!("kardinal/{name}/");
    let at_people = requests.iter().any(|request| {
        let status = request.status.clone().unwrap_or_default();
        let open = status.state == Some(PullRequestState::Open);
        let forgotten = is_forgotten(request.metadata.name.as_deref().unwrap_or_default());
        open && request.spec.head.starts_with(&mine) && (forgotten || status.mergeable == Some(false))
    });
    ensure!(at_gate || at_people, "Bundle `{name}` should not wait any more: {message}");
    Ok(())
}

/// Where everything before an environment is skipped there is nothing to soak in.
fn never_opens(scenario: &Scenario, gate: &Gate, skip: &[String]) -> bool {
    let lasting = match gate.asks {
        Asks::Hour => false,
        Asks::Soak => upstreams(scenario, &gate.environment, skip).is_empty(),
        Asks::Never | Asks::Nonsense => true,
    };
    lasting && gate.overridden.is_none()
}

/// Nothing was written for an environment while one of its gates was closed, or the Pipeline paused.
fn gates_were_open(scenario: &Scenario, bundles: &[Bundle], attempts: &[Attempt]) -> anyhow::Result<()> {
    for attempt in attempts {
        let bundle = bundles.iter().find(|bundle| bundle.metadata.name.as_deref() == Some(&attempt.bundle));
        let bundle = bundle.with_context(|| format!("{attempt:?} of a Bundle that does not exist"))?;
        for gate in scenario.gates.iter().filter(|gate| gate.environment == attempt.environment) {
            if !is_open(scenario, gate, bundle, attempt.at) {
                bail!("{attempt:?} went past the closed gate {gate:?}: {:?}", bundle.status);
            }
        }
        if let Some((from, to)) = scenario.pause {
            let held = attempt.at > (from + HEARSAY.as_secs()) as f64 && attempt.at < to as f64;
            ensure!(!held, "{attempt:?} while the Pipeline was paused from {from} to {to}");
        }
    }
    Ok(())
}

fn is_open(scenario: &Scenario, gate: &Gate, bundle: &Bundle, at: f64) -> bool {
    if gate.overridden.is_some_and(|given| given as f64 <= at) {
        return true;
    }
    match gate.asks {
        Asks::Hour => at >= OPENING,
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

fn nobody_is_lost(
    path: &std::path::Path,
    log: &[(&str, &str)],
    strangers: &[Stranger],
) -> anyhow::Result<()> {
    for stranger in strangers {
        ensure!(log.iter().any(|(id, _)| *id == stranger.commit), "{stranger:?} was lost: {log:#?}");
        let content = git(path, &["show", &format!("main:{}", stranger.path)])?;
        ensure!(content.contains(&stranger.line), "the line of {stranger:?} was lost: {content}");
    }
    Ok(())
}

/// An environment holds what was promoted to it last. A Bundle that was superseded right after its push may not have
/// written that down.
fn content_is_known(
    environment: &str,
    content: &str,
    bundles: &[Bundle],
    log: &[(&str, &str)],
) -> anyhow::Result<()> {
    let promoted = |bundle: &Bundle| {
        let status = bundle.status.as_ref()?;
        status.environments.get(environment)?.promoted_at
    };
    let carries = |bundle: &Bundle| {
        let images = &bundle.spec.artifacts.images;
        images.first().and_then(|image| image.reference.rsplit(':').next()).unwrap_or_default().to_owned()
    };
    let last =
        bundles.iter().filter(|bundle| promoted(bundle).is_some()).max_by_key(|bundle| promoted(bundle));
    let recorded = last.map_or("1.28.0".to_owned(), carries);
    let committed =
        log.iter().filter_map(|(_, subject)| promotion(subject)).find(|(_, to)| to == environment);
    let unrecorded = committed
        .and_then(|(name, _)| bundles.iter().find(|bundle| bundle.metadata.name.as_ref() == Some(&name)))
        .filter(|bundle| {
            bundle.status.as_ref().and_then(|status| status.phase) == Some(BundlePhase::Superseded)
        })
        .map(carries);
    ensure!(
        content == recorded || Some(content) == unrecorded.as_deref(),
        "`{environment}` holds {content}, but {recorded} was promoted last: {log:#?}"
    );
    Ok(())
}
