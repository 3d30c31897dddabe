//! What several scenarios say.

use anyhow::ensure;
use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, EnvironmentStatus, PromotionState, PromotionStep};
use kardinal_testkit::Shop;
use kardinal_testkit::shop::APP;
use kube::api::ListParams;
use serde_json::{Value, json};

/// The API version of our kinds.
pub(crate) const KARDINAL: &str = "kardinal.io/v1alpha1";
/// The API version of Graphs.
pub(crate) const GRAPHS: &str = "experimental.kro.run/v1alpha1";

/// A Pipeline through these environments.
pub(crate) fn pipeline(environments: Value) -> Value {
    json!({
        "apiVersion": KARDINAL,
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": environments},
    })
}

/// The kustomization of an environment as it stands on `main`.
pub(crate) async fn kustomization(shop: &Shop<'_>, environment: &str) -> anyhow::Result<String> {
    shop.file(&format!("environments/{environment}/kustomization.yaml")).await
}

/// `main` has this version for an environment, and the line keeps its comment.
pub(crate) async fn has_version(shop: &Shop<'_>, environment: &str, version: &str) -> anyhow::Result<()> {
    let file = kustomization(shop, environment).await?;
    ensure!(
        file.contains(&format!("newTag: \"{version}\" # promoted")),
        "`{environment}` is not at {version}:\n{file}"
    );
    Ok(())
}

/// What a Bundle has on record of an environment.
pub(crate) fn record(bundle: &Bundle, environment: &str) -> EnvironmentStatus {
    let environments = bundle.status.as_ref().map(|status| &status.environments);
    environments.and_then(|all| all.get(environment)).cloned().unwrap_or_default()
}

/// The message of a Bundle's Ready condition.
pub(crate) fn why(bundle: &Bundle) -> String {
    kardinal_promotion::bundle::why(bundle).unwrap_or_default().to_owned()
}

/// What a step says.
pub(crate) fn message(step: &PromotionStep) -> String {
    step.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
}

/// Waits until a step says something that contains this text.
pub(crate) async fn says(
    shop: &Shop<'_>,
    bundle: &str,
    environment: &str,
    text: &str,
) -> anyhow::Result<PromotionStep> {
    shop.step(bundle, environment, &format!("says `{text}`"), |step| message(step).contains(text)).await
}

/// Waits for a pull request and lets somebody merge it.
pub(crate) async fn approve(shop: &Shop<'_>, bundle: &str, environment: &str) -> anyhow::Result<()> {
    shop.state(bundle, environment, PromotionState::WaitingForMerge).await?;
    shop.merge(bundle, environment, "alice").await
}

/// How long it is from now until an instant.
pub(crate) fn until(shop: &Shop<'_>, instant: Timestamp) -> SignedDuration {
    instant.duration_since(shop.story.world.now())
}

/// Waits until a gate instance is open or closed.
pub(crate) async fn gate_is(shop: &Shop<'_>, name: &str, ready: bool) -> anyhow::Result<Value> {
    shop.story
        .world
        .eventually(&format!("gate `{name}` has ready: {ready}"), async || {
            let found = shop.story.find(KARDINAL, "PolicyGate", name).await?;
            let status = found.map(|gate| gate["status"].clone()).unwrap_or_default();
            if status["ready"] == ready {
                return Ok(Ok(status));
            }
            let graphs = shop.story.api(GRAPHS, "Graph").list(&ListParams::default()).await?;
            let nodes: Vec<&Value> = graphs.iter().map(|graph| &graph.data["status"]["nodes"]).collect();
            Ok(Err(format!("{status}, in Graphs with {nodes:?}")))
        })
        .await
}

/// Whether a text looks like a pattern, in which `*` stands for anything.
pub(crate) fn looks_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}
