//! Whether Pipelines, their Secrets, their repositories and their gates can work.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kardinal_api::forge::{READY, Repository};
use kardinal_api::kardinal::{GitProvider, Pipeline, PolicyGate};
use kardinal_planner::pipeline::task_secrets;
use kardinal_planner::policy_gate::GUARDS;
use kardinal_policy::{check_expression, is_template, time_zone};
use kube::Api;
use kube::api::ListParams;

use super::Finding;
use crate::failure::{Failure, Kind};
use crate::server::{Server, about};

pub(super) async fn check(server: &Server, policy_namespaces: &[String]) -> Result<Vec<Finding>, Failure> {
    let pipelines: Vec<Pipeline> = server.list(&ListParams::default()).await?;
    let mut findings = Vec::new();
    if pipelines.is_empty() {
        let detail = format!("there are none in namespace `{}`", server.namespace);
        findings.push(Finding::warn("pipelines", detail, "`kardinal init` makes one"));
    }
    for pipeline in &pipelines {
        findings.push(route(pipeline));
        findings.extend(secrets(server, pipeline).await?);
        findings.extend(repository(server, pipeline).await?);
    }
    let gates = server.gates(&[policy_namespaces]).await?;
    let templates: Vec<&PolicyGate> = gates.iter().filter(|gate| is_template(gate)).collect();
    let broken: Vec<Finding> = templates.iter().filter_map(|gate| broken(gate)).collect();
    if broken.is_empty() && !templates.is_empty() {
        findings.push(Finding::ok("gates", format!("{} templates compile", templates.len())));
    }
    findings.extend(broken);
    findings.extend(templates.iter().filter_map(|gate| idle(gate)));
    Ok(findings)
}

fn name(pipeline: &Pipeline) -> String {
    format!("pipeline {}", pipeline.metadata.name.as_deref().unwrap_or_default())
}

fn route(pipeline: &Pipeline) -> Finding {
    match kardinal_planner::pipeline::check(pipeline) {
        Ok(route) => Finding::ok(name(pipeline), route.names().collect::<Vec<&str>>().join(" → ")),
        Err(problem) => {
            let remedy = problem.hint.clone().unwrap_or_else(|| "correct the Pipeline".to_owned());
            Finding::fail(name(pipeline), format!("{}: {}", problem.field, problem.message), remedy)
        }
    }
}

/// The Secrets that a Pipeline names, each with the keys of which one must be there.
async fn secrets(server: &Server, pipeline: &Pipeline) -> Result<Vec<Finding>, Failure> {
    let git =
        pipeline.spec.git.secret_ref.iter().map(|secret| (secret.name.as_str(), vec!["token", "password"]));
    let clusters =
        pipeline.spec.environments.iter().filter_map(|one| one.health.as_ref()?.cluster.as_deref());
    let clusters = clusters.map(|cluster| (cluster, vec!["kubeconfig", "value"]));
    let tasks = task_secrets(pipeline).map(|(secret, key)| (secret, vec![key]));
    let wanted: BTreeSet<(&str, Vec<&str>)> = git.chain(clusters).chain(tasks).collect();
    let mut findings = Vec::new();
    for (secret, keys) in wanted {
        findings.push(secret_finding(server, pipeline, secret, &keys).await?);
    }
    let provider = pipeline.spec.git.provider.unwrap_or(GitProvider::Github);
    if provider != GitProvider::Local && pipeline.spec.git.secret_ref.is_none() {
        let detail =
            "`spec.git.secretRef` is not set: kardinal can read public repositories only, and push nowhere";
        findings.push(Finding::warn(
            name(pipeline),
            detail,
            "create a Secret with the key `token` and name it there",
        ));
    }
    Ok(findings)
}

