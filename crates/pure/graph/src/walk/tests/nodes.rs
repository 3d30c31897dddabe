//! Every node kind and modifier, one small Graph at a time.

use serde_json::json;

use super::world::Story;
use crate::{Action, WaitReason};

const CONFIG: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg}, data: {color: red, on: 'yes'}}";

/// A template node of kind Thing named like its id; `spec` and further lines in flow style.
fn thing(id: &str, spec: &str, more: &str) -> String {
    let sep = if more.is_empty() { "" } else { ", " };
    format!(
        "- {{id: {id}, template: {{apiVersion: test.io/v1, kind: Thing, metadata: {{name: {id}}}, spec: {spec}}}{sep}{more}}}\n"
    )
}

fn config_ref() -> &'static str {
    "- {id: cfg, ref: {apiVersion: v1, kind: ConfigMap, metadata: {name: cfg}}}\n"
}

/// Runs nodes in a world with some objects and compares states and writes.
fn check(nodes: &str, objects: &[&str], states: &str, writes: &str) -> Story {
    let mut story = Story::new(nodes);
    for object in objects {
        story.put(object);
    }
    story.expect(states, writes);
    story
}

#[test]
fn a_template_is_applied_once() {
    let mut story = check(&thing("a", "{x: 1}", ""), &[], "a=Ready", "apply a");
    story.expect("a=Ready", "");
    let labels = &story.object("a")["metadata"]["labels"];
    assert_eq!(labels["a.u-1.internal.kro.run/reference"], json!("template"));
    let annotations = &story.object("a")["metadata"]["annotations"];
    assert_eq!(annotations["internal.kro.run/graph"], json!("default/app"));
    assert_eq!(annotations["internal.kro.run/apply-order"], json!("1"));
}

#[test]
fn drift_is_repaired_and_other_fields_are_left_alone() {
    let mut story = check(&thing("a", "{x: 1}", ""), &[], "a=Ready", "apply a");
    story.set("a", "/spec/y", json!(2)).expect("a=Ready", "");
    story.set("a", "/spec/x", json!(3)).expect("a=Ready", "apply a");
    assert_eq!(story.object("a")["spec"], json!({ "x": 1, "y": 2 }));
    story.restart().expect("a=Ready", "");
    story.delete("a").expect("a=Ready", "apply a");
}

#[test]
fn a_server_that_changes_our_fields_costs_one_write_per_start() {
    let mut story = check(&thing("a", "{memory: 1024Mi}", ""), &[], "a=Ready", "apply a");
    // The server keeps its own spelling, whatever is applied.
    let id = story.find("a").unwrap();
    story.world.set(&id, "/spec/memory", json!("1Gi"));
    let step = story.step();
    assert_eq!(step.actions.len(), 1);
    for action in &step.actions {
        let answer = crate::Outcome::Done(story.world.objects[&id].clone());
        story.walker.record(action, answer, story.now);
    }
    story.run();
    assert_eq!(story.writes(), "");
}

#[test]
fn a_revision_applies_the_difference_and_prunes_the_rest() {
    let mut story = check(
        &(thing("a", "{x: 1}", "") + &thing("b", "{y: '${a.spec.x}'}", "")),
        &[],
        "a=Ready b=Ready",
        "apply a, apply b",
    );
    story.revise(&thing("a", "{x: 2}", "")).expect("a=Ready", "apply a, delete b");
    story.revise(&thing("c", "{x: 2}", "")).expect("c=Ready", "apply c, delete a");
}

