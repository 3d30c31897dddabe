//! Tables over the three pure words.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::Who;
use kardinal_api::graph::{Graph, GraphSpec, Node, NodeState};
use kardinal_graph::{Action, Changed, NodeState as Walked, Observed, Outcome, Seen, Selector, Walker};
use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Value, json};

use super::plan::{Effect, Memory, revision_name};
use super::why::who;
use super::{Checked, GraphScope, Plan, Report, Snapshot, plan, report};

/// A world in which every kind is served and everything is seen at once.
#[derive(Default)]
struct Objects(BTreeMap<ObjectId, Value>);

impl Observed for Objects {
    fn scope_of(&self, _: &Gvk) -> Option<KindScope> {
        Some(KindScope::Namespaced)
    }
    fn object(&self, id: &ObjectId) -> Seen<'_> {
        self.0.get(id).map_or(Seen::Absent, Seen::Present)
    }
    fn select(&self, _: &Gvk, _: Option<&str>, _: &Selector) -> Option<Vec<&Value>> {
        Some(Vec::new())
    }
    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        Some(self.0.iter().map(|(id, object)| (id.clone(), object)).collect())
    }
}

fn now() -> Timestamp {
    "2026-04-09T10:00:00.5Z".parse().unwrap()
}

/// A Graph whose node `b` uses the data of `a`.
fn graph(expression: &str) -> Graph {
    let config = |name: &str, text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let node =
        |id: &str, template: Value| Node { id: id.to_owned(), template: Some(template), ..Node::default() };
    let nodes = vec![node("b", config("b", expression)), node("a", config("a", "hello"))];
    let mut graph = Graph::new("g", GraphSpec { nodes, ..GraphSpec::default() });
    graph.metadata.namespace = Some("default".to_owned());
    graph.metadata.uid = Some("u-1".to_owned());
    graph.metadata.generation = Some(3);
    graph
}

/// One pass, with its writes carried out on the objects.
fn pass(graph: &mut Graph, world: &mut Objects, memory: &mut Memory) -> (Checked, Plan, Report) {
    let checked = memory.check(graph, &[]);
    let scope = GraphScope::Namespace;
    let snapshot = Snapshot { graph, revisions: &[], world, scope, changed: Changed::All, now: now() };
    let plan = plan(&checked, &snapshot, memory);
    let mut outcomes = Vec::new();
    for effect in plan.stages.iter().flatten() {
        match effect {
            Effect::AddFinalizer => graph.metadata.finalizers = Some(vec![super::FINALIZER.to_owned()]),
            Effect::RemoveFinalizer => graph.metadata.finalizers = None,
            Effect::RecordKinds(kinds) => graph.status.get_or_insert_default().kinds.clone_from(kinds),
            Effect::Walk(action) => {
                let outcome = perform(action, world);
                if let Some(walker) = &mut memory.walker {
                    walker.record(action, outcome.clone(), now());
                }
                outcomes.push((action.clone(), outcome));
            }
            Effect::EnsureRevision(_) | Effect::DropRevision { .. } => {}
        }
    }
    memory.note_refusals(&outcomes);
    let report = report(graph, &checked, memory, now());
    if let Some(walker) = &memory.walker {
        check_waits(walker);
    }
    if let Some(status) = &report.status {
        graph.status = Some(status.clone());
    }
    (checked, plan, report)
}

/// A node that waits tells for what, and whose turn it is; where that is the time's, until when.
fn check_waits(walker: &Walker) {
    for (id, node) in walker.reports() {
        let is_waiting = matches!(node.state, Walked::Pending | Walked::Blocked | Walked::NotReady);
        assert!(!is_waiting || !node.waits.is_empty(), "{id}: {node:?}");
        for wait in &node.waits {
            assert!(who(wait) != Who::Time || wait.until.is_some(), "{id}: {wait:?}");
        }
    }
}

fn perform(action: &Action, world: &mut Objects) -> Outcome {
    match action {
        Action::Delete { id, .. } if id.name == "kept" => Outcome::Refused("a webhook says no".to_owned()),
        Action::Apply { id, object, .. } | Action::Patch { id, object, .. } => {
            let mut object = object.clone();
            object["metadata"]["uid"] = id.name.clone().into();
            object["metadata"]["resourceVersion"] = "1".into();
            world.0.insert(id.clone(), object.clone());
            Outcome::Done(object)
        }
        Action::Release { id, .. } | Action::Delete { id, .. } => {
            world.0.remove(id);
            Outcome::Gone
        }
    }
}

fn kinds_of(plan: &Plan) -> Vec<Vec<&'static str>> {
    let name = |effect: &Effect| match effect {
        Effect::AddFinalizer => "finalizer",
        Effect::RemoveFinalizer => "release",
        Effect::EnsureRevision(_) => "revision",
        Effect::DropRevision { .. } => "drop",
        Effect::RecordKinds(_) => "kinds",
        Effect::Walk(Action::Apply { .. }) => "apply",
        Effect::Walk(Action::Delete { .. }) => "delete",
        Effect::Walk(_) => "walk",
    };
    plan.stages.iter().map(|stage| stage.iter().map(name).collect()).collect()
}

