//! The commands on a server where promotions stand at known places. No controller runs: the test writes what they would.

#![expect(clippy::indexing_slicing, reason = "a test may stop where its ground is missing")]

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::forge::PullRequest;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CONFIG, Up, check, kardinal};

/// A server without controllers, and a way to write to it.
struct Ground {
    _up: Up,
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Ground {
    fn new(dir: &Path) -> Ground {
        let up = Up::start(dir, &["--no-controllers"]);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let file = Kubeconfig::read_from(dir.join(".kardinal/kubeconfig")).expect("the kubeconfig");
        let client = runtime.block_on(async {
            let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            Client::try_from(config.expect("the configuration")).expect("a client")
        });
        Ground { _up: up, runtime, client }
    }

    fn create<K>(&self, namespace: &str, object: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).expect("an object of that kind");
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(api.create(&PostParams::default(), &object)).expect("it is created");
    }

    /// Unless it is there.
    fn create_namespace(&self, name: &str) {
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
        match self.runtime.block_on(api.create(&PostParams::default(), &namespace)) {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made.expect("the namespace")),
        }
    }

    fn set_status(&self, bundle: &str, status: Value) {
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({ "status": status }));
        self.runtime.block_on(api.patch_status(bundle, &PatchParams::default(), &patch)).expect("a status");
    }

    fn bundles(&self) -> Vec<String> {
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), "default");
        let all = self.runtime.block_on(api.list(&ListParams::default())).expect("the Bundles");
        all.items.into_iter().filter_map(|bundle| bundle.metadata.name).collect()
    }

    fn bundle_named(&self, part: &str) -> String {
        self.bundles().into_iter().find(|name| name.contains(part)).expect("the Bundle")
    }
}

fn template(name: &str, expression: &str) -> Value {
    json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": name, "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": expression, "message": format!("{name} is closed")},
    })
}

/// v1.28.0 is everywhere; v1.29.0 has been in staging for a little more than twelve minutes and stands at the gates of prod.
fn promotions(dir: &Path) -> (Ground, String, String) {
    let ground = Ground::new(dir);
    ground.create_namespace("platform-policies");
    ground.create::<PolicyGate>("platform-policies", template("only-prod", "environment.name == \"prod\""));
    ground.create::<PolicyGate>(
        "platform-policies",
        template("staging-soak", "bundle.upstreamSoakMinutes >= 30"),
    );
    std::fs::write(dir.join("kardinal.yaml"), CONFIG).expect("the configuration");
    check(dir, &["init"], 0, &["2 org PolicyGates will be injected: only-prod, staging-soak"]);
    for tag in ["1.28.0", "1.29.0"] {
        let image = format!("ghcr.io/myorg/my-app:{tag}");
        check(dir, &["create", "bundle", "my-app", "--image", &image, "--author", "alice"], 0, &["created"]);
    }
    let (old, new) = (ground.bundle_named("v1-28-0"), ground.bundle_named("v1-29-0"));
    let now = Timestamp::now();
    let entry = |minutes: i64| {
        let at = now - SignedDuration::from_secs(minutes * 60 + 5);
        json!({"state": "Verified", "promotedAt": at, "verifiedAt": at, "seal": "of the controller"})
    };
    let mut prod = entry(100);
    prod["prURL"] = json!("https://example.com/pull/144");
    prod["evidence"] =
        json!({"approvedBy": ["bob"], "policyGates": [{"name": "staging-soak", "result": "pass"}]});
    let everywhere = json!({"dev": entry(120), "staging": entry(110), "prod": prod});
    ground.set_status(&old, json!({"phase": "Verified", "environments": everywhere}));
    ground.set_status(
        &new,
        json!({"phase": "Promoting", "environments": {"dev": entry(20), "staging": entry(12)}}),
    );
    let graph =
        kardinal(dir, &["init", "--mode", "graph", "--from", "my-app", "--bundle", &new, "-o", "json"]);
    let graph: Value = serde_json::from_slice(&graph.stdout).expect("a Graph");
    for node in graph["spec"]["nodes"].as_array().expect("its nodes") {
        if node["template"]["kind"] == "PolicyGate" {
            let mut gate = node["template"].clone();
            gate["spec"]["upstreamEnvironment"] = json!("Verified");
            ground.create::<PolicyGate>("default", gate);
        }
    }
    ground.create::<Graph>("default", graph);
    (ground, old, new)
}

