use jiff::{SignedDuration, Timestamp};
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::Approval;
use kardinal_api::{Bundle, PolicyGate, PolicyGateStatus, Who};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::gate_context::{Candidate, Surroundings};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

fn instance(expression: &str) -> PolicyGate {
    gate(json!({
        "metadata": {
            "name": "gate", "namespace": "team", "generation": 1,
            "labels": {
                "kardinal.io/gate-template": "soak", "kardinal.io/bundle": "b1", "kardinal.io/environment": "prod",
            },
            "annotations": { "kardinal.io/upstreams": "staging", "kardinal.io/approval": "pr-review" },
        },
        "spec": { "expression": expression, "message": "wait a little", "recheckInterval": "5m" },
    }))
}

fn gate(mut object: Value) -> PolicyGate {
    object["apiVersion"] = json!("kardinal.io/v1alpha1");
    object["kind"] = json!("PolicyGate");
    serde_json::from_value(object).unwrap()
}

fn bundle(status: Value) -> Bundle {
    serde_json::from_value(json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Bundle",
        "metadata": { "name": "b1", "namespace": "team" },
        "spec": { "artifacts": { "images": [{ "name": "a", "reference": "a:1.0" }] } },
        "status": status,
    }))
    .unwrap()
}

fn soaking() -> Bundle {
    bundle(json!({
        "phase": "Promoting",
        "environments": { "staging": { "state": "Verified", "verifiedAt": "2026-04-14T13:48:00Z" } },
    }))
}

fn look(gate: &PolicyGate, bundle: Option<&Bundle>, now: Timestamp) -> Plan {
    let place = place_by_labels(gate);
    let plan = plan(&Snapshot {
        gate,
        template: None,
        authority: None,
        is_withdrawn: false,
        pipelines: &[],
        place,
        bundle,
        around: &Surroundings::default(),
        now,
    });
    if let Some(status) = &plan.status {
        check_waits(status);
    }
    plan
}

/// A gate that holds tells what is waited for, whose turn it is, and until when as far as that is known; no other does.
fn check_waits(status: &PolicyGateStatus) {
    assert_eq!(status.waits.is_empty(), status.ready != Some(false), "{status:?}");
    for wait in &status.waits {
        assert_eq!(Some(&wait.detail), status.reason.as_ref());
        assert_eq!(wait.until.map(report::second_after), status.next_change_at, "{wait:?}");
        assert_eq!(wait.who == Who::Time, wait.until.is_some(), "{wait:?}");
    }
}

/// Writes the status down as the API server keeps it.
fn write(gate: &mut PolicyGate, plan: &Plan) {
    if let Some(status) = &plan.status {
        gate.status = Some(serde_json::from_value(serde_json::to_value(status).unwrap()).unwrap());
    }
}

#[test]
fn the_first_answer_is_written_and_the_change_is_awaited() {
    let mut gate = instance("bundle.upstreamSoakMinutes >= 14");
    let now = at("2026-04-14T14:00:00.75Z");
    let plan = look(&gate, Some(&soaking()), now);
    let status = plan.status.clone().unwrap();
    assert_eq!(status.ready, Some(false));
    assert_eq!(status.reason.as_deref(), Some("bundle.upstreamSoakMinutes = 12 (threshold: >= 14)"));
    assert_eq!(status.last_evaluated_at, Some(at("2026-04-14T14:00:00Z")));
    assert_eq!(status.next_change_at, Some(at("2026-04-14T14:02:00Z")));
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.conditions[0].type_, READY);
    assert_eq!(
        status.conditions[0].message,
        "wait a little (bundle.upstreamSoakMinutes = 12 (threshold: >= 14))"
    );
    assert_eq!(plan.wake, Some(at("2026-04-14T14:02:00Z")));
    assert_eq!(plan.notes, []);
    write(&mut gate, &plan);

    // A minute later the number is another, which is not worth a write.
    let again = look(&gate, Some(&soaking()), at("2026-04-14T14:01:30Z"));
    assert_eq!(again, Plan { wake: plan.wake, ..Plan::default() });

    let opened = look(&gate, Some(&soaking()), at("2026-04-14T14:02:00Z"));
    assert_eq!(opened.status.as_ref().and_then(|status| status.ready), Some(true));
    assert_eq!(opened.notes[0].reason, "GateOpened");
    assert_eq!(opened.wake, Some(at("2026-04-14T14:07:00Z")));
    write(&mut gate, &opened);

    // It stays fresh as long as somebody waits.
    let quiet = look(&gate, Some(&soaking()), at("2026-04-14T14:06:59Z"));
    assert_eq!((quiet.status, quiet.wake), (None, Some(at("2026-04-14T14:07:00Z"))));
    let due = look(&gate, Some(&soaking()), at("2026-04-14T14:07:00Z"));
    assert_eq!(due.status.unwrap().last_evaluated_at, Some(at("2026-04-14T14:07:00Z")));
    assert_eq!(due.notes, []);
}

