//! Tables over what people ask for.

mod overrides;
mod versions;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, GitCommit, Pipeline, PolicyGate};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::*;
use kardinal_planner::problem::Problem;

fn now() -> Timestamp {
    Timestamp::from_second(1_712_567_890).unwrap()
}

fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

fn pipeline() -> Pipeline {
    yaml(
        "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {name: my-app, namespace: default}\n\
         spec: {git: {url: u}, environments: [{name: dev}, {name: staging}, {name: prod}]}",
    )
}

/// A Bundle of one version with its record, as YAML flow maps.
fn bundle(name: &str, tag: &str, environments: &str) -> Bundle {
    yaml(&format!(
        "apiVersion: kardinal.io/v1alpha1\nkind: Bundle\nmetadata: {{name: {name}, namespace: default, labels: {{kardinal.io/pipeline: my-app, hotfix: 'true', kardinal.io/rollback: 'true'}}}}\n\
         spec: {{artifacts: {{images: [{{name: my-app, reference: 'ghcr.io/myorg/my-app:{tag}'}}]}}, provenance: {{author: alice, rollbackOf: x}}}}\n\
         status: {{environments: {environments}}}"
    ))
}

fn at(minute: u8) -> String {
    format!("{{promotedAt: '2024-04-01T10:{minute:02}:00Z', verifiedAt: '2024-04-01T10:{minute:02}:30Z'}}")
}

fn new(images: &[&str]) -> Result<Bundle, Problem> {
    create_bundle(
        &NewBundle { pipeline: "my-app", namespace: "default", images, ..NewBundle::default() },
        now(),
    )
}

fn name(bundle: &Bundle) -> &str {
    bundle.metadata.name.as_deref().unwrap()
}

#[test]
fn a_bundle_is_named_after_its_version_and_the_time() {
    for (image, wanted) in [
        ("ghcr.io/myorg/my-app:1.29.0", "my-app-v1-29-0-1712567890"),
        ("ghcr.io/myorg/my-app:v1.29.0", "my-app-v1-29-0-1712567890"),
        ("localhost:5000/my-app:Feature_X", "my-app-vfeature-x-1712567890"),
        ("Registry.Example.com/my-app:RC1", "my-app-vrc1-1712567890"),
    ] {
        assert_eq!(name(&new(&[image]).unwrap()), wanted);
    }
    let long = "1.".repeat(60) + "0";
    let bundle = new(&[&format!("r:{long}")]).unwrap();
    assert!(name(&bundle).len() <= 63 && name(&bundle).ends_with("-1712567890"), "{}", name(&bundle));
}

#[test]
fn images_are_read() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let made = new(&[&format!("ghcr.io/myorg/my-app:1@{digest}"), "side=r.io/x/car:2"]).unwrap();
    let images = &made.spec.artifacts.images;
    assert_eq!(
        (images[0].name.as_str(), images[0].reference.as_str(), images[0].digest.as_deref()),
        ("my-app", "ghcr.io/myorg/my-app:1", Some(digest.as_str()))
    );
    assert_eq!((images[1].name.as_str(), images[1].reference.as_str()), ("side", "r.io/x/car:2"));
    assert_eq!(made.spec.kind, Some(BundleType::Image));
    assert_eq!(made.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(made.metadata.labels.unwrap()["kardinal.io/pipeline"], "my-app");
    let only_digest = new(&[&format!("r.io/app@{digest}")]).unwrap();
    assert_eq!(only_digest.spec.artifacts.images[0].reference, "r.io/app");
    assert_eq!(name(&only_digest), "my-app-vaaaaaaaaaaaa-1712567890");
}

#[test]
fn images_that_say_too_little_are_refused() {
    for (images, field, message) in [
        (&["ghcr.io/myorg/my-app"] as &[&str], "images[0]", "neither a tag nor a digest"),
        (&["a:1", "x/a:2"], "images[1]", "a second image is named `a`"),
        (&["a:1", "r.io/b:2@sha256:abc"], "images[1]", "is not `sha256:` and 64 hexadecimal digits"),
        (&["=a:1"], "images[0]", "an empty name"),
        (&["ghcr.io/MyOrg/my-app:1"], "images[0]", "is written in lower case"),
        (&["MyOrg/my-app:1"], "images[0]", "is written in lower case"),
        (&[":1"], "images[0]", "`:1`"),
        (&[], "images", "nothing to promote"),
    ] {
        let problem = new(images).unwrap_err();
        assert_eq!(problem.field, field);
        assert!(problem.message.contains(message) && problem.hint.is_some(), "{problem}");
    }
}

