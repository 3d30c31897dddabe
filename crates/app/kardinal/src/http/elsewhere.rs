//! Webhooks that concern another process: a replica on standby, or one that leaves a shard to its agent, passes them on
//! by an annotation on the step, which every process sees. So a webhook may reach any replica.

use kardinal_api::kardinal::{PromotionStep, REFRESH_ANNOTATION};
use kardinal_promotion::promotion_step::concerns;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::Web;

/// Lets every step look at its pull request that something concerns that has happened in one of these repositories, whoever
/// carries it out.
pub(super) async fn tell(web: &Web, urls: &[String], pull_request: Option<u64>) -> Result<(), kube::Error> {
    let steps = match web.controllers.repository_changed(urls, pull_request) {
        Some(steps) => steps,
        None => concerned(web, urls, pull_request).await?,
    };
    let now = jiff::Timestamp::now();
    let patch = json!({"metadata": {"annotations": {REFRESH_ANNOTATION: now.to_string()}}});
    for (namespace, name) in steps {
        let api: Api<PromotionStep> = Api::namespaced(web.client.clone(), &namespace);
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => drop(answer?),
        }
    }
    Ok(())
}

/// The steps that it concerns, read from the server.
async fn concerned(
    web: &Web,
    urls: &[String],
    pull_request: Option<u64>,
) -> Result<Vec<(String, String)>, kube::Error> {
    let api: Api<PromotionStep> = Api::all(web.client.clone());
    let is_concerned = |step: &PromotionStep| {
        let own = step.spec.git.as_ref().map_or("", |git| git.url.as_str());
        concerns(step, pull_request) && urls.iter().any(|url| kardinal_scm::same_repository(own, url))
    };
    let steps = api.list(&ListParams::default()).await?.items.into_iter().filter(is_concerned);
    let key = |step: PromotionStep| Some((step.metadata.namespace?, step.metadata.name?));
    Ok(steps.filter_map(key).collect())
}