#[test]
fn a_renamed_node_takes_its_object_along() {
    let mut story = check(&thing("a", "{x: 1}", ""), &[], "a=Ready", "apply a");
    let renamed = thing("a", "{x: 1}", "").replace("id: a,", "id: z,");
    story.revise(&renamed).expect("z=Ready", "apply a");
    let labels = story.object("a")["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["z.u-1.internal.kro.run/reference"]);
}

#[test]
fn a_changed_name_makes_the_new_object_before_the_old_one_goes() {
    let nodes = format!(
        "{}- {{id: a, template: {{apiVersion: test.io/v1, kind: Thing, metadata: {{name: 'x-${{cfg.data.color}}'}}}}}}\n",
        config_ref()
    );
    let mut story = check(&nodes, &[CONFIG], "cfg=Ready a=Ready", "apply x-red");
    story.set("cfg", "/data/color", json!("blue")).expect("cfg=Ready a=Ready", "apply x-blue, delete x-red");
}

#[test]
fn data_flows_along_references() {
    let nodes =
        thing("a", "{x: 1}", "") + &thing("b", "{from: '${a.status.out}', text: 'out=${a.status.out}!'}", "");
    let mut story = check(&nodes, &[], "a=Ready b=Pending", "apply a");
    let wait = &story.walker.report("b").unwrap().waits[0];
    assert_eq!(wait.why, WaitReason::DataMissing);
    assert!(
        wait.detail.contains("template.spec.from") && wait.detail.contains("${a.status.out}"),
        "{wait:?}"
    );
    story.set("a", "/status/out", json!(7)).expect("a=Ready b=Ready", "apply b");
    assert_eq!(story.object("b")["spec"], json!({ "from": 7, "text": "out=7!" }));
    story.set("a", "/status/out", json!(8)).expect("a=Ready b=Ready", "apply b");
    story.set("a", "/status/other", json!(8)).expect("a=Ready b=Ready", "");
}

#[test]
fn optional_references_never_wait() {
    let nodes = thing("b", "{from: '${a.?status.?out.orValue(0)}', left: '${a.?status.?out}'}", "")
        + &thing("a", "{x: 1}", "");
    let mut story = check(&nodes, &[], "b=Ready a=Ready", "apply b, apply a");
    assert_eq!(story.object("b")["spec"], json!({ "from": 0 }));
    story.set("a", "/status/out", json!(7)).expect("b=Ready a=Ready", "apply b");
    assert_eq!(story.object("b")["spec"], json!({ "from": 7, "left": 7 }));
}

#[test]
fn an_optional_reference_breaks_the_circle_of_status_writeback() {
    let nodes = thing("parent", "{seen: '${child.?status.?state.orValue(\"none\")}'}", "")
        + &thing("child", "{of: '${parent.metadata.name}'}", "");
    let mut story = check(&nodes, &[], "parent=Ready child=Ready", "apply parent, apply child");
    story.set("child", "/status/state", json!("up")).expect("parent=Ready child=Ready", "apply parent");
    assert_eq!(story.object("parent")["spec"], json!({ "seen": "up" }));
}

#[test]
fn optional_references_that_do_not_settle_are_an_error_not_a_hang() {
    // The child's name decides whether the parent finds it, and the parent's answer decides the name.
    let nodes = "
- {id: a, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: 'a-${b.?metadata.?name.orValue(\"0\")}'}}}
- {id: b, dependsOn: [a], template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: b}}}
";
    let mut story = Story::new(nodes);
    story.run();
    assert!(
        story.walker.reports().any(|(_, report)| report.message.contains("do not settle")),
        "{}",
        story.states()
    );
}

#[test]
fn depends_on_orders_without_data() {
    let nodes =
        thing("b", "{x: 1}", "dependsOn: [a]") + &thing("a", "{x: 1}", "propagateWhen: ['${a.status.go}']");
    let mut story = check(&nodes, &[], "a=Ready b=Pending", "apply a");
    story.set("a", "/status/go", json!(true)).expect("a=Ready b=Ready", "apply b");
    story.set("a", "/status/go", json!(false)).expect("a=Ready b=Ready*", "");
}

#[test]
fn updates_follow_the_order_too() {
    let nodes = |v: &str| {
        thing("a", &format!("{{v: {v}}}"), "") + &thing("b", &format!("{{v: {v}}}"), "dependsOn: [a]")
    };
    let mut story = check(&nodes("1"), &[], "a=Ready b=Ready", "apply a, apply b");
    story.revise(&nodes("2"));
    let step = story.step();
    assert_eq!(step.actions.len(), 1, "b waits for a: {:?}", step.actions);
    assert_eq!(step.actions[0].node(), "a");
    step.actions.iter().for_each(|action| story.perform(action));
    story.expect("a=Ready b=Ready", "apply a, apply b");
}