#[test]
fn commits_make_config_bundles() {
    let commit = |sha: &str| GitCommit { repository: "r".to_owned(), sha: sha.to_owned(), message: None };
    let with = |git_commit, images| {
        let new =
            NewBundle { pipeline: "my-app", namespace: "n", images, git_commit, ..NewBundle::default() };
        create_bundle(&new, now())
    };
    let config = with(Some(commit("abc123def456")), &[]).unwrap();
    assert_eq!(
        (config.spec.kind, name(&config)),
        (Some(BundleType::Config), "my-app-config-abc123de-1712567890")
    );
    let mixed = with(Some(commit("abc123def456")), &["a:2"]).unwrap();
    assert_eq!((mixed.spec.kind, name(&mixed)), (Some(BundleType::Mixed), "my-app-v2-1712567890"));
    assert_eq!(with(Some(commit("main")), &[]).unwrap_err().field, "gitCommit.sha");
    let nowhere = GitCommit { repository: String::new(), ..commit("abc123def456") };
    assert_eq!(with(Some(nowhere), &[]).unwrap_err().field, "gitCommit.repository");
}

#[test]
fn a_commit_is_split_at_the_last_at_sign() {
    let parsed = |text: &str| commit_of(text).map(|commit| (commit.repository, commit.sha)).ok();
    let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
    assert_eq!(parsed("https://h/r@abc1234"), pair("https://h/r", "abc1234"));
    assert_eq!(parsed("git@h:r@abc1234"), pair("git@h:r", "abc1234"));
    for wrong in ["", "abc1234", "@abc", "https://h/r@", "git@github.com:myorg/r"] {
        assert_eq!(parsed(wrong), None, "{wrong}");
    }
}

#[test]
fn the_intent_is_checked_where_the_pipeline_is_known() {
    let pipeline = pipeline();
    let with = |target, skip: &[String]| {
        let labels = BTreeMap::from([("hotfix".to_owned(), "true".to_owned())]);
        let new = NewBundle {
            pipeline: "my-app",
            namespace: "default",
            known: Some(&pipeline),
            images: &["a:1"],
            target,
            skip,
            labels,
            ..NewBundle::default()
        };
        create_bundle(&new, now())
    };
    let made = with(Some("prod"), &["staging".to_owned()]).unwrap();
    assert_eq!(
        serde_json::to_value(&made.spec.intent).unwrap(),
        json!({"target": "prod", "skip": ["staging"]})
    );
    assert_eq!(made.metadata.labels.unwrap()["hotfix"], "true");
    assert_eq!(with(None, &[]).unwrap().spec.intent, None);
    let problem = with(Some("pord"), &[]).unwrap_err();
    assert_eq!(problem.hint.as_deref(), Some("it has `dev`, `staging` and `prod`"));
}

#[test]
fn a_promotion_carries_the_same_to_a_target() {
    let mut source = bundle("s", "1.2", "{}");
    let mark = format!("bundle.uid-1.{}/reference", kardinal_graph::DOMAIN);
    source.metadata.labels.as_mut().unwrap().insert(mark.clone(), "adopted".to_owned());
    let made = create::up_to(&pipeline(), "staging", &source, &[], now()).unwrap();
    assert_eq!(name(&made), "my-app-v1-2-1712567890");
    assert_eq!(made.spec.artifacts, source.spec.artifacts);
    assert_eq!(made.spec.intent.as_ref().unwrap().target.as_deref(), Some("staging"));
    let labels = made.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["hotfix"], "true");
    assert!(!labels.contains_key("kardinal.io/rollback") && !labels.contains_key(&mark), "{labels:?}");
    let provenance = made.spec.provenance.as_ref().unwrap();
    assert_eq!((provenance.author.as_deref(), provenance.rollback_of.as_deref()), (Some("alice"), None));
}

