//! Whether Pipelines, their Secrets and their repositories can work.

use kardinal_api::forge::{READY, Repository};
use kardinal_api::kardinal::{GitProvider, Pipeline};
use kardinal_object::name_of;
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::doctor::Finding;

use super::secrets::{SecretSeen, secret_findings};
use super::title;
use crate::pipeline::check;

/// What was seen of one Pipeline.
#[derive(Clone, Debug)]
pub struct PipelineSeen<'a> {
    /// The Pipeline.
    pub pipeline: &'a Pipeline,
    /// What was seen of its Secrets, in the order of [`wanted_secrets`](super::wanted_secrets).
    pub secrets: Vec<SecretSeen>,
    /// The repositories of the local forge, where it is one of them that it works on.
    pub repositories: Vec<Repository>,
}

/// What is to be said of the Pipelines of a namespace.
pub fn pipeline_findings(all: &[PipelineSeen<'_>], namespace: &str) -> Vec<Finding> {
    if all.is_empty() {
        let detail = format!("there are none in namespace `{namespace}`");
        return vec![Finding::warn("pipelines", detail, "`kardinal init` makes one")];
    }
    let mut findings = Vec::new();
    for seen in all {
        findings.push(route(seen.pipeline));
        findings.extend(secret_findings(seen.pipeline, &seen.secrets));
        findings.extend(repository(seen.pipeline, &seen.repositories, namespace));
    }
    findings
}

/// Whether the repository of a Pipeline is one of the local forge. Of others the API tells nothing.
pub fn is_in_local_forge(pipeline: &Pipeline) -> bool {
    pipeline.spec.git.provider == Some(GitProvider::Local)
}

fn route(pipeline: &Pipeline) -> Finding {
    match check(pipeline) {
        Ok(route) => Finding::ok(title(pipeline), route.names().collect::<Vec<&str>>().join(" → ")),
        Err(problem) => {
            let remedy = problem.hint.clone().unwrap_or_else(|| "correct the Pipeline".to_owned());
            Finding::fail(title(pipeline), format!("{}: {}", problem.field, problem.message), remedy)
        }
    }
}

fn repository(pipeline: &Pipeline, all: &[Repository], namespace: &str) -> Option<Finding> {
    if !is_in_local_forge(pipeline) {
        return None;
    }
    let what = format!("{}, repository", title(pipeline));
    let last = pipeline.spec.git.url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let wanted = last.trim_end_matches(".git");
    let Some(found) = all.iter().find(|one| name_of(&one.metadata) == wanted) else {
        let detail = format!("there is no Repository `{wanted}` in namespace `{namespace}`");
        return Some(Finding::fail(what, detail, "create it, or correct `spec.git.url`"));
    };
    let status = found.status.clone().unwrap_or_default();
    let ready = condition::find(&status.conditions, READY);
    Some(match ready {
        Some(ready) if condition::is(ready, Truth::True) && status.head.is_some() => {
            Finding::ok(what, format!("`{wanted}` is served"))
        }
        Some(ready) if condition::is(ready, Truth::True) => Finding::warn(
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
    })
}

#[cfg(test)]
mod tests {
    use kardinal_planner::doctor::Mark;
    use serde_json::{Value, json};

    use super::*;

    fn pipeline(git: Value, environments: Value) -> Pipeline {
        serde_json::from_value(json!({
            "metadata": {"name": "my-app", "namespace": "team-a"},
            "spec": {"git": git, "environments": environments},
        }))
        .unwrap()
    }

    fn repository(status: Value) -> Repository {
        serde_json::from_value(json!({"metadata": {"name": "app"}, "spec": {}, "status": status})).unwrap()
    }

    fn told(pipeline: &Pipeline, repositories: Vec<Repository>) -> Vec<(Mark, String)> {
        let seen = PipelineSeen { pipeline, secrets: Vec::new(), repositories };
        let found = pipeline_findings(&[seen], "team-a").into_iter();
        found.map(|one| (one.mark, format!("{}: {}", one.what, one.detail))).collect()
    }

    #[test]
    fn no_pipeline_is_told_with_its_namespace() {
        let found = pipeline_findings(&[], "team-a");
        assert_eq!(found[0].detail, "there are none in namespace `team-a`");
    }

    #[test]
    fn a_route_that_cannot_be_is_told_with_its_field() {
        let local = json!({"url": "http://h/git/team-a/app.git", "provider": "local"});
        let served = repository(json!({"head": "abc", "conditions": [ready("True")]}));
        let good = pipeline(local.clone(), json!([{"name": "dev"}, {"name": "prod"}]));
        let wanted = (Mark::Ok, "pipeline my-app: dev → prod".to_owned());
        assert_eq!(told(&good, vec![served.clone()])[0], wanted);
        let bad = pipeline(local, json!([{"name": "dev"}, {"name": "dev"}]));
        let (mark, text) = told(&bad, vec![served])[0].clone();
        assert!(mark == Mark::Fail && text.starts_with("pipeline my-app: spec.environments[1]"), "{text}");
    }

    #[test]
    fn without_a_secret_only_the_local_forge_can_be_pushed_to() {
        let found = told(&pipeline(json!({"url": "https://h/r.git"}), json!([{"name": "dev"}])), Vec::new());
        assert!(
            found.len() == 2 && found[1].0 == Mark::Warn && found[1].1.contains("secretRef"),
            "{found:?}"
        );
    }

    fn ready(status: &str) -> Value {
        json!({"type": "Ready", "status": status, "reason": "R", "message": "its name is wrong",
            "lastTransitionTime": "2026-04-09T10:00:00Z"})
    }

    #[test]
    fn a_repository_of_the_local_forge_is_judged_by_its_status() {
        let local = json!({"url": "http://h/git/team-a/app.git/", "provider": "local"});
        let pipeline = pipeline(local, json!([{"name": "dev"}]));
        let with = |status: Value| vec![repository(status)];
        for (repositories, mark, detail) in [
            (Vec::new(), Mark::Fail, "there is no Repository `app` in namespace `team-a`"),
            (with(json!({})), Mark::Warn, "nobody has looked at `app` yet"),
            (with(json!({"conditions": [ready("False")]})), Mark::Fail, "its name is wrong"),
            (with(json!({"conditions": [ready("True")]})), Mark::Warn, "`app` is empty"),
            (with(json!({"head": "abc", "conditions": [ready("True")]})), Mark::Ok, "`app` is served"),
        ] {
            let found = told(&pipeline, repositories);
            assert_eq!(found[1..], [(mark, format!("pipeline my-app, repository: {detail}"))]);
        }
    }
}
