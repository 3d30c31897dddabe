//! Configuration that comes from a repository of its own, alone or with an image.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::ensure;
use kardinal_api::kardinal::{BundlePhase, BundleType, PromotionState};
use kardinal_promotion::bundle::why;
use kardinal_testkit::shop::{APP, IMAGE, fixture};
use kardinal_testkit::world::{in_memory_real_time, promotions};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

use super::rollback::wish;
use super::words::{approve, has_version, message, pipeline};

in_three_worlds!(promotions: a_config_commit_is_picked);
in_three_worlds!(promotions: a_config_commit_is_laid_over);
in_three_worlds!(promotions: an_image_with_its_configuration);
in_three_worlds!(promotions: a_config_commit_that_does_not_fit);
in_three_worlds!(promotions: back_to_the_configuration_before);
in_three_worlds!(promotions: back_through_an_environment_that_has_gone_on);
in_three_worlds!(promotions: a_short_commit_id_is_resolved_and_one_that_cannot_be_fails_the_bundle);

const CONFIG: &str = "app-config";
const LIMITS: &str = "# limits\ncpu: 100m\nmemory: 128Mi\n\n\n\nreplicas: 1\n";
const RAISED: &str = "# limits\ncpu: 500m\nmemory: 128Mi\n\n\n\nreplicas: 1\n";

/// A shop whose environments have limits of their own, and a repository with a commit that raises one of them.
async fn opened<'a>(world: &'a World, own: &str) -> anyhow::Result<(Shop<'a>, String)> {
    let mut shop = Shop::open(world, &["dev", "prod"]).await?;
    shop.run_workloads(&["dev", "prod"]);
    let limits = |name: &str| format!("environments/{name}/limits.yaml");
    shop.push(
        &shop.repository,
        "main",
        "limits",
        &[(&limits("dev"), Some(LIMITS)), (&limits("prod"), Some(own))],
    )?;
    shop.found(CONFIG, &[("limits.yaml".to_owned(), LIMITS.to_owned())]).await?;
    let files = [("limits.yaml", Some(RAISED)), ("flags/beta.yaml", Some("beta: true\n"))];
    let sha = shop.push(CONFIG, "main", "Update resource limits for all environments", &files)?;
    Ok((shop, sha))
}

/// Section 3.16 with the scenario's repository and commit.
fn bundle(shop: &Shop<'_>, sha: &str) -> anyhow::Result<Value> {
    let mut bundle = fixture("config-bundle-3-16.yaml")?;
    bundle["spec"]["artifacts"]["gitCommit"]["repository"] = json!(shop.url(CONFIG));
    bundle["spec"]["artifacts"]["gitCommit"]["sha"] = json!(sha);
    Ok(bundle)
}

const NAME: &str = "my-app-config-update-1712567890";

async fn a_config_commit_is_picked(world: &World) -> anyhow::Result<()> {
    // Production has more replicas of its own; the commit must not take them away.
    let own = LIMITS.replace("replicas: 1", "replicas: 5");
    let (shop, sha) = opened(world, &own).await?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    shop.story.apply(&bundle(&shop, &sha)?).await?;
    shop.state(NAME, "prod", PromotionState::WaitingForMerge).await?;
    let body = shop.request(NAME, "prod").await?.spec.body;
    let short = sha.get(..7).unwrap_or_default();
    for part in [
        format!("## Promotion: my-app {} to prod", sha.get(..8).unwrap_or_default()),
        format!("| Config Commit | {short} |"),
        "| Config Message | Update resource limits for all environments |".to_owned(),
        "- environments/prod/limits.yaml".to_owned(),
    ] {
        ensure!(body.contains(&part), "`{part}` is missing in:\n{body}");
    }
    approve(&shop, NAME, "prod").await?;
    shop.phase(NAME, BundlePhase::Verified).await?;
    ensure!(shop.file("environments/dev/limits.yaml").await? == RAISED);
    let prod = shop.file("environments/prod/limits.yaml").await?;
    ensure!(prod == RAISED.replace("replicas: 1", "replicas: 5"), "{prod}");
    ensure!(shop.file("environments/prod/flags/beta.yaml").await? == "beta: true\n");
    has_version(&shop, "prod", "1.28.0").await?;
    shop.fsck()?;
    shop.close().await
}

