//! Whether Pipelines, their Secrets, their repositories and their gates can work.

use k8s_openapi::api::core::v1::Secret;
use kardinal_api::forge::Repository;
use kardinal_api::kardinal::Pipeline;
use kardinal_planner::doctor::Finding;
use kardinal_promotion::view::doctor::{
    PipelineSeen, SecretSeen, gate_findings, is_in_local_forge, pipeline_findings, wanted_secrets,
};
use kube::Api;
use kube::api::ListParams;

use crate::failure::{Failure, Kind};
use crate::server::{Server, about};

pub(super) async fn check(server: &Server, policy_namespaces: &[String]) -> Result<Vec<Finding>, Failure> {
    let pipelines: Vec<Pipeline> = server.list(&ListParams::default()).await?;
    let mut all = Vec::new();
    for pipeline in &pipelines {
        let mut secrets = Vec::new();
        for wanted in wanted_secrets(pipeline) {
            secrets.push(secret(server, wanted.name).await?);
        }
        let repositories: Vec<Repository> = match is_in_local_forge(pipeline) {
            true => server.list(&ListParams::default()).await?,
            false => Vec::new(),
        };
        all.push(PipelineSeen { pipeline, secrets, repositories });
    }
    let mut findings = pipeline_findings(&all, &server.namespace);
    findings.extend(gate_findings(&server.gates(&[policy_namespaces]).await?));
    Ok(findings)
}

async fn secret(server: &Server, name: &str) -> Result<SecretSeen, Failure> {
    let api: Api<Secret> = Api::namespaced(server.client.clone(), &server.namespace);
    match api.get_opt(name).await {
        Ok(Some(found)) => {
            let data = found.data.unwrap_or_default().into_iter();
            let keys = data.filter(|(_, value)| !value.0.is_empty()).map(|(key, _)| key);
            Ok(SecretSeen::Keys(keys.collect()))
        }
        Ok(None) => Ok(SecretSeen::Nothing),
        Err(error) => match about::<Secret>(name, error) {
            failure if failure.kind == Kind::Refused => Ok(SecretSeen::Refused),
            failure => Err(failure),
        },
    }
}