#[test]
fn a_blocked_promotion_is_explained_overridden_and_taken_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, old, new) = promotions(dir);
    let sample = "\
PROMOTION: my-app / prod
  Bundle: v1.29.0

POLICY GATES:
  only-prod     [org]   PASS   environment.name = \"prod\" (wanted: == \"prod\")
  staging-soak  [org]   FAIL   bundle.upstreamSoakMinutes = 12 (threshold: >= 30)
                               ETA: ~18 minutes (based on staging verifiedAt)

RESULT: BLOCKED by staging-soak
";
    check(dir, &["explain", "my-app", "--env", "prod"], 0, &[sample]);
    check(dir, &["get", "pipelines"], 0, &["v1.29.0", "v1.28.0 → v1.29.0 BLOCKED"]);
    check(dir, &["get", "steps", "my-app"], 0, &["staging-soak", "FAIL", "BLOCKED by staging-soak"]);
    check(dir, &["get", "bundles", "my-app", "--active"], 0, &["v1.29.0", "Promoting"]);
    check(dir, &["history", "my-app", "--env", "prod"], 0, &["v1.28.0", "bob", "1/1 passed", "pull/144"]);
    check(dir, &["diff", &old, &new], 0, &["image my-app", "my-app:1.28.0", "my-app:1.29.0", "1 differ"]);
    check(dir, &["promote", "my-app", "--env", "prod"], 0, &["v1.29.0 is on its way to prod already"]);
    check(dir, &["promote", "my-app", "--env", "staging"], 0, &["v1.29.0 is verified in staging already"]);
    let simulate = ["policy", "simulate", "--pipeline", "my-app", "--env", "prod"];
    let blocked = [
        "RESULT: BLOCKED",
        "Blocked by:  staging-soak",
        "Message:     staging-soak is closed",
        "ETA:         ~18 minutes",
    ];
    check(dir, &simulate, 4, &blocked);
    check(dir, &[&simulate[..], &["--soak-minutes", "45"]].concat(), 0, &["RESULT: PASS"]);
    // Without a Pipeline all that have the environment are asked.
    let all = ["policy", "simulate", "--env", "prod", "--time", "Saturday 3pm"];
    check(dir, &all, 0, &["SIMULATION: my-app / prod at Saturday", "RESULT: PASS"]);
    check(dir, &["policy", "simulate", "--env", "prod"], 4, &["`prod` would be closed for `my-app`"]);
    check(
        dir,
        &["policy", "simulate", "--env", "qa"],
        3,
        &["has an environment `qa`", "`dev`, `prod` and `staging`"],
    );
    let wrong = ["override", "my-app", "--gate", "nope", "--reason", "outage"];
    check(dir, &wrong, 3, &["they wait at `only-prod` and `staging-soak`"]);
    let wish = ["override", "my-app", "--gate", "staging-soak", "--reason", "outage", "--expires-in", "30m"];
    check(dir, &wish, 0, &["Gate \"staging-soak\" overridden for prod", "by alice"]);
    check(dir, &["explain", "my-app", "--env", "prod"], 0, &["PASS   overridden by alice: outage"]);
    check(dir, &["rollback", "my-app", "--env", "prod", "--to", &new], 1, &["was never verified in `prod`"]);
    // What would happen is told, and nothing happens.
    let dry = ["rollback", "my-app", "--env", "staging", "--dry-run"];
    check(dir, &dry, 0, &["staging  v1.29.0 → v1.28.0, by itself", "nothing was created"]);
    let dry = [&dry[..], &["-o", "json"]].concat();
    let made: Value = serde_json::from_slice(&kardinal(dir, &dry).stdout).expect("only the object");
    assert_eq!(made["spec"]["provenance"]["rollbackOf"], json!(new));
    assert!(made["metadata"]["uid"].is_string(), "the server has looked at it");
    assert!(made["metadata"].get("managedFields").is_none(), "{made}");
    let shown = kardinal(dir, &[&dry[..], &["--show-managed-fields"]].concat());
    assert!(String::from_utf8_lossy(&shown.stdout).contains("managedFields"));
    check(dir, &["get", "bundles", "my-app"], 0, &["v1.29.0"]);
    assert!(ground.bundles().iter().all(|name| !name.contains("rollback")), "nothing was created");
    let back = ["rollback", "my-app", "--env", "staging", "--emergency"];
    check(dir, &back, 0, &["staging  v1.29.0 → v1.28.0", "staging goes back from v1.29.0 to v1.28.0"]);
}