#[test]
fn ready_when_is_a_signal_only() {
    let nodes =
        thing("a", "{x: 1}", "readyWhen: ['${a.status.ok}']") + &thing("b", "{n: '${a.metadata.name}'}", "");
    let mut story = check(&nodes, &[], "a=NotReady b=Ready", "apply a, apply b");
    story.set("a", "/status/ok", json!(false)).expect("a=NotReady b=Ready", "");
    story.set("a", "/status/ok", json!(true)).expect("a=Ready b=Ready", "");
    story.set("a", "/status/ok", json!("perhaps")).expect("a=Error b=Blocked", "");
}

#[test]
fn include_when_excludes_prunes_and_spreads() {
    let nodes = config_ref().to_owned()
        + &thing("a", "{x: 1}", "includeWhen: ['${cfg.data.on == \"yes\"}']")
        + &thing("b", "{n: '${a.metadata.name}'}", "")
        + &thing("c", "{x: 1}", "dependsOn: [b]")
        + &thing("d", "{n: '${a.?metadata.?name.orValue(\"none\")}'}", "");
    let mut story = check(
        &nodes,
        &[CONFIG],
        "cfg=Ready a=Ready b=Ready c=Ready d=Ready",
        "apply a, apply d, apply b, apply d, apply c",
    );
    story.set("cfg", "/data/on", json!("no")).expect(
        "cfg=Ready a=Excluded b=Excluded c=Excluded d=Ready",
        "apply d, delete c, delete b, delete a",
    );
    assert_eq!(story.object("d")["spec"]["n"], json!("none"));
    story.set("cfg", "/data/on", json!("yes")).run();
    assert_eq!(story.states(), "cfg=Ready a=Ready b=Ready c=Ready d=Ready");
}

#[test]
fn missing_data_in_include_when_is_pending_and_false_wins() {
    let both = "includeWhen: ['${cfg.data.later == \"x\"}', '${cfg.data.on == \"yes\"}']";
    let nodes =
        config_ref().to_owned() + &thing("a", "{x: 1}", both) + &thing("b", "{n: '${a.metadata.name}'}", "");
    let mut story = check(&nodes, &[CONFIG], "cfg=Ready a=Pending b=Pending", "");
    story.set("cfg", "/data/on", json!("no")).expect("cfg=Ready a=Excluded b=Excluded", "");
    story.set("cfg", "/data/on", json!("yes")).set("cfg", "/data/later", json!("x"));
    story.expect("cfg=Ready a=Ready b=Ready", "apply a, apply b");
}

#[test]
fn excluded_beats_blocked_beats_pending() {
    let gone = "- {id: gone, ref: {apiVersion: v1, kind: ConfigMap, metadata: {name: gone}}}\n";
    let none = thing("none", "{x: 1}", "includeWhen: ['${false}']");
    let bad = thing("bad", "{x: '${1 / 0}'}", "");
    let needs = |id: &str, list: &str| thing(id, "{x: 1}", &format!("dependsOn: [{list}]"));
    let nodes = gone.to_owned()
        + &none
        + &bad
        + &needs("p", "gone")
        + &needs("q", "gone, bad")
        + &needs("r", "gone, bad, none");
    check(&nodes, &[], "gone=Pending none=Excluded bad=Error p=Pending q=Blocked r=Excluded", "");
}

#[test]
fn nothing_is_pruned_while_something_is_undecided() {
    let gone = "- {id: gone, ref: {apiVersion: v1, kind: ConfigMap, metadata: {name: gone}}}\n";
    let mut story = check(&thing("a", "{x: 1}", ""), &[], "a=Ready", "apply a");
    story.revise(gone).expect("gone=Pending", "");
    assert_eq!(story.walker.removing()[0].why, WaitReason::Undecided);
    story.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: gone}}").expect("gone=Ready", "delete a");
    // The same when not all labels are known.
    story.revise(&thing("b", "{x: 1}", "")).expect("b=Ready", "apply b");
    story.world.owned_unknown = true;
    story.revise(gone).expect("gone=Ready", "");
    story.world.owned_unknown = false;
    story.expect("gone=Ready", "delete b");
}

