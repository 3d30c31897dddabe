//! Whether Pipelines, their Secrets, their repositories and their gates can work.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kardinal_api::forge::{READY, Repository};
use kardinal_api::kardinal::{GitProvider, Pipeline, PolicyGate};
use kardinal_object::can_be_name;
use kardinal_policy::{is_template, time_zone};
use kardinal_promotion::gate_context::check_expression;
use kardinal_promotion::pipeline::{is_missing, task_secrets};
use kardinal_promotion::policy_gate::GUARDS;
use kube::Api;
use kube::api::ListParams;

use super::Finding;
use crate::failure::{Failure, Kind};
use crate::server::{Server, about};

/// The key of a Secret that gets in over SSH.
const SSH_KEY: &str = "ssh-privatekey";

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
    match kardinal_promotion::pipeline::check(pipeline) {
        Ok(route) => Finding::ok(name(pipeline), route.names().collect::<Vec<&str>>().join(" → ")),
        Err(problem) => {
            let remedy = problem.hint.clone().unwrap_or_else(|| "correct the Pipeline".to_owned());
            Finding::fail(name(pipeline), format!("{}: {}", problem.field, problem.message), remedy)
        }
    }
}

/// The Secrets that a Pipeline names, for Git, other clusters and tasks, each with the keys of which one must be there.
/// A name that no Secret can have is told with the Pipeline, and nobody is asked for it.
fn wanted(pipeline: &Pipeline) -> BTreeSet<(&str, Vec<&str>)> {
    let git = &pipeline.spec.git;
    let web = git.url.starts_with("https://") || git.url.starts_with("http://");
    let keys = if web { vec!["token", "password"] } else { vec![SSH_KEY, "token", "password"] };
    let git = git.secret_ref.iter().map(|secret| (secret.name.as_str(), keys.clone()));
    let clusters =
        pipeline.spec.environments.iter().filter_map(|one| one.health.as_ref()?.cluster.as_deref());
    let clusters = clusters.map(|cluster| (cluster, vec!["kubeconfig", "value"]));
    let tasks = task_secrets(pipeline).map(|(secret, key)| (secret, vec![key]));
    git.chain(clusters).chain(tasks).filter(|(name, _)| can_be_name(name)).collect()
}

async fn secrets(server: &Server, pipeline: &Pipeline) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for (secret, keys) in wanted(pipeline) {
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
    let api: Api<Secret> = Api::namespaced(server.client.clone(), &server.namespace);
    let seen = match api.get_opt(secret).await {
        Ok(Some(found)) => {
            let data = found.data.unwrap_or_default().into_iter();
            Seen::Keys(data.filter(|(_, value)| !value.0.is_empty()).map(|(key, _)| key).collect())
        }
        Ok(None) => Seen::Nothing,
        Err(error) => match about::<Secret>(secret, error) {
            failure if failure.kind == Kind::Refused => Seen::Refused,
            failure => return Err(failure),
        },
    };
    Ok(judged(pipeline, secret, keys, &seen))
}

/// What somebody sees who looks for a Secret.
enum Seen {
    /// It may not be looked for.
    Refused,
    Nothing,
    /// A Secret that has something under these keys.
    Keys(Vec<String>),
}

fn judged(pipeline: &Pipeline, secret: &str, keys: &[&str], seen: &Seen) -> Finding {
    let what = format!("{}, Secret {secret}", name(pipeline));
    let first = keys.first().copied().unwrap_or_default();
    match seen {
        Seen::Keys(found) if keys.iter().any(|key| found.iter().any(|one| one == key)) => {
            Finding::ok(what, "exists with its key")
        }
        Seen::Keys(_) => Finding::fail(what, lack(keys), format!("add the key `{first}` to it")),
        Seen::Refused if !is_missing(pipeline, secret) => {
            Finding::warn(what, "it may not be read by you", "ask somebody who may")
        }
        // The controllers may look, and tell it in the Pipeline.
        Seen::Refused | Seen::Nothing => {
            let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
            let data = match first {
                SSH_KEY => format!("--from-file={SSH_KEY}=FILE --from-file=known_hosts=FILE"),
                key => format!("--from-literal={key}=…"),
            };
            let remedy = format!("kubectl -n {namespace} create secret generic {secret} {data}");
            Finding::fail(what, "it does not exist", remedy)
        }
    }
}

fn lack(keys: &[&str]) -> String {
    match keys {
        [key] => format!("it does not have the key `{key}`"),
        [first, second] => format!("it has neither the key `{first}` nor `{second}`"),
        keys => format!("it has none of the keys `{}`", keys.join("`, `")),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::doctor::Mark;

    fn pipeline(url: &str, condition: &serde_json::Value) -> Pipeline {
        let task = json!({"uses": "tell", "config": {"secretRef": {"name": "ci-token", "key": "hook"}}});
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "my-app", "namespace": "team-a"},
            "spec": {
                "git": {"url": url, "secretRef": {"name": "git"}},
                "environments": [
                    {"name": "dev", "steps": [task]}, {"name": "prod", "health": {"cluster": "eu"}, "steps": [task]},
                ],
            },
            "status": {"conditions": [condition]},
        }))
        .unwrap()
    }

    fn condition(status: &str, message: &str) -> serde_json::Value {
        json!({
            "type": "SecretsFound", "status": status, "reason": "SecretMissing", "message": message,
            "lastTransitionTime": "2026-04-09T10:00:00Z",
        })
    }

    #[test]
    fn secrets_of_git_clusters_and_tasks_are_looked_for_with_their_keys() {
        let found = condition("True", "all Secrets exist");
        let wanted = |url: &str| -> Vec<String> {
            let pipeline = pipeline(url, &found);
            wanted(&pipeline).into_iter().map(|(name, keys)| format!("{name}: {}", keys.join(" "))).collect()
        };
        let others = ["ci-token: hook", "eu: kubeconfig value"];
        assert_eq!(wanted("https://git.example/a.git"), [others[0], others[1], "git: token password"]);
        let ssh = "git: ssh-privatekey token password";
        assert_eq!(wanted("git@git.example:a.git"), [others[0], others[1], ssh]);
    }

    #[test]
    fn a_secret_is_judged_by_what_is_seen_of_it() {
        let found = condition("True", "all Secrets exist");
        let lost =
            condition("False", "the Secret `ci-token` does not exist in namespace `team-a`: create it");
        let keys = |keys: &[&str]| Seen::Keys(keys.iter().map(|key| (*key).to_owned()).collect());
        for (condition, secret, seen, mark, words) in [
            (&found, "ci-token", keys(&["hook"]), Mark::Ok, "exists"),
            (&found, "ci-token", keys(&["token"]), Mark::Fail, "does not have the key `hook`"),
            (&found, "ci-token", Seen::Nothing, Mark::Fail, "does not exist"),
            (&found, "ci-token", Seen::Refused, Mark::Warn, "may not be read by you"),
            (&lost, "ci-token", Seen::Refused, Mark::Fail, "does not exist"),
            (&lost, "eu", Seen::Refused, Mark::Warn, "may not be read by you"),
        ] {
            let pipeline = pipeline("https://git.example/a.git", condition);
            let told = judged(&pipeline, secret, &["hook"], &seen);
            assert_eq!(told.mark, mark, "{told:?}");
            assert!(told.detail.contains(words), "{told:?}");
            if words == "does not exist" {
                let remedy = "kubectl -n team-a create secret generic ci-token --from-literal=hook=…";
                assert_eq!(told.remedy.as_deref(), Some(remedy));
            }
        }
    }
}