/// The words that `explain`, `get steps` and `get pipelines` have for a gate of prod and for prod itself.
fn agree(dir: &Path, gate: &str, verdict: &str, word: &str) {
    let said = |arguments: &[&str]| String::from_utf8_lossy(&kardinal(dir, arguments).stdout).into_owned();
    let line = |text: &str| text.lines().find(|line| line.contains(gate)).unwrap_or_default().to_owned();
    let explained = said(&["explain", "my-app", "--env", "prod"]);
    assert!(line(&explained).contains(verdict), "{explained}");
    assert!(explained.contains(&format!("RESULT: {word}")), "{explained}");
    let steps = said(&["get", "steps", "my-app"]);
    assert!(line(&steps).contains(verdict), "{steps}");
    for arguments in [&["get", "pipelines"][..], &["get", "pipelines", "-A"]] {
        let pipelines = said(arguments);
        assert!(pipelines.contains(&format!("v1.28.0 → v1.29.0 {word}")), "{pipelines}");
    }
}

#[test]
fn get_says_of_the_organisations_gates_and_of_agents_what_explain_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, _, new) = promotions(dir);
    agree(dir, "staging-soak", "FAIL", "BLOCKED");
    let wish = ["override", "my-app", "--gate", "staging-soak", "--reason", "outage"];
    check(dir, &wish, 0, &["Gate \"staging-soak\" overridden for prod"]);
    agree(dir, "staging-soak", "PASS", "PROMOTING");
    let step = json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
        "metadata": {"name": "prod", "labels": {"kardinal.io/shard": "eu"}},
        "spec": {"pipeline": "my-app", "bundleRef": new, "environment": "prod"},
    });
    ground.create::<PromotionStep>("default", step);
    let lease = json!({
        "metadata": {"name": "kardinal-agent-eu", "labels": {"kardinal.io/shard": "eu"}},
        "spec": {"holderIdentity": "pod", "renewTime": "2026-04-09T10:00:00.000000Z"},
    });
    ground.create_namespace("kardinal-system");
    ground.create::<Lease>("kardinal-system", lease);
    agree(dir, "staging-soak", "PASS", "WAITING");
    let gates: Api<PolicyGate> = Api::namespaced(ground.client.clone(), "platform-policies");
    let closed = Patch::Merge(json!({"spec": {"expression": "environment.name == \"qa\""}}));
    let edited =
        ground.runtime.block_on(async { gates.patch("only-prod", &PatchParams::default(), &closed).await });
    edited.expect("the gate is closed");
    let leases: Api<Lease> = Api::namespaced(ground.client.clone(), "kardinal-system");
    let gone =
        ground.runtime.block_on(async { leases.delete("kardinal-agent-eu", &DeleteParams::default()).await });
    gone.expect("the Lease is gone");
    agree(dir, "only-prod", "FAIL", "BLOCKED");
}

#[test]
fn a_bundle_is_ordered_by_its_version_where_that_says_what_it_carries() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, old, new) = promotions(dir);
    for version in ["1.29.0", "v1.29.0", &new] {
        let order = ["promote", "my-app", "--env", "prod", "--bundle", version];
        check(dir, &order, 0, &["v1.29.0 is on its way to prod already"]);
    }
    let order = ["promote", "my-app", "--env", "prod", "--bundle", "v9.9.9"];
    check(dir, &order, 3, &["there is no Bundle `v9.9.9`", &old, &new]);
    let back = ["rollback", "my-app", "--env", "staging", "--to", "v1.28.0"];
    check(dir, &back, 0, &["staging goes back from v1.29.0 to v1.28.0"]);
    check(dir, &back, 0, &["v1.28.0 is on its way to staging already"]);
    ground.create::<Bundle>(
        "default",
        json!({
            "metadata": {"name": "another-build", "labels": {"kardinal.io/pipeline": "my-app"}},
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": "ghcr.io/myorg/other:1.28.0"}]}},
        }),
    );
    check(dir, &back, 2, &["several Bundles carry `v1.28.0`", "name one of `", "`another-build`", &old]);
}