#[test]
fn a_gate_that_nobody_waits_for_is_left_alone() {
    let gate = instance("false");
    let now = at("2026-04-14T14:00:00Z");
    for phase in ["Verified", "Failed", "Superseded", "SkipDenied"] {
        assert_eq!(look(&gate, Some(&bundle(json!({ "phase": phase }))), now), Plan::default(), "{phase}");
    }
    let at_state =
        |state: &str| bundle(json!({ "phase": "Promoting", "environments": { "prod": { "state": state } } }));
    for state in ["HealthChecking", "Verified", "Failed"] {
        assert_eq!(look(&gate, Some(&at_state(state)), now), Plan::default(), "{state}");
    }
    // As long as a pull request may be open, it shows what the gate says.
    for state in ["Pending", "Promoting", "WaitingForMerge"] {
        assert!(look(&gate, Some(&at_state(state)), now).status.is_some(), "{state}");
    }
    // A gate behind the environment is asked when those before it no longer are.
    let mut behind = gate;
    behind.spec.when = Some(kardinal_api::kardinal::GateStage::PostDeploy);
    assert!(look(&behind, Some(&at_state("Verified")), now).status.is_some());
}

#[test]
fn what_is_missing_is_said_once() {
    let mut gate = instance("true");
    let now = at("2026-04-14T14:00:00Z");
    let plan = look(&gate, None, now);
    let status = plan.status.clone().unwrap();
    assert_eq!((status.ready, status.reason.as_deref()), (Some(false), Some("Bundle `b1` does not exist")));
    assert_eq!(plan.wake, None);
    write(&mut gate, &plan);
    assert_eq!(look(&gate, None, now + seconds(3600)), Plan::default());
    // A gate that was open alarms nobody when its Bundle is cleared away.
    gate.status.as_mut().unwrap().ready = Some(true);
    assert_eq!(look(&gate, None, now).notes, []);

    gate.metadata.labels.as_mut().unwrap().remove("kardinal.io/environment");
    let reason = look(&gate, None, now).status.unwrap().reason.unwrap();
    assert!(reason.contains("which Bundle and environment"), "{reason}");
}

#[test]
fn templates_and_pauses_are_only_compiled() {
    let template = |labels: Value, expression: &str| {
        gate(json!({
            "metadata": { "name": "t", "generation": 3, "labels": labels },
            "spec": { "expression": expression },
        }))
    };
    let now = at("2026-04-14T14:00:00Z");
    for labels in [json!({ "kardinal.io/applies-to": "prod" }), json!({ "kardinal.io/freeze": "true" })] {
        let mut gate = template(labels, "!schedule.isWeekend");
        let plan = look(&gate, None, now);
        let status = plan.status.clone().unwrap();
        assert_eq!((status.ready, plan.wake, plan.notes.len()), (None, None, 0));
        assert_eq!(
            (status.conditions[0].type_.as_str(), status.conditions[0].status.as_str()),
            (COMPILED, "True")
        );
        write(&mut gate, &plan);
        assert_eq!(look(&gate, None, now + seconds(9)), Plan::default());
    }
    let mut broken = template(json!({}), "!schedule.isWekend");
    let plan = look(&broken, None, now);
    let condition = &plan.status.as_ref().unwrap().conditions[0];
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "Invalid"));
    assert!(condition.message.contains('^'), "{}", condition.message);
    assert_eq!(plan.notes[0].reason, "InvalidGate");
    write(&mut broken, &plan);
    assert_eq!(look(&broken, None, now + seconds(9)), Plan::default());

    let mut zone = template(json!({}), "true");
    zone.spec.time_zone = Some("Mars/Olympus".to_owned());
    assert!(look(&zone, None, now).status.unwrap().conditions[0].message.contains("Mars/Olympus"));

    // Stored before the schema refused it.
    let mut hasty = template(json!({}), "true");
    hasty.spec.recheck_interval = Some(kardinal_api::GoDuration::new("0s"));
    let condition = &look(&hasty, None, now).status.unwrap().conditions[0];
    assert_eq!(condition.status, "False");
    assert!(
        condition.message.starts_with("spec.recheckInterval: `0s` is too short"),
        "{}",
        condition.message
    );
}