async fn a_config_commit_is_laid_over(world: &World) -> anyhow::Result<()> {
    let (shop, sha) = opened(world, "cpu: 9\n").await?;
    let steps = json!([
        {"uses": "git-clone"},
        {"uses": "config-merge", "config": {"strategy": "overlay"}},
        {"uses": "git-commit"},
        {"uses": "git-push"},
        {"uses": "health-check"},
    ]);
    shop.pipeline(pipeline(json!([{"name": "prod", "steps": steps}]))).await?;
    shop.story.apply(&bundle(&shop, &sha)?).await?;
    shop.phase(NAME, BundlePhase::Verified).await?;
    let prod = shop.file("environments/prod/limits.yaml").await?;
    ensure!(prod == RAISED, "{prod}");
    shop.close().await
}

async fn an_image_with_its_configuration(world: &World) -> anyhow::Result<()> {
    let (shop, sha) = opened(world, LIMITS).await?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod"}]))).await?;
    let mut mixed = bundle(&shop, &sha)?;
    mixed["spec"]["type"] = json!(BundleType::Mixed);
    mixed["spec"]["artifacts"]["images"] = json!([{"name": APP, "reference": format!("{IMAGE}:1.29.0")}]);
    shop.story.apply(&mixed).await?;
    shop.phase(NAME, BundlePhase::Verified).await?;
    for name in ["dev", "prod"] {
        has_version(&shop, name, "1.29.0").await?;
        ensure!(shop.file(&format!("environments/{name}/limits.yaml")).await? == RAISED);
    }
    // Both in one commit for each environment.
    let log = shop.log()?;
    ensure!(log.len() == 4, "{log:?}");
    shop.close().await
}

async fn a_config_commit_that_does_not_fit(world: &World) -> anyhow::Result<()> {
    let (shop, sha) = opened(world, &LIMITS.replace("cpu: 100m", "cpu: 250m")).await?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod"}]))).await?;
    shop.story.apply(&bundle(&shop, &sha)?).await?;
    shop.phase(NAME, BundlePhase::Failed).await?;
    let step = shop.state(NAME, "prod", PromotionState::Failed).await?;
    ensure!(message(&step).contains("environments/prod/limits.yaml"), "{}", message(&step));
    ensure!(shop.file("environments/prod/limits.yaml").await?.contains("cpu: 250m"));
    shop.close().await
}

async fn back_to_the_configuration_before(world: &World) -> anyhow::Result<()> {
    // Production has more replicas of its own, on the way there and back.
    let own = LIMITS.replace("replicas: 1", "replicas: 5");
    let (shop, first) = opened(world, &own).await?;
    let doubled = RAISED.replace("cpu: 500m", "cpu: 1000m");
    let files = [
        ("limits.yaml", Some(doubled.as_str())),
        ("flags/beta.yaml", None),
        ("flags/new.yaml", Some("new: true\n")),
    ];
    let second = shop.push(CONFIG, "main", "Double the limits", &files)?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod"}]))).await?;
    for (name, sha) in [("my-app-config-1", &first), ("my-app-config-2", &second)] {
        let mut bundle = bundle(&shop, sha)?;
        bundle["metadata"]["name"] = json!(name);
        shop.story.apply(&bundle).await?;
        shop.phase(name, BundlePhase::Verified).await?;
        // However short after the rollout before: verified is what is there.
        ensure!(shop.deployed_commit("prod").await? == shop.tip().await?, "`{name}` is not in prod");
    }
    ensure!(shop.file("environments/prod/limits.yaml").await?.contains("cpu: 1000m"));
    let back = wish(&shop, None, false).await?;
    shop.phase(&back, BundlePhase::Verified).await?;
    let prod = shop.file("environments/prod/limits.yaml").await?;
    ensure!(prod == RAISED.replace("replicas: 1", "replicas: 5"), "{prod}");
    ensure!(
        shop.file("environments/prod/flags/beta.yaml").await? == "beta: true\n",
        "what was removed is back"
    );
    ensure!(shop.file("environments/prod/flags/new.yaml").await.is_err(), "what was added is gone");
    ensure!(shop.file("environments/dev/limits.yaml").await? == RAISED);
    shop.fsck()?;
    shop.close().await
}