#[test]
fn pruning_waits_until_higher_layers_are_really_gone() {
    let nodes = thing("a", "{x: 1}", "") + &thing("b", "{n: '${a.metadata.name}'}", "");
    let mut story = check(&nodes, &[], "a=Ready b=Ready", "apply a, apply b");
    story.world.linger = true;
    story.revise("[]").run();
    assert_eq!(story.writes(), "delete b");
    assert_eq!(story.walker.removing()[0].why, WaitReason::Terminating);
    let id = story.find("b").unwrap();
    story.world.reap(&id);
    story.run();
    assert_eq!(story.writes(), "delete a");
}

#[test]
fn a_ref_waits_for_its_object() {
    let nodes = config_ref().to_owned() + &thing("a", "{c: '${cfg.data.color}'}", "");
    let mut story = check(&nodes, &[], "cfg=Pending a=Pending", "");
    story.put(CONFIG).expect("cfg=Ready a=Ready", "apply a");
    story.delete("cfg").expect("cfg=Pending a=Pending", "");
    assert!(story.find("a").is_some(), "what was applied stays");
}

#[test]
fn a_watch_is_a_list_by_selector() {
    let nodes = "
- id: pods
  watch: {apiVersion: v1, kind: ConfigMap, selector: {matchLabels: {app: x}, matchExpressions: [{key: old, operator: DoesNotExist}]}}
  readyWhen: ['${each.data.ok == \"1\"}']
- id: sum
  template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: sum}, spec: {names: '${pods.map(p, p.metadata.name)}'}}
";
    let mut story = check(nodes, &[], "pods=Ready sum=Ready", "apply sum");
    story.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: p2, labels: {app: x}}, data: {ok: '1'}}");
    story.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: p1, labels: {app: x}}, data: {ok: '0'}}");
    story.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: p3, labels: {app: y}}}");
    story.put("{apiVersion: v1, kind: ConfigMap, metadata: {name: p4, labels: {app: x, old: 'true'}}}");
    story.expect("pods=NotReady sum=Ready", "apply sum");
    assert_eq!(story.object("sum")["spec"]["names"], json!(["p1", "p2"]));
    story.delete("p1").expect("pods=Ready sum=Ready", "apply sum");
}

#[test]
fn a_def_is_a_value() {
    let nodes = config_ref().to_owned()
        + "- {id: names, def: {all: ['${cfg.data.color}', b], n: '${1 + 1}'}}\n"
        + "- {id: looped, forEach: [{x: '${names.all}'}], def: 'v-${x}'}\n"
        + &thing("a", "{n: '${names.n}', first: '${names.all[0]}', loop: '${looped}'}", "");
    let mut story = check(&nodes, &[CONFIG], "cfg=Ready names=Ready looped=Ready a=Ready", "apply a");
    assert_eq!(story.object("a")["spec"], json!({ "n": 2, "first": "red", "loop": ["v-red", "v-b"] }));
    story
        .set("cfg", "/data/color", json!("blue"))
        .expect("cfg=Ready names=Ready looped=Ready a=Ready", "apply a");
}

#[test]
fn a_gate_before_a_def_freezes_what_is_behind_it() {
    let nodes = thing("a", "{x: 1}", "propagateWhen: ['${a.status.go}']")
        + "- {id: d, def: {out: '${a.status.out}'}}\n"
        + &thing("b", "{out: '${d.out}'}", "");
    let mut story = check(&nodes, &[], "a=Ready d=Pending b=Pending", "apply a");
    story.set("a", "/status", json!({ "go": true, "out": 1 })).expect("a=Ready d=Ready b=Ready", "apply b");
    story.set("a", "/status", json!({ "go": false, "out": 2 })).expect("a=Ready d=Pending b=Ready*", "");
    assert_eq!(story.object("b")["spec"]["out"], json!(1));
    story.set("a", "/status/go", json!(true)).expect("a=Ready d=Ready b=Ready", "apply b");
}