#[test]
fn overrides_of_the_template_count() {
    let gate = instance("false");
    let mut template = instance("false");
    template.spec.overrides = serde_json::from_value(json!([
        { "reason": "incident", "createdBy": "alice", "expiresAt": "2026-04-14T14:02:00.5Z" },
    ]))
    .unwrap();
    let bundle = soaking();
    let place = place_by_labels(&gate);
    let now = at("2026-04-14T14:00:00Z");
    let plan = plan(&Snapshot {
        gate: &gate,
        template: Some(&template),
        authority: None,
        is_withdrawn: false,
        pipelines: &[],
        place,
        bundle: Some(&bundle),
        around: &Surroundings::default(),
        now,
    });
    let status = plan.status.unwrap();
    assert_eq!(status.ready, Some(true));
    assert_eq!(status.conditions[0].reason, "Overridden");
    // Written in whole seconds, and late rather than early.
    assert_eq!(status.next_change_at, Some(at("2026-04-14T14:02:01Z")));
    assert_eq!(plan.wake, Some(at("2026-04-14T14:02:00.5Z")));
    assert_eq!(plan.notes[0].reason, "GateOpened");
}

#[test]
fn errors_are_told_once() {
    let mut gate = instance("bundle.nothing");
    let now = at("2026-04-14T14:00:00Z");
    let plan = look(&gate, Some(&soaking()), now);
    assert_eq!((plan.notes[0].reason.as_str(), plan.notes[0].warning), ("GateError", true));
    assert_eq!(plan.status.as_ref().unwrap().conditions[0].reason, "Error");
    write(&mut gate, &plan);
    let again = look(&gate, Some(&soaking()), now + seconds(300));
    assert!(again.status.is_some() && again.notes.is_empty());
}

#[test]
fn intervals_have_a_least_length_and_a_default() {
    let wake = |interval: Value| {
        let mut gate = instance("true");
        gate.spec.recheck_interval = serde_json::from_value(interval).unwrap();
        look(&gate, Some(&soaking()), at("2026-04-14T14:00:00.9Z")).wake.unwrap()
    };
    assert_eq!(wake(json!("1s")), at("2026-04-14T14:00:10Z"));
    assert_eq!(wake(json!("1m")), at("2026-04-14T14:01:00Z"));
    assert_eq!(wake(Value::Null), at("2026-04-14T14:05:00Z"));
    assert_eq!(wake(json!("soon")), at("2026-04-14T14:05:00Z"));
}

#[test]
fn an_edit_a_change_of_clock_and_a_closing_gate_are_written() {
    let mut gate = instance("schedule.hour == 14");
    let now = at("2026-04-14T14:00:00Z");
    let first = look(&gate, Some(&soaking()), now);
    write(&mut gate, &first);
    assert!(look(&gate, Some(&soaking()), now + seconds(1)).status.is_none());
    // Written by a clock that is ahead.
    assert!(look(&gate, Some(&soaking()), now - seconds(60)).status.is_some());
    let closed = look(&gate, Some(&soaking()), at("2026-04-14T15:00:00Z"));
    assert_eq!(closed.notes[0].reason, "GateClosed");
    gate.metadata.generation = Some(2);
    assert!(look(&gate, Some(&soaking()), now + seconds(1)).status.is_some());
}

