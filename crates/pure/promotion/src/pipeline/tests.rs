//! Tables over the phase and the condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{Pipeline, PipelinePhase, PromotionStep, SecretReference};
use kardinal_planner::why::Wait;

use super::plan::is_past;
use super::*;

fn now() -> Timestamp {
    "2026-04-09T10:00:00.5Z".parse().unwrap()
}

fn pipeline(environments: &str) -> Pipeline {
    serde_saphyr::from_str(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {{name: my-app, generation: 4}}\n\
         spec: {{git: {{url: u}}, environments: {environments}}}"
    ))
    .unwrap()
}

/// A step, made in the given second.
fn step(environment: &str, second: i64, state: &str) -> PromotionStep {
    let mut step: PromotionStep = serde_saphyr::from_str(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: PromotionStep\nmetadata: {{name: s-{second}}}\n\
         spec: {{pipeline: my-app, environment: {environment}, bundleRef: b}}\nstatus: {{state: {state}}}"
    ))
    .unwrap();
    step.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
    step
}

fn check_phase(steps: &[PromotionStep], wanted: PipelinePhase) {
    let pipeline = pipeline("[{name: dev}, {name: prod}]");
    let steps: Vec<&PromotionStep> = steps.iter().collect();
    let plan = plan(&Snapshot {
        pipeline: &pipeline,
        steps: &steps,
        bundles: &[],
        promoting: false,
        missing: None,
        now: now(),
    });
    assert_eq!(plan.status.unwrap().phase, Some(wanted));
}

#[test]
fn the_newest_step_of_each_environment_counts() {
    check_phase(&[], PipelinePhase::Unknown);
    check_phase(&[step("dev", 1, "Verified")], PipelinePhase::Unknown);
    check_phase(&[step("dev", 1, "Verified"), step("prod", 2, "Verified")], PipelinePhase::Ready);
    check_phase(&[step("dev", 1, "Verified"), step("prod", 2, "Failed")], PipelinePhase::Degraded);
    check_phase(&[step("prod", 2, "Failed")], PipelinePhase::Degraded);
    let repaired = [step("prod", 3, "Verified"), step("dev", 1, "Verified"), step("prod", 2, "Failed")];
    check_phase(&repaired, PipelinePhase::Ready);
    check_phase(&[step("dev", 1, "Verified"), step("prod", 2, "WaitingForMerge")], PipelinePhase::Unknown);
    check_phase(&[step("gone", 1, "Failed")], PipelinePhase::Unknown);
}

#[test]
fn a_failure_before_a_later_verification_does_not_degrade_the_pipeline() {
    let pipeline = pipeline("[{name: prod}]");
    let bundle = |name: &str, created: &str, status: &str| -> Bundle {
        serde_saphyr::from_str(&format!(
            "apiVersion: kardinal.io/v1alpha1\nkind: Bundle\nmetadata: {{name: {name}, creationTimestamp: '{created}'}}\n\
             spec: {{artifacts: {{}}}}\nstatus: {status}"
        ))
        .unwrap()
    };
    let failed = "{conditions: [{type: Ready, status: 'False', reason: StepFailed, message: m, \
         lastTransitionTime: '2026-04-09T09:30:00Z'}], environments: {prod: {state: Failed}}}";
    for (at, wanted) in
        [("2026-04-09T09:20:00Z", PipelinePhase::Degraded), ("2026-04-09T09:40:00Z", PipelinePhase::Ready)]
    {
        let verified = format!("{{environments: {{prod: {{state: Verified, verifiedAt: '{at}'}}}}}}");
        let bundles = [
            bundle("pinned", "2026-04-09T09:00:00Z", &verified),
            bundle("b", "2026-04-09T09:10:00Z", failed),
        ];
        let bundles: Vec<&Bundle> = bundles.iter().collect();
        let mut old = step("prod", 1, "Verified");
        old.spec.bundle_ref = "pinned".to_owned();
        let new = step("prod", 2, "Failed");
        let plan = plan(&Snapshot {
            pipeline: &pipeline,
            steps: &[&old, &new],
            bundles: &bundles,
            promoting: false,
            missing: None,
            now: now(),
        });
        assert_eq!(plan.status.unwrap().phase, Some(wanted), "{at}");
    }
    // Where nothing is on record of its end, it may be the last thing that happened.
    let verified = "{environments: {prod: {state: Verified, verifiedAt: '2026-04-09T09:40:00Z'}}}";
    let bundles =
        [bundle("pinned", "2026-04-09T09:00:00Z", verified), bundle("b", "2026-04-09T09:10:00Z", "{}")];
    assert!(!is_past(&step("prod", 2, "Failed"), &bundles.iter().collect::<Vec<_>>()));
}

