//! Who speaks for the organisation, and what its gates believe: they hold wherever the step comes from, and whatever the
//! team has written.

use kardinal_api::kardinal::{Pipeline, PromotionStepGit};

use super::*;
use crate::gate_context::Surroundings;
use crate::seal::{Claim, Door, Place, trusted, trusted_previous};

pub(super) fn gate(expression: &str, created: &str) -> PolicyGate {
    from(json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "PolicyGate",
        "metadata": {
            "name": "never", "namespace": "platform-policies", "creationTimestamp": created,
            "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"},
        },
        "spec": {"expression": expression},
    }))
}

pub(super) const BEFORE: &str = "2026-04-01T00:00:00Z";

impl Scene {
    pub(super) fn asked(mut self, gates: &[PolicyGate]) -> Scene {
        let bundle = self.bundle.as_mut().unwrap();
        bundle.metadata.creation_timestamp = from(json!("2026-04-14T13:00:00Z"));
        bundle.metadata.namespace = Some("default".to_owned());
        bundle.metadata.uid = Some("b1".to_owned());
        self.ask(gates);
        self
    }

    pub(super) fn ask(&mut self, gates: &[PolicyGate]) {
        self.organisation = Ok(Organisation::of(&Ground {
            step: &self.step,
            bundle: self.bundle.as_ref().unwrap(),
            pipeline: None,
            gates,
            instances: &self.gates.values().collect::<Vec<_>>(),
            policy_namespaces: &["platform-policies".to_owned()],
            around: &Surroundings::default(),
            steps: &Vec::new,
            key: &self.key,
            now: self.now,
        }));
    }
}

pub(super) fn state(scene: &mut Scene, state: &str, outputs: Value) {
    const TASKS: [&str; 7] = [
        "git-clone",
        "kustomize-set-image",
        "git-commit",
        "git-push",
        "open-pr",
        "wait-for-merge",
        "health-check",
    ];
    let tasks = TASKS.map(|name| {
        let done = state != "Promoting" && !matches!(name, "wait-for-merge" | "health-check");
        json!({"name": name, "state": if done { "Completed" } else { "Pending" }})
    });
    scene.step.status = from(json!({"state": state, "outputs": outputs, "steps": tasks}));
    scene.seal();
}

#[test]
fn an_annotation_that_leaves_an_environment_out_spares_it_no_gate() {
    let pipeline: Pipeline = from(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "my-app"},
        "spec": {
            "git": {"url": "https://github.com/myorg/gitops-repo"},
            "environments": [{"name": "dev"}, {"name": "staging"}, {"name": "prod"}],
        },
    }));
    let mut after = gate("false", BEFORE);
    after.spec.when = Some(kardinal_api::kardinal::GateStage::PostDeploy);
    let labels = after.metadata.labels.as_mut().unwrap();
    labels.insert("kardinal.io/applies-to".to_owned(), "staging".to_owned());
    let mut scene = Scene::new(json!({})).asked(&[]);
    let mut staging = scene.step.clone();
    staging.spec.environment = "staging".to_owned();
    for (named, gates) in [("staging", 1), ("dev", 1), ("", 1)] {
        let annotations = scene.step.metadata.annotations.as_mut().unwrap();
        annotations.insert("kardinal.io/upstreams".to_owned(), named.to_owned());
        let known = Organisation::of(&Ground {
            step: &scene.step,
            bundle: scene.bundle.as_ref().unwrap(),
            pipeline: Some(&pipeline),
            gates: &[after.clone()],
            instances: &[],
            policy_namespaces: &["platform-policies".to_owned()],
            around: &Surroundings::default(),
            steps: &|| vec![staging.clone(), scene.step.clone()],
            key: &scene.key,
            now: scene.now,
        });
        assert_eq!(known.answers().len(), gates, "`{named}`");
    }
}