#[test]
fn a_skip_is_a_new_bundle() {
    let source = bundle("s", "1.2", "{}");
    let made = skip(&pipeline(), "staging", &source, now()).unwrap();
    assert_eq!(made.spec.intent.as_ref().unwrap().skip, ["staging"]);
    assert!(skip(&pipeline(), "staging", &made, now()).unwrap_err().message.contains("already"));
    assert!(skip(&pipeline(), "nowhere", &source, now()).is_err());
    let to_prod = create::up_to(&pipeline(), "prod", &source, &[], now()).unwrap();
    assert!(skip(&pipeline(), "prod", &to_prod, now()).unwrap_err().message.contains("spec.intent.target"));
}

fn back(to: Option<&Bundle>, bundles: &[&Bundle], environment: &str) -> Result<Bundle, Problem> {
    let pipeline = pipeline();
    let wish = Wish { pipeline: &pipeline, environment, bundle: to, bundles, force: false };
    match rollback(&wish, true, now())? {
        Answer::New(bundle) => Ok(*bundle),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rollback_goes_to_the_one_before() {
    let one = bundle("one", "1", &format!("{{prod: {}}}", at(1)));
    let two = bundle("two", "2", &format!("{{prod: {}}}", at(2)));
    let three = bundle("three", "3", &format!("{{prod: {}}}", at(3)));
    let broken = bundle("broken", "4", "{prod: {promotedAt: '2024-04-01T10:04:00Z'}}");
    let made = back(None, &[&two, &three, &one], "prod").unwrap();
    assert_eq!(made.spec.artifacts, two.spec.artifacts);
    assert_eq!(name(&made), "my-app-v2-rollback-1712567890");
    let provenance = made.spec.provenance.as_ref().unwrap();
    assert_eq!(provenance.rollback_of.as_deref(), Some("three"));
    let labels = made.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["kardinal.io/rollback"], "true");
    assert_eq!(labels["kardinal.io/emergency"], "true");
    assert_eq!(made.spec.intent.as_ref().unwrap().target.as_deref(), Some("prod"));
    // What broke was never verified, but it is what the environment has.
    let made = back(None, &[&broken, &two, &three, &one], "prod").unwrap();
    assert_eq!(made.spec.artifacts, three.spec.artifacts);
    assert_eq!(made.spec.provenance.unwrap().rollback_of.as_deref(), Some("broken"));
    // A choice.
    assert_eq!(back(Some(&one), &[&two, &three, &one], "prod").unwrap().spec.artifacts, one.spec.artifacts);
}

#[test]
fn a_rollback_to_nowhere_is_refused() {
    let one = bundle("one", "1", &format!("{{prod: {}}}", at(1)));
    let two = bundle("two", "2", &format!("{{prod: {}}}", at(2)));
    let other = bundle("other", "3", &format!("{{dev: {}}}", at(1)));
    let refuse = |to, bundles: &[&Bundle], environment, message: &str| {
        let problem = back(to, bundles, environment).unwrap_err();
        assert!(problem.message.contains(message) && problem.hint.is_some(), "{problem}");
    };
    refuse(None, &[&one], "nowhere", "no environment `nowhere`");
    refuse(None, &[&other], "prod", "no Bundle has reached `prod`");
    refuse(None, &[&one], "prod", "no Bundle was verified in `prod` before `one`");
    refuse(Some(&other), &[&one, &two, &other], "prod", "`other` was never verified in `prod`");
    refuse(Some(&two), &[&one, &two], "prod", "`two` is what `prod` has now");
}

#[test]
fn a_mixed_bundle_can_give_back_its_images() {
    let mut good = bundle("good", "1", &format!("{{prod: {}}}", at(1)));
    good.spec.kind = Some(BundleType::Mixed);
    good.spec.artifacts.git_commit =
        Some(GitCommit { repository: "r".to_owned(), sha: "abc1234".to_owned(), message: None });
    let bad = bundle("bad", "2", &format!("{{prod: {}}}", at(2)));
    let made = back(None, &[&good, &bad], "prod").unwrap();
    assert_eq!(made.spec.artifacts.images, good.spec.artifacts.images);
    assert_eq!((made.spec.kind(), made.spec.artifacts.git_commit), (BundleType::Image, None));
    assert!(back(None, &[&bundle("x", "0", &format!("{{prod: {}}}", at(0))), &good], "prod").is_err());
}

#[test]
fn a_pause_is_a_gate_and_resuming_takes_it_away() {
    let mut pipeline = pipeline();
    let gate = pause(&pipeline, "alice");
    assert_eq!(gate.metadata.name.as_deref(), Some("freeze-my-app"));
    assert_eq!(gate.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(gate.spec.expression, "false");
    assert!(gate.spec.message.as_ref().unwrap().contains("paused by alice"));
    assert!(kardinal_policy::is_freeze(&gate) && !kardinal_policy::is_template(&gate));

    let other = {
        let mut other = pipeline.clone();
        other.metadata.name = Some("other".to_owned());
        pause(&other, "")
    };
    let held = resume(&pipeline, &[&gate, &other]);
    assert_eq!((held.gates, held.patch), (vec!["freeze-my-app".to_owned()], None));
    assert!(resume(&pipeline, &[&other]).carried_out("my-app").render().contains("not paused"));
    pipeline.spec.paused = Some(true);
    let held = resume(&pipeline, &[]);
    assert_eq!((held.gates.len(), held.patch), (0, Some(json!({"spec": {"paused": false}}))));
}

#[test]
fn who_lets_a_pipeline_go_on_is_told_what_was_done() {
    let unpaused = Some(json!({"spec": {"paused": false}}));
    for (gates, patch, said) in [
        (vec![], None, "Pipeline \"shop\" is not paused"),
        (vec!["freeze-shop"], None, "Pipeline \"shop\" goes on"),
        (vec![], unpaused.clone(), "Pipeline \"shop\" goes on"),
        (vec!["freeze-shop", "freeze-shop-2"], unpaused, "Pipeline \"shop\" goes on"),
    ] {
        let is_unpaused = patch.is_some();
        let gates: Vec<String> = gates.into_iter().map(str::to_owned).collect();
        let resumed = Resumption { gates: gates.clone(), patch }.carried_out("shop");
        assert_eq!(resumed.render(), said, "{gates:?}");
        let record = json!({"pipeline": "shop", "deletedGates": gates, "unpaused": is_unpaused});
        assert_eq!(serde_json::to_value(&resumed).unwrap(), record);
    }
    assert_eq!(
        [true, false].map(|created| paused("shop", created)),
        [
            "Pipeline \"shop\" paused: nothing moves, promotions under way included",
            "Pipeline \"shop\" is paused already"
        ]
    );
}

#[test]
fn a_type_that_is_named_must_be_that_of_the_content() {
    let config = commit_of(&format!("https://x/y@{}", "a".repeat(40))).unwrap();
    for (images, commit, kind) in [
        (vec!["r/a:1"], None, BundleType::Image),
        (vec![], Some(config.clone()), BundleType::Config),
        (vec!["r/a:1"], Some(config), BundleType::Mixed),
    ] {
        let new = NewBundle {
            pipeline: "my-app",
            namespace: "default",
            images: &images,
            git_commit: commit,
            ..NewBundle::default()
        };
        let bundle = create_bundle(&new, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(check_type(&bundle, None), Ok(()));
        for named in [BundleType::Image, BundleType::Config, BundleType::Mixed] {
            let message = check_type(&bundle, Some(named)).err().map(|problem| problem.message);
            let expected =
                format!("what is given makes a Bundle of type `{}`, not `{}`", kind.as_str(), named.as_str());
            assert_eq!(message, (named != kind).then_some(expected));
        }
    }
}

#[test]
fn an_override_is_added() {
    let gate: PolicyGate = yaml(
        "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {name: g, resourceVersion: '7', labels: {kardinal.io/applies-to: prod}}\n\
         spec: {expression: 'false', overrides: [{reason: over, expiresAt: '2024-01-01T00:00:00Z'}, {reason: kept}]}",
    );
    let place = WritesTo { paths: vec!["environments/prod".to_owned()], branch: "main".to_owned() };
    let wish = Override {
        reason: "incident",
        who: "alice",
        stage: Some("prod"),
        place: Some(&place),
        expires: None,
        only: None,
    };
    let expires: Timestamp = "2024-04-09T00:00:00Z".parse().unwrap();
    let patch = override_gate(&gate, &Override { expires: Some(expires), ..wish }, now()).unwrap();
    assert_eq!(
        patch,
        json!({
            "metadata": {"resourceVersion": "7"},
            "spec": {"overrides": [
                {"reason": "kept"},
                {"reason": "incident", "stage": "prod", "paths": ["environments/prod"], "branches": ["main"],
                 "expiresAt": "2024-04-09T00:00:00Z",
                 "createdAt": "2024-04-08T09:18:10Z", "createdBy": "alice"},
            ]},
        })
    );
    for (wish, field) in [
        (Override { reason: " ", ..wish }, "reason"),
        (Override { stage: Some("dev"), ..wish }, "stage"),
        (Override { expires: Some(now()), ..wish }, "expires"),
    ] {
        assert_eq!(override_gate(&gate, &wish, now()).unwrap_err().field, field);
    }
    let mut instance = gate.clone();
    instance.metadata.labels = Some(yaml("{kardinal.io/environment: dev}"));
    assert!(override_gate(&instance, &Override { stage: Some("dev"), ..wish }, now()).is_ok());
}

const CONFIG: &str = "app: my-app\nimage: ghcr.io/myorg/my-app\ngit:\n  url: https://github.com/myorg/gitops-repo\n  secret: github-token\nenvironments: [dev, staging, prod]\nprodApproval: pr-review\n";

#[test]
fn a_pipeline_from_a_few_lines() {
    let made = init(&yaml(CONFIG), "default").unwrap();
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {
                "git": {"url": "https://github.com/myorg/gitops-repo", "secretRef": {"name": "github-token"}},
                "environments": [
                    {"name": "dev", "path": "environments/dev", "update": {"strategy": "kustomize"}, "approval": "auto"},
                    {"name": "staging", "path": "environments/staging", "update": {"strategy": "kustomize"}, "approval": "auto"},
                    {"name": "prod", "path": "environments/prod", "update": {"strategy": "kustomize"}, "approval": "pr-review"},
                ],
            },
        })
    );
    let approvals = |environments: &str| -> Vec<bool> {
        let config =
            CONFIG.replace("[dev, staging, prod]", environments).replace("prodApproval: pr-review\n", "");
        let made = init(&yaml(&config), "default").unwrap();
        made.spec
            .environments
            .iter()
            .map(|e| e.approval == Some(kardinal_api::kardinal::Approval::PrReview))
            .collect()
    };
    assert_eq!(approvals("[dev, prod-eu, prod-us]"), [false, true, true]);
    assert_eq!(approvals("[test, live]"), [false, true]);
    assert_eq!(approvals("[prod, after]"), [true, false]);
}