#[test]
fn a_pipeline_is_not_ready_between_two_environments() {
    let pipeline = pipeline("[{name: dev}, {name: prod}]");
    for (state, wanted) in [("Verified", PipelinePhase::Unknown), ("Failed", PipelinePhase::Degraded)] {
        let steps = [step("dev", 3, "Verified"), step("prod", 2, state)];
        let steps: Vec<&PromotionStep> = steps.iter().collect();
        let plan = plan(&Snapshot {
            pipeline: &pipeline,
            steps: &steps,
            bundles: &[],
            promoting: true,
            missing: None,
            now: now(),
        });
        assert_eq!(plan.status.unwrap().phase, Some(wanted));
    }
}

fn check_condition(environments: &str, wanted: &str) {
    let mut pipeline = pipeline(environments);
    let answer = plan(&Snapshot {
        pipeline: &pipeline,
        steps: &[],
        bundles: &[],
        promoting: false,
        missing: None,
        now: now(),
    });
    let status = answer.status.unwrap();
    let condition = &status.conditions[0];
    assert_eq!(format!("{} {}: {}", condition.status, condition.reason, condition.message), wanted);
    assert_eq!((status.observed_generation, answer.notes.len()), (Some(4), 1));
    pipeline.status = Some(status);
    let again = plan(&Snapshot {
        pipeline: &pipeline,
        steps: &[],
        bundles: &[],
        promoting: false,
        missing: None,
        now: now(),
    });
    assert!(again.status.is_none() && again.notes.is_empty(), "a steady Pipeline costs no write");
}

#[test]
fn the_condition_says_what_is_wrong() {
    check_condition("[{name: dev}, {name: staging}, {name: prod}]", "True Valid: dev → staging → prod");
    check_condition("[{name: dev}]", "True Valid: dev");
    check_condition(
        "[{name: dev}, {name: eu, dependsOn: [dev]}, {name: us, dependsOn: [dev]}]",
        "True Valid: 3 environments in order",
    );
    check_condition(
        "[{name: a, dependsOn: [b]}, {name: b, dependsOn: [a]}]",
        "False ValidationFailed: spec.environments: environments depend on each other in a circle: \
         a → b → a (remove one of these from `dependsOn`)",
    );
    check_condition(
        "[{name: a}, {name: b, dependsOn: [c]}]",
        "False ValidationFailed: spec.environments[1].dependsOn[0]: there is no environment `c` (known are `a` and `b`)",
    );
    check_condition(
        "[{name: a}, {name: a}]",
        "False ValidationFailed: spec.environments[1].name: `a` is listed twice (names of environments are unique)",
    );
}

#[test]
fn steps_with_an_unknown_word_and_no_url_are_told_when_the_pipeline_is_written() {
    let wrong = |steps: &str| {
        let environments = format!("[{{name: dev}}, {{name: prod, approval: pr-review, steps: {steps}}}]");
        let pipeline = pipeline(&environments);
        check(&pipeline).map(drop).map_err(|problem| problem.to_string())
    };
    let said =
        wrong("[{uses: git-clone}, {uses: kustomise-set-image}, {uses: git-commit}, {uses: git-push}]")
            .unwrap_err();
    assert!(
        said.starts_with(
            "spec.environments[1].steps[1]: steps[1]: `kustomise-set-image` is not a built-in task"
        ),
        "{said}"
    );
    let order = "[{uses: git-clone}, {uses: kustomize-set-image}, {uses: git-commit}, {uses: git-push}, {uses: open-pr}, {uses: wait-for-merge}, {uses: health-check}]";
    assert_eq!(wrong(order), Ok(()));
    let custom = order.replace(
        "{uses: health-check}",
        "{uses: smoke, config: {url: 'https://example.com'}}, {uses: health-check}",
    );
    assert_eq!(wrong(&custom), Ok(()));
}