#[test]
fn the_other_steps_are_read_only_where_a_gate_has_a_say() {
    let named = |environment: &str, when| {
        let mut gate = gate("false", BEFORE);
        gate.spec.when = when;
        let labels = gate.metadata.labels.as_mut().unwrap();
        labels.insert("kardinal.io/applies-to".to_owned(), environment.to_owned());
        vec![gate]
    };
    let after = Some(kardinal_api::kardinal::GateStage::PostDeploy);
    let mut scene = Scene::new(json!({})).asked(&[]);
    let annotations = scene.step.metadata.annotations.as_mut().unwrap();
    annotations.insert("kardinal.io/upstreams".to_owned(), "staging".to_owned());
    for (gates, read, answers) in [
        (Vec::new(), 0, 0),
        (named("staging", None), 0, 0),
        (named("prod", None), 1, 1),
        (named("staging", after), 1, 1),
        (named("dev", after), 1, 0),
    ] {
        let count = std::cell::Cell::new(0);
        let steps = || {
            count.set(count.get() + 1);
            vec![scene.step.clone()]
        };
        let known = Organisation::of(&Ground {
            step: &scene.step,
            bundle: scene.bundle.as_ref().unwrap(),
            pipeline: None,
            gates: &gates,
            instances: &[],
            policy_namespaces: &["platform-policies".to_owned()],
            around: &Surroundings::default(),
            steps: &steps,
            key: &scene.key,
            now: scene.now,
        });
        assert_eq!((count.get(), known.answers().len()), (read, answers), "{gates:?}");
    }
}

#[test]
fn the_copy_of_a_gate_that_the_organisation_has_deleted_is_neither_a_hold_nor_evidence() {
    let told = |mut gate: PolicyGate, ready: &str| -> PolicyGate {
        let message = json!([{"type": "Ready", "status": ready, "reason": "Deleted", "message": "",
            "lastTransitionTime": "2026-04-14T13:59:59Z"}]);
        gate.status.as_mut().unwrap().conditions = serde_json::from_value(message).unwrap();
        gate
    };
    let shown = |ready: bool, namespace: &str, scope: &str| -> PolicyGate {
        from(json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "PolicyGate",
            "metadata": {"name": "i", "namespace": "default", "labels": {
                "kardinal.io/scope": scope, "kardinal.io/gate-template": "never",
                "kardinal.io/gate-template-namespace": namespace,
            }},
            "spec": {"expression": "true"},
            "status": {"ready": ready, "reason": "as copied", "lastEvaluatedAt": "2026-04-14T13:59:59Z"},
        }))
    };
    let anew = gate("true", "2026-04-14T13:30:00Z");
    let ours = "platform-policies";
    for (what, instance, templates, counts) in [
        ("deleted for good", told(shown(true, ours, "org"), "True"), vec![], false),
        ("of a team", shown(true, "default", "team"), vec![], true),
        ("says that it is the organisation's", shown(true, "default", "org"), vec![], true),
        ("made anew after the Bundle", told(shown(true, ours, "org"), "True"), vec![anew], true),
    ] {
        let mut scene = Scene::new(json!({"requiredGates": ["i"]}));
        scene.gates.insert("i".to_owned(), instance);
        let scene = scene.asked(&templates);
        let named: Vec<String> =
            gates::required(&scene.snapshot()).map(|gate| gate.title().to_owned()).collect();
        assert_eq!(named, if counts { vec!["never"] } else { vec![] }, "{what}");
        let recorded = gates::evidence(&scene.snapshot()).policy_gates.unwrap();
        assert_eq!(recorded.len(), usize::from(counts), "{what}");
        assert_eq!(gates::blocker(&scene.snapshot()), None, "{what}");
    }
    // Until it is certain that it will not come back, it holds.
    let mut scene = Scene::new(json!({"requiredGates": ["i"]}));
    scene.gates.insert("i".to_owned(), told(shown(false, ours, "org"), "False"));
    let scene = scene.asked(&[]);
    assert!(gates::blocker(&scene.snapshot()).is_some());
}