#[test]
fn a_second_order_within_a_second_is_told_where_the_first_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, _, _) = promotions(dir);
    let now = Timestamp::now().as_second();
    for second in now..now + 20 {
        let bundle = json!({
            "metadata": {"name": format!("my-app-v2-0-0-{second}"), "labels": {"kardinal.io/pipeline": "my-app"}},
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": "ghcr.io/myorg/my-app:2.0.0"}]}},
        });
        ground.create::<Bundle>("default", bundle);
    }
    let order = ["create", "bundle", "my-app", "--image", "ghcr.io/myorg/my-app:2.0.0"];
    check(dir, &order, 1, &["exists already", "hint:", "within this second", "kardinal get bundles"]);
}

#[test]
fn what_was_taken_back_is_promoted_only_by_force() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, old, new) = promotions(dir);
    let at = |minutes: i64| {
        let at = Timestamp::now() - SignedDuration::from_mins(minutes);
        json!({"state": "Verified", "promotedAt": at, "verifiedAt": at})
    };
    let of_new = json!({"dev": at(20), "staging": at(12), "prod": at(10)});
    ground.set_status(&new, json!({"phase": "Verified", "environments": of_new}));
    check(dir, &["rollback", "my-app", "--env", "prod"], 0, &["prod goes back from v1.29.0 to v1.28.0"]);
    let back = ground.bundle_named("rollback");
    assert!(back.starts_with("my-app-v1-28-0-rollback-"), "{back}");
    let of_back = json!({"dev": at(3), "staging": at(2), "prod": at(1)});
    ground.set_status(&back, json!({"phase": "Verified", "environments": of_back}));
    check(dir, &["promote", "my-app", "--env", "prod"], 0, &["v1.28.0 is verified in prod already"]);
    let again = ["promote", "my-app", "--env", "prod", "--bundle", &new];
    check(dir, &again, 4, &["`1.29.0` was taken back in `prod`", "`--force`"]);
    let count = ground.bundles().len();
    let forced = [&again[..], &["--force"]].concat();
    let dry = [&forced[..], &["--dry-run"]].concat();
    check(dir, &dry, 0, &["would bring", "prod     v1.28.0 → v1.29.0", "nothing was created (--dry-run)"]);
    assert_eq!(ground.bundles().len(), count, "nothing was created");
    check(dir, &["rollback", "my-app", "--env", "prod"], 1, &["no Bundle was verified in `prod` before"]);
    check(dir, &["rollback", "my-app", "--env", "prod", "--to", &old], 1, &["carries what `prod` has now"]);
}

#[test]
fn version_prints_the_controllers_version_and_not_the_api_servers() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    check(dir, &["version"], 0, &["controller not known: none has run here\n", "kubernetes v1."]);
    let namespace =
        serde_json::from_value(json!({"metadata": {"name": "kardinal-system"}})).expect("a namespace");
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(ground.client.clone());
    ground.runtime.block_on(api.create(&PostParams::default(), &namespace)).expect("the namespace");
    ground.create::<Lease>(
        "kardinal-system",
        json!({"metadata": {"name": "kardinal-controller", "annotations": {"kardinal.io/version": "9.8.7"}}}),
    );
    check(dir, &["version"], 0, &["controller 9.8.7\n", "kubernetes v1."]);
    check(dir, &["version", "-o", "json"], 0, &["\"controller\": \"9.8.7\""]);
}