async fn secret_finding(
    server: &Server,
    pipeline: &Pipeline,
    secret: &str,
    keys: &[&str],
) -> Result<Finding, Failure> {
    let what = format!("{}, Secret {secret}", name(pipeline));
    let api: Api<Secret> = Api::namespaced(server.client.clone(), &server.namespace);
    let first = keys.first().copied().unwrap_or_default();
    let found = match api.get_opt(secret).await {
        Ok(found) => found,
        Err(error) => {
            let failure = about::<Secret>(secret, error);
            if failure.kind == Kind::Refused {
                return Ok(Finding::warn(what, "it may not be read by you", "ask somebody who may"));
            }
            return Err(failure);
        }
    };
    let Some(found) = found else {
        let remedy = format!(
            "kubectl -n {} create secret generic {secret} --from-literal={first}=…",
            server.namespace
        );
        return Ok(Finding::fail(what, "it does not exist", remedy));
    };
    let data = found.data.unwrap_or_default();
    let has = |key: &str| data.get(key).is_some_and(|value| !value.0.is_empty());
    Ok(match keys.iter().any(|key| has(key)) {
        true => Finding::ok(what, "exists with its key"),
        false => Finding::fail(what, lack(keys), format!("add the key `{first}` to it")),
    })
}

fn lack(keys: &[&str]) -> String {
    match keys {
        [first, second] => format!("it has neither the key `{first}` nor `{second}`"),
        keys => format!("it does not have the key `{}`", keys.join("`, `")),
    }
}

/// Of repositories the API tells only those of the local forge.
async fn repository(server: &Server, pipeline: &Pipeline) -> Result<Option<Finding>, Failure> {
    if pipeline.spec.git.provider != Some(GitProvider::Local) {
        return Ok(None);
    }
    let url = &pipeline.spec.git.url;
    let what = format!("{}, repository", name(pipeline));
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let wanted = last.trim_end_matches(".git");
    let all: Vec<Repository> = server.list(&ListParams::default()).await?;
    let Some(found) = all.iter().find(|one| one.metadata.name.as_deref() == Some(wanted)) else {
        let detail = format!("there is no Repository `{wanted}` in namespace `{}`", server.namespace);
        return Ok(Some(Finding::fail(what, detail, "create it, or correct `spec.git.url`")));
    };
    let status = found.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|one| one.type_ == READY);
    Ok(Some(match ready {
        Some(ready) if ready.status == "True" && status.head.is_some() => {
            Finding::ok(what, format!("`{wanted}` is served"))
        }
        Some(ready) if ready.status == "True" => Finding::warn(
            what,
            format!("`{wanted}` is empty"),
            format!("push to {}", status.clone_url.unwrap_or_default()),
        ),
        Some(ready) => Finding::fail(what, ready.message.clone(), "correct the Repository"),
        None => Finding::warn(
            what,
            format!("nobody has looked at `{wanted}` yet"),
            "the forge is a part of `kardinal up`",
        ),
    }))
}

/// What the controller says of a template that guards nothing. It knows the Pipelines of every namespace.
fn idle(gate: &PolicyGate) -> Option<Finding> {
    let conditions = gate.status.iter().flat_map(|status| &status.conditions);
    let mut idle = conditions.filter(|condition| condition.type_ == GUARDS && condition.status == "False");
    let detail = idle.next()?.message.clone();
    Some(Finding::warn(gate_name(gate), detail, "correct it, or delete it: until then it holds nothing"))
}

fn gate_name(gate: &PolicyGate) -> String {
    let metadata = &gate.metadata;
    format!(
        "gate {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

fn broken(gate: &PolicyGate) -> Option<Finding> {
    let problem = check_expression(&gate.spec.expression).err().or_else(|| {
        let zone = gate.spec.time_zone.as_deref().map(time_zone).and_then(Result::err)?;
        Some(format!("spec.timeZone: {zone}"))
    })?;
    let remedy =
        "correct it: until then it holds every promotion; `kardinal policy test FILE` checks it before";
    Some(Finding::fail(gate_name(gate), problem.trim_end().to_owned(), remedy))
}