#[test]
fn only_templates_of_the_organisation_that_were_there_before_the_bundle_count() {
    let later = gate("false", "2026-04-14T13:00:01Z");
    let mut team = gate("false", BEFORE);
    team.metadata.labels.as_mut().unwrap().insert("kardinal.io/scope".to_owned(), "team".to_owned());
    let mut instance = gate("false", BEFORE);
    instance.metadata.labels.as_mut().unwrap().insert("kardinal.io/gate-template".to_owned(), "x".to_owned());
    let mut permission = gate("false", BEFORE);
    permission.spec.skip_permission = Some(true);
    let mut elsewhere = gate("false", BEFORE);
    elsewhere.metadata.labels.as_mut().unwrap().insert("kardinal.io/applies-to".to_owned(), "dev".to_owned());
    let mut scene = Scene::new(json!({})).asked(&[later, team, instance, permission, elsewhere]);
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Promoting);
}

#[test]
fn a_gate_applies_by_where_the_environment_writes_whatever_its_name() {
    let mut by_path = gate("false", BEFORE);
    by_path.spec.applies_to_paths = vec!["environments/prod".to_owned()];
    let mut by_branch = gate("false", BEFORE);
    by_branch.spec.applies_to_branches = vec!["live".to_owned()];
    let cases = [
        (json!({"environment": "production", "path": "./environments//prod/"}), &by_path, true),
        (json!({"environment": "production", "path": "environments/dev/../prod"}), &by_path, true),
        (
            json!({"environment": "production", "path": "environments", "update": {"strategy": "replace"}}),
            &by_path,
            true,
        ),
        (json!({"environment": "dev"}), &by_path, false),
        (json!({"environment": "production", "git": {"branch": "live"}}), &by_branch, true),
        (json!({"environment": "production", "git": {"branch": "main"}}), &by_branch, false),
    ];
    for (extra, gate, held) in cases {
        let mut scene = Scene::new(extra.clone()).asked(std::slice::from_ref(gate));
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Pending, held, "{extra}");
    }
    // What counts is the spec that the effect uses, not the one that the step began with.
    let mut edited = Scene::new(json!({"environment": "dev"})).asked(std::slice::from_ref(&by_path));
    edited.plan();
    assert_eq!(edited.state(), PromotionState::Promoting);
    edited.step.spec.path = Some("environments/prod".to_owned());
    edited.ask(std::slice::from_ref(&by_path));
    assert_eq!(edited.plan().effect(), Some(Effect::Step(StepEffect::ForgetStatus)));
    edited.step.status = None;
    assert_eq!(edited.plan().effect(), None);
    assert!(edited.message().contains("held by gate `never`"), "{}", edited.message());
    assert_eq!(edited.step.spec.git.as_ref().map(|git: &PromotionStepGit| git.branch.clone()), Some(None));
}

#[test]
fn an_instance_is_only_a_view_of_the_organisations_gate() {
    let template = gate("false", BEFORE);
    let mut scene = Scene::new(json!({})).with_gate("my-app-never", ready()).asked(&[template]);
    let labels = scene.gates.get_mut("my-app-never").unwrap().metadata.labels.as_mut().unwrap();
    labels.insert("kardinal.io/gate-template-namespace".to_owned(), "platform-policies".to_owned());
    scene.plan();
    assert!(scene.message().starts_with("held by gate `never`: "), "{}", scene.message());
    let mut scene = scene.asked(&[gate("true", BEFORE)]);
    scene.set_gate("my-app-never", closed());
    let labels = scene.gates.get_mut("my-app-never").unwrap().metadata.labels.as_mut().unwrap();
    labels.insert("kardinal.io/gate-template-namespace".to_owned(), "platform-policies".to_owned());
    scene.plan();
    assert_eq!(scene.state(), PromotionState::Promoting);
    let gates = scene.status().evidence.unwrap().policy_gates.unwrap();
    assert_eq!(gates.len(), 1, "it is told once: {gates:?}");
}

