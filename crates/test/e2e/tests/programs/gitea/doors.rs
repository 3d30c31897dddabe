//! Doors that somebody has to open: a token that is missing or revoked, a branch that is protected, an approval that
//! is required. The step says what to change, and goes on by itself when that is done.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use kardinal_api::kardinal::{BundlePhase, PromotionState, PromotionStep};
use kardinal_testkit::world;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::site::{KARDINAL, ROBOT, SECRET, Site, at_gitea, gitea, message, record};

const BUNDLE: &str = "my-app-v1-29-0";

/// Waits until a step says that somebody must act because of this, and returns what it says.
async fn blocked(
    site: &Site<'_>,
    environment: &str,
    (reason, because): (&str, &str),
) -> anyhow::Result<String> {
    let is_blocked = |step: &PromotionStep| {
        step.status.iter().flat_map(|status| &status.conditions).any(|condition| {
            condition.type_ == "Blocked"
                && condition.status == "True"
                && condition.reason == reason
                && condition.message.contains(because)
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
        let all = site.shop.story.api(KARDINAL, kind).list(&ListParams::default()).await?;
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
            let said = blocked(site, "dev", ("NotLetIn", "token")).await?;
            ensure!(said.contains("Secret"), "{said}");
            site.renew_token().await?;
            let waiting = site.shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
            ensure!(is_unblocked(&waiting), "{waiting:?}");

            // The same for the forge's API. The merge is heard of, but may not be looked at.
            site.revoke_token()?;
            let number = site.number(BUNDLE, "prod")?;
            site.gitea().merge_as(&site.repository, number, "alice")?;
            let said = blocked(site, "prod", ("NotLetIn", "token")).await?;
            ensure!(said.contains("Secret"), "{said}");
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
fn a_missing_secret_and_a_protected_branch() -> anyhow::Result<()> {
    world::in_memory_real_time(world::promotions(), async |world, _| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        at_gitea(world, gitea, &["dev", "prod"], None, async |site| {
            site.run_workloads(&["dev", "prod"]);
            site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await?;
            site.gitea().protect_branch(&site.repository, "main", 0)?;
            site.shop.story.delete("v1", "Secret", SECRET).await?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            let said = blocked(site, "dev", ("NotLetIn", "Secret")).await?;
            ensure!(said.contains("create it with the key `token`"), "{said}");
            site.renew_token().await?;
            let said = blocked(site, "dev", ("NotLetIn", "push")).await?;
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

/// The controller merges what nobody has to review, by the rules of the forge.
#[test]
fn a_merge_that_needs_an_approval() -> anyhow::Result<()> {
    world::in_memory_real_time(world::promotions(), async |world, _| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        at_gitea(world, gitea, &["dev", "prod"], None, async |site| {
            site.run_workloads(&["dev", "prod"]);
            site.pipeline(
                json!([{"name": "dev", "pr": true}, {"name": "prod", "approval": "auto", "pr": true}]),
            )
            .await?;
            site.gitea().protect_branch(&site.repository, "main", 1)?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            let said = blocked(site, "dev", ("ActionNeeded", "merged")).await?;
            ensure!(said.contains("fulfil the rules of its base branch, or merge it by hand"), "{said}");
            let number = site.number(BUNDLE, "dev")?;
            site.gitea().approve(&site.repository, number, "bob")?;
            site.shop.state(BUNDLE, "dev", PromotionState::Verified).await?;
            site.gitea().unprotect_branch(&site.repository, "main")?;
            let bundle = site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
            for (environment, by) in [("dev", vec!["bob".to_owned()]), ("prod", Vec::new())] {
                let approved = record(&bundle, environment).evidence.unwrap_or_default().approved_by;
                ensure!(approved.as_ref() == Some(&by), "{environment}: {approved:?}");
                let number = site.number(BUNDLE, environment)?;
                let pull = site.gitea().in_repository_json(&site.repository, &format!("pulls/{number}"))?;
                ensure!(pull["merged_by"]["login"] == ROBOT, "{}", pull["merged_by"]);
            }
            Ok(())
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