#[test]
fn a_second_rollback_names_the_first_and_a_deleted_one_does_not_bring_the_older_version_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, _, new) = promotions(dir);
    let at = |minutes: i64| {
        let at = Timestamp::now() - SignedDuration::from_mins(minutes);
        json!({"state": "Verified", "promotedAt": at, "verifiedAt": at})
    };
    let of_new = json!({"dev": at(20), "staging": at(12), "prod": at(10)});
    ground.set_status(&new, json!({"phase": "Verified", "environments": of_new}));
    check(dir, &["rollback", "my-app", "--env", "prod"], 0, &["prod goes back from v1.29.0 to v1.28.0"]);
    let back = ground.bundle_named("rollback");
    let twice = ["rollback", "my-app", "--env", "prod"];
    check(dir, &twice, 0, &["v1.28.0 is on its way to prod already, with Bundle", &back]);
    assert_eq!(ground.bundles().iter().filter(|name| name.contains("rollback")).count(), 1);
    let of_back = json!({"dev": at(3), "staging": at(2), "prod": at(1)});
    ground.set_status(&back, json!({"phase": "Verified", "environments": of_back}));
    check(dir, &["get", "pipelines"], 0, &["v1.28.0"]);
    // What the Pipeline's controller would have written down. The Bundles are as old as this test, so it came just now.
    let presence = |environment: &str| {
        let entry = at(0);
        json!({"environment": environment, "type": "image", "bundle": back, "version": "1.28.0",
            "promotedAt": entry["promotedAt"], "verifiedAt": entry["verifiedAt"]})
    };
    let present = ["dev", "staging", "prod"].map(presence);
    let pipelines: Api<Pipeline> = Api::namespaced(ground.client.clone(), "default");
    let patch = Patch::Merge(json!({"status": {"environments": present}}));
    let params = PatchParams::default();
    ground.runtime.block_on(pipelines.patch_status("my-app", &params, &patch)).expect("the record");
    let bundles: Api<Bundle> = Api::namespaced(ground.client.clone(), "default");
    ground.runtime.block_on(bundles.delete(&back, &DeleteParams::default())).expect("it is deleted");
    let gone = format!("Now:    v1.28.0 ({back}, which does not exist any more), verified at");
    check(dir, &["explain", "my-app", "--env", "prod"], 0, &[&gone, "RESULT: IDLE"]);
    let lost = "`staging` has `1.28.0` now, which";
    check(dir, &["promote", "my-app", "--env", "prod"], 1, &[lost, "does not exist any more", "--bundle"]);
    check(dir, &["rollback", "my-app", "--env", "prod"], 1, &["`prod` has `1.28.0` now"]);
    let shown = kardinal(dir, &["get", "pipelines"]);
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("1.29.0"), "{shown:?}");
}

#[test]
fn pull_requests_are_listed_shown_and_approved() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    for repository in ["gitops", "other"] {
        let object = json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest",
            "metadata": {"name": format!("{repository}-3")},
            "spec": {"repository": repository, "head": "kardinal/b/prod", "base": "main", "title": "Promote v1.29.0"},
        });
        ground.create::<PullRequest>("default", object);
        let api: Api<PullRequest> = Api::namespaced(ground.client.clone(), "default");
        let commit = "c0ffee".repeat(7)[..40].to_owned();
        let status = json!({"status": {"number": 3, "state": "Open", "headCommit": commit}});
        let status = Patch::Merge(status);
        let name = format!("{repository}-3");
        ground.runtime.block_on(api.patch_status(&name, &PatchParams::default(), &status)).expect("a status");
    }
    check(dir, &["pr", "list"], 0, &["#3", "gitops", "other", "Promote v1.29.0"]);
    check(dir, &["pr", "show", "3"], 2, &["several repositories", "`gitops` and `other`"]);
    check(
        dir,
        &["pr", "show", "3", "--repo", "gitops"],
        0,
        &["#3 Promote v1.29.0", "kardinal/b/prod → main"],
    );
    check(dir, &["pr", "approve", "3", "--repo", "gitops"], 0, &["approved by alice"]);
    check(dir, &["pr", "approve", "3", "--repo", "gitops", "--as", "bob"], 0, &["approved by bob"]);
    check(dir, &["pr", "show", "3", "--repo", "gitops"], 0, &["Approved by alice, bob"]);
    check(dir, &["pr", "list", "--repo", "other", "-o", "json"], 0, &["\"repository\": \"other\""]);
    check(dir, &["pr", "diff", "3", "--repo", "gitops"], 5, &["hint:"]);
}