#[test]
fn everything_that_teardown_needs_is_durable_before_the_first_object() {
    let (mut graph, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    let (_, first, _) = pass(&mut graph, &mut world, &mut memory);
    assert_eq!(kinds_of(&first), [vec!["finalizer"], vec!["revision"], vec!["kinds"], vec!["apply"]]);
}

#[test]
fn a_graph_comes_to_rest_and_then_nothing_is_planned_or_told() {
    let (mut graph, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    for _ in 0..4 {
        pass(&mut graph, &mut world, &mut memory);
    }
    let (checked, last, report) = pass(&mut graph, &mut world, &mut memory);
    assert!(checked.problems.is_empty());
    // Without revisions in the snapshot the revision is asked for again, which is harmless.
    assert_eq!(kinds_of(&last), [vec!["revision"]]);
    assert!(report.status.is_none() && report.notes.is_empty(), "{report:?}");
    let status = graph.status.unwrap();
    assert!(status.nodes.iter().all(|node| node.state == NodeState::Ready), "{status:?}");
    assert_eq!(status.revision.as_deref(), Some("g-g00003"));
}

#[test]
fn a_walk_is_forgotten_at_its_end_and_nothing_follows_from_that() {
    let (mut graph, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    pass(&mut graph, &mut world, &mut memory);
    memory.rest();
    assert!(memory.walker.is_some(), "`b` is still to come");
    while pass(&mut graph, &mut world, &mut memory).2.status.is_some() {}
    memory.rest();
    assert!(memory.walker.is_none());
    let (_, plan, report) = pass(&mut graph, &mut world, &mut memory);
    let applied = kinds_of(&plan).into_iter().flatten().any(|kind| kind != "revision");
    assert!(!applied && report.status.is_none(), "{plan:?} {report:?}");
}

#[test]
fn events_are_told_on_transition_only() {
    let (mut graph, mut world, mut memory) =
        (graph("${a.data.absent}"), Objects::default(), Memory::default());
    let mut reasons = Vec::new();
    for _ in 0..5 {
        let (_, _, report) = pass(&mut graph, &mut world, &mut memory);
        reasons.extend(report.notes.into_iter().map(|note| note.reason));
    }
    assert_eq!(reasons, ["Compiled", "Pending"]);
}

#[test]
fn conditions_name_the_problem_and_keep_the_time_of_their_last_change() {
    let (mut graph, mut world, mut memory) = (graph("${nobody.data}"), Objects::default(), Memory::default());
    let (checked, plan, report) = pass(&mut graph, &mut world, &mut memory);
    assert!(plan.stages.is_empty() && checked.running.is_none());
    let status = report.status.unwrap();
    let compiled = status.conditions.iter().find(|condition| condition.type_ == "Compiled").unwrap();
    assert_eq!((compiled.status.as_str(), compiled.reason.as_str()), ("False", "ExpressionError"));
    assert!(compiled.message.contains("nodes[0].template.data.text"), "{}", compiled.message);
    assert_eq!(compiled.last_transition_time.0.to_string(), "2026-04-09T10:00:00Z");
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NotCompiled"));
}

#[test]
fn a_deleted_graph_lets_go_of_dependents_first_and_of_itself_last() {
    let (mut graph, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    for _ in 0..4 {
        pass(&mut graph, &mut world, &mut memory);
    }
    let deleted = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now());
    graph.metadata.deletion_timestamp = Some(deleted);
    let mut order = Vec::new();
    for _ in 0..4 {
        let (_, plan, _) = pass(&mut graph, &mut world, &mut memory);
        order.extend(plan.stages.iter().flatten().map(|effect| match effect {
            Effect::Walk(action) => action.id().name.clone(),
            other => format!("{other:?}"),
        }));
    }
    assert_eq!(order, ["b", "a", "RemoveFinalizer"]);
    assert!(world.0.is_empty());
}

#[test]
fn a_removal_that_is_refused_is_told_and_the_deletion_does_not_hang() {
    let (mut graph, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    for node in &mut graph.spec.nodes {
        let name = if node.id == "b" { "kept" } else { "a" };
        node.template.as_mut().unwrap()["metadata"]["name"] = name.into();
    }
    for _ in 0..4 {
        pass(&mut graph, &mut world, &mut memory);
    }
    graph.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let (mut effects, mut notes) = (Vec::new(), Vec::new());
    while graph.metadata.finalizers.is_some() {
        assert!(effects.len() < 5, "{effects:?}");
        let (_, plan, report) = pass(&mut graph, &mut world, &mut memory);
        effects.extend(plan.stages.iter().flatten().map(|effect| match effect {
            Effect::Walk(action) => action.id().name.clone(),
            other => format!("{other:?}"),
        }));
        notes.extend(report.notes.into_iter().filter(|note| note.warning));
    }
    assert_eq!(effects, ["kept", "a", "RemoveFinalizer"]);
    let conditions = graph.status.unwrap().conditions;
    let left = conditions.iter().find(|condition| condition.type_ == "LeftBehind").unwrap();
    assert!(left.message.contains("ConfigMap default/kept (a webhook says no)"), "{}", left.message);
    assert_eq!(notes.iter().map(|note| &note.message).collect::<Vec<_>>(), [&left.message]);
    assert_eq!(world.0.len(), 1, "the object itself stays as it is");
}

#[test]
fn deleting_a_bundle_does_not_make_its_graph_create_it_again() {
    let (mut graph, mut world, mut memory) = (graph("text"), Objects::default(), Memory::default());
    let bundle = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "v1"}});
    graph.spec.nodes =
        vec![Node { id: "bundle".to_owned(), template: Some(bundle.clone()), ..Node::default() }];
    graph.metadata.owner_references = Some(vec![
        serde_json::from_value(
            json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle", "name": "v1", "uid": "b-1"}),
        )
        .unwrap(),
    ]);
    let mut seen = bundle;
    seen["metadata"] = json!({"name": "v1", "namespace": "default", "uid": "b-1", "resourceVersion": "1"});
    let id = ObjectId::of(&seen).unwrap();
    world.0.insert(id.clone(), seen);
    let (_, plan, _) = pass(&mut graph, &mut world, &mut memory);
    assert!(kinds_of(&plan).concat().contains(&"apply"), "it is adopted: {plan:?}");
    world.0.remove(&id);
    for memory in [&mut memory, &mut Memory::default()] {
        let (_, plan, _) = pass(&mut graph, &mut world, memory);
        assert!(!kinds_of(&plan).concat().contains(&"apply"), "{plan:?}");
    }
    assert!(world.0.is_empty());
}

#[test]
fn revision_names_have_room_for_long_names() {
    for (name, generation, expected) in [("g", 3, "g-g00003"), ("g", 123_456, "g-g123456")] {
        assert_eq!(revision_name(name, generation), expected);
    }
    assert!(revision_name(&"x".repeat(253), 1).len() <= 253);
}

#[test]
fn a_graph_made_anew_under_the_same_name_is_another_one() {
    let (mut first, mut world, mut memory) = (graph("${a.data.text}"), Objects::default(), Memory::default());
    pass(&mut first, &mut world, &mut memory);
    let mut second = graph("${nobody.data}");
    second.metadata.uid = Some("u-2".to_owned());
    let (checked, plan, _) = pass(&mut second, &mut world, &mut memory);
    assert!(!checked.problems.is_empty(), "the check of the first one was used");
    assert!(plan.stages.is_empty());
    let mut third = graph("${a.data.text}");
    third.metadata.uid = Some("u-3".to_owned());
    pass(&mut third, &mut world, &mut memory);
    assert_eq!(memory.walker.map(|walker| walker.owner().uid.clone()).as_deref(), Some("u-3"));
}

#[test]
fn a_graph_that_is_too_large_is_a_problem_with_its_size() {
    let many = |count: usize, text: &str| -> Vec<Node> {
        (0..count)
            .map(|at| Node { id: format!("n{at}"), def: Some(json!({"text": text})), ..Node::default() })
            .collect()
    };
    assert!(super::check::compile_nodes(&many(1000, "a")).is_ok());
    for (nodes, said) in [
        (many(1001, "a"), "nodes: this Graph has 1001 nodes, and a Graph can have 1000: split it"),
        (many(300, &"x".repeat(4096)), " bytes, and a Graph can have 1048576: split it"),
    ] {
        let mut graph = graph("${a.data.text}");
        graph.spec.nodes = nodes;
        let (checked, _, report) = pass(&mut graph, &mut Objects::default(), &mut Memory::default());
        assert!(checked.running.is_none());
        let compiled = report.status.unwrap().conditions.remove(0);
        assert_eq!((compiled.status.as_str(), compiled.reason.as_str()), ("False", "DeclarationError"));
        assert!(compiled.message.contains(said), "{}", compiled.message);
    }
}

#[test]
fn what_there_is_no_room_for_in_a_status_is_left_out_and_the_states_stay() {
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let long = |at: usize| format!("n{at}-{}", "x".repeat(400));
    let nodes: Vec<Node> = (0..1000)
        .map(|at| Node { id: format!("n{at}"), template: Some(config(&long(at))), ..Node::default() })
        .collect();
    let mut graph = graph("${a.data.text}");
    graph.spec.nodes = nodes;
    let (mut world, mut memory) = (Objects::default(), Memory::default());
    for _ in 0..3 {
        pass(&mut graph, &mut world, &mut memory);
    }
    let status = graph.status.clone().unwrap();
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 400 << 10, "{bytes}");
    assert_eq!(status.nodes.len(), 1000);
    assert!(status.nodes.iter().all(|node| node.state == NodeState::Ready && node.objects.is_empty()));
    let (_, _, report) = pass(&mut graph, &mut world, &mut memory);
    assert!(report.status.is_none(), "it is the same each time");
}
