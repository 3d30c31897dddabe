//! The whole story as people see it on Gitea: gates, a reviewed pull request, evidence, and the ways back.

use anyhow::{Context as _, ensure};
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, ToSpan as _};
use kardinal_api::kardinal::{Bundle, BundlePhase, Pipeline, PromotionState};
use kardinal_promotion::intent::{Answer, Wish, rollback};
use kardinal_testkit::shop::APP;
use kardinal_testkit::{World, world};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::site::{KARDINAL, Site, at_gitea, gitea, message, record};

const FIRST: &str = "my-app-v1-29-0";
const SECOND: &str = "my-app-v1-30-0";
const THIRD: &str = "my-app-v1-31-0";
const FOURTH: &str = "my-app-v1-32-0";
const ALL: [&str; 3] = ["dev", "staging", "prod"];

#[test]
fn in_memory() -> anyhow::Result<()> {
    world::in_memory_real_time(world::promotions(), async |world, _| told(world).await)
}

#[test]
fn on_kardinal_up() -> anyhow::Result<()> {
    world::on_kardinal_up(world::promotions(), async |world| told(world).await)
}

#[test]
fn on_real_kubernetes() -> anyhow::Result<()> {
    world::on_real_kubernetes(world::promotions(), async |world| told(world).await)
}

async fn told(world: &World) -> anyhow::Result<()> {
    let Some(gitea) = gitea()? else { return Ok(()) };
    at_gitea(world, gitea, &ALL, None, async |site| {
        site.run_workloads(&ALL);
        site.shop.org_gate("no-weekend-deploys", "prod", "!schedule.isWeekend", "5m").await?;
        site.shop.org_gate("staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30", "1m").await?;
        site.pipeline(
            json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]),
        )
        .await?;
        the_gates_hold(site).await?;
        the_pull_request_tells(site).await?;
        people_decide(site).await?;
        and_back(site).await?;
        a_newer_bundle_takes_over(site).await?;
        somebody_says_no(site).await
    })
    .await
}

/// Saturday noon, so that a whole weekend lies ahead.
async fn saturday(world: &World) -> anyhow::Result<()> {
    let now = world.now().to_zoned(TimeZone::UTC);
    let ahead = (i64::from(Weekday::Saturday.to_monday_zero_offset()) + 7
        - i64::from(now.weekday().to_monday_zero_offset()))
        % 7;
    let ahead = if ahead == 0 { 7 } else { ahead };
    let noon = now.date().checked_add(ahead.days())?.at(12, 0, 0, 0).to_zoned(TimeZone::UTC)?;
    world.advance(noon.timestamp().duration_since(world.now())).await;
    Ok(())
}

async fn gate_is(site: &Site<'_>, name: &str, ready: bool) -> anyhow::Result<()> {
    let story = &site.shop.story;
    story
        .world
        .eventually(&format!("gate `{name}` has ready: {ready}"), async || {
            let found = story.find(KARDINAL, "PolicyGate", name).await?;
            let status = found.map(|gate| gate["status"].clone()).unwrap_or_default();
            Ok(if status["ready"] == ready { Ok(()) } else { Err(status.to_string()) })
        })
        .await
}

/// Two environments are written at once; the third waits for the soak, and then for Monday.
async fn the_gates_hold(site: &Site<'_>) -> anyhow::Result<()> {
    let world = site.shop.story.world;
    saturday(world).await?;
    site.shop.release(FIRST, "1.29.0", json!({})).await?;
    site.shop.state(FIRST, "staging", PromotionState::Verified).await?;
    gate_is(site, &format!("{FIRST}-staging-soak"), false).await?;
    gate_is(site, &format!("{FIRST}-no-weekend-deploys"), false).await?;
    world.advance(SignedDuration::from_mins(31)).await;
    gate_is(site, &format!("{FIRST}-staging-soak"), true).await?;
    ensure!(site.shop.find_step(FIRST, "prod").await?.is_none(), "prod waits for its other gate");
    ensure!(site.pulls()?.is_empty());
    for (environment, version) in [("dev", "1.29.0"), ("staging", "1.29.0"), ("prod", "1.28.0")] {
        site.has_version(environment, version)?;
    }
    world.advance(SignedDuration::from_hours(48)).await;
    Ok(())
}

