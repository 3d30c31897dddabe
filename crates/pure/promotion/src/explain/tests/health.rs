//! How long an environment may take, and what is said when nothing proves what it runs.

use super::*;

/// A step of prod that checks health since 10:24.
fn checking(message: &str, outputs: Value) -> Scene {
    let status = json!({
        "state": "HealthChecking", "promotedAt": "2026-04-09T10:24:00Z", "message": message, "outputs": outputs,
    });
    Scene::at_the_gates().step("prod", status)
}

#[test]
fn while_nothing_is_known_of_an_environment_there_is_no_deadline() {
    let scene = checking("health is unknown: connection refused", json!({"healthUnknown": "true"}));
    let lines =
        ["no ETA: the time of the check does not run while nothing is known", "RESULT: WAITING for prod"];
    scene.says("prod", Outcome::Waiting, &lines);
    let explanation = scene.explain("prod");
    assert_eq!(explanation.environments[0].waits[0].deadline, None);
    assert!(!explanation.render().contains("fails"), "{}", explanation.render());
}

/// A step of prod that looks at another cluster, which nothing is known of, and what its state says of that.
fn elsewhere(kind: &str, reason: &str, said: &str, cluster: Option<&str>) -> Scene {
    let mut scene = checking(said, json!({"healthUnknown": "true"}));
    let step = scene.steps.last_mut().unwrap();
    step.spec.health = Some(object(json!({"cluster": cluster})));
    step.spec.git = Some(object(json!({"url": "https://example.com/gitops"})));
    step.status.as_mut().unwrap().conditions = object(json!([{
        "type": kind, "status": "True", "reason": reason, "message": said,
        "lastTransitionTime": "2026-04-09T10:25:00Z",
    }]));
    scene
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_mended_in_its_own_secret_whatever_words_it_is_told_with() {
    for why in [
        "`users[0].user.tokenFile` is not permitted: it names a file of the controller",
        "its server is gone",
    ] {
        let said = format!("the kubeconfig in the Secret `eu` cannot be used: {why}");
        let scene = elsewhere("Blocked", "ActionNeeded", &said, Some("eu"));
        let lines = [
            "no ETA: needs a person to correct the Secret `eu` of `health.cluster`",
            "RESULT: BLOCKED: the kubeconfig",
        ];
        scene.says("prod", Outcome::Blocked, &lines);
        assert!(!scene.explain("prod").render().contains("spec.git.secretRef"));
    }
    let said = "the namespace `shop` is not allowed: name it in `--health-namespaces`";
    let scene = elsewhere("Blocked", "ActionNeeded", said, None);
    scene.says("prod", Outcome::Blocked, &["no ETA: needs a person to mend this"]);
    assert!(!scene.explain("prod").render().contains("Secret"));
}

#[test]
fn what_bars_the_way_to_a_cluster_is_mended_by_whom_it_concerns() {
    let secret = "needs a person to correct the Secret `eu` of `health.cluster`; it goes on by itself then";
    for (reason, remedy) in [
        ("NotLetIn", secret),
        ("HostNotAllowed", "needs the operator of the controllers\n"),
        ("ActionNeeded", secret),
    ] {
        let scene = elsewhere("Blocked", reason, "it says no", Some("eu"));
        scene.says("prod", Outcome::Blocked, &[&format!("no ETA: {remedy}"), "RESULT: BLOCKED: it says no"]);
    }
}

#[test]
fn a_cluster_that_refuses_our_credentials_is_told_with_the_secret_that_holds_them() {
    let scene = elsewhere("ClusterUnreachable", "Unauthorized", "401 Unauthorized", Some("eu"));
    let lines = [
        "the cluster refuses the credentials of the Secret `eu`: 401 Unauthorized",
        "no ETA: needs a person to correct the Secret `eu` of `health.cluster`; it goes on by itself then",
        "RESULT: BLOCKED: the cluster refuses the credentials of the Secret `eu`",
    ];
    scene.says("prod", Outcome::Blocked, &lines);
    let said = "403 Forbidden: deployments.apps is forbidden";
    let lines =
        ["the cluster permits too little to the credentials of the Secret `eu`: 403 Forbidden: deploy"];
    elsewhere("ClusterUnreachable", "Forbidden", said, Some("eu")).says("prod", Outcome::Blocked, &lines);
    for (reason, said, cluster) in [
        ("Unreachable", "4010 is no port of ours", Some("eu")),
        // The words alone tell nothing.
        ("Unreachable", "403 Forbidden: deployments.apps is forbidden", Some("eu")),
        ("Unauthorized", "401 Unauthorized", None),
    ] {
        let scene = elsewhere("ClusterUnreachable", reason, said, cluster);
        scene.says("prod", Outcome::Waiting, &["RESULT: WAITING for prod to become healthy"]);
    }
}

#[test]
fn after_a_time_in_which_nothing_was_known_the_whole_time_is_left() {
    let known = json!({"healthKnownSince": "2026-04-09T10:29:00.123456789Z"});
    let scene = checking("checking health: it still runs 1.28.0", known);
    scene.says(
        "prod",
        Outcome::Waiting,
        &["no later than 2026-04-09T10:39:00Z, or it fails (in 10 minutes)"],
    );
}

#[test]
fn what_nothing_proves_does_not_fail_it_counts_from_then_on() {
    let scene = checking(
        "not proven yet: Deployment `my-app` is Available",
        json!({"healthUnproven": "Deployment `my-app` is Available, but nothing in it has changed"}),
    );
    let lines = [
        "prod  wants v1.29.0: not proven yet: Deployment `my-app` is Available",
        "ETA: ~4 minutes (without a proof it counts as verified at 2026-04-09T10:34:00Z)",
    ];
    scene.says("prod", Outcome::Waiting, &lines);
    assert!(!scene.explain("prod").render().contains("fails"));
}

#[test]
fn a_verification_without_a_proof_says_so() {
    let why = "Deployment `my-app` is Available, but nothing in it has changed since the push";
    let record = json!({
        "state": "Verified", "verifiedAt": "2026-04-09T10:29:00Z", "evidence": {"notProven": why},
    });
    let scene = Scene::at_the_gates().record("prod", record);
    let line = format!("RESULT: VERIFIED at 2026-04-09T10:29:00Z, not proven: {why}");
    scene.says("prod", Outcome::Verified, &[&line]);
}

#[test]
fn what_gates_said_at_the_merge_counts_after_it() {
    let forced = json!([{
        "name": "staging-soak", "result": "fail", "reason": "bundle.upstreamSoakMinutes = 12", "forcedBy": "bob",
    }]);
    let record = |state: &str| {
        json!({
            "state": state, "promotedAt": "2026-04-09T10:24:00Z", "verifiedAt": null,
            "evidence": {"policyGates": forced},
        })
    };
    for state in ["Verified", "HealthChecking"] {
        let text = Scene::at_the_gates().record("prod", record(state)).paused().explain("prod").render();
        assert!(text.contains("FAIL   bundle.upstreamSoakMinutes = 12, forced by bob"), "{state}: {text}");
        let empty = text.lines().any(|line| line.trim_end().ends_with("no ETA:"));
        assert!(!empty && !text.contains("freeze-my-app"), "{state}: {text}");
    }
}

#[test]
fn times_for_people_are_whole_seconds() {
    let mut scene = checking("checking health: it still runs 1.28.0", json!({}));
    let status = scene.steps[0].status.as_mut().unwrap();
    status.promoted_at = Some("2026-04-09T10:24:00.987654321Z".parse().unwrap());
    let text = scene.explain("prod").render();
    assert!(!text.contains(".98"), "{text}");
}