#[test]
fn an_image_with_capitals_is_told_when_the_bundle_is_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, ..) = promotions(dir);
    let said = "the repository of an image is written in lower case";
    let image = "ghcr.io/MyOrg/my-app:1.30.0";
    check(dir, &["create", "bundle", "my-app", "--image", image], 2, &[said]);
    let api: Api<Bundle> = Api::namespaced(ground.client.clone(), "default");
    let with = |name: &str, reference: &str| -> Result<Bundle, String> {
        let object = json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "metadata": {"name": name},
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": reference}]}},
        });
        let bundle = serde_json::from_value(object).expect("a Bundle");
        let made = ground.runtime.block_on(api.create(&PostParams::default(), &bundle));
        made.map_err(|error| error.to_string())
    };
    for (position, reference) in [image, "MyOrg/my-app:1", "localhost:5000/My-App:1"].into_iter().enumerate()
    {
        let refused = with(&format!("bad-{position}"), reference).expect_err("it is refused");
        assert!(refused.contains(said) && refused.contains("images[0].reference"), "{refused}");
    }
    for (position, reference) in
        ["ghcr.io/myorg/my-app:RC1", "Registry.Example.com:5000/my-app:1", "my-app", "a/b@sha256:ABC"]
            .into_iter()
            .enumerate()
    {
        with(&format!("good-{position}"), reference).expect(reference);
    }
}

#[test]
fn promote_and_rollback_with_dry_run_say_what_would_happen_and_create_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, _, new) = promotions(dir);
    // It has reached the end of its way, which was staging: prod is for somebody to order.
    let image = ["--image", "ghcr.io/myorg/my-app:1.30.0", "--target", "staging"];
    check(dir, &[&["create", "bundle", "my-app"][..], &image].concat(), 0, &["created"]);
    let newest = ground.bundle_named("v1-30-0");
    let at = Timestamp::now();
    let of_newest = json!({"state": "Verified", "promotedAt": at, "verifiedAt": at});
    ground.set_status(&new, json!({"phase": "Superseded"}));
    let environments = json!({"dev": of_newest, "staging": of_newest});
    ground.set_status(&newest, json!({"phase": "Verified", "environments": environments}));
    let before = ground.bundles();
    let forward = [
        "would bring",
        "prod     v1.28.0 → v1.30.0, by a pull request that somebody merges, through `only-prod` and `staging-soak`",
        "nothing was created (--dry-run)",
    ];
    check(dir, &["promote", "my-app", "--env", "prod", "--dry-run"], 0, &forward);
    let back = ["would bring", "staging  v1.30.0 → v1.29.0, by itself", "nothing was created (--dry-run)"];
    check(dir, &["rollback", "my-app", "--env", "staging", "--dry-run"], 0, &back);
    for order in [["promote", "prod"], ["rollback", "staging"]] {
        let dry = [order[0], "my-app", "--env", order[1], "--dry-run", "-o", "json"];
        let made: Value = serde_json::from_slice(&kardinal(dir, &dry).stdout).expect("only the object");
        assert_eq!(made["kind"], "Bundle", "{made}");
    }
    assert_eq!(ground.bundles(), before, "nothing was created");
}