/// What people see of it on Gitea.
async fn the_pull_request_tells(site: &Site<'_>) -> anyhow::Result<()> {
    site.shop.state(FIRST, "prod", PromotionState::WaitingForMerge).await?;
    let pull = site.pull(FIRST, "prod")?;
    let body = pull["body"].as_str().unwrap_or_default();
    for part in [
        "<!-- kardinal-step: ",
        "## Promotion: my-app v1.29.0 to prod",
        "| no-weekend-deploys | org | PASS | Monday",
        "| staging-soak | org | PASS | Soak: ",
        "| Image | ghcr.io/myorg/my-app:1.29.0 |",
        "| dev | 2d ago | n/a |",
        "| staging | 2d ago | 2d |",
        "ghcr.io/myorg/my-app: 1.28.0 to 1.29.0",
    ] {
        ensure!(body.contains(part), "`{part}` is missing in:\n{body}");
    }
    ensure!(labels(&pull) == ["kardinal", "kardinal/promotion"], "{}", pull["labels"]);
    ensure!(pull["user"]["login"] == "robot", "{}", pull["user"]);
    ensure!(pull["head"]["ref"] == site.shop.branch(FIRST, "prod"), "{}", pull["head"]["ref"]);
    let head = pull["head"]["sha"].as_str().context("a pull request has a head")?.to_owned();
    let world = site.shop.story.world;
    world
        .eventually("the commit shows that the gates are open", async || {
            let all =
                site.gitea().in_repository_json(&site.repository, &format!("commits/{head}/statuses"))?;
            let newest = all[0].clone();
            let right = newest["context"] == "kardinal/gates/main" && newest["status"] == "success";
            Ok(if right { Ok(()) } else { Err(all.to_string()) })
        })
        .await?;
    site.has_version("prod", "1.28.0")
}

fn labels(pull: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        pull["labels"].as_array().into_iter().flatten().filter_map(|label| label["name"].as_str()).collect();
    names.sort_unstable();
    names
}

/// bob approves and alice merges; Gitea tells, and the Bundle keeps the evidence.
async fn people_decide(site: &Site<'_>) -> anyhow::Result<()> {
    let number = site.number(FIRST, "prod")?;
    site.gitea().approve(&site.repository, number, "bob")?;
    site.gitea().merge_as(&site.repository, number, "alice")?;
    let bundle = site.shop.phase(FIRST, BundlePhase::Verified).await?;
    let pull = site.pull(FIRST, "prod")?;
    let prod = record(&bundle, "prod");
    ensure!(prod.pr_url.as_deref() == pull["html_url"].as_str(), "{prod:?}");
    ensure!(site.is_on_main(prod.commit.as_deref().unwrap_or_default()), "{prod:?}");
    let evidence = prod.evidence.unwrap_or_default();
    let approved = evidence.approved_by.unwrap_or_default();
    ensure!(approved == ["bob", "alice"], "{approved:?}");
    let gates = evidence.policy_gates.unwrap_or_default();
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    ensure!(names == ["no-weekend-deploys", "staging-soak"], "{gates:?}");
    for name in ["dev", "staging"] {
        let entry = record(&bundle, name);
        ensure!(entry.commit.is_some() && entry.pr_url.is_none(), "{name}: {entry:?}");
    }
    site.has_version("prod", "1.29.0")?;
    // The branch stays as long as the step does, so that people can look at it.
    ensure!(site.branches()?.contains(&site.shop.branch(FIRST, "prod")), "{:?}", site.branches()?);
    site.only(
        &[
            &format!("[kardinal] Promote {FIRST} to dev"),
            &format!("[kardinal] Promote {FIRST} to staging"),
            &format!("[kardinal] Promote {FIRST} to prod"),
        ],
        &[&format!("[kardinal] Promote {FIRST} to prod")],
    )
}

/// Waits until a Bundle has its pull request into prod.
async fn until_reviewed(site: &Site<'_>, bundle: &str, version: &str) -> anyhow::Result<()> {
    site.shop.release(bundle, version, json!({})).await?;
    soaked(site, bundle).await
}

/// Lets the soak pass, and waits for the pull request.
async fn soaked(site: &Site<'_>, bundle: &str) -> anyhow::Result<()> {
    site.shop.state(bundle, "staging", PromotionState::Verified).await?;
    site.shop.story.world.advance(SignedDuration::from_mins(31)).await;
    site.shop.state(bundle, "prod", PromotionState::WaitingForMerge).await?;
    Ok(())
}