#[test]
fn the_organisations_gates_of_a_pipeline_are_named_once() {
    let gate = |namespace: &str, name: &str, environments: &str| -> PolicyGate {
        yaml(&format!(
            "metadata: {{name: {name}, namespace: {namespace}, labels: {{kardinal.io/scope: org}}}}\n\
             spec: {{expression: 'true', appliesTo: {environments}}}"
        ))
    };
    let gates = [
        gate("platform", "weekend", "[staging, prod]"),
        gate("platform", "soak", "[prod]"),
        gate("platform", "elsewhere", "[live]"),
        gate("default", "own", "[prod]"),
    ];
    let named = |gates: &[PolicyGate], namespaces: &[String]| -> Vec<String> {
        let (pipeline, gates) = (pipeline(), gates.iter().collect::<Vec<_>>());
        organisations_gates(&pipeline, &gates, namespaces).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(named(&gates, &["platform".to_owned()]), ["weekend", "soak"]);
    assert!(named(&gates, &[]).is_empty() && named(&[], &["platform".to_owned()]).is_empty());
}

#[test]
fn lines_that_make_no_pipeline_are_refused() {
    for (from, to, field) in [
        ("app: my-app", "app: My App", "app"),
        ("[dev, staging, prod]", "[dev, dev]", "spec.environments[1].name"),
        ("[dev, staging, prod]", "[]", "spec.environments"),
        ("[dev, staging, prod]", "[dev, Prod]", "environments[1]"),
        ("https://github.com/myorg/gitops-repo", "''", "git.url"),
    ] {
        assert_eq!(init(&yaml(&CONFIG.replace(from, to)), "default").unwrap_err().field, field);
    }
    assert!(serde_saphyr::from_str::<InitConfig>(&format!("{CONFIG}typo: 1\n")).is_err());
}
