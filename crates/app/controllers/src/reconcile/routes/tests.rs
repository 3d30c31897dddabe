//! Who hears what: a case for every row of every table.

pub(crate) mod bench;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::promotion::{bundle, pipeline, policy_gate, promotion_step};
use crate::{GraphScope, LocalForge, PACE, forge, graph};
use bench::{Bench, ORGANISATION, object};

fn a_pipeline(limit: u32) -> Value {
    let git = json!({"url": "https://git.invalid/app.git"});
    object(
        "Pipeline",
        "app",
        json!({"spec": {"git": git, "environments": [{"name": "prod"}], "historyLimit": limit}}),
    )
}

fn a_bundle(name: &str) -> Value {
    let images = json!([{"name": "app", "reference": "registry.invalid/app:1"}]);
    let spec = json!({"artifacts": {"images": images}});
    object("Bundle", name, json!({"labels": {"kardinal.io/pipeline": "app"}, "spec": spec}))
}

fn a_step(name: &str, bundle: &str, status: Value) -> Value {
    let git = json!({"url": "kardinal://forge/team/app.git"});
    let spec = json!({"pipeline": "app", "environment": "prod", "bundleRef": bundle, "git": git,
        "requiredGates": ["soak-v1"]});
    object("PromotionStep", name, json!({"spec": spec, "status": status}))
}

fn a_gate(name: &str, labels: Value, expression: &str) -> Value {
    let spec = json!({"expression": expression, "appliesTo": ["prod"]});
    object("PolicyGate", name, json!({"labels": labels, "spec": spec}))
}

fn an_instance(name: &str, bundle: &str) -> Value {
    let labels = json!({"kardinal.io/bundle": bundle, "kardinal.io/gate-template": "soak",
        "kardinal.io/gate-template-namespace": "team"});
    a_gate(name, labels, "true")
}

/// A Graph that promotes a Bundle.
fn a_graph(bundle: &str) -> Value {
    let of = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "metadata": {"name": bundle}});
    object("Graph", bundle, json!({"spec": {"nodes": [{"id": "bundle", "ref": of}]}}))
}

#[tokio::test]
async fn pipelines_hear_of_themselves_their_steps_and_their_bundles() {
    let mut bench = Bench::of_promotions(|context| pipeline::Kind { context }).await;
    bench
        .go_through(vec![
            ("itself", a_pipeline(5), &["team/app"]),
            ("its step", a_step("s", "v1", json!({})), &["team/app"]),
            ("its Bundle", a_bundle("v1"), &["team/app"]),
        ])
        .await;
    let (_, pace) = bench.apply(a_step("s", "v1", json!({"state": "Pending"}))).await;
    assert_eq!(pace, PACE, "many steps may get on at once");
    bench.has_tried_everything(&["team/app"]);
}

#[tokio::test]
async fn gates_hear_of_their_templates_their_bundles_and_pipelines() {
    let mut bench = Bench::of_promotions(|context| policy_gate::Kind { context }).await;
    bench
        .go_through(vec![
            ("a template", a_gate("soak", json!({}), "true"), &["team/soak"]),
            ("a gate made of it", an_instance("soak-v1", "v1"), &["team/soak-v1"]),
            ("the template again", a_gate("soak", json!({}), "false"), &["team/soak", "team/soak-v1"]),
            ("a Bundle", a_bundle("v1"), &["team/soak-v1"]),
            ("another Bundle", a_bundle("v2"), &[]),
            ("a Graph", a_graph("v1"), &[]),
            ("a Pipeline", a_pipeline(5), &["team/soak"]),
            ("what no gate asks for", a_pipeline(6), &[]),
        ])
        .await;
    bench.has_tried_everything(&["team/soak", "team/soak-v1"]);
}

#[tokio::test]
async fn bundles_hear_of_newer_ones_and_of_what_promotes_them() {
    let mut bench = Bench::of_promotions(|context| bundle::Kind { context }).await;
    bench
        .go_through(vec![
            ("itself", a_bundle("v1"), &["team/v1"]),
            ("a newer one", a_bundle("v2"), &["team/v1", "team/v2"]),
            ("its Graph", a_graph("v1"), &["team/v1"]),
            ("a template", a_gate("soak", json!({}), "true"), &[]),
            ("a gate of its own", an_instance("soak-v1", "v1"), &["team/v1"]),
            ("its Pipeline", a_pipeline(5), &["team/v1", "team/v2"]),
        ])
        .await;
    let paces = [
        ("it has only been planned", json!({"message": "x"}), PACE),
        ("the record follows", json!({"state": "Promoting"}), PACE),
        ("it is verified everywhere", json!({"state": "Verified"}), SignedDuration::ZERO),
        ("an end does not wait", json!({"state": "Failed"}), SignedDuration::ZERO),
    ];
    for (what, status, pace) in paces {
        let heard = bench.apply(a_step("s", "v1", status)).await;
        assert_eq!(heard, (vec!["team/v1".to_owned()], pace), "{what}");
    }
    bench.has_tried_everything(&["team/v1", "team/v2"]);
}

#[tokio::test]
async fn graphs_hear_of_themselves_and_nobody_waits_for_definitions() {
    let mut bench = Bench::new(|context| graph::Kind::new(context, GraphScope::default())).await;
    let revision = json!({"graphName": "v1", "generation": 1, "hash": "h", "nodes": []});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    bench
        .go_through(vec![
            ("itself", a_graph("v1"), &["team/v1"]),
            ("a revision", object("GraphRevision", "v1-g00001", json!({"spec": revision})), &[]),
            ("a definition", definition, &[]),
        ])
        .await;
    bench.has_tried_everything(&["team/v1"]);
}

