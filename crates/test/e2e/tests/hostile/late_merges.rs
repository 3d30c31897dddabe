//! What is merged past its check is on record with who did it, whatever was done to the record before.

use anyhow::{Context as _, ensure};
use kardinal_api::forge::Desired;
use kardinal_api::kardinal::{GateEvidence, GateResult, PromotionState, PromotionStep};
use kardinal_testkit::shop::{APP, POLICIES};
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

in_three_worlds!(promotions: a_merge_while_the_record_is_erased_is_told_as_forced);
in_three_worlds!(promotions: an_older_merge_that_is_given_the_marker_hides_no_later_one);
in_three_worlds!(promotions: an_older_record_that_is_put_back_excuses_no_merge);
in_three_worlds!(promotions: a_held_status_that_is_put_back_keeps_no_check_green);
in_three_worlds!(promotions: a_forged_end_leaves_no_green_check_behind);
in_three_worlds!(promotions: a_merge_for_a_step_that_was_deleted_is_told_as_forced);
in_three_worlds!(promotions: a_rejected_pull_request_that_is_merged_all_the_same_is_on_record);

const KARDINAL: &str = "kardinal.io/v1alpha1";
const BUNDLE: &str = "my-app-v1-29-0";
const FILE: &str = "environments/prod/kustomization.yaml";

/// A Bundle whose pull request shows a green check: the organisation's gate is open.
async fn shown_green<'a>(world: &'a World) -> anyhow::Result<(Shop<'a>, PromotionStep)> {
    let shop = Shop::open(world, &["prod"]).await?;
    shop.org_gate("freeze", "prod", "true", "10s").await?;
    shop.next_second().await?;
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "prod", "approval": "pr-review"}]},
    }))
    .await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let step = shop.step(BUNDLE, "prod", "shows a green check", is_green).await?;
    Ok((shop, step))
}

fn is_green(step: &PromotionStep) -> bool {
    step.status.as_ref().is_some_and(|status| status.outputs.contains_key("greenHead"))
}

