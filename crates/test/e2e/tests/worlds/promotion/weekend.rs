//! A gate that is closed on weekends.

use anyhow::ensure;
use jiff::civil::{Weekday, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};
use kardinal_api::forge::CheckState;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::fixture;
use kardinal_testkit::world::{in_memory_overheard, promotions};
use kardinal_testkit::{Shop, World, WorldKind, in_three_worlds};
use serde_json::json;

use super::words::{approve, gate_is, has_version, pipeline, until, why};

in_three_worlds!(promotions: prod_waits_for_monday);
in_three_worlds!(promotions: an_open_pull_request_tells_that_it_is_weekend);

const BUNDLE: &str = "my-app-v1-29-0-1712567890";
const GATE: &str = "my-app-v1-29-0-no-weekend-deploys";

/// Saturday noon and the midnight after that weekend.
fn weekend(now: Timestamp) -> anyhow::Result<(Timestamp, Timestamp)> {
    let now = now.to_zoned(TimeZone::UTC);
    let saturday = now.nth_weekday(1, Weekday::Saturday)?;
    let at = |day: &Zoned, time| anyhow::Ok(day.with().time(time).build()?.timestamp());
    Ok((at(&saturday, time(12, 0, 0, 0))?, at(&saturday.checked_add(2.days())?, time(0, 0, 0, 0))?))
}

/// Everything up to the closed gate, on a Saturday.
async fn held<'a>(world: &'a World) -> anyhow::Result<(Shop<'a>, Timestamp)> {
    let mut shop = Shop::open(world, &["staging", "prod"]).await?;
    let (saturday, monday) = weekend(world.now())?;
    world.advance(until(&shop, saturday)).await;
    shop.run_workloads(&["staging", "prod"]);
    shop.org_manifest(&fixture("policy-gate-5-2.yaml")?).await?;
    shop.pipeline(pipeline(json!([{"name": "staging"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    let status = gate_is(&shop, GATE, false).await?;
    ensure!(status["reason"] == "schedule.isWeekend = true", "{status}");
    ensure!(status["nextChangeAt"] == shop.story.stamp(monday), "{status}");
    shop.stop_workloads();
    Ok((shop, monday))
}

async fn prod_waits_for_monday(world: &World) -> anyhow::Result<()> {
    let (mut shop, monday) = held(world).await?;
    world
        .eventually("the Bundle says until when it waits", async || {
            let why = why(&shop.bundle(BUNDLE).await?);
            let told = why.contains("`no-weekend-deploys`")
                && why.contains(&shop.story.stamp(monday))
                && why.contains("Production deployments are blocked on weekends");
            Ok(if told { Ok(()) } else { Err(why) })
        })
        .await?;
    world.advance(until(&shop, monday - SignedDuration::from_secs(60))).await;
    gate_is(&shop, GATE, false).await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "it is still Sunday");
    world.advance(SignedDuration::from_secs(61)).await;
    let step = shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let created = step.metadata.creation_timestamp.map(|time| time.0);
    if world.kind == WorldKind::Memory {
        ensure!(created == Some(monday), "the step was made at {created:?} instead of {monday}");
    }
    shop.run_workloads(&["prod"]);
    approve(&shop, BUNDLE, "prod").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    shop.close().await
}

/// Waits until the pull request shows what the gate says, in its body and on its commit.
async fn shows(shop: &Shop<'_>, row: &str, state: CheckState, said: &str) -> anyhow::Result<()> {
    shop.story
        .world
        .eventually(&format!("the pull request shows `{row}`"), async || {
            let spec = shop.request(BUNDLE, "prod").await?.spec;
            let check = spec.checks.iter().find(|check| check.context == "kardinal/gates/main");
            let told =
                check.is_some_and(|check| check.state == state && check.description.as_deref() == Some(said));
            let row = spec.body.lines().any(|line| line.starts_with(row));
            Ok(if told && row { Ok(()) } else { Err(format!("{:?}\n{}", spec.checks, spec.body)) })
        })
        .await
}

/// Opened on a working day, not merged: what reviewers see follows the gates.
async fn an_open_pull_request_tells_that_it_is_weekend(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.working_day().await;
    shop.org_manifest(&fixture("policy-gate-5-2.yaml")?).await?;
    shop.pipeline(pipeline(json!([{"name": "prod", "approval": "pr-review"}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    shows(&shop, "| no-weekend-deploys | org | PASS |", CheckState::Success, "all gates are open").await?;
    let (saturday, monday) = weekend(world.now())?;
    world.advance(until(&shop, saturday)).await;
    shows(&shop, "| no-weekend-deploys | org | FAIL |", CheckState::Pending, "held by no-weekend-deploys")
        .await?;
    world.advance(until(&shop, monday)).await;
    shows(&shop, "| no-weekend-deploys | org | PASS |", CheckState::Success, "all gates are open").await?;
    let request = shop.request(BUNDLE, "prod").await?;
    ensure!(
        request.spec.checks.len() == 1,
        "one line for each commit, not for each change: {:?}",
        request.spec.checks
    );
    shop.run_workloads(&["prod"]);
    approve(&shop, BUNDLE, "prod").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    shop.close().await
}

/// A closed gate costs one write for each `recheckInterval`, and nothing else is written meanwhile.
#[test]
fn waiting_is_quiet() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let (shop, _) = held(world).await?;
        world.advance(SignedDuration::from_mins(10)).await;
        requests.take();
        world.advance(SignedDuration::from_hours(5)).await;
        let heard = requests.take();
        let writes: Vec<&String> = heard.iter().filter(|request| !request.starts_with("GET ")).collect();
        let of_gate =
            writes.iter().filter(|write| write.contains(&format!("/policygates/{GATE}/status"))).count();
        ensure!(
            (59..=61).contains(&of_gate),
            "{of_gate} evaluations in five hours of five minutes: {writes:?}"
        );
        ensure!(writes.len() == of_gate, "somebody else writes too: {writes:?}");
        gate_is(&shop, GATE, false).await?;
        Ok(())
    })
}
