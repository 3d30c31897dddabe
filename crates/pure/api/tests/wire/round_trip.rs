//! Every manifest of the specification goes into our types and comes out again with nothing lost and nothing renamed.

#![expect(clippy::expect_used, clippy::panic, reason = "a test ends where it fails")]

use kardinal_api::{Bundle, Graph, Pipeline, PolicyGate, PromotionStep, PullRequest, Repository};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the manifest says and what our type makes of it.
fn through<T: DeserializeOwned + Serialize>(text: &str) -> (Value, Value) {
    let written: Value = serde_saphyr::from_str(text).expect("the fixture is YAML");
    let typed: T = serde_json::from_value(written.clone()).expect("the manifest fits the type");
    (written, serde_json::to_value(&typed).expect("the type is JSON"))
}

/// Everything that `written` says is in `read`, at every depth.
fn assert_contains(path: &str, written: &Value, read: &Value) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (key, value) in written {
                let path = format!("{path}.{key}");
                assert_contains(&path, value, read.get(key).unwrap_or_else(|| panic!("{path} is lost")));
            }
        }
        (Value::Array(written), Value::Array(read)) => {
            assert_eq!(written.len(), read.len(), "{path}");
            for (index, (written, read)) in written.iter().zip(read).enumerate() {
                assert_contains(&format!("{path}[{index}]"), written, read);
            }
        }
        _ => assert_eq!(written, read, "{path}"),
    }
}

/// The metadata is a type of Kubernetes, which may add empty fields; our own parts must be equal.
fn check<T: DeserializeOwned + Serialize>(text: &str) {
    let (written, read) = through::<T>(text);
    assert_contains("", &written, &read);
    assert_eq!(written.get("spec"), read.get("spec"));
    assert_eq!(written.get("status"), read.get("status"));
}

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../fixtures/spec004/", $name, ".yaml"))
    };
}

#[test]
fn pipelines() {
    check::<Pipeline>(fixture!("pipeline-5-1"));
    check::<Pipeline>(fixture!("pipeline-fan-out-3-9"));
    check::<Pipeline>(fixture!("pipeline-shard-3-14"));
    check::<Pipeline>(fixture!("pipeline-steps-3-15"));
    check::<Pipeline>(fixture!("pipeline-health-5-1"));
}

#[test]
fn bundles() {
    check::<Bundle>(fixture!("bundle-5-5"));
    check::<Bundle>(fixture!("config-bundle-3-16"));
}

#[test]
fn promotion_steps() {
    check::<PromotionStep>(fixture!("promotion-step-5-4"));
}

#[test]
fn policy_gates() {
    check::<PolicyGate>(fixture!("policy-gate-5-2"));
    check::<PolicyGate>(fixture!("policy-gate-instance-5-2"));
    check::<PolicyGate>(fixture!("skip-permission-5-6"));
}

#[test]
fn graphs() {
    check::<Graph>(fixture!("graph-5-3"));
    check::<Graph>(fixture!("graph-5-3-gated"));
}

#[test]
fn fields_that_the_manifests_do_not_show() {
    check::<Pipeline>(
        "{apiVersion: kardinal.io/v1alpha1, kind: Pipeline, metadata: {name: a}, spec: {\
           git: {url: u, branch: b, layout: branch, provider: gitlab, secretRef: {name: s}}, paused: true, \
           historyLimit: 3, policyNamespaces: [p], environments: [{name: e, update: {strategy: helm, \
           helm: {imagePathTemplate: .image.tag, valuesFile: values.yaml}}, delivery: {delegate: flagger}, \
           health: {type: argoRollouts, argoRollouts: {name: r}, flagger: {name: c}, labelSelector: {app: a}}}]}}",
    );
    check::<Bundle>(
        "{apiVersion: kardinal.io/v1alpha1, kind: Bundle, metadata: {name: a}, spec: {type: mixed, \
           artifacts: {images: [{name: i, reference: r}], gitCommit: {repository: u, sha: ab}}, \
           provenance: {rollbackOf: b}, intent: {target: prod, skip: [staging]}}, \
           status: {phase: SkipDenied, observedGeneration: 1, waits: [{on: pull-request, reason: Review, \
           subject: {kind: PullRequest, name: 'PR #1', url: u}, who: person, detail: d, values: [{name: environment, value: prod}], \
           until: '2026-04-09T10:00:00Z', deadline: '2026-04-09T10:00:00Z', basis: b}], failure: {environments: [prod, qa], \
           deletedPredecessors: [{environment: prod, bundle: c, version: '1', instead: '0'}, \
           {environment: qa, bundle: c, version: '1'}]}}}",
    );
    check::<PolicyGate>(
        "{apiVersion: kardinal.io/v1alpha1, kind: PolicyGate, metadata: {name: a}, spec: {expression: 'true', \
           appliesTo: [staging, prod], skipPermission: true, when: post-deploy, overrides: [{reason: r, stage: prod, \
           expiresAt: '2026-04-09T10:00:00Z', createdAt: '2026-04-09T09:00:00Z', createdBy: alice}]}, \
           status: {ready: false, nextChangeAt: '2026-04-13T00:00:00Z'}}",
    );
    check::<Graph>(
        "{apiVersion: experimental.kro.run/v1alpha1, kind: Graph, metadata: {name: a}, spec: {nodes: [\
           {id: a, def: {x: 1}, forEach: '${[1]}', includeWhen: ['${true}'], dependsOn: [b], recheckAfter: 5m}, \
           {id: b, ref: {kind: ConfigMap}, forEach: {x: '${[1]}'}}, {id: c, watch: {kind: Pod}, forEach: [{x: '${[1]}'}]}, \
           {id: d, patch: {kind: Pod}, finalizes: a, lifecycle: {apply: Force}}]}, \
           status: {observedGeneration: 2, revision: a-g00002, kinds: [{apiVersion: v1, kind: Pod}], \
           nodes: [{id: a, state: Pending, message: m, propagating: false, \
           retained: true, waits: [{node: b, why: GateClosed, detail: d, until: '2026-04-09T10:00:00Z'}], \
           objects: [{apiVersion: v1, kind: Pod, namespace: default, name: p}]}]}}",
    );
}

