//! A Graph acts inside its own namespace, which is `default` here.

use kardinal_object::Gvk;
use serde_json::json;

use super::world::Story;
use crate::{Fence, Outcome, Permission, Permit, WaitReason};

const GATE: &str =
    "{apiVersion: test.io/v1, kind: Gate, metadata: {name: gate, namespace: policies}, spec: {open: false}}";
const SECRET: &str =
    "{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: team-b}, data: {key: hidden}}";

/// One node beside one that needs nothing; the state of the first and all writes.
fn check(node: &str, fence: Fence, state: &str, writes: &str) -> Story {
    let beside =
        "- {id: beside, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: beside}}}\n".to_owned();
    let mut story = Story::new(&(beside + node)).fenced(fence);
    story.put(GATE).put(SECRET);
    story.run();
    assert_eq!(story.walker.report("node").unwrap().state.as_str(), state, "{node}");
    assert_eq!(story.walker.report("beside").unwrap().state.as_str(), "Ready", "{node}");
    assert_eq!(story.writes(), writes, "{node}");
    story
}

/// Every way in which a node can reach another namespace, or the cluster.
const OUTSIDE: [&str; 9] = [
    "- {id: node, lifecycle: {apply: Force}, template: {apiVersion: test.io/v1, kind: Gate, metadata: {name: gate, namespace: policies}, spec: {open: true}}}",
    "- {id: node, template: {apiVersion: test.io/v1, kind: Gate, metadata: {name: new, namespace: policies}, spec: {open: true}}}",
    "- {id: node, patch: {apiVersion: test.io/v1, kind: Gate, metadata: {name: gate, namespace: policies}, spec: {open: true}}}",
    "- {id: node, patch: {apiVersion: test.io/v1, kind: Gate, metadata: {name: gate, namespace: policies}, status: {ready: true}}}",
    "- {id: node, ref: {apiVersion: v1, kind: Secret, metadata: {name: key, namespace: team-b}}}",
    "- {id: node, watch: {apiVersion: v1, kind: Secret, metadata: {namespace: team-b}}}",
    "- {id: node, watch: {apiVersion: v1, kind: Secret}}",
    "- {id: node, forEach: {ns: '${[\"default\", \"team-b\"]}'}, ref: {apiVersion: v1, kind: Secret, metadata: {name: key, namespace: '${ns}'}}}",
    "- {id: node, template: {apiVersion: test.io/v1, kind: ClusterThing, metadata: {name: c}}}",
];

#[test]
fn what_is_outside_of_the_fence_is_refused_and_the_rest_goes_on() {
    for node in OUTSIDE {
        let story = check(node, Fence::Namespace, "Error", "apply beside");
        let report = story.walker.report("node").unwrap();
        for word in ["`default`", "`spec.serviceAccountName`", "`--graph-scope=cluster`"] {
            assert!(report.message.contains(word), "{node}: {}", report.message);
        }
        assert_eq!(report.waits[0].why, WaitReason::Fenced, "{node}");
        assert_eq!(report.objects, vec![], "{node}: not even its existence shows");
        assert!(story.walker.interests().objects().all(|id| id.name == "beside"), "{node}");
        assert_eq!(story.walker.interests().selections().count(), 0, "{node}");
        assert_eq!(story.walker.wake(), None, "{node}: it is not tried again and again");
        assert_eq!(story.object("gate")["spec"], json!({ "open": false }), "{node}");
    }
}

#[test]
fn the_operator_may_take_the_fence_away() {
    for node in OUTSIDE {
        // The Secret is in one of the two namespaces only.
        let state = if node.contains("forEach") { "Pending" } else { "Ready" };
        let writes = match node {
            _ if node.contains("ref:") || node.contains("watch:") => "apply beside",
            _ if node.contains("patch:") => "apply beside, patch gate",
            _ if node.contains("name: gate") => "apply beside, apply gate",
            _ if node.contains("name: new") => "apply beside, apply new",
            _ => "apply beside, apply c",
        };
        let mut story = Story::new(&format!(
            "- {{id: beside, template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: beside}}}}}}\n{node}"
        ));
        story.put(GATE).put(SECRET).run();
        assert_eq!(story.walker.report("node").unwrap().state.as_str(), state, "{node}");
        assert_eq!(story.writes(), writes, "{node}");
    }
}

#[test]
fn inside_of_the_namespace_everything_works_but_what_gives_rights_away() {
    let inside = "- {id: node, template: {apiVersion: test.io/v1, kind: Gate, metadata: {name: it, namespace: default}}}";
    check(inside, Fence::Namespace, "Ready", "apply beside, apply it");
    let watch = "- {id: node, watch: {apiVersion: v1, kind: Secret, metadata: {namespace: default}}}";
    check(watch, Fence::Namespace, "Ready", "apply beside");
    for node in [
        "- {id: node, template: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: it}}}",
        "- {id: node, template: {apiVersion: v1, kind: Secret, metadata: {name: it}, type: kubernetes.io/service-account-token}}",
    ] {
        let story = check(node, Fence::Namespace, "Error", "apply beside");
        let message = &story.walker.report("node").unwrap().message;
        assert!(message.contains("gives rights away"), "{message}");
    }
}