#[test]
fn answers_that_flicker_do_not_make_a_busy_loop() {
    let mut gate = instance("now().getMilliseconds() < 500");
    let bundle = soaking();
    let (mut now, mut writes) = (at("2026-04-14T14:00:00Z"), 0);
    for _ in 0..100 {
        let plan = look(&gate, Some(&bundle), now);
        writes += usize::from(plan.status.is_some());
        write(&mut gate, &plan);
        now = plan.wake.unwrap();
    }
    assert!(now >= at("2026-04-14T14:01:00Z"), "{now} after {writes} writes");
}

const GRAPH: &str = include_str!("../../../api/tests/fixtures/spec004/graph-5-3-gated.yaml");

#[test]
fn the_place_in_a_written_graph_is_found() {
    let mut graph: Graph = serde_saphyr::from_str(GRAPH).unwrap();
    let gate = gate(json!({
        "metadata": { "name": "my-app-v1-29-0-staging-soak" },
        "spec": { "expression": "bundle.upstreamSoakMinutes >= 30" },
    }));
    let expected = Place {
        bundle: "my-app-v1-29-0-1712567890".to_owned(),
        environment: "prod".to_owned(),
        approval: Approval::PrReview,
        upstreams: vec!["staging".to_owned()],
    };
    assert_eq!(place_in_graph(&graph, &gate), Some(expected.clone()));
    // Without a node for the Bundle the owner tells.
    graph.spec.nodes.retain(|node| node.id != "bundle");
    assert_eq!(place_in_graph(&graph, &gate), Some(expected.clone()));
    // With a computed name the Graph's label tells.
    graph.metadata.uid = Some("u1".to_owned());
    let node = graph.spec.nodes.iter_mut().find(|node| node.id == "stagingSoak").unwrap();
    node.template.as_mut().unwrap()["metadata"]["name"] = json!("${staging.metadata.name}-soak");
    assert_eq!(place_in_graph(&graph, &gate), None);
    let mut labelled = gate;
    let key = kardinal_planner::graph::owner(&graph).reference_label("stagingSoak");
    labelled.metadata.labels = Some([(key, "template".to_owned())].into());
    assert_eq!(place_in_graph(&graph, &labelled), Some(expected));
    // A gate that no step requires guards nothing.
    graph.spec.nodes.retain(|node| node.id != "prod");
    assert_eq!(place_in_graph(&graph, &labelled), None);
}

#[test]
fn labels_tell_the_place() {
    let mut gate = instance("true");
    let place = place_by_labels(&gate).unwrap();
    assert_eq!((place.bundle.as_str(), place.environment.as_str()), ("b1", "prod"));
    assert_eq!((place.approval, place.upstreams), (Approval::PrReview, vec!["staging".to_owned()]));
    let annotations = [("kardinal.io/upstreams".to_owned(), " eu, us ,".to_owned())];
    gate.metadata.annotations = Some(annotations.into());
    let place = place_by_labels(&gate).unwrap();
    assert_eq!((place.approval, place.upstreams), (Approval::Auto, vec!["eu".to_owned(), "us".to_owned()]));
    gate.metadata.labels = None;
    assert_eq!(place_by_labels(&gate), None);
}