#[test]
fn soak_times_count_only_with_the_controllers_seal() {
    let soak = || gate("bundle.upstreamSoakMinutes >= 30", BEFORE);
    let mut scene = Scene::new(json!({})).asked(&[soak()]);
    let record = |seal: Option<String>| {
        from(json!({"environments": {"staging": {
            "state": "Verified", "verifiedAt": "2026-04-14T13:00:00Z", "seal": seal,
        }}}))
    };
    let forged = [None, Some(String::new()), Some("QUJD".to_owned())];
    for seal in forged {
        scene.bundle.as_mut().unwrap().status = record(seal.clone());
        scene.ask(&[soak()]);
        scene.plan();
        assert_eq!(scene.state(), PromotionState::Pending, "{seal:?}");
    }
    let claim = |bundle: &Bundle, environment: &str| {
        let verified_at = time("2026-04-14T13:00:00Z");
        let claim = Claim { bundle, pipeline: "my-app", environment, place: place("staging"), verified_at };
        Key::new(&[7; 32]).unwrap().seal(&claim)
    };
    let bundle = scene.bundle.clone().unwrap();
    let mut other = bundle.clone();
    other.metadata.uid = Some("b2".to_owned());
    let mut changed = bundle.clone();
    changed.spec.artifacts.images[0].reference = "ghcr.io/myorg/my-app:evil".to_owned();
    for (seal, open) in [
        (claim(&other, "staging"), false),
        (claim(&changed, "staging"), false),
        (claim(&bundle, "dev"), false),
        (claim(&bundle, "staging"), true),
    ] {
        scene.bundle.as_mut().unwrap().status = record(seal);
        scene.ask(&[soak()]);
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Promoting, open);
    }
}

#[test]
fn a_verification_carries_the_seal_and_the_seal_its_time() {
    let mut scene = Scene::new(json!({})).asked(&[]);
    state(&mut scene, "HealthChecking", json!({}));
    let status = scene.step.status.as_mut().unwrap();
    status.steps.retain(|task| !matches!(task.name.as_str(), "open-pr" | "wait-for-merge"));
    status.seal = Some("forged".to_owned());
    let snapshot = scene.snapshot();
    let checked = check::check_current(&snapshot);
    let mut draft = draft::Draft::new(&snapshot, &checked);
    draft.complete(4, "healthy");
    draft.advance("");
    scene.step.status = Some(draft.status.clone());
    let door = Door { pipeline: "my-app", environment: "prod", place: None };
    let bundle = trusted(&scene.key, &door, scene.bundle.as_ref().unwrap(), &[scene.step.clone()], &[]);
    assert_eq!(bundle.status.unwrap().environments["prod"].verified_at, Some(scene.now));
}