#[test]
fn a_patch_contributes_and_is_released() {
    let nodes = "
- id: p
  patch: {apiVersion: v1, kind: ConfigMap, metadata: {name: cfg}, data: {extra: '1'}, status: {seen: true}}
";
    let mut story = check(nodes, &[], "p=Pending", "");
    assert_eq!(story.walker.report("p").unwrap().waits[0].why, WaitReason::ObjectAbsent);
    story.put(CONFIG).expect("p=Ready", "patch cfg");
    assert_eq!(story.object("cfg")["data"], json!({ "color": "red", "on": "yes", "extra": "1" }));
    assert_eq!(story.object("cfg")["status"], json!({ "seen": true }));
    let key = "p.u-1.internal.kro.run/template-hash";
    assert!(story.object("cfg")["metadata"]["annotations"][key].is_string());
    story.set("cfg", "/data/extra", json!("2")).expect("p=Ready", "patch cfg");
    story.restart().expect("p=Ready", "");
    story.revise("[]").expect("", "release cfg");
    assert_eq!(story.object("cfg")["data"], json!({ "color": "red", "on": "yes" }));
    assert_eq!(story.object("cfg")["metadata"].get("labels"), None);
    assert_eq!(story.object("cfg").get("status"), None);
}

#[test]
fn the_status_of_a_template_is_a_write_of_its_own() {
    let nodes = "- {id: a, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}, spec: {x: 1}, status: {phase: Done}}}";
    let mut story = Story::new(nodes);
    let step = story.step();
    let Action::Apply { object, status, .. } = &step.actions[0] else { panic!("{step:?}") };
    assert_eq!(object.get("status"), None);
    let status = status.as_ref().unwrap();
    assert_eq!(status["status"], json!({ "phase": "Done" }));
    assert_eq!(status["metadata"], json!({ "name": "a", "namespace": "default" }));
    step.actions.iter().for_each(|action| story.perform(action));
    story.expect("a=Ready", "apply a");
    story.set("a", "/status/phase", json!("Other")).expect("a=Ready", "apply a");
}

#[test]
fn an_object_that_was_there_is_adopted_and_released() {
    let mut story = Story::new(&thing("a", "{x: 1}", ""));
    story.put("{apiVersion: test.io/v1, kind: Thing, metadata: {name: a}, spec: {y: 2}}");
    story.expect("a=Ready", "apply a");
    assert_eq!(story.object("a")["metadata"]["labels"]["a.u-1.internal.kro.run/reference"], json!("adopted"));
    story.set("a", "/spec/x", json!(5)).expect("a=Ready", "apply a");
    assert_eq!(story.object("a")["metadata"]["labels"]["a.u-1.internal.kro.run/reference"], json!("adopted"));
    story.revise("[]").expect("", "release a");
    assert_eq!(story.object("a")["spec"], json!({ "y": 2 }));
}

#[test]
fn a_graph_does_not_make_its_own_owner_again() {
    let parent = |uid: &str| crate::Parent {
        group: "test.io".to_owned(),
        kind: "Thing".to_owned(),
        name: "a".to_owned(),
        uid: uid.to_owned(),
    };
    let mut story = Story::new(&thing("a", "{}", ""));
    story.put("{apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}");
    let uid = story.object("a")["metadata"]["uid"].as_str().unwrap().to_owned();
    story.owner.parents.push(parent(&uid));
    story.restart().expect("a=Ready", "apply a");
    // Its owner goes, and another one takes the name: neither is touched while the Graph waits to be collected.
    story.delete("a").expect("a=Pending", "");
    story.put("{apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}").expect("a=Pending", "");
    assert!(story.walker.report("a").unwrap().message.contains("owns this Graph"));
}