/// A local forge whose repositories are below a folder.
fn a_forge(folder: &tempfile::TempDir) -> LocalForge {
    let store = Arc::new(kardinal_forge::Store::new(folder.path()));
    LocalForge { store, url: "kardinal://forge/".to_owned() }
}

fn a_pull_request(name: &str, repository: &str, status: Value) -> Value {
    let spec = json!({"repository": repository, "title": "t", "base": "main", "head": name});
    object("PullRequest", name, json!({"spec": spec, "status": status}))
}

fn a_repository(status: Value) -> Value {
    object("Repository", "app", json!({"spec": {}, "status": status}))
}

/// The status of a repository that is on disk.
fn served(head: &str) -> Value {
    json!({"cloneURL": "kardinal://forge/team/app.git", "head": head})
}

#[tokio::test]
async fn repositories_hear_of_their_pull_requests_and_of_what_steps_push() {
    let folder = tempfile::tempdir().unwrap();
    let local = a_forge(&folder);
    let mut bench = Bench::new(|context| forge::repository::Kind::new(context, local)).await;
    bench
        .go_through(vec![
            ("itself", object("Repository", "app", json!({"spec": {}})), &["team/app"]),
            ("a pull request", a_pull_request("p", "app", json!({})), &["team/app"]),
            ("a step", a_step("s", "v1", json!({"state": "Promoting"})), &[]),
            ("a push", a_step("s", "v1", json!({"outputs": {"commit": "c0ffee"}})), &["team/app"]),
            (
                "no push",
                a_step("s", "v1", json!({"state": "Promoting", "outputs": {"commit": "c0ffee"}})),
                &[],
            ),
        ])
        .await;
    bench.has_tried_everything(&["team/app"]);
}

#[tokio::test]
async fn pull_requests_hear_of_their_repository_of_merges_and_of_what_steps_push() {
    let folder = tempfile::tempdir().unwrap();
    let local = a_forge(&folder);
    let mut bench = Bench::new(|context| forge::pull_request::Kind::new(context, local)).await;
    let both: &[&str] = &["team/p1", "team/p2"];
    let merged = json!({"state": "Merged", "mergeCommit": "c0ffee"});
    let closed = |spec: Value| {
        let mut request = a_pull_request("p1", "app", json!({"state": "Closed"}));
        request["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        request
    };
    bench
        .go_through(vec![
            ("itself", a_pull_request("p1", "app", json!({})), &["team/p1"]),
            ("another one", a_pull_request("p2", "app", json!({"number": 2})), &["team/p2"]),
            ("one of another repository", a_pull_request("q", "web", json!({})), &["team/q"]),
            ("a merge", a_pull_request("p2", "app", merged), both),
            ("its repository", a_repository(json!({})), &["team/p1"]),
            ("it comes to be on disk: all numbers are kept there", a_repository(served("c0ffee")), both),
            ("its head moves: no news for those that are over", a_repository(served("beef")), &["team/p1"]),
            ("a step", a_step("s", "v1", json!({"state": "Promoting"})), &[]),
            ("a push", a_step("s", "v1", json!({"outputs": {"commit": "c0ffee"}})), &["team/p1"]),
            (
                "no push",
                a_step("s", "v1", json!({"state": "Promoting", "outputs": {"commit": "c0ffee"}})),
                &[],
            ),
            ("given up", closed(json!({"desired": "closed"})), &["team/p1"]),
            ("what happens is not its business", a_repository(served("cafe")), &[]),
            ("wanted back", closed(json!({"desired": "open"})), &["team/p1"]),
            ("it is", a_repository(served("beef")), &["team/p1"]),
        ])
        .await;
    bench.has_tried_everything(&["team/p1", "team/p2", "team/q"]);
}

#[tokio::test]
async fn steps_hear_of_whatever_may_let_them_go_on() {
    let mut bench = Bench::of_promotions(promotion_step::Kind::new).await;
    let freeze = json!({"kardinal.io/freeze": "true", "kardinal.io/pipeline": "app"});
    let organisations =
        json!({"namespace": ORGANISATION, "spec": {"expression": "true", "appliesTo": ["prod"]}});
    let request = json!({"repository": "app", "title": "t", "base": "main", "head": "kardinal/team/v1/prod"});
    let both: &[&str] = &["team/s1", "team/s2"];
    bench
        .go_through(vec![
            ("itself", a_step("s1", "v1", json!({"state": "Pending"})), &["team/s1"]),
            ("one that wants to go there, too", a_step("s2", "v2", json!({"state": "Pending"})), both),
            ("a gate that it must pass", an_instance("soak-v1", "v1"), both),
            ("another gate", an_instance("other", "v1"), &[]),
            ("a pause", a_gate("hold", freeze, "false"), both),
            ("a gate of the organisation", object("PolicyGate", "all", organisations), both),
            ("its Bundle", a_bundle("v1"), &["team/s1"]),
            ("its Pipeline", a_pipeline(5), both),
            ("its pull request", object("PullRequest", "p", json!({"spec": request})), &["team/s1"]),
            ("a Graph", a_graph("v1"), &[]),
        ])
        .await;
    bench.has_tried_everything(both);
}
