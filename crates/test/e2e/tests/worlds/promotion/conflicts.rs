//! Pull requests that conflict with what somebody else has pushed.

use anyhow::{Context as _, ensure};
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::requests::Fate;
use kardinal_testkit::shop::kustomization;
use kardinal_testkit::world::{in_memory_overheard, promotions};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::json;

use super::words::{has_version, pipeline, record, says};

in_three_worlds!(promotions: a_pull_request_that_conflicts_with_a_strangers_edit_is_rebuilt_on_the_new_tip);
in_three_worlds!(promotions: an_approval_is_for_the_commit_that_was_looked_at);
in_three_worlds!(promotions: a_strangers_commit_on_our_branch_is_left_alone);

const BUNDLE: &str = "my-app-v1-29-0";
const FILE: &str = "environments/prod/kustomization.yaml";

/// A pull request for prod is open, and then a stranger changes the same line on `main`.
async fn overtaken<'a>(world: &'a World) -> anyhow::Result<Shop<'a>> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    shop.pipeline(pipeline(json!([{"name": "prod", "approval": "pr-review"}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    Ok(shop)
}

/// Lets the forge look at its branches, as a push over its own door would.
async fn look(shop: &Shop<'_>, when: &str) -> anyhow::Result<()> {
    shop.decide(BUNDLE, "prod", &json!({"metadata": {"annotations": {"test/look": when}}})).await
}

async fn a_pull_request_that_conflicts_with_a_strangers_edit_is_rebuilt_on_the_new_tip(
    world: &World,
) -> anyhow::Result<()> {
    let shop = overtaken(world).await?;
    let before = shop.request(BUNDLE, "prod").await?.status.and_then(|status| status.head_commit);
    let theirs = kustomization("1.28.5");
    let tip = shop.push(&shop.repository, "main", "a hotfix by hand", &[(FILE, Some(&theirs))])?;
    look(&shop, "1").await?;
    let short = tip.get(..7).unwrap_or_default().to_owned();
    let request = world
        .eventually("the pull request stands on the new tip", async || {
            let request = shop.request(BUNDLE, "prod").await?;
            let status = request.status.clone().unwrap_or_default();
            let told = request.spec.comments.iter().any(|comment| comment.body.contains(&short));
            let fits = status.mergeable == Some(true) && status.head_commit != before;
            let true_body = request.spec.body.contains("1.28.5 to 1.29.0");
            Ok(if fits && told && true_body { Ok(request) } else { Err(format!("{request:?}")) })
        })
        .await?;
    ensure!(request.spec.comments.len() == 1, "{:?}", request.spec.comments);
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    shop.fsck()?;
    shop.close().await
}

/// Bob and dave approve what is then rebuilt, carol what is merged; dave's word names no commit. Alice merges.
async fn an_approval_is_for_the_commit_that_was_looked_at(world: &World) -> anyhow::Result<()> {
    let shop = overtaken(world).await?;
    let head = async || {
        let status = shop.request(BUNDLE, "prod").await?.status.unwrap_or_default();
        status.head_commit.context("it has a head")
    };
    let approved = |who: &str, commit: &str| json!({"author": who, "verdict": "approved", "commit": commit});
    let first = head().await?;
    let (bob, dave) = (approved("bob", &first), json!({"author": "dave", "verdict": "approved"}));
    shop.decide(BUNDLE, "prod", &json!({"spec": {"reviews": [bob, dave]}})).await?;
    shop.push(&shop.repository, "main", "a hotfix by hand", &[(FILE, Some(&kustomization("1.28.5")))])?;
    look(&shop, "1").await?;
    let second = world
        .eventually("the pull request has another commit", async || {
            let head = head().await?;
            Ok(if head == first { Err(head) } else { Ok(head) })
        })
        .await?;
    let carol = approved("carol", &second);
    shop.decide(BUNDLE, "prod", &json!({"spec": {"reviews": [bob, dave, carol]}})).await?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let evidence = record(&bundle, "prod").evidence.unwrap_or_default();
    let who = evidence.approved_by.unwrap_or_default();
    ensure!(who == ["carol", "alice"], "{who:?}");
    shop.close().await
}

async fn a_strangers_commit_on_our_branch_is_left_alone(world: &World) -> anyhow::Result<()> {
    let shop = overtaken(world).await?;
    let ours = shop.branch(BUNDLE, "prod");
    let theirs = shop.push(&shop.repository, &ours, "by hand", &[("README.md", Some("hello\n"))])?;
    look(&shop, "1").await?;
    let hotfix = kustomization("1.28.5");
    shop.push(&shop.repository, "main", "a hotfix by hand", &[(FILE, Some(&hotfix))])?;
    look(&shop, "2").await?;
    says(&shop, BUNDLE, "prod", "somebody has pushed to its branch").await?;
    let request = shop.request(BUNDLE, "prod").await?;
    let status = request.status.unwrap_or_default();
    ensure!(status.head_commit.as_deref() == Some(theirs.as_str()), "{status:?}");
    ensure!(status.state == Some(PullRequestState::Open) && request.spec.comments.is_empty(), "{status:?}");
    shop.close().await
}

/// Until the first pull request conflicts, nothing that the controllers want of one arrives: they would merge it at once.
#[test]
fn audit_pull_requests_of_two_pinned_bundles_are_merged_although_a_stranger_pushes_in_between()
-> anyhow::Result<()> {
    const NEXT: &str = "my-app-v1-30-0";
    in_memory_overheard(promotions(), async |world, requests| {
        let mut shop = Shop::open(world, &["prod"]).await?;
        shop.run_workloads(&["prod"]);
        shop.pipeline(pipeline(json!([{"name": "prod", "pr": true}]))).await?;
        requests.judged_by(|heard| {
            let is_wish = heard.what.starts_with("PATCH ") && heard.what.contains("/pullrequests/");
            if is_wish && !heard.what.contains("/status") { Fate::Lost } else { Fate::Pass }
        });
        let pinned = json!({"metadata": {"annotations": {"kardinal.io/pin": "true"}}});
        shop.release(BUNDLE, "1.29.0", pinned.clone()).await?;
        shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
        shop.release(NEXT, "1.30.0", pinned).await?;
        says(&shop, NEXT, "prod", &format!("waiting for `{BUNDLE}` to leave `prod`: its PR #1 is open"))
            .await?;
        let theirs = kustomization("1.28.5");
        shop.push(&shop.repository, "main", "a hotfix by hand", &[(FILE, Some(&theirs))])?;
        requests.judged_by(|_| Fate::Pass);

        for bundle in [BUNDLE, NEXT] {
            shop.phase(bundle, BundlePhase::Verified).await?;
            let state = shop.request(bundle, "prod").await?.status.and_then(|status| status.state);
            ensure!(state == Some(PullRequestState::Merged), "{bundle}: {state:?}");
        }
        let comments = shop.request(BUNDLE, "prod").await?.spec.comments;
        ensure!(comments.iter().any(|comment| comment.body.contains("Rebuilt by kardinal")), "{comments:?}");
        has_version(&shop, "prod", "1.30.0").await?;
        shop.fsck()?;
        shop.close().await
    })
}