#[test]
fn another_graphs_object_is_refused_unless_forced() {
    let foreign = "{apiVersion: test.io/v1, kind: Thing, metadata: {name: a, labels: {x.u-9.internal.kro.run/reference: template}, annotations: {internal.kro.run/graph: other/graph}}}";
    let mut story = check(&thing("a", "{x: 1}", ""), &[foreign], "a=Conflict", "");
    assert!(story.walker.report("a").unwrap().message.contains("`other/graph`"));
    story.delete("a").expect("a=Ready", "apply a");
    check(&thing("a", "{x: 1}", "lifecycle: {apply: Force}"), &[foreign], "a=Ready", "apply a");
    let patched = foreign.replace("reference: template", "reference: patch");
    check(&thing("a", "{x: 1}", ""), &[&patched], "a=Ready", "apply a");
}

#[test]
fn two_nodes_cannot_manage_one_object() {
    let twice = thing("a", "{x: 1}", "") + &thing("b", "{x: 2}", "").replace("name: b", "name: a");
    let mut story = check(&twice, &[], "a=Ready b=Error", "apply a");
    assert!(story.walker.report("b").unwrap().message.contains("node `a`"));
    story.restart().expect("a=Ready b=Error", "");
}

#[test]
fn an_unserved_kind_is_waited_for() {
    let mut story = Story::new(&(thing("a", "{x: 1}", "") + &thing("b", "{n: '${a.metadata.name}'}", "")));
    story.world.unserved.insert("Thing".to_owned());
    story.run();
    assert_eq!(story.states(), "a=Pending b=Pending");
    let report = story.walker.report("a").unwrap();
    assert!(report.message.contains("Thing (test.io/v1) is not served"), "{report:?}");
    assert_eq!(story.walker.interests().kinds().next().unwrap().kind, "Thing");
    story.world.unserved.clear();
    story.restart().expect("a=Ready b=Ready", "apply a, apply b");
}

#[test]
fn cluster_scoped_kinds_have_no_namespace() {
    let with = "- {id: a, template: {apiVersion: test.io/v1, kind: ClusterThing, metadata: {name: a, namespace: x}}}";
    let story = check(with, &[], "a=Error", "");
    assert!(story.walker.report("a").unwrap().message.contains("cluster-scoped"));
    let without = with.replace(", namespace: x", "");
    let story = check(&without, &[], "a=Ready", "apply a");
    assert_eq!(story.find("a").unwrap().namespace, None);
    let other = with.replace("ClusterThing", "Thing");
    let story = check(&other, &[], "a=Ready", "apply a");
    assert_eq!(story.find("a").unwrap().namespace.as_deref(), Some("x"));
}

#[test]
fn a_whole_body_may_be_an_expression() {
    let nodes = "
- {id: o, def: {apiVersion: test.io/v1, kind: Thing, metadata: {name: z}, spec: {x: 1}}}
- {id: a, template: '${o}'}
- {id: v, template: {apiVersion: test.io/v1, kind: '${o.kind}', metadata: {name: v}}}
";
    check(nodes, &[], "o=Ready a=Ready v=Ready", "apply z, apply v");
    check("- {id: a, template: '${1}'}", &[], "a=Error", "");
}

const ITEMS: &str =
    "{apiVersion: test.io/v1, kind: Items, metadata: {name: items}, spec: {a: [x, w], b: [p, q]}}";
const LOOP: &str = "
- {id: items, ref: {apiVersion: test.io/v1, kind: Items, metadata: {name: items}}}
- id: each1
  forEach: [{x: '${items.spec.a}'}]
  readyWhen: ['${each.status.ok}']
  template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: 't-${x}'}, spec: {v: '${x}'}}
- id: sum
  template: {apiVersion: test.io/v1, kind: Sum, metadata: {name: sum}, spec: {names: '${each1.map(t, t.metadata.name)}'}}
";

#[test]
fn for_each_makes_children_in_order() {
    let mut story =
        check(LOOP, &[ITEMS], "items=Ready each1=NotReady sum=Ready", "apply t-x, apply t-w, apply sum");
    assert_eq!(story.object("sum")["spec"]["names"], json!(["t-x", "t-w"]));
    assert_eq!(story.object("t-w")["metadata"]["annotations"]["internal.kro.run/index"], json!("1"));
    story.set("t-x", "/status/ok", json!(true)).expect("items=Ready each1=NotReady sum=Ready", "");
    story.set("t-w", "/status/ok", json!(true)).expect("items=Ready each1=Ready sum=Ready", "");
    story.set("items", "/spec/a", json!(["w", "z"])).run();
    assert_eq!(story.writes(), "apply t-w, apply t-z, apply sum, delete t-x");
    assert_eq!(story.object("sum")["spec"]["names"], json!(["t-w", "t-z"]));
    story.set("items", "/spec/a", json!([])).run();
    assert_eq!(story.states(), "items=Ready each1=Ready sum=Ready");
    assert_eq!(story.object("sum")["spec"]["names"], json!([]));
    assert_eq!(story.world.objects.len(), 2);
}