#[test]
fn a_secret_that_does_not_exist_is_told_when_the_pipeline_is_written() {
    let mut pipeline = pipeline("[{name: dev}, {name: prod, health: {cluster: eu-cluster}}]");
    pipeline.metadata.namespace = Some("team-a".to_owned());
    assert_eq!(secrets(&pipeline), ["eu-cluster"]);
    assert!(wants_secrets(&pipeline));
    let missing = ["eu-cluster".to_owned()];
    let look = |pipeline: &Pipeline, missing: Option<&[String]>| {
        plan(&Snapshot { pipeline, steps: &[], bundles: &[], promoting: false, missing, now: now() })
    };
    let plan = look(&pipeline, Some(&missing));
    let found = |plan: &Plan| {
        let status = plan.status.clone().unwrap();
        status.conditions.into_iter().find(|one| one.type_ == SECRETS_FOUND).unwrap()
    };
    let condition = found(&plan);
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "SecretMissing"));
    assert!(
        condition.message.contains("the Secret `eu-cluster` does not exist in namespace `team-a`"),
        "{condition:?}"
    );
    assert!(plan.notes.iter().any(|note| note.warning && note.reason == "SecretMissing"));
    assert!(plan.wake.is_some(), "somebody looks again");
    pipeline.status = plan.status;
    assert!(is_missing(&pipeline, "eu-cluster"));
    assert!(!is_missing(&pipeline, "team-a") && !is_missing(&pipeline, "eu"), "these are other names");
    let plan = look(&pipeline, None);
    assert!(plan.status.is_none() && plan.wake.is_some(), "what could not be read is not known to be there");
    let plan = look(&pipeline, Some(&[]));
    assert_eq!((found(&plan).status.as_str(), plan.wake), ("True", None));
    pipeline.status = plan.status;
    assert!(!wants_secrets(&pipeline), "a steady Pipeline costs no read");
    assert!(!is_missing(&pipeline, "eu-cluster"));
    let plan = look(&pipeline, None);
    assert!(plan.status.is_none() && plan.wake.is_none() && plan.notes.is_empty());
}

#[test]
fn a_name_that_no_label_holds_is_refused() {
    let mut pipeline = pipeline("[{name: dev}]");
    pipeline.metadata.name = Some("p".repeat(63));
    check(&pipeline).unwrap();
    pipeline.metadata.name = Some("p".repeat(64));
    let problem = check(&pipeline).unwrap_err();
    assert_eq!(problem.field, "metadata.name");
    assert!(problem.to_string().contains("has 64 characters (the name of a Pipeline can have at most 63"));
}

/// A Bundle that is verified in prod since the given second.
fn bundle(name: &str, tag: &str, second: i64) -> Bundle {
    let at = Timestamp::from_second(second).unwrap();
    serde_saphyr::from_str(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: Bundle\nmetadata: {{name: {name}, creationTimestamp: '{at}'}}\n\
         spec: {{artifacts: {{images: [{{name: a, reference: 'r/a:{tag}'}}]}}}}\n\
         status: {{phase: Verified, environments: {{prod: {{state: Verified, promotedAt: '{at}', verifiedAt: '{at}'}}}}}}"
    ))
    .unwrap()
}

#[test]
fn of_a_bundle_that_is_gone_only_its_arrivals_are_kept_in_mind() {
    let mut whole = bundle("old", "1.0.0", 1_000);
    whole.metadata.annotations = Some([("much".to_owned(), "x".repeat(1 << 18))].into());
    let entry = whole.status.as_mut().unwrap().environments.get_mut("prod").unwrap();
    entry.message = Some("x".repeat(1 << 18));
    let (promoted_at, verified_at) = (entry.promoted_at, entry.verified_at);
    let kept = arrivals_only(whole.clone()).unwrap();
    assert!(serde_json::to_string(&kept).unwrap().len() < 1_000);
    assert_eq!((&kept.metadata.name, &kept.spec), (&whole.metadata.name, &whole.spec));
    let entry = &kept.status.unwrap().environments["prod"];
    assert_eq!((entry.promoted_at, entry.verified_at), (promoted_at, verified_at));
    // One that came nowhere is forgotten at once: many can be made and deleted.
    let entry = whole.status.as_mut().unwrap().environments.get_mut("prod").unwrap();
    (entry.promoted_at, entry.verified_at) = (None, None);
    assert_eq!(arrivals_only(whole), None);
}

