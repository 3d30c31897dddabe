//! Gitea is down for a while, in each phase of a promotion: it goes on by itself soon after the return, with one
//! commit for each environment and one pull request.

use std::time::{Duration, Instant};

use anyhow::ensure;
use http::Method;
use kardinal_api::kardinal::{BundlePhase, PromotionState, PromotionStep};
use kardinal_testkit::{World, world};
use serde_json::json;

use super::proxy::{Fate, Proxy};
use super::site::{Shared, Site, at_gitea, message, own_gitea};

const BUNDLE: &str = "my-app-v1-29-0";
const BOTH: [&str; 2] = ["dev", "prod"];
/// How soon it must go on.
const RECOVERY: Duration = Duration::from_secs(10);

/// How long Gitea is away: longer than several tries. `KARDINAL_LONG_TESTS` makes it 30 seconds, and takes the
/// time until it goes on.
fn downtime() -> Duration {
    Duration::from_secs(if is_long() { 30 } else { 6 })
}

fn is_long() -> bool {
    std::env::var_os("KARDINAL_LONG_TESTS").is_some()
}

/// With a Gitea of its own, because it goes down.
fn alone(scenario: impl AsyncFnOnce(&World, &Shared) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let Some(gitea) = own_gitea()? else { return Ok(()) };
    world::in_memory_real_time(world::promotions(), async |world, _| scenario(world, &gitea).await)
}

fn tries_again(step: &PromotionStep) -> bool {
    message(step).ends_with("; trying again")
}

/// Waits out the downtime, in which the step only says that it tries again, and starts Gitea.
async fn endure(site: &Site<'_>, environment: &str) -> anyhow::Result<Instant> {
    let step = site.shop.step(BUNDLE, environment, "tries again", tries_again).await?;
    ensure!(!message(&step).contains(&site.token), "{step:?}");
    tokio::time::sleep(downtime()).await;
    let step = site.shop.step(BUNDLE, environment, "still tries", tries_again).await?;
    let conditions = step.status.map(|status| status.conditions).unwrap_or_default();
    ensure!(conditions.iter().all(|condition| condition.type_ != "Blocked"), "{conditions:?}");
    site.start_again()?;
    Ok(Instant::now())
}

fn recovered(phase: &str, since: Instant) -> anyhow::Result<()> {
    let after = since.elapsed();
    told(&format!("outage {phase}: went on {:.1} s after the return", after.as_secs_f64()));
    ensure!(!is_long() || after <= RECOVERY, "{phase}: it took {after:?}");
    Ok(())
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests may want to see the numbers")]
fn told(text: &str) {
    eprintln!("{text}");
}

async fn begin(site: &mut Site<'_>) -> anyhow::Result<()> {
    site.run_workloads(&BOTH);
    site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await
}

async fn end(site: &Site<'_>) -> anyhow::Result<()> {
    site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for environment in BOTH {
        site.has_version(environment, "1.29.0")?;
    }
    site.only(
        &[&format!("[kardinal] Promote {BUNDLE} to dev"), &format!("[kardinal] Promote {BUNDLE} to prod")],
        &[&format!("[kardinal] Promote {BUNDLE} to prod")],
    )
}

#[test]
fn before_the_first_push() -> anyhow::Result<()> {
    alone(async |world, gitea| {
        at_gitea(world, gitea, &BOTH, None, async |site| {
            begin(site).await?;
            site.stop();
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            let back = endure(site, "dev").await?;
            site.shop
                .step(BUNDLE, "dev", "has pushed", |step| {
                    step.status.as_ref().is_some_and(|status| status.promoted_at.is_some())
                })
                .await?;
            recovered("before the first push", back)?;
            site.approve(BUNDLE, "prod").await?;
            end(site).await
        })
        .await
    })
}

#[test]
fn between_push_and_pull_request() -> anyhow::Result<()> {
    alone(async |world, gitea| {
        let upstream = gitea.read().map(|gitea| gitea.url.clone()).unwrap_or_default();
        let proxy = Proxy::start(&upstream).await?;
        at_gitea(world, gitea, &BOTH, Some(&proxy), async |site| {
            begin(site).await?;
            let mut held = proxy.hold(Method::GET, "/api/v1/repos/");
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            held.caught().await?;
            let branch = site.shop.branch(BUNDLE, "prod");
            ensure!(site.branches()?.contains(&branch) && site.pulls()?.is_empty());
            site.stop();
            held.release(Fate::Forward);
            let back = endure(site, "prod").await?;
            site.shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
            recovered("between push and pull request", back)?;
            site.approve(BUNDLE, "prod").await?;
            end(site).await
        })
        .await
    })
}

/// Somebody has merged and Gitea has told it, but goes down before it can be asked. It never tells again.
#[test]
fn while_waiting_for_the_merge() -> anyhow::Result<()> {
    alone(async |world, gitea| {
        let upstream = gitea.read().map(|gitea| gitea.url.clone()).unwrap_or_default();
        let proxy = Proxy::start(&upstream).await?;
        at_gitea(world, gitea, &BOTH, Some(&proxy), async |site| {
            begin(site).await?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            site.shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
            let number = site.number(BUNDLE, "prod")?;
            let mut held = proxy.hold(Method::GET, &format!("/pulls/{number}"));
            site.gitea().merge_as(&site.repository, number, "alice")?;
            held.caught().await?;
            site.stop();
            held.release(Fate::Forward);
            let back = endure(site, "prod").await?;
            site.shop
                .step(BUNDLE, "prod", "knows of the merge", |step| {
                    step.status.as_ref().is_some_and(|status| status.merged_at.is_some())
                })
                .await?;
            recovered("while waiting for the merge", back)?;
            end(site).await
        })
        .await
    })
}

/// What was merged still has to arrive in the environment, which asks nothing of Gitea but the files.
#[test]
fn between_merge_and_health() -> anyhow::Result<()> {
    alone(async |world, gitea| {
        at_gitea(world, gitea, &BOTH, None, async |site| {
            site.run_workloads(&["dev"]);
            site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            site.approve(BUNDLE, "prod").await?;
            site.shop.state(BUNDLE, "prod", PromotionState::HealthChecking).await?;
            site.stop();
            site.run_workloads(&BOTH);
            tokio::time::sleep(downtime()).await;
            let step = site.shop.find_step(BUNDLE, "prod").await?;
            let state = step.and_then(|step| step.status?.state);
            ensure!(state == Some(PromotionState::HealthChecking), "{state:?}");
            site.start_again()?;
            let back = Instant::now();
            site.shop.state(BUNDLE, "prod", PromotionState::Verified).await?;
            recovered("between merge and health", back)?;
            end(site).await
        })
        .await
    })
}