/// What people ask for when they want the version before.
async fn wish(site: &Site<'_>) -> anyhow::Result<String> {
    let world = site.shop.story.world;
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), &world.namespace);
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let (all, pipeline) = (bundles.list(&ListParams::default()).await?, pipelines.get(APP).await?);
    let all: Vec<&Bundle> = all.items.iter().collect();
    // Named, because the merges were told by Gitea's clock, which nobody has moved ahead.
    let to = all.iter().copied().find(|bundle| bundle.metadata.name.as_deref() == Some(FIRST));
    let wish = Wish { pipeline: &pipeline, environment: "prod", bundle: to, bundles: &all, force: false };
    let answer = rollback(&wish, false, world.now()).map_err(|problem| anyhow::anyhow!("{problem:?}"))?;
    let Answer::New(bundle) = answer else { anyhow::bail!("it is on its way already") };
    let made = bundles.create(&PostParams::default(), &bundle).await?;
    made.metadata.name.context("it has a name")
}

/// Going back is a promotion like any other, with a label that says so.
async fn and_back(site: &Site<'_>) -> anyhow::Result<()> {
    until_reviewed(site, SECOND, "1.30.0").await?;
    site.approve(SECOND, "prod").await?;
    site.shop.phase(SECOND, BundlePhase::Verified).await?;
    site.has_version("prod", "1.30.0")?;
    let name = wish(site).await?;
    soaked(site, &name).await?;
    let pull = site.pull(&name, "prod")?;
    ensure!(labels(&pull) == ["kardinal", "kardinal/promotion", "kardinal/rollback"], "{}", pull["labels"]);
    let body = pull["body"].as_str().unwrap_or_default();
    ensure!(body.contains(&format!("**Rollback**: takes back {SECOND}")), "{body}");
    site.approve(&name, "prod").await?;
    let bundle = site.shop.phase(&name, BundlePhase::Verified).await?;
    let approved = record(&bundle, "prod").evidence.unwrap_or_default().approved_by.unwrap_or_default();
    ensure!(approved == ["alice"], "{approved:?}");
    for environment in ALL {
        site.has_version(environment, "1.29.0")?;
    }
    let wanted = ALL.map(|environment| format!("[kardinal] Rollback {environment} to {name}"));
    let rollbacks: Vec<String> =
        site.promotions()?.into_iter().filter(|subject| subject.contains("Rollback")).collect();
    ensure!(rollbacks == wanted, "{rollbacks:?}");
    Ok(())
}

/// The pull request of the older one is closed, with a word about why, and its branch is gone.
async fn a_newer_bundle_takes_over(site: &Site<'_>) -> anyhow::Result<()> {
    until_reviewed(site, THIRD, "1.31.0").await?;
    let number = site.number(THIRD, "prod")?;
    site.shop.release(FOURTH, "1.32.0", json!({})).await?;
    site.shop.phase(THIRD, BundlePhase::Superseded).await?;
    site.shop.story.gone(KARDINAL, "PromotionStep", &format!("{THIRD}-prod")).await?;
    let pull = site.pull(THIRD, "prod")?;
    ensure!(pull["state"] == "closed" && pull["merged"] == false, "{pull}");
    let comments = site.gitea().in_repository_json(&site.repository, &format!("issues/{number}/comments"))?;
    let said = comments[0]["body"].as_str().unwrap_or_default();
    ensure!(said.contains("superseded") && said.contains(THIRD), "{comments}");
    ensure!(!site.branches()?.contains(&site.shop.branch(THIRD, "prod")), "{:?}", site.branches()?);
    Ok(())
}

/// A pull request that somebody closes fails the Bundle.
async fn somebody_says_no(site: &Site<'_>) -> anyhow::Result<()> {
    until_reviewed(site, FOURTH, "1.32.0").await?;
    let number = site.number(FOURTH, "prod")?;
    site.gitea().close_as(&site.repository, number, "alice")?;
    site.shop.phase(FOURTH, BundlePhase::Failed).await?;
    let step = site.shop.find_step(FOURTH, "prod").await?.context("the step stays")?;
    ensure!(message(&step).contains("closed without merging by alice at "), "{step:?}");
    for (environment, version) in [("staging", "1.32.0"), ("prod", "1.29.0")] {
        site.has_version(environment, version)?;
    }
    Ok(())
}