#[test]
fn force_takes_nothing_from_a_graph_of_another_namespace() {
    let foreign = "{apiVersion: test.io/v1, kind: Gate, metadata: {name: it, labels: {x.u-9.internal.kro.run/reference: template}, annotations: {internal.kro.run/graph: other/graph}}}";
    let forced = "- {id: node, lifecycle: {apply: Force}, template: {apiVersion: test.io/v1, kind: Gate, metadata: {name: it}}}";
    let run = |foreign: &str, state: &str| {
        let mut story = Story::new(forced).fenced(Fence::Namespace);
        story.put(foreign).run();
        assert_eq!(story.walker.report("node").unwrap().state.as_str(), state);
    };
    run(foreign, "Conflict");
    run(&foreign.replace("other/graph", "default/graph"), "Ready");
}

#[test]
fn an_account_reads_what_it_may_and_writes_in_its_own_name() {
    let account = || Fence::Account("deployer".to_owned());
    let gvk = Gvk::parse("v1", "Secret").unwrap();
    let permit = Permit { gvk, namespace: Some("team-b".to_owned()), name: Some("key".to_owned()) };
    let node = "- {id: node, ref: {apiVersion: v1, kind: Secret, metadata: {name: key, namespace: team-b}}}";
    let mut story = Story::new(node).fenced(account());
    story.put(SECRET).run();
    let report = story.walker.report("node").unwrap();
    assert_eq!((report.state.as_str(), report.waits[0].why), ("Pending", WaitReason::PermissionUnknown));
    assert_eq!(story.walker.interests().permits().collect::<Vec<_>>(), [&permit], "somebody has to ask");
    assert_eq!(story.walker.interests().objects().count(), 0);

    story.world.permissions.insert(permit.clone(), Permission::Denied("no".to_owned()));
    story.restart().expect("node=Error", "");
    assert_eq!(story.walker.interests().permits().count(), 1, "the answer may change");
    story.world.permissions.insert(permit, Permission::Granted);
    story.restart().expect("node=Ready", "");
    assert_eq!(story.walker.interests().objects().count(), 1);
}

#[test]
fn a_write_that_the_account_may_not_make_is_tried_again_later() {
    let node = "- {id: node, template: {apiVersion: test.io/v1, kind: Gate, metadata: {name: it, namespace: other}}}";
    let mut story = Story::new(node).fenced(Fence::Account("deployer".to_owned()));
    let gvk = Gvk::parse("test.io/v1", "Gate").unwrap();
    let permit = Permit { gvk, namespace: Some("other".to_owned()), name: Some("it".to_owned()) };
    story.world.permissions.insert(permit, Permission::Granted);
    story.world.answers.insert("it".to_owned(), Outcome::Refused("cannot patch".to_owned()));
    story.run();
    assert_eq!((story.states().as_str(), story.writes().as_str()), ("node=Error", "apply it"));
    story.pass(59);
    assert_eq!(story.writes(), "", "not before a minute has passed");
    story.world.answers.clear();
    story.pass(2).expect("node=Ready", "apply it");
}

#[test]
fn objects_outside_are_neither_believed_nor_removed() {
    let mut story = Story::new("[]").fenced(Fence::Namespace);
    story.put("{apiVersion: test.io/v1, kind: Gate, metadata: {name: forged, namespace: team-b, labels: {node.u-1.internal.kro.run/reference: template}}}");
    story.put("{apiVersion: test.io/v1, kind: Gate, metadata: {name: own, labels: {node.u-1.internal.kro.run/reference: template}}}");
    story.expect("", "delete own");
    let step = story.teardown_step(None);
    assert!(step.done, "the deletion does not hang: {step:?}");
    let left: Vec<String> = step.left.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["Gate team-b/forged"]);
}

#[test]
fn a_removal_that_the_server_refuses_does_not_hold_a_deletion_up() {
    let nodes = "- {id: a, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}}\n\
                 - {id: b, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: b}, spec: {a: '${a.metadata.name}'}}}\n";
    let mut story = Story::new(nodes);
    story.expect("a=Ready b=Ready", "apply a, apply b");
    let id = story.find("b").unwrap();
    let refused = [(id.clone(), "a webhook says no".to_owned())].into();
    let owner = super::world::owner();
    let teardown = crate::Teardown {
        owner: &owner,
        fence: &story.fence,
        world: &story.world,
        graph: Some(&story.graph),
        refused: &refused,
    };
    let step = teardown.step(story.now);
    assert_eq!(step.left, refused);
    assert_eq!(step.actions.len(), 1, "what comes before it goes: {step:?}");
    assert_eq!((step.actions[0].id().name.as_str(), step.done), ("a", false));
}