#[test]
fn for_each_over_two_lists_is_their_product() {
    let nodes = LOOP
        .replace("[{x: '${items.spec.a}'}]", "[{x: '${items.spec.a}'}, {y: '${items.spec.b}'}]")
        .replace("t-${x}", "t-${x}-${y}");
    let mut story = Story::new(&nodes);
    story.put(ITEMS).run();
    assert_eq!(story.object("sum")["spec"]["names"], json!(["t-x-p", "t-x-q", "t-w-p", "t-w-q"]));
}

#[test]
fn for_each_is_all_or_nothing() {
    let table = [
        (json!(["x", "x"]), "gives Thing default/t-x twice"),
        (json!("x"), "must give a list, not string"),
        (json!({ "a": 1 }), "must give a list, not map"),
        (json!(null), "must give a list, not null_type"),
        (json!((0..1001).map(|n| n.to_string()).collect::<Vec<_>>()), "at most 1000"),
        (json!(["x", ["y"]]), "template.metadata.name"),
    ];
    for (items, message) in table {
        let mut story = Story::new(LOOP);
        story.put(ITEMS);
        story.set("items", "/spec/a", items.clone()).run();
        assert_eq!(story.states(), "items=Ready each1=Error sum=Blocked", "{items}");
        let report = story.walker.report("each1").unwrap();
        assert!(report.message.contains(message), "{}", report.message);
        assert_eq!(story.writes(), "");
    }
}

#[test]
fn a_closed_gate_keeps_the_children_of_a_loop() {
    let nodes = format!(
        "{}{}",
        thing("gate", "{x: 1}", "propagateWhen: ['${gate.status.go}']"),
        LOOP.replace("  forEach:", "  dependsOn: [gate]\n  forEach:")
    );
    let mut story = Story::new(&nodes);
    story.put(ITEMS).run();
    story.set("gate", "/status/go", json!(true)).run();
    story.writes();
    story.set("gate", "/status/go", json!(false)).set("items", "/spec/a", json!(["z"])).run();
    assert_eq!(story.states(), "gate=Ready items=Ready each1=NotReady* sum=Ready");
    assert_eq!(story.writes(), "");
    story.restart().run();
    assert_eq!(story.object("sum")["spec"]["names"], json!(["t-x", "t-w"]));
    story.set("gate", "/status/go", json!(true)).run();
    assert_eq!(story.writes(), "apply t-z, apply sum, delete t-w, delete t-x");
}

#[test]
fn a_terminating_object_is_made_again_after_it_is_gone() {
    let mut story = check(&thing("a", "{x: 1}", ""), &[], "a=Ready", "apply a");
    story.set("a", "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")).expect("a=Pending", "");
    story.delete("a").expect("a=Ready", "apply a");
}

#[test]
fn an_action_that_is_lost_is_asked_for_again() {
    let mut story = Story::new(&thing("a", "{x: 1}", ""));
    assert_eq!(story.step().actions.len(), 1);
    assert_eq!(story.step().actions.len(), 1);
    story.expect("a=Ready", "apply a");
}

#[test]
fn reports_say_what_changed() {
    let nodes = thing("a", "{x: 1}", "readyWhen: ['${a.status.ok}']") + &thing("b", "{x: 1}", "");
    let mut story = check(&nodes, &[], "a=NotReady b=Ready", "apply a, apply b");
    story.set("a", "/status/ok", json!(true));
    assert_eq!(story.step().changed, ["a"]);
    assert_eq!(story.step().changed, Vec::<String>::new());
}
