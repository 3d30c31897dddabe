//! Doors that somebody has to open: a token that was revoked, a branch that is protected. The step says what to
//! change, and goes on by itself when that is done.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use kardinal_api::kardinal::{BundlePhase, PromotionState, PromotionStep};
use kardinal_testkit::world;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::site::{Site, at_gitea, gitea, message};

const BUNDLE: &str = "my-app-v1-29-0";

/// Waits until a step says that somebody must act, and what.
async fn blocked(site: &Site<'_>, environment: &str) -> anyhow::Result<String> {
    let is_blocked = |step: &PromotionStep| {
        step.status.iter().flat_map(|status| &status.conditions).any(|condition| {
            condition.type_ == "Blocked" && condition.status == "True" && condition.reason == "ActionNeeded"
        })
    };
    let step = site.shop.step(BUNDLE, environment, "is blocked", is_blocked).await?;
    let status = step.status.as_ref().context("it has a status")?;
    ensure!(status.state != Some(PromotionState::Failed), "{status:?}");
    let said = message(&step);
    let condition = status.conditions.iter().find(|condition| condition.type_ == "Blocked");
    ensure!(condition.is_some_and(|condition| condition.message == said), "{status:?}");
    no_secret(site).await?;
    Ok(said)
}

/// Nothing that people can read holds the token.
async fn no_secret(site: &Site<'_>) -> anyhow::Result<()> {
    let world = site.shop.story.world;
    let mut seen = String::new();
    for kind in ["PromotionStep", "Bundle", "Pipeline"] {
        let all = site.shop.story.api(crate::site::KARDINAL, kind).list(&ListParams::default()).await?;
        seen.push_str(&serde_json::to_string(&all.items)?);
    }
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    seen.push_str(&serde_json::to_string(&events.list(&ListParams::default()).await?.items)?);
    ensure!(!seen.contains(&site.token), "the token is in what people can read");
    Ok(())
}

fn is_unblocked(step: &PromotionStep) -> bool {
    !step.status.iter().flat_map(|status| &status.conditions).any(|condition| condition.type_ == "Blocked")
}

#[test]
fn a_revoked_token_is_renewed() -> anyhow::Result<()> {
    world::in_memory_real_time(world::promotions(), async |world, _| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        at_gitea(world, gitea, &["dev", "prod"], None, async |site| {
            site.run_workloads(&["dev", "prod"]);
            site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await?;
            site.revoke_token()?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            let said = blocked(site, "dev").await?;
            ensure!(said.contains("token") && said.contains("Secret"), "{said}");
            site.renew_token().await?;
            let waiting = site.shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
            ensure!(is_unblocked(&waiting), "{waiting:?}");

            // The same for the forge's API. The merge is heard of, but may not be looked at.
            site.revoke_token()?;
            let number = site.number(BUNDLE, "prod")?;
            site.gitea().merge_as(&site.repository, number, "alice")?;
            let said = blocked(site, "prod").await?;
            ensure!(said.contains("token") && said.contains("Secret"), "{said}");
            site.renew_token().await?;
            site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
            let step = site.shop.find_step(BUNDLE, "prod").await?.context("the step stays")?;
            ensure!(is_unblocked(&step), "{step:?}");
            once(site)
        })
        .await
    })
}

#[test]
fn a_protected_branch_is_opened() -> anyhow::Result<()> {
    world::in_memory_real_time(world::promotions(), async |world, _| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        at_gitea(world, gitea, &["dev", "prod"], None, async |site| {
            site.run_workloads(&["dev", "prod"]);
            site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await?;
            site.gitea().protect_branch(&site.repository, "main", 0)?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            let said = blocked(site, "dev").await?;
            for part in ["protected", "Allow this user to push to the branch", "open pull requests"] {
                ensure!(said.contains(part), "`{part}` is missing in: {said}");
            }
            site.has_version("dev", "1.28.0")?;
            site.gitea().unprotect_branch(&site.repository, "main")?;
            site.approve(BUNDLE, "prod").await?;
            site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
            let step = site.shop.find_step(BUNDLE, "dev").await?.context("the step stays")?;
            ensure!(is_unblocked(&step), "{step:?}");
            once(site)
        })
        .await
    })
}

fn once(site: &Site<'_>) -> anyhow::Result<()> {
    for environment in ["dev", "prod"] {
        site.has_version(environment, "1.29.0")?;
    }
    site.only(
        &[&format!("[kardinal] Promote {BUNDLE} to dev"), &format!("[kardinal] Promote {BUNDLE} to prod")],
        &[&format!("[kardinal] Promote {BUNDLE} to prod")],
    )
}