#[test]
fn empty_labels_tell_no_place() {
    for key in ["kardinal.io/bundle", "kardinal.io/environment"] {
        let mut gate = instance("true");
        gate.metadata.labels.as_mut().unwrap().insert(key.to_owned(), String::new());
        assert_eq!(place_by_labels(&gate), None, "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whoever sleeps until `wake` sees every change in time, never spins, and keeps the answer fresh.
    #[test]
    fn following_the_wakes_is_enough(
        expression in prop::sample::select(vec![
            "bundle.upstreamSoakMinutes >= 30", "!schedule.isWeekend", "schedule.hour >= 15", "schedule.minute % 7 == 3",
            "bundle.upstreamSoakMinutes >= 20 && schedule.minute < 50", "now() > timestamp(\"2026-04-14T14:33:20.25Z\")", "bundle.version",
        ]),
        millis in 0_i64..60_000,
        recheck in 10_i64..900,
    ) {
        let mut gate = instance(expression);
        gate.spec.recheck_interval = Some(kardinal_api::GoDuration::new(format!("{recheck}s")));
        let bundle = soaking();
        let start = at("2026-04-14T14:00:00Z") + SignedDuration::from_millis(millis);
        let (mut now, mut passes) = (start, 0);
        while now < start + seconds(3600) {
            let plan = look(&gate, Some(&bundle), now);
            let woken_for_nothing = plan.status.is_none();
            prop_assert!(!woken_for_nothing, "a wake at {} without a write", now);
            write(&mut gate, &plan);
            let wake = plan.wake.unwrap();
            prop_assert!(wake > now && wake <= now + seconds(recheck));
            let status = gate.status.clone().unwrap();
            // Between two wakes a value may become another, and the answer may not.
            let before = look(&gate, Some(&bundle), wake - SignedDuration::from_nanos(1));
            let ready = before.status.map_or(status.ready, |before| before.ready);
            prop_assert_eq!(ready, status.ready, "just before {}", wake);
            now = wake;
            passes += 1;
        }
        prop_assert!(passes <= 3600 / recheck + 1 + 120);
    }
}

#[test]
fn a_template_that_guards_nothing_says_so_when_it_is_written() {
    let pipeline: kardinal_api::kardinal::Pipeline = serde_json::from_value(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": { "name": "app", "namespace": "team" },
        "spec": { "git": { "url": "https://example.com/r" }, "environments": [{ "name": "dev" }, { "name": "prod" }] },
    }))
    .unwrap();
    let now = at("2026-04-14T14:00:00Z");
    let guards = |labels: Value, spec: Value, pipelines: &[&kardinal_api::kardinal::Pipeline]| {
        let mut written = json!({ "expression": "true" });
        written.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let gate = gate(json!({ "metadata": { "name": "t", "labels": labels }, "spec": written }));
        let place = place_by_labels(&gate);
        let snapshot = Snapshot {
            gate: &gate,
            template: None,
            authority: None,
            is_withdrawn: false,
            pipelines,
            place,
            bundle: None,
            around: &Surroundings::default(),
            now,
        };
        let plan = plan(&snapshot);
        let conditions = plan.status.unwrap().conditions;
        let found = conditions.into_iter().find(|condition| condition.type_ == GUARDS);
        (found.map(|condition| (condition.status, condition.message)), plan.notes.len())
    };
    let ours = [&pipeline];
    let says = |labels: Value, spec: Value, fragment: &str| {
        let (condition, notes) = guards(labels, spec, &ours);
        let (status, message) = condition.unwrap();
        assert!(status == "False" && message.contains(fragment) && notes == 1, "{status} {message}");
    };
    says(json!({}), json!({}), "`spec.appliesTo`");
    says(json!({ "kardinal.io/applies-to": "prodd" }), json!({}), "`prodd`; there are `dev` and `prod`");
    says(json!({}), json!({ "appliesToPaths": ["environments/live"] }), "`environments/live`");
    for (labels, spec) in [
        (json!({ "kardinal.io/applies-to": "prod" }), json!({})),
        (json!({}), json!({ "appliesTo": ["nowhere", "dev"] })),
        (json!({}), json!({ "appliesToPaths": ["environments/*"] })),
        (json!({}), json!({ "appliesToBranches": ["main"] })),
    ] {
        assert_eq!(guards(labels, spec, &ours).0.unwrap().0, "True");
    }
    // Before there is a Pipeline a name cannot be wrong yet.
    assert_eq!(guards(json!({ "kardinal.io/applies-to": "prod" }), json!({}), &[]), (None, 0));
}