#[test]
fn what_an_environment_has_stays_on_record_when_its_bundle_is_gone() {
    let mut pipeline = pipeline("[{name: dev}, {name: prod}]");
    let start = now().as_second();
    let (old, new) = (bundle("old", "1.0.0", start - 90), bundle("new", "1.1.0", start - 60));
    let mut back = bundle("back", "1.0.0", start - 30);
    back.spec.provenance = Some(serde_saphyr::from_str("rollbackOf: new").unwrap());
    let pass = |pipeline: &mut Pipeline, bundles: &[&Bundle], promoting: bool, now: Timestamp| {
        let plan = plan(&Snapshot { pipeline, steps: &[], bundles, promoting, missing: None, now });
        if let Some(status) = plan.status {
            pipeline.status = Some(status);
        }
        let known = &pipeline.status.as_ref().unwrap().environments;
        let rows = known.iter().map(|one| format!("{} {} {}", one.environment, one.version, one.bundle));
        (rows.collect::<Vec<String>>(), plan.wake)
    };
    assert_eq!(pass(&mut pipeline, &[&old, &new], false, now()).0, ["prod 1.1.0 new"]);
    assert_eq!(pass(&mut pipeline, &[&old, &new, &back], false, now()).0, ["prod 1.0.0 back"]);
    assert_eq!(
        pass(&mut pipeline, &[&old, &new], false, now()).0,
        ["prod 1.0.0 back"],
        "it did not come back"
    );
    let again = plan(&Snapshot {
        pipeline: &pipeline,
        steps: &[],
        bundles: &[&old, &new],
        promoting: false,
        missing: None,
        now: now(),
    });
    assert!(again.status.is_none(), "a steady Pipeline costs no write");
    // Of what arrives in the middle of a way, all is written down together.
    let next = bundle("next", "1.2.0", start);
    let (rows, wake) = pass(&mut pipeline, &[&old, &new, &next], true, now());
    assert_eq!((rows, wake), (vec!["prod 1.0.0 back".to_owned()], Timestamp::from_second(start + 5).ok()));
    assert_eq!(
        pass(&mut pipeline, &[&old, &new, &next], true, wake.unwrap()),
        (vec!["prod 1.2.0 next".to_owned()], None)
    );
    // However many follow, the first is not kept waiting by them.
    let [third, fourth] = [("third", 10), ("fourth", 13)].map(|(name, at)| bundle(name, name, start + at));
    let at = |second: i64| Timestamp::from_second(start + second).unwrap();
    assert_eq!(pass(&mut pipeline, &[&next, &third], true, at(10)).1, Some(at(15)));
    let mut dev = fourth;
    let status = dev.status.as_mut().unwrap();
    let arrival = status.environments.remove("prod").unwrap();
    status.environments.insert("dev".to_owned(), arrival);
    assert_eq!(pass(&mut pipeline, &[&next, &third, &dev], true, at(13)).1, Some(at(15)));
}

#[test]
fn the_secrets_of_tasks_are_looked_for() {
    let task =
        "{uses: tell, config: {url: 'https://ci.example.com', secretRef: {name: ci-token, key: hook}}}";
    let pipeline =
        pipeline(&format!("[{{name: dev}}, {{name: prod, steps: [{{uses: git-clone}}, {task}, {task}]}}]"));
    assert_eq!(secrets(&pipeline), ["ci-token"]);
    assert!(wants_secrets(&pipeline));
}

