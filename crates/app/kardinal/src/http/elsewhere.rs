//! Webhooks that concern another process: a replica on standby, or one that leaves a shard to its agent, passes them on
//! by an annotation on the step, which every process sees. So a webhook may reach any replica.

use kardinal_api::kardinal::{PromotionState, PromotionStep, REFRESH_ANNOTATION};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::Web;

/// Lets every step that waits for one of these repositories look at it, whoever carries it out.
pub(super) async fn tell(web: &Web, urls: &[String]) -> Result<(), kube::Error> {
    let steps = match web.controllers.repository_changed(urls) {
        Some(steps) => steps,
        None => waiting(web, urls).await?,
    };
    let now = jiff::Timestamp::now();
    let patch = json!({"metadata": {"annotations": {REFRESH_ANNOTATION: now.to_string()}}});
    for (namespace, name) in steps {
        let api: Api<PromotionStep> = Api::namespaced(web.client.clone(), &namespace);
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            told => drop(told?),
        }
    }
    Ok(())
}

/// The steps with an open pull request in one of these repositories, read from the server.
async fn waiting(web: &Web, urls: &[String]) -> Result<Vec<(String, String)>, kube::Error> {
    let api: Api<PromotionStep> = Api::all(web.client.clone());
    let waits = |step: &PromotionStep| {
        let state = step.status.as_ref().and_then(|status| status.state);
        let own = step.spec.git.as_ref().map_or("", |git| git.url.as_str());
        state == Some(PromotionState::WaitingForMerge)
            && urls.iter().any(|url| kardinal_scm::same_repository(own, url))
    };
    let steps = api.list(&ListParams::default()).await?.items.into_iter().filter(waits);
    let key = |step: PromotionStep| Some((step.metadata.namespace?, step.metadata.name?));
    Ok(steps.filter_map(key).collect())
}
