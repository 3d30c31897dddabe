//! The Secrets that a Pipeline needs, and what is to be said of each.

use std::collections::BTreeSet;

use kardinal_api::kardinal::{GitProvider, Pipeline};
use kardinal_object::{can_be_name, namespace_of};
use kardinal_planner::doctor::Finding;

use super::title;
use crate::pipeline::{is_missing, task_secrets};

/// The key of a Secret that gets in over SSH.
const SSH_KEY: &str = "ssh-privatekey";

/// A Secret that has to be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedSecret<'a> {
    /// Its name.
    pub name: &'a str,
    /// The keys of which it has to have one.
    pub keys: Vec<&'a str>,
}

/// What somebody sees who looks for a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSeen {
    /// It may not be looked for.
    Refused,
    /// There is none.
    Nothing,
    /// A Secret that has something under these keys.
    Keys(Vec<String>),
}

/// The Secrets that a Pipeline names, for Git, other clusters and tasks.
/// A name that no Secret can have is told with the Pipeline, and nobody is asked for it.
pub fn wanted_secrets(pipeline: &Pipeline) -> Vec<WantedSecret<'_>> {
    let git = &pipeline.spec.git;
    let web = git.url.starts_with("https://") || git.url.starts_with("http://");
    let keys = if web { vec!["token", "password"] } else { vec![SSH_KEY, "token", "password"] };
    let git = git.secret_ref.iter().map(|secret| (secret.name.as_str(), keys.clone()));
    let clusters =
        pipeline.spec.environments.iter().filter_map(|one| one.health.as_ref()?.cluster.as_deref());
    let clusters = clusters.map(|cluster| (cluster, vec!["kubeconfig", "value"]));
    let tasks = task_secrets(pipeline).map(|(secret, key)| (secret, vec![key]));
    let all = git.chain(clusters).chain(tasks).filter(|(name, _)| can_be_name(name));
    let each: BTreeSet<_> = all.map(|(name, keys)| WantedSecret { name, keys }).collect();
    each.into_iter().collect()
}

/// What is to be said of the Secrets of a Pipeline, in the order of [`wanted_secrets`].
pub(super) fn secret_findings(pipeline: &Pipeline, seen: &[SecretSeen]) -> Vec<Finding> {
    let wanted = wanted_secrets(pipeline);
    let mut findings: Vec<Finding> =
        wanted.iter().zip(seen).map(|(wanted, seen)| judged(pipeline, wanted, seen)).collect();
    let provider = pipeline.spec.git.provider.unwrap_or(GitProvider::Github);
    if provider != GitProvider::Local && pipeline.spec.git.secret_ref.is_none() {
        let detail =
            "`spec.git.secretRef` is not set: kardinal can read public repositories only, and push nowhere";
        let remedy = "create a Secret with the key `token` and name it there";
        findings.push(Finding::warn(title(pipeline), detail, remedy));
    }
    findings
}

fn judged(pipeline: &Pipeline, wanted: &WantedSecret<'_>, seen: &SecretSeen) -> Finding {
    let WantedSecret { name: secret, keys } = wanted;
    let what = format!("{}, Secret {secret}", title(pipeline));
    let first = keys.first().copied().unwrap_or_default();
    match seen {
        SecretSeen::Keys(found) if keys.iter().any(|key| found.iter().any(|one| one == key)) => {
            Finding::ok(what, "exists with its key")
        }
        SecretSeen::Keys(_) => Finding::fail(what, lack(keys), format!("add the key `{first}` to it")),
        SecretSeen::Refused if !is_missing(pipeline, secret) => {
            Finding::warn(what, "it may not be read by you", "ask somebody who may")
        }
        // The controllers may look, and tell it in the Pipeline.
        SecretSeen::Refused | SecretSeen::Nothing => {
            let namespace = namespace_of(&pipeline.metadata);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use kardinal_planner::doctor::Mark;

    use super::*;

    fn pipeline(url: &str, waits: &serde_json::Value) -> Pipeline {
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
            "status": {"waits": waits},
        }))
        .unwrap()
    }

    #[test]
    fn secrets_of_git_clusters_and_tasks_are_looked_for_with_their_keys() {
        let found = json!([]);
        let wanted = |url: &str| -> Vec<String> {
            let pipeline = pipeline(url, &found);
            wanted_secrets(&pipeline)
                .iter()
                .map(|one| format!("{}: {}", one.name, one.keys.join(" ")))
                .collect()
        };
        let others = ["ci-token: hook", "eu: kubeconfig value"];
        assert_eq!(wanted("https://git.example/a.git"), [others[0], others[1], "git: token password"]);
        let ssh = "git: ssh-privatekey token password";
        assert_eq!(wanted("git@git.example:a.git"), [others[0], others[1], ssh]);
    }

    #[test]
    fn a_secret_is_judged_by_what_is_seen_of_it() {
        let found = json!([]);
        let lost = json!([{
            "on": "action", "who": "person", "reason": "SecretMissing",
            "subject": {"kind": "Secret", "name": "ci-token"},
        }]);
        let keys = |keys: &[&str]| SecretSeen::Keys(keys.iter().map(|key| (*key).to_owned()).collect());
        for (waits, secret, seen, mark, words) in [
            (&found, "ci-token", keys(&["hook"]), Mark::Ok, "exists"),
            (&found, "ci-token", keys(&["token"]), Mark::Fail, "does not have the key `hook`"),
            (&found, "ci-token", SecretSeen::Nothing, Mark::Fail, "does not exist"),
            (&found, "ci-token", SecretSeen::Refused, Mark::Warn, "may not be read by you"),
            (&lost, "ci-token", SecretSeen::Refused, Mark::Fail, "does not exist"),
            (&lost, "eu", SecretSeen::Refused, Mark::Warn, "may not be read by you"),
        ] {
            let pipeline = pipeline("https://git.example/a.git", waits);
            let answer = judged(&pipeline, &WantedSecret { name: secret, keys: vec!["hook"] }, &seen);
            assert_eq!(answer.mark, mark, "{answer:?}");
            assert!(answer.detail.contains(words), "{answer:?}");
            if words == "does not exist" {
                let remedy = "kubectl -n team-a create secret generic ci-token --from-literal=hook=…";
                assert_eq!(answer.remedy.as_deref(), Some(remedy));
            }
        }
    }
}