async fn back_through_an_environment_that_has_gone_on(world: &World) -> anyhow::Result<()> {
    let (shop, first) = opened(world, LIMITS).await?;
    let limits = |cpu: &str| RAISED.replace("cpu: 500m", &format!("cpu: {cpu}"));
    let second = shop.push(CONFIG, "main", "Double", &[("limits.yaml", Some(&limits("1000m")))])?;
    let third = shop.push(CONFIG, "main", "Double again", &[("limits.yaml", Some(&limits("2000m")))])?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod"}]))).await?;
    for (name, sha) in [("my-app-config-1", &first), ("my-app-config-2", &second)] {
        let mut bundle = bundle(&shop, sha)?;
        bundle["metadata"]["name"] = json!(name);
        shop.story.apply(&bundle).await?;
        shop.phase(name, BundlePhase::Verified).await?;
    }
    let mut further = bundle(&shop, &third)?;
    further["metadata"]["name"] = json!("my-app-config-3");
    further["spec"]["intent"] = json!({"target": "dev"});
    shop.story.apply(&further).await?;
    shop.phase("my-app-config-3", BundlePhase::Verified).await?;
    ensure!(shop.file("environments/dev/limits.yaml").await? == limits("2000m"));

    let back = wish(&shop, None, false).await?;
    shop.phase(&back, BundlePhase::Verified).await?;
    for name in ["dev", "prod"] {
        let limits = shop.file(&format!("environments/{name}/limits.yaml")).await?;
        ensure!(limits == RAISED, "{name}: {limits}");
    }
    shop.fsck()?;
    shop.close().await
}

async fn a_short_commit_id_is_resolved_and_one_that_cannot_be_fails_the_bundle(
    world: &World,
) -> anyhow::Result<()> {
    let (shop, sha) = opened(world, LIMITS).await?;
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    shop.story.apply(&bundle(&shop, sha.get(..12).unwrap_or_default())?).await?;
    shop.state(NAME, "prod", PromotionState::WaitingForMerge).await?;
    // The id of the specification's own example, which this repository does not have, and a whole one.
    for (name, id) in [("unknown", "abc123def456"), ("unknown-too", &"f".repeat(40))] {
        let mut unknown = bundle(&shop, id)?;
        unknown["metadata"]["name"] = json!(name);
        shop.story.apply(&unknown).await?;
        let failed = shop.phase(name, BundlePhase::Failed).await?;
        let why = why(&failed).unwrap_or_default();
        for part in ["`spec.artifacts.gitCommit.sha`", id] {
            ensure!(why.contains(part), "`{part}` is missing in: {why}");
        }
        ensure!(shop.find_step(name, "dev").await?.is_none(), "it has not started");
    }
    // It has taken nobody's place, and nothing is held up by it.
    approve(&shop, NAME, "prod").await?;
    shop.phase(NAME, BundlePhase::Verified).await?;
    ensure!(shop.file("environments/prod/limits.yaml").await? == RAISED);
    let step = shop.find_step(NAME, "prod").await?.and_then(|step| step.status).unwrap_or_default();
    ensure!(step.outputs.get("configCommit") == Some(&sha), "{:?}", step.outputs);
    shop.close().await
}

/// Stands in for kustomize: prints the files and the empty folders that it sees, and what the new file says.
const LISTING: &str =
    "#!/bin/sh\ncd \"$2\" && find . -type f -o -type d -empty | sort && cat flags/new.yaml\n";

#[test]
fn config_merge_then_kustomize_build_sees_new_folders_and_no_removed_files() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("kustomize");
    std::fs::write(&program, LISTING)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    in_memory_real_time(promotions(), async |world, _| {
        world.stop_controllers().await;
        world.workshop.render_with(program);
        world.start_controllers().await?;
        // Production has the limits as the commit before has them.
        let (shop, _) = opened(world, RAISED).await?;
        let old = [("environments/prod/old/a.yaml", Some("a: 1\n"))];
        shop.push(&shop.repository, "main", "a folder", &old)?;
        shop.push(CONFIG, "main", "a folder", &[("old/a.yaml", Some("a: 1\n"))])?;
        let files = [("limits.yaml", None), ("old/a.yaml", None), ("flags/new.yaml", Some("new: true\n"))];
        let sha = shop.push(CONFIG, "main", "Flags instead of limits", &files)?;
        let tasks =
            ["git-clone", "config-merge", "kustomize-build", "git-commit", "git-push", "health-check"];
        let steps = tasks.map(|uses| json!({"uses": uses}));
        shop.pipeline(pipeline(json!([{"name": "prod", "steps": steps}]))).await?;
        shop.story.apply(&bundle(&shop, &sha)?).await?;
        shop.phase(NAME, BundlePhase::Verified).await?;
        let rendered = shop.file("environments/prod/rendered.yaml").await?;
        ensure!(rendered == "./flags/new.yaml\n./kustomization.yaml\nnew: true\n", "{rendered}");
        // The same is in the commit.
        ensure!(shop.file("environments/prod/flags/new.yaml").await? == "new: true\n");
        for gone in ["limits.yaml", "old/a.yaml"] {
            ensure!(
                shop.file(&format!("environments/prod/{gone}")).await.is_err(),
                "`{gone}` is still there"
            );
        }
        shop.fsck()?;
        shop.close().await
    })
}