async fn set_gate(world: &World, expression: &str) -> anyhow::Result<()> {
    let gates = kardinal_testkit::apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    let patch = Patch::Merge(json!({"spec": {"expression": expression}}));
    gates.patch("freeze", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Closes the gate, and waits until nothing is green any more and a forge's whole second has passed.
async fn close_the_gate(shop: &Shop<'_>) -> anyhow::Result<()> {
    set_gate(shop.story.world, "false").await?;
    let taken_back = |step: &PromotionStep| !is_green(step);
    shop.step(BUNDLE, "prod", "has taken the green check back", taken_back).await?;
    shop.next_second().await
}

fn steps(world: &World) -> Api<PromotionStep> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// What the evidence says of a gate, once the merge is on record.
async fn told(shop: &Shop<'_>, gate: &str) -> anyhow::Result<GateEvidence> {
    let merged = |step: &PromotionStep| step.status.as_ref().is_some_and(|status| status.merged_at.is_some());
    let step = shop.step(BUNDLE, "prod", "has the merge on record", merged).await?;
    let evidence = step.status.and_then(|status| status.evidence).context("evidence")?;
    let gates = evidence.policy_gates.unwrap_or_default();
    gates.iter().find(|told| told.name == gate).cloned().with_context(|| format!("`{gate}`: {gates:?}"))
}

fn forced_by_mallory(told: &GateEvidence) -> anyhow::Result<()> {
    ensure!(told.result == GateResult::Fail && told.forced_by.as_deref() == Some("mallory"), "{told:?}");
    Ok(())
}

/// Takes the status of the step away until it has begun again and is held.
async fn erase_the_record(shop: &Shop<'_>) -> anyhow::Result<()> {
    let world = shop.story.world;
    let erase = Patch::Merge(json!({"status": null}));
    world
        .eventually("the step begins again and is held", async || {
            let Some(step) = shop.find_step(BUNDLE, "prod").await? else { return Ok(Err("gone".to_owned())) };
            let state = step.status.and_then(|status| status.state);
            if state == Some(PromotionState::Pending) {
                return Ok(Ok(()));
            }
            if state.is_some() {
                let name = step.metadata.name.unwrap_or_default();
                steps(world).patch_status(&name, &PatchParams::default(), &erase).await?;
            }
            Ok(Err(format!("{state:?}")))
        })
        .await
}

/// A Bundle of the same name was there before, and its merged pull request gets the line of the new one's.
async fn an_older_merge_that_is_given_the_marker_hides_no_later_one(world: &World) -> anyhow::Result<()> {
    let (shop, step) = shown_green(world).await?;
    let older = shop.request(BUNDLE, "prod").await?.metadata.name.context("a name")?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.deploy("prod", "1.29.0").await?;
    shop.state(BUNDLE, "prod", PromotionState::Verified).await?;
    shop.story.delete(KARDINAL, "Bundle", BUNDLE).await?;
    shop.story.gone(KARDINAL, "PromotionStep", step.metadata.name.as_deref().context("a name")?).await?;
    shop.next_second().await?;
    shop.release(BUNDLE, "1.30.0", json!({})).await?;
    shop.step(BUNDLE, "prod", "shows a green check", is_green).await?;
    close_the_gate(&shop).await?;
    let all = shop.pull_requests().await?;
    let real = all.iter().find(|one| one.metadata.name.as_ref() != Some(&older)).context("a second one")?;
    let requests = shop.story.api("forge.kardinal.io/v1alpha1", "PullRequest");
    let marked = Patch::Merge(json!({"spec": {"body": real.spec.body}}));
    requests.patch(&older, &PatchParams::default(), &marked).await?;
    erase_the_record(&shop).await?;
    let merged = Patch::Merge(json!({"spec": {"desired": "merged", "mergedBy": "mallory"}}));
    let name = real.metadata.name.as_deref().context("a name")?;
    requests.patch(name, &PatchParams::default(), &merged).await?;
    forced_by_mallory(&told(&shop, "freeze").await?)?;
    shop.close().await
}

async fn a_merge_while_the_record_is_erased_is_told_as_forced(world: &World) -> anyhow::Result<()> {
    let (shop, _) = shown_green(world).await?;
    close_the_gate(&shop).await?;
    erase_the_record(&shop).await?;
    // A later one that looks the same takes no attention from the real one.
    let real = shop.request(BUNDLE, "prod").await?.spec;
    let decoy = json!({
        "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "z-decoy"},
        "spec": {
            "repository": real.repository, "head": real.head, "base": real.base, "title": "x", "body": real.body,
            "desired": "closed",
        },
    });
    shop.story.apply(&decoy).await?;
    shop.next_second().await?;
    shop.merge(BUNDLE, "prod", "mallory").await?;
    forced_by_mallory(&told(&shop, "freeze").await?)?;
    // The gate opens: what was said then stays.
    set_gate(world, "true").await?;
    shop.deploy("prod", "1.29.0").await?;
    shop.state(BUNDLE, "prod", PromotionState::Verified).await?;
    forced_by_mallory(&told(&shop, "freeze").await?)?;
    shop.close().await
}

async fn an_older_record_that_is_put_back_excuses_no_merge(world: &World) -> anyhow::Result<()> {
    let (shop, step) = shown_green(world).await?;
    close_the_gate(&shop).await?;
    let name = step.metadata.name.as_deref().context("a name")?;
    let older = json!({
        "apiVersion": KARDINAL, "kind": "PromotionStep", "metadata": {"name": name},
        "status": serde_json::to_value(&step.status)?,
    });
    let as_the_controller = PatchParams::apply("kardinal-promotion-controller").force();
    steps(world).patch_status(name, &as_the_controller, &Patch::Apply(older)).await?;
    shop.merge(BUNDLE, "prod", "mallory").await?;
    forced_by_mallory(&told(&shop, "freeze").await?)?;
    shop.close().await
}

/// The check of the pull request as people see it on the forge.
async fn check(shop: &Shop<'_>) -> anyhow::Result<String> {
    let checks = shop.request(BUNDLE, "prod").await?.spec.checks;
    Ok(checks.iter().map(|check| format!("{:?}", check.state)).collect())
}

async fn a_forged_end_leaves_no_green_check_behind(world: &World) -> anyhow::Result<()> {
    let (shop, step) = shown_green(world).await?;
    ensure!(check(&shop).await? == "Success", "{}", check(&shop).await?);
    let name = step.metadata.name.as_deref().context("a name")?;
    let forged = Patch::Merge(json!({"status": {"state": "Verified"}}));
    steps(world).patch_status(name, &PatchParams::default(), &forged).await?;
    let closed = async |what: &str| {
        world
            .eventually(what, async || {
                let (desired, check) =
                    (shop.request(BUNDLE, "prod").await?.spec.desired(), check(&shop).await?);
                let done = desired == Desired::Closed && check == "Pending";
                Ok(if done { Ok(()) } else { Err(format!("{desired:?} {check}")) })
            })
            .await
    };
    closed("the pull request is closed and shows nothing green").await?;
    // Nobody waits for it any more, and it is heard of all the same.
    shop.decide(BUNDLE, "prod", &json!({"spec": {"desired": "open", "closedBy": null}})).await?;
    closed("it is closed again").await?;
    shop.close().await
}

/// The status of a step that was held is put back, over and over, while the gate closes: it says that the check is pending.
async fn a_held_status_that_is_put_back_keeps_no_check_green(world: &World) -> anyhow::Result<()> {
    let (shop, step) = shown_green(world).await?;
    close_the_gate(&shop).await?;
    let held = shop.find_step(BUNDLE, "prod").await?.context("a step")?;
    let name = step.metadata.name.as_deref().context("a name")?;
    set_gate(world, "true").await?;
    shop.step(BUNDLE, "prod", "shows a green check again", is_green).await?;
    let older = json!({
        "apiVersion": KARDINAL, "kind": "PromotionStep", "metadata": {"name": name},
        "status": serde_json::to_value(&held.status)?,
    });
    let as_the_controller = PatchParams::apply("kardinal-promotion-controller").force();
    let put_back =
        async || steps(world).patch_status(name, &as_the_controller, &Patch::Apply(older.clone())).await;
    set_gate(world, "false").await?;
    for _ in 0..20 {
        put_back().await?;
    }
    world
        .eventually("nothing is green", async || {
            let check = check(&shop).await?;
            Ok(if check == "Pending" { Ok(()) } else { Err(check) })
        })
        .await?;
    shop.close().await
}

async fn a_merge_for_a_step_that_was_deleted_is_told_as_forced(world: &World) -> anyhow::Result<()> {
    let (shop, step) = shown_green(world).await?;
    close_the_gate(&shop).await?;
    let name = step.metadata.name.as_deref().context("a name")?;
    let unguarded = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    steps(world).patch(name, &PatchParams::default(), &unguarded).await?;
    steps(world).delete(name, &DeleteParams::default()).await?;
    shop.merge(BUNDLE, "prod", "mallory").await?;
    world
        .eventually("it is merged", async || {
            let file = shop.file(FILE).await?;
            Ok(if file.contains("1.29.0") { Ok(()) } else { Err(file) })
        })
        .await?;
    shop.next_second().await?;
    // The gate opens, by an edit: what it said at the merge is not known any more, and that it passed is not claimed.
    set_gate(world, "true").await?;
    let told = told(&shop, "freeze").await?;
    ensure!(told.result == GateResult::Fail && told.evaluated_at.is_none(), "{told:?}");
    let reason = told.reason.unwrap_or_default();
    ensure!(reason.contains("what it said at the merge is not known"), "{reason}");
    shop.close().await
}

async fn a_rejected_pull_request_that_is_merged_all_the_same_is_on_record(
    world: &World,
) -> anyhow::Result<()> {
    let (shop, _) = shown_green(world).await?;
    let close: Value = json!({"spec": {"desired": "closed", "closedBy": "erin"}});
    shop.decide(BUNDLE, "prod", &close).await?;
    let over = |step: &PromotionStep| {
        step.status.as_ref().is_some_and(|status| status.state == Some(PromotionState::Failed))
            && !is_green(step)
    };
    shop.step(BUNDLE, "prod", "is rejected and shows nothing green", over).await?;
    // Nobody is named who has not closed it, and a name does not break the lines of a table.
    for (patch, told) in [
        (json!({"spec": {"desired": "open"}}), "was closed by nobody: leave `closedBy` out"),
        (json!({"spec": {"closedBy": "erin\nprod  Verified"}}), "spec.closedBy"),
    ] {
        let refused = shop.decide(BUNDLE, "prod", &patch).await.err().context("it is refused")?.to_string();
        ensure!(refused.contains(told), "{refused}");
    }
    // Whoever opens it again is told that it is over.
    shop.decide(BUNDLE, "prod", &json!({"spec": {"desired": "open", "closedBy": null}})).await?;
    world
        .eventually("the pull request is closed again", async || {
            let desired = shop.request(BUNDLE, "prod").await?.spec.desired();
            Ok(if desired == Desired::Closed { Ok(()) } else { Err(format!("{desired:?}")) })
        })
        .await?;
    shop.next_second().await?;
    shop.merge(BUNDLE, "prod", "mallory").await?;
    forced_by_mallory(&told(&shop, "rejected").await?)?;
    let file = shop.file(FILE).await?;
    ensure!(file.contains("1.29.0"), "{file}");
    let record = world
        .eventually("the Bundle's record tells of the merge", async || {
            let status = shop.bundle(BUNDLE).await?.status;
            let record =
                status.and_then(|status| status.environments.get("prod").cloned()).unwrap_or_default();
            Ok(if record.promoted_at.is_some() { Ok(record) } else { Err(format!("{record:?}")) })
        })
        .await?;
    ensure!(record.rejected.is_none() && record.rejected_by.as_deref() == Some("erin"), "{record:?}");
    let bundle = shop.bundle(BUNDLE).await?;
    let why = kardinal_promotion::bundle::why(&bundle).unwrap_or_default();
    ensure!(why.contains("merged into `main` by mallory"), "{why}");
    for part in ["closed without merging by erin", "merged into `main` by mallory at "] {
        let said = record.message.as_deref().unwrap_or_default();
        ensure!(said.contains(part), "`{part}` is missing in: {said}");
    }
    shop.close().await
}