#[test]
fn a_rollback_counts_only_if_there_is_something_to_go_back_to() {
    let bundle = |name: &str, created: &str, tag: &str| -> Bundle {
        from(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "creationTimestamp": created,
                "labels": {"kardinal.io/pipeline": "my-app"},
            },
            "spec": {"artifacts": {"images": [{"name": "app", "reference": format!("app:{tag}")}]}},
        }))
    };
    let key = Key::new(&[7; 32]).unwrap();
    let mut good = bundle("v1", "2026-04-01T00:00:00Z", "1");
    let at = time("2026-04-01T01:00:00Z");
    let prod = place("environments/prod");
    let unsealed = good.clone();
    let claim =
        Claim { bundle: &unsealed, pipeline: "my-app", environment: "prod", place: prod, verified_at: at };
    let seal = key.seal(&claim);
    good.status =
        from(json!({"environments": {"prod": {"verifiedAt": "2026-04-01T01:00:00Z", "seal": seal}}}));
    let bad = bundle("v2", "2026-04-02T00:00:00Z", "2");
    let back = |tag: &str, of: &str| {
        let mut back = bundle("back", "2026-04-03T00:00:00Z", tag);
        back.spec.provenance = from(json!({"rollbackOf": of}));
        let labels = back.metadata.labels.as_mut().unwrap();
        labels.insert("kardinal.io/rollback".to_owned(), "true".to_owned());
        labels.insert("kardinal.io/emergency".to_owned(), "true".to_owned());
        back
    };
    let mut unproven = good.clone();
    unproven.status.as_mut().unwrap().environments.get_mut("prod").unwrap().seal = None;
    // What came in spite of a closed gate was verified, but the gates never let it in.
    let mut forced = good.clone();
    let seal_of_forced = key.seal(&Claim { place: prod.forced(), ..claim });
    forced.status.as_mut().unwrap().environments.get_mut("prod").unwrap().seal = seal_of_forced;
    assert_eq!(crate::seal::proven_at(&key, ("my-app", "prod"), &forced, prod), Some(at));
    for (bundle, others, real) in [
        (back("1", "v2"), vec![good.clone(), bad.clone()], true),
        (back("1", "nothing"), vec![good.clone(), bad.clone()], false),
        (back("2", "v2"), vec![good.clone(), bad.clone()], false),
        (back("evil", "v2"), vec![good.clone(), bad.clone()], false),
        (back("1", "v2"), vec![unproven, bad.clone()], false),
        (back("1", "v2"), vec![bad.clone()], false),
        (back("1", "v2"), vec![forced, bad.clone()], false),
    ] {
        let door = Door { pipeline: "my-app", environment: "prod", place: Some(prod) };
        let known = trusted(&key, &door, &bundle, &[], &others);
        assert_eq!(rollback_of(&known).is_some(), real, "{bundle:?}");
        assert_eq!(known.metadata.labels.unwrap().contains_key("kardinal.io/emergency"), real);
    }
    let others = [good, bad];
    let staging = Door { pipeline: "my-app", environment: "staging", place: None };
    let known = trusted(&key, &staging, &back("1", "v2"), &[], &others);
    assert_eq!(rollback_of(&known), None, "it was never verified in this environment");
    let moved = Door { pipeline: "my-app", environment: "prod", place: Some(place("elsewhere")) };
    let known = trusted(&key, &moved, &back("1", "v2"), &[], &others);
    assert_eq!(rollback_of(&known), None, "the environment of that name was another place then");
    assert_eq!(trusted_previous(&key, &moved, &others), None);
    let same = Door { place: Some(prod), ..moved };
    assert_eq!(trusted_previous(&key, &same, &others).unwrap().metadata.name.as_deref(), Some("v1"));
}

pub(super) fn place(directory: &str) -> Place {
    Place::of("https://git.example/app.git", "main", &[kardinal_vcs::Written::tree(directory)])
}

#[test]
fn an_override_counts_where_the_organisation_wrote_it_and_for_whom() {
    let narrowed = |namespace: &str, bundle: Option<&str>| {
        let mut gate = gate("false", BEFORE);
        gate.spec.overrides = from(json!([{"reason": "because", "namespace": namespace, "bundle": bundle}]));
        gate
    };
    let given_at = |at: &str| {
        let mut gate = narrowed("default", Some("my-app-v1-29-0"));
        gate.spec.overrides[0].created_at = Some(time(at));
        gate
    };
    for (gate, open) in [
        (given_at("2026-04-14T13:00:00Z"), true),
        // Another Bundle was given the name of the one that somebody had before them.
        (given_at("2026-04-14T12:59:59Z"), false),
        (narrowed("default", Some("my-app-v1-29-0")), true),
        (narrowed("default", None), true),
        (narrowed("default", Some("my-app-v1-30-0")), false),
        (narrowed("other", Some("my-app-v1-29-0")), false),
    ] {
        let mut scene = Scene::new(json!({})).asked(&[gate]);
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Promoting, open);
    }
}