#[test]
fn policy_simulate_without_a_pipeline_asks_all_that_have_the_environment_and_exits_4_when_one_is_blocked() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    ground.create_namespace("platform-policies");
    ground.create::<PolicyGate>("platform-policies", template("no-weekend", "!schedule.isWeekend"));
    for (name, last) in [("my-app", "prod"), ("other", "prod"), ("tool", "qa")] {
        let pipeline = json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": name},
            "spec": {"git": {"url": "https://example.com/gitops"},
                "environments": [{"name": "dev"}, {"name": last}]},
        });
        ground.create::<Pipeline>("default", pipeline);
    }
    let saturday = ["policy", "simulate", "--env", "prod", "--time", "Saturday 3pm"];
    let blocked = [
        "SIMULATION: my-app / prod at Saturday",
        "SIMULATION: other / prod at Saturday",
        "RESULT: BLOCKED\nBlocked by:  no-weekend",
        "Next window: Monday",
        "`prod` would be closed for `my-app` and `other`",
    ];
    check(dir, &saturday, 4, &blocked);
    let said = kardinal(dir, &saturday);
    assert!(!String::from_utf8_lossy(&said.stdout).contains("tool"), "it has no prod: {said:?}");
    let tuesday = ["policy", "simulate", "--env", "prod", "--time", "Tuesday 3pm"];
    check(dir, &tuesday, 0, &["SIMULATION: my-app / prod", "SIMULATION: other / prod", "RESULT: PASS"]);
}

#[test]
fn a_merge_that_a_pause_refuses_exits_with_4_and_the_forge_is_not_asked() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    let why = "held: Pipeline `my-app` is paused by alice";
    let object = json!({
        "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "gitops-3"},
        "spec": {"repository": "gitops", "head": "kardinal/b/prod", "base": "main", "title": "Promote v1.29.0",
            "checks": [{"context": "kardinal/gates", "state": "pending", "description": why}]},
    });
    ground.create::<PullRequest>("default", object);
    let api: Api<PullRequest> = Api::namespaced(ground.client.clone(), "default");
    let status = json!({"status": {"number": 3, "state": "Open", "headCommit": "c0ffee".repeat(7)[..40]}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    ground.runtime.block_on(api.patch_status("gitops-3", &params, &patch)).expect("a status");
    let refused = ["check `kardinal/gates` is pending", why, "hint:", "--force"];
    check(dir, &["pr", "merge", "3"], 4, &refused);
    let seen = ground.runtime.block_on(api.get("gitops-3")).expect("the pull request");
    assert_eq!((seen.metadata.generation, seen.spec.merged_by), (Some(1), None), "nothing was asked for");
}

fn pipeline(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["environments"] = spec.get("environments").cloned().unwrap_or(json!([{"name": "dev"}]));
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": name}, "spec": spec})
}

/// As [`check`], for a command that might wait for ever.
fn check_ends(dir: &Path, arguments: &'static [&'static str], code: i32, contains: &'static [&'static str]) {
    let dir = dir.to_owned();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        check(&dir, arguments, code, contains);
        done.send(())
    });
    let ended = ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Ok(()), "`{}` waits, or did not say what it should", arguments.join(" "));
}

#[test]
fn names_in_a_pipeline_that_cannot_be_names_keep_no_command_waiting() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    let git = json!({"url": "https://git.example/gitops", "secretRef": {"name": "?watch=true"}});
    ground.create::<Pipeline>("default", pipeline("of-secrets", json!({ "git": git })));
    let spec = json!({
        "git": {"url": "https://git.example/gitops"}, "policyNamespaces": ["x/policygates?watch=true#"],
    });
    ground.create::<Pipeline>("default", pipeline("of-gates", spec));
    check_ends(dir, &["explain", "of-gates"], 0, &["PROMOTION: of-gates / dev", "RESULT: IDLE"]);
    check_ends(
        dir,
        &["get", "pipelines"],
        0,
        &[
            "ERROR of-gates: spec.policyNamespaces[0]: `x/policygates?watch=true#` is not the name of a namespace",
            "ERROR of-secrets: spec.git.secretRef.name: `?watch=true` is not a name",
        ],
    );
    check_ends(dir, &["get", "pipelines", "-A"], 0, &["ERROR of-gates", "ERROR of-secrets"]);
    check_ends(dir, &["promote", "of-gates", "--env", "dev"], 1, &["no Bundle"]);
    check_ends(dir, &["policy", "simulate", "--env", "dev"], 0, &["of-gates / dev", "RESULT: PASS"]);
    check_ends(
        dir,
        &["doctor"],
        1,
        &[
            "pipeline of-gates: spec.policyNamespaces[0]: `x/policygates?watch=true#` is not the name of a namespace",
            "use lower case letters, digits and `-`",
            "pipeline of-secrets: spec.git.secretRef.name: `?watch=true` is not a name",
            "use lower case letters, digits, `-` and `.`",
        ],
    );
}