#[test]
fn the_instance_of_an_organisation_gate_shows_what_the_template_says() {
    let now = at("2026-04-14T14:00:00Z");
    let bundle = soaking();
    let instance = gate(json!({
        "metadata": { "name": "i", "namespace": "team", "labels": {
            "kardinal.io/gate-template": "t", "kardinal.io/gate-template-namespace": "org",
            "kardinal.io/bundle": "b1", "kardinal.io/environment": "prod",
        } },
        "spec": { "expression": "true", "overrides": [{ "reason": "I want to" }] },
    }));
    let template =
        gate(json!({ "metadata": { "name": "t", "namespace": "org" }, "spec": { "expression": "false" } }));
    let around = Surroundings::default();
    let candidate = Candidate::written(&bundle, "prod", &around);
    let authority = Authority { template: &template, candidate: &candidate };
    let snapshot = Snapshot {
        gate: &instance,
        template: Some(&template),
        authority: Some(authority),
        is_withdrawn: false,
        pipelines: &[],
        place: place_by_labels(&instance),
        bundle: Some(&bundle),
        around: &around,
        now,
    };
    assert_eq!(plan(&snapshot).status.unwrap().ready, Some(false));
    let own = Snapshot { authority: None, template: None, ..snapshot };
    assert_eq!(plan(&own).status.unwrap().ready, Some(true));
}

#[test]
fn the_instance_of_a_gate_that_the_organisation_has_deleted_holds_nobody_and_says_so() {
    let (now, bundle) = (at("2026-04-14T14:00:00Z"), soaking());
    let mut gate = instance("false");
    let look = |gate: &PolicyGate, now| {
        plan(&Snapshot {
            gate,
            template: None,
            authority: None,
            is_withdrawn: true,
            pipelines: &[],
            place: place_by_labels(gate),
            bundle: Some(&bundle),
            around: &Surroundings::default(),
            now,
        })
    };
    // Whoever replaces a gate deletes it for a moment: one that was not open holds for a minute.
    let first = look(&gate, now);
    let status = first.status.as_ref().unwrap();
    assert_eq!((status.ready, status.conditions[0].reason.as_str()), (Some(false), "Deleted"));
    let reason = status.reason.as_deref().unwrap();
    let until = "2026-04-14T14:01:00Z";
    assert_eq!(
        reason,
        format!("the organisation has deleted its gate `soak`: unless it comes back, it holds until {until}")
    );
    assert_eq!(first.wake, Some(at(until)));
    write(&mut gate, &first);
    assert!(!is_released(&gate));
    assert_eq!(look(&gate, now + seconds(1)).status, None, "it is said once");
    let last = look(&gate, at(until));
    let status = last.status.as_ref().unwrap();
    assert_eq!((status.ready, status.conditions[0].reason.as_str()), (Some(true), "Deleted"));
    let reason = status.reason.as_deref().unwrap();
    assert_eq!(reason, "the organisation has deleted its gate `soak`: it holds nobody any more");
    write(&mut gate, &last);
    assert!(is_released(&gate));
    assert_eq!(look(&gate, at(until) + seconds(1)).status, None, "it is said once");
    // One that is deleted again after it came back holds for a minute again.
    gate.status.as_mut().unwrap().ready = Some(false);
    gate.status.as_mut().unwrap().conditions.clear();
    assert_eq!(look(&gate, at(until)).status.unwrap().ready, Some(false));
    // What was open keeps nobody waiting.
    gate.status.as_mut().unwrap().ready = Some(true);
    assert_eq!(look(&gate, now).status.unwrap().ready, Some(true));
}

#[test]
fn a_template_in_a_graph_is_no_instance_whatever_it_names() {
    let now = at("2026-04-14T14:00:00Z");
    for spec in [
        json!({ "expression": "true", "appliesTo": ["prod"] }),
        json!({ "expression": "true", "appliesToPaths": ["environments/prod"] }),
        json!({ "expression": "true", "appliesToBranches": ["main"] }),
    ] {
        let gate = gate(json!({
            "metadata": { "name": "t", "annotations": { kardinal_graph::GRAPH_ANNOTATION: "g" } }, "spec": spec,
        }));
        let status = look(&gate, None, now).status.unwrap();
        assert_eq!((status.ready, status.conditions[0].type_.as_str()), (None, COMPILED), "{spec}");
    }
}