#[test]
fn what_cannot_be_a_name_is_told_with_its_field_and_nobody_is_asked_for_it() {
    let task = |name: &str| {
        format!("{{uses: tell, config: {{url: 'https://ci.example.com', secretRef: {{name: '{name}'}}}}}}")
    };
    let with = |git: &str, cluster: &str, task: &str, namespace: &str| {
        let environments = format!(
            "[{{name: dev, health: {{cluster: known}}}}, {{name: prod, health: {{cluster: '{cluster}'}}, steps: [{task}]}}]"
        );
        let mut pipeline = pipeline(&environments);
        pipeline.spec.git.secret_ref = Some(SecretReference { name: git.to_owned() });
        pipeline.spec.policy_namespaces = vec!["shared".to_owned(), namespace.to_owned()];
        pipeline
    };
    let good = with("git", "eu", &task("ci"), "more");
    check(&good).unwrap();
    assert_eq!(secrets(&good), ["ci", "eu", "git", "known"]);
    for bad in ["?watch=true", "x?watch=true", "../x", "My Secret"] {
        for (pipeline, field) in [
            (with(bad, "eu", &task("ci"), "more"), "spec.git.secretRef.name"),
            (with("git", bad, &task("ci"), "more"), "spec.environments[1].health.cluster"),
            (with("git", "eu", &task(bad), "more"), "spec.environments[1].steps[0].config.secretRef.name"),
            (with("git", "eu", &task("ci"), bad), "spec.policyNamespaces[1]"),
        ] {
            let problem = check(&pipeline).unwrap_err();
            assert_eq!(problem.field, field);
            assert!(problem.message.contains(&format!("`{bad}` is not")), "{problem}");
            assert!(problem.hint.is_some_and(|hint| hint.starts_with("use lower case letters")));
            let is_secret = !field.contains("policyNamespaces");
            assert_eq!(secrets(&pipeline).is_empty(), is_secret, "{field}");
            assert_eq!(wants_secrets(&pipeline), !is_secret, "{field}");
        }
    }
}

#[test]
fn a_wrong_name_does_not_hide_what_environments_have() {
    let mut pipeline = pipeline("[{name: prod}]");
    pipeline.spec.policy_namespaces = vec!["..".to_owned()];
    let here = bundle("here", "1.0.0", now().as_second() - 60);
    let snapshot = Snapshot {
        pipeline: &pipeline,
        steps: &[&step("prod", 1, "Verified")],
        bundles: &[&here],
        promoting: false,
        missing: None,
        now: now(),
    };
    let status = plan(&snapshot).status.unwrap();
    let ready = &status.conditions[0];
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "ValidationFailed"));
    assert!(ready.message.starts_with("spec.policyNamespaces[0]: `..` is not the name of a namespace"));
    assert_eq!((status.phase, status.environments.len()), (Some(PipelinePhase::Ready), 1));
    assert!(has_all(&snapshot, Some(&status)) && !has_all(&snapshot, None));
}

/// What a Pipeline waits for, each as `reason subject who: detail (basis)`.
fn waits(plan: &Plan) -> Vec<String> {
    let said = |wait: &Wait| {
        let Wait { reason, subject, who, detail, basis, .. } = wait;
        format!("{reason} {} {who:?}: {detail} ({})", subject.name, basis.as_deref().unwrap_or_default())
    };
    plan.status.iter().flat_map(|status| &status.waits).map(said).collect()
}

#[test]
fn what_it_waits_for_is_data() {
    let look = |pipeline: &Pipeline, missing: Option<&[String]>| {
        plan(&Snapshot { pipeline, steps: &[], bundles: &[], promoting: false, missing, now: now() })
    };
    let fine = pipeline("[{name: dev}]");
    assert_eq!(waits(&look(&fine, None)), [""; 0]);
    let twice = pipeline("[{name: a}, {name: a}]");
    let wrong = "ValidationFailed spec.environments[1].name Person: `a` is listed twice (names of environments are unique)";
    assert_eq!(waits(&look(&twice, None)), [wrong]);
    let mut two = pipeline("[{name: dev, health: {cluster: eu}}, {name: prod, health: {cluster: us}}]");
    let missing = ["eu".to_owned(), "us".to_owned()];
    let plan = look(&two, Some(&missing));
    let absent = |name: &str| {
        format!(
            "SecretMissing {name} Person: the Secret `{name}` does not exist (needs a person to create the Secret `{name}`)"
        )
    };
    assert_eq!(waits(&plan), [absent("eu"), absent("us")]);
    two.status = plan.status;
    assert!(is_missing(&two, "eu") && is_missing(&two, "us"));
    assert!(look(&two, None).status.is_none(), "nobody has looked since");
    assert_eq!(waits(&look(&two, Some(&missing[..1]))), [absent("eu")]);
    two.spec.environments[1].health = None;
    two.spec.environments[0].health = None;
    assert_eq!(waits(&look(&two, None)), [""; 0], "it names no Secret any more");
}