#[test]
fn an_override_for_an_environment_counts_for_its_place_and_not_for_another_of_its_name() {
    let overridden = |paths: &[&str], branches: &[&str]| {
        let mut gate = gate("false", BEFORE);
        gate.metadata.labels.as_mut().unwrap().remove("kardinal.io/applies-to");
        gate.spec.applies_to = vec!["staging".to_owned(), "prod".to_owned()];
        gate.spec.applies_to_paths = vec!["environments/staging".to_owned(), "environments/prod".to_owned()];
        gate.spec.overrides =
            from(json!([{"reason": "because", "stage": "staging", "paths": paths, "branches": branches}]));
        gate
    };
    let by_branch = |paths: &[&str], branches: &[&str]| {
        let mut gate = overridden(paths, branches);
        gate.spec.applies_to_paths = Vec::new();
        gate.spec.applies_to_branches = vec!["kardinal/**".to_owned()];
        gate
    };
    let staging =
        |path: &str| Scene::new(json!({"environment": "staging", "path": path, "approval": "pr-review"}));
    for (path, gate, open) in [
        ("environments/staging", overridden(&["environments/staging"], &[]), true),
        ("environments/staging", overridden(&["environments/*"], &["main"]), true),
        ("environments/prod", overridden(&["environments/staging"], &["main"]), false),
        // It does not say where.
        ("environments/staging", overridden(&[], &[]), false),
        ("environments/staging", by_branch(&["environments/staging"], &["main"]), true),
        // The gate guards it by the branch of its pull request alone.
        ("environments/other", by_branch(&["environments/staging"], &["main"]), false),
        ("environments/staging", by_branch(&["environments/staging"], &["live"]), false),
    ] {
        let mut scene = staging(path).asked(&[gate]);
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Promoting, open, "{path}: {}", scene.message());
    }
}

#[test]
fn an_override_as_the_command_writes_it_counts_wherever_the_environment_writes() {
    let pipeline: Pipeline = from(json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "my-app", "namespace": "default"},
        "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": [
            {"name": "prod", "approval": "pr-review", "path": "environments/prod",
             "update": {"strategy": "helm", "helm": {"valuesFile": "../common/values.yaml"}}},
            {"name": "odd", "path": "environments/*"},
        ]},
    }));
    let place = crate::intent::place_of(&pipeline, "prod").unwrap();
    assert_eq!(place.to_string(), "`environments/prod`, `environments/common/values.yaml` on `main`");
    assert_eq!(crate::intent::place_of(&pipeline, "odd"), None, "it would mean every environment");
    let gate = |overridden: bool| {
        let mut gate = gate("false", BEFORE);
        gate.spec.applies_to_paths = vec!["environments/**".to_owned()];
        gate.spec.applies_to_branches = vec!["**".to_owned()];
        if overridden {
            gate.spec.overrides = from(json!([
                {"reason": "because", "stage": "prod", "paths": place.paths, "branches": [place.branch]},
            ]));
        }
        gate
    };
    let step = json!({"approval": "pr-review", "path": "environments/prod", "update": {
        "strategy": "helm", "helm": {"valuesFile": "../common/values.yaml"}}});
    for overridden in [true, false] {
        let mut scene = Scene::new(step.clone()).asked(&[gate(overridden)]);
        scene.plan();
        assert_eq!(scene.state() == PromotionState::Promoting, overridden, "{}", scene.message());
    }
}

#[test]
fn what_the_gates_judge_is_the_directory_that_is_written_to() {
    for (path, written) in [
        ("environments/prod", "environments/prod"),
        ("./environments//prod/", "environments/prod"),
        ("environments/prod.", "environments/prod."),
        (".environments/prod", ".environments/prod"),
        ("././", "."),
    ] {
        let mut scene = Scene::new(json!({}));
        scene.step.spec.path = Some(path.to_owned());
        assert_eq!(directory(&scene.step), written, "{path}");
    }
}