#[test]
fn doctor_tells_a_gate_that_guards_nothing_and_a_task_that_nobody_knows() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    let tasks = ["git-clone", "kustomise-set-image", "git-commit", "git-push", "health-check"];
    let tasks: Vec<Value> = tasks.iter().map(|uses| json!({ "uses": uses })).collect();
    let spec = json!({
        "git": {"url": "https://git.example/gitops"}, "environments": [{"name": "dev", "steps": tasks}],
    });
    ground.create::<Pipeline>("default", pipeline("my-app", spec));
    let gate = json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate", "metadata": {"name": "idle"},
        "spec": {"expression": "true"},
    });
    ground.create::<PolicyGate>("default", gate);
    let gates: Api<PolicyGate> = Api::namespaced(ground.client.clone(), "default");
    let condition = json!({
        "type": "Guards", "status": "False", "reason": "GuardsNothing", "message": "it guards nothing: name one",
        "lastTransitionTime": "2026-04-09T10:00:00Z",
    });
    let (params, patch) =
        (PatchParams::default(), Patch::Merge(json!({"status": {"conditions": [condition]}})));
    ground.runtime.block_on(gates.patch_status("idle", &params, &patch)).expect("a status");
    let lines = [
        "pipeline my-app: spec.environments[0].steps[1]: steps[1]: `kustomise-set-image` is not a built-in task",
        "→ correct the Pipeline",
        "gate default/idle: it guards nothing: name one",
        "→ correct it, or delete it: until then it holds nothing",
    ];
    check(dir, &["doctor"], 1, &lines);
}

#[test]
fn what_others_wrote_steers_no_terminal() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let ground = Ground::new(dir);
    let git = json!({"url": "https://git.example/gitops"});
    ground.create::<Pipeline>("default", pipeline("my-app", json!({ "git": git })));
    ground.create::<Bundle>(
        "default",
        json!({
            "metadata": {"name": "b", "labels": {"kardinal.io/pipeline": "my-app"}},
            "spec": {"artifacts": {"images": [{"name": "a", "reference": "r/a:1"}]},
                "provenance": {"author": "mal\u{1b}[2Jlory"}},
        }),
    );
    let at = Timestamp::now();
    let entry = json!({"state": "Verified", "promotedAt": at, "verifiedAt": at,
        "evidence": {"approvedBy": ["mal\u{1b}[2Jlory"]}});
    ground.set_status("b", json!({"phase": "Verified", "environments": {"dev": entry}}));
    // A sequence that was dropped instead of shown would hide what was written.
    for (command, shown) in [
        (&["get", "bundles", "my-app"][..], "mal\\u{1b}[2Jlory"),
        (&["history", "my-app"], "mal\\u{1b}[2Jlory"),
        (&["get", "bundles", "my-app", "-o", "json"], "mal\\u001b[2Jlory"),
        (&["history", "my-app", "-o", "yaml"], "mal\\e[2Jlory"),
    ] {
        let output = kardinal(dir, command);
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(shown), "`{}` said: {text}", command.join(" "));
    }
}

#[test]
fn policy_simulate_tells_the_organisations_gates_no_more_than_explain_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path();
    let (ground, _, new) = promotions(dir);
    // Somebody else than the controller says that it has been in staging for long.
    let at = Timestamp::now() - SignedDuration::from_hours(2);
    let staging = json!({"state": "Verified", "promotedAt": at, "verifiedAt": at, "seal": null});
    ground.set_status(&new, json!({"environments": {"staging": staging}}));
    check(dir, &["explain", "my-app", "--env", "prod"], 0, &["RESULT: BLOCKED by staging-soak"]);
    let simulate = ["policy", "simulate", "--pipeline", "my-app", "--env", "prod"];
    check(dir, &simulate, 4, &["RESULT: BLOCKED", "Blocked by:  staging-soak"]);
    check(dir, &[&simulate[..], &["--soak-minutes", "45"]].concat(), 0, &["RESULT: PASS"]);
}