#[test]
fn the_forge() {
    check::<Repository>(
        "{apiVersion: forge.kardinal.io/v1alpha1, kind: Repository, metadata: {name: a}, spec: {description: d, \
           defaultBranch: trunk, protectedBranches: [main, env/*]}, status: {observedGeneration: 1, \
           cloneURL: 'http://127.0.0.1:1/git/default/a.git', head: abc, \
           waits: [{on: action, reason: Refused, subject: {kind: Repository, name: a}, who: person, detail: d}]}}",
    );
    check::<PullRequest>(
        "{apiVersion: forge.kardinal.io/v1alpha1, kind: PullRequest, metadata: {name: a}, spec: {repository: a, \
           head: kardinal/b/prod, base: main, title: t, body: b, author: alice, labels: [kardinal], \
           reviews: [{author: alice, verdict: changes-requested, at: '2026-04-09T10:00:00Z', body: not yet}], \
           comments: [{author: alice, body: hi, at: '2026-04-09T10:00:00Z'}], \
           checks: [{context: gates, state: success, description: d, url: u, commit: c}], \
           desired: merged, mergedBy: alice, expectedHead: c}, \
           status: {observedGeneration: 1, number: 7, state: Merged, url: u, headCommit: c, baseCommit: d, \
           mergeable: true, mergeCommit: e, mergedAt: '2026-04-09T10:00:00Z', mergedBy: alice, \
           closedAt: '2026-04-09T10:00:00Z', files: [{path: p, status: removed}], additions: 1, deletions: 2, \
           waits: [{on: pull-request, reason: Review, subject: {kind: PullRequest, name: 'PR #7', url: u}, who: person}]}}",
    );
}

#[test]
fn a_misspelt_field_would_be_noticed() {
    let (written, read) = through::<PolicyGate>(
        "{apiVersion: kardinal.io/v1alpha1, kind: PolicyGate, metadata: {name: a}, spec: {expression: x, massage: y}}",
    );
    assert_ne!(written.get("spec"), read.get("spec"));
}

/// The word of each variant is the one on the wire.
#[track_caller]
fn check_words<T: Serialize + Copy>(all: &[T], word: impl Fn(T) -> &'static str) {
    for one in all {
        assert_eq!(serde_json::to_value(one).expect("a word"), word(*one));
    }
}

#[test]
fn words_in_texts_are_those_on_the_wire() {
    use kardinal_api::forge::PullRequestState::{self, Closed, Merged, Open};
    use kardinal_api::graph::NodeState as Node;
    use kardinal_api::kardinal::{BundlePhase as Phase, BundleType as Type, PromotionState as State};
    check_words(&[Type::Image, Type::Config, Type::Mixed], Type::as_str);
    let phases = [
        Phase::Available,
        Phase::Promoting,
        Phase::Verified,
        Phase::Failed,
        Phase::Superseded,
        Phase::SkipDenied,
    ];
    check_words(&phases, Phase::as_str);
    let states = [
        State::Pending,
        State::Promoting,
        State::WaitingForMerge,
        State::HealthChecking,
        State::Verified,
        State::Failed,
    ];
    check_words(&states, State::as_str);
    check_words(&[Open, Merged, Closed], PullRequestState::as_str);
    let nodes = [
        Node::Ready,
        Node::NotReady,
        Node::Pending,
        Node::Excluded,
        Node::Blocked,
        Node::Conflict,
        Node::Error,
        Node::SystemError,
    ];
    check_words(&nodes, Node::as_str);
}
