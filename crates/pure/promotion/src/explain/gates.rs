//! The gates of an environment, each asked again now.

use kardinal_api::kardinal::{
    Approval, BUNDLE_LABEL, ENVIRONMENT_LABEL, Environment, GateEvidence, GateResult, GateStage,
    PIPELINE_LABEL, PolicyGate, PromotionState, SCOPE_LABEL,
};
use kardinal_object::{created_at, label_of, name_of};
use kardinal_policy::{
    Verdict, at_place, evaluate, guards, is_freeze, is_skip_permission, scope, shows_organisation,
    speaks_for_organisation,
};
use serde_json::Value;

use super::choose::{PromotionView, split, steps_of};
use super::{Gate, GateVerdict, World};
use crate::bundle::{GATE_TEMPLATE_LABEL, Route, UPSTREAMS_ANNOTATION, template_of};
use crate::gate_context::{Candidate, Surroundings, has_soak, reads_of};
use crate::policy_gate::{Place, place_by_labels, place_in_graph};
use crate::promotion_step::{is_behind, target};
use kardinal_planner::names::label_value;

/// Where gates are asked: a promotion, with what gates see around its Bundle.
#[derive(Clone, Copy)]
struct Scene<'s, 'a> {
    world: &'s World<'a>,
    view: &'s PromotionView<'a>,
    around: &'s Surroundings,
}

/// The gates of the view's environment, the pause first, those behind the environment last.
pub(super) fn gates(world: &World<'_>, view: &PromotionView<'_>) -> Vec<Gate> {
    let scene = Scene { world, view, around: &world.around(&view.bundle) };
    if is_past(view) {
        return from_evidence(&scene);
    }
    let mut rows: Vec<Gate> = pauses(world).map(paused).collect();
    let mut asked = existing(&scene);
    asked.extend(not_created(world, view));
    let unshown = unshown(&scene, &asked);
    asked.extend(unshown);
    asked.sort_by(|a, b| (!a.blocking, &a.name).cmp(&(!b.blocking, &b.name)));
    rows.extend(asked);
    rows
}

/// Whether the change went in: what the gates say after it does not matter to it any more.
fn is_past(view: &PromotionView<'_>) -> bool {
    match view.state() {
        Some(PromotionState::Verified | PromotionState::HealthChecking) => true,
        Some(PromotionState::Failed) => view.entry().is_some_and(|entry| entry.promoted_at.is_some()),
        _ => false,
    }
}

/// The gates that pause the Pipeline.
pub(super) fn pauses<'a>(world: &World<'a>) -> impl Iterator<Item = &'a PolicyGate> {
    let metadata = &world.pipeline.metadata;
    let name = label_value(name_of(metadata));
    world.gates.iter().filter(move |gate| {
        is_freeze(gate)
            && gate.metadata.namespace == metadata.namespace
            && label_of(&gate.metadata, PIPELINE_LABEL) == Some(name.as_str())
    })
}

fn paused(gate: &PolicyGate) -> Gate {
    Gate {
        name: name_of(&gate.metadata).to_owned(),
        object: gate.metadata.name.clone(),
        scope: Some(scope(gate).as_str().to_owned()),
        verdict: GateVerdict::Fail,
        reason: gate.spec.message.clone().unwrap_or_else(|| "the Pipeline is paused".to_owned()),
        message: gate.spec.message.clone(),
        blocking: true,
        pause: true,
        eta: None,
        basis: Some(format!(
            "needs a person to run `kardinal resume {}`",
            label_of(&gate.metadata, PIPELINE_LABEL).unwrap_or_default()
        )),
        changes_at: None,
    }
}

/// The instances that exist.
fn existing(scene: &Scene<'_, '_>) -> Vec<Gate> {
    let Scene { world, view, .. } = *scene;
    let required = view.required_gates();
    let bundle = label_value(name_of(&view.bundle.metadata));
    let mut rows = Vec::new();
    for gate in world.gates {
        if is_freeze(gate) || gate.metadata.namespace != view.bundle.metadata.namespace {
            continue;
        }
        let is_required = gate.metadata.name.as_ref().is_some_and(|name| required.contains(name));
        let is_ours = label_of(&gate.metadata, BUNDLE_LABEL) == Some(bundle.as_str())
            && label_of(&gate.metadata, ENVIRONMENT_LABEL) == Some(view.environment.as_str())
            && label_of(&gate.metadata, GATE_TEMPLATE_LABEL).is_some();
        if is_required || is_ours {
            let blocking = is_required || is_in_front(gate);
            rows.push(asked(scene, gate, place(view, gate), blocking));
        }
    }
    rows
}

/// Where a gate stands, as its controller sees it.
fn place(view: &PromotionView<'_>, gate: &PolicyGate) -> Place {
    let place = place_by_labels(gate).or_else(|| view.graph.and_then(|graph| place_in_graph(graph, gate)));
    place.unwrap_or_else(|| Place {
        bundle: name_of(&view.bundle.metadata).to_owned(),
        environment: view.environment.clone(),
        approval: Approval::default(),
        upstreams: view.upstreams.clone(),
    })
}

/// Asks one instance, about the same place and with the same overrides as its controller does. One that shows a gate of the
/// organisation is asked as the step asks that: nothing that stands in the team's namespace changes what it says.
fn asked<'a>(scene: &Scene<'_, 'a>, gate: &'a PolicyGate, place: Place, blocking: bool) -> Gate {
    let Scene { world, view, .. } = *scene;
    let template = template(world, gate);
    let ours = template.filter(|template| speaks(world, view, template));
    let place = match ours {
        Some(template) if is_in_front(template) => Place {
            environment: view.environment.clone(),
            approval: view.step.map_or(place.approval, |step| step.spec.approval.unwrap_or_default()),
            upstreams: before(world, view),
            ..place
        },
        _ => place,
    };
    let row = Gate {
        name: title(template, gate).to_owned(),
        object: gate.metadata.name.clone(),
        scope: Some(scope(gate).as_str().to_owned()),
        verdict: GateVerdict::Pending,
        reason: String::new(),
        message: gate.spec.message.clone(),
        blocking,
        pause: false,
        eta: None,
        basis: None,
        changes_at: None,
    };
    if let Some(reason) = not_yet(view, &place.upstreams) {
        return Gate { reason, ..row };
    }
    if template.is_none() && shows_organisation(gate, world.policy_namespaces) {
        return as_answered(row, gate);
    }
    let verdict = match ours {
        Some(template) => answer_of_organisation(scene, template, &row.name, &place),
        None => answer_of_team(scene, template, gate, &row.name, &place),
    };
    with_verdict(row, verdict, gate, &place)
}

/// What a gate of the organisation says. The step tells every gate which Bundle was verified last where it goes itself.
fn answer_of_organisation(
    scene: &Scene<'_, '_>,
    template: &PolicyGate,
    name: &str,
    place: &Place,
) -> Verdict {
    let Scene { world, view, around } = *scene;
    let candidate = Candidate::sealed(&view.bundle, &view.environment, view.step, around);
    let step = view.step.filter(|_| is_in_front(template));
    let target = step.map(|step| target(step, view.bundle.spec.kind()));
    let template = target.map_or_else(|| template.clone(), |target| at_place(template, &target));
    evaluate(name, &template.spec, &candidate.context(place.facts(), world.now))
}

/// What a gate of the team says, with the overrides of the template that it was made from.
fn answer_of_team(
    scene: &Scene<'_, '_>,
    template: Option<&PolicyGate>,
    gate: &PolicyGate,
    name: &str,
    place: &Place,
) -> Verdict {
    let mut spec = gate.spec.clone();
    let given = template.filter(|template| template.metadata.name != gate.metadata.name);
    spec.overrides.extend(given.into_iter().flat_map(|template| template.spec.overrides.clone()));
    let candidate = Candidate::written(&scene.view.bundle, &place.environment, scene.around);
    evaluate(name, &spec, &candidate.context(place.facts(), scene.world.now))
}

fn with_verdict(row: Gate, verdict: Verdict, gate: &PolicyGate, place: &Place) -> Gate {
    let basis = (!verdict.is_open()).then(|| match (verdict.satisfied_at, verdict.is_unknown()) {
        (Some(_), _) => based_on(gate, &place.upstreams),
        (None, true) => "needs a person to correct the expression".to_owned(),
        (None, false) => "it does not open by itself".to_owned(),
    });
    Gate {
        verdict: if verdict.is_open() { GateVerdict::Pass } else { GateVerdict::Fail },
        eta: verdict.satisfied_at.filter(|_| !verdict.is_open()),
        changes_at: verdict.next_change,
        reason: verdict.reason,
        basis,
        ..row
    }
}

/// The row of a gate of the organisation that was not seen: it is deleted, or may not be read by whoever asks. The controller
/// knows which, and what was copied from the gate does not count.
fn as_answered(row: Gate, gate: &PolicyGate) -> Gate {
    let status = gate.status.as_ref();
    let (verdict, eta) = match status.and_then(|status| status.ready) {
        Some(true) => (GateVerdict::Pass, None),
        Some(false) => (GateVerdict::Fail, status.and_then(|status| status.next_change_at)),
        None => (GateVerdict::Pending, None),
    };
    let reason = status.and_then(|status| status.reason.clone());
    let basis = (verdict == GateVerdict::Fail).then(|| match eta {
        Some(_) => "as the controller has worked it out".to_owned(),
        None => "it does not open by itself".to_owned(),
    });
    Gate {
        verdict,
        reason: reason.unwrap_or_else(|| "has not been asked yet".to_owned()),
        eta,
        basis,
        changes_at: status.and_then(|status| status.next_change_at),
        ..row
    }
}

/// Whether a template speaks for the organisation about the view's Bundle.
fn speaks(world: &World<'_>, view: &PromotionView<'_>, template: &PolicyGate) -> bool {
    speaks_for_organisation(template, world.policy_namespaces, created_at(&view.bundle.metadata))
}

/// Whether a gate is asked before its environment changes.
fn is_in_front(gate: &PolicyGate) -> bool {
    gate.spec.when.unwrap_or_default() == GateStage::PreDeploy
}

/// The organisation's gates of a step that no instance shows, as for one that somebody wrote by hand: those in front of the
/// environment, and those behind the environments before it.
fn unshown(scene: &Scene<'_, '_>, shown: &[Gate]) -> Vec<Gate> {
    let Scene { world, view, .. } = *scene;
    let Some(step) = view.step else { return Vec::new() };
    let own = target(step, view.bundle.spec.kind());
    let mut rows = Vec::new();
    for gate in world.gates {
        let is_shown = shown.iter().any(|row| row.blocking && row.name == name_of(&gate.metadata));
        if is_shown || !speaks(world, view, gate) || is_skip_permission(gate) {
            continue;
        }
        if is_in_front(gate) {
            if guards(gate, &own) {
                rows.push(asked(scene, gate, place(view, gate), true));
            }
            continue;
        }
        let steps = || steps_of(world, &view.bundle);
        let is_behind = |name: &&String| is_behind(gate, name, &view.bundle, steps());
        for upstream in before(world, view).iter().filter(is_behind) {
            let place = Place {
                environment: upstream.clone(),
                approval: approval_of(world, upstream),
                upstreams: vec![upstream.clone()],
                ..place(view, gate)
            };
            rows.push(asked(scene, gate, place, true));
        }
    }
    rows
}

fn approval_of(world: &World<'_>, environment: &str) -> Approval {
    let mut named = world.pipeline.spec.environments.iter().filter(|one| one.name == environment);
    named.next().map(Environment::approval).unwrap_or_default()
}

/// The environments directly before the view's, as a step counts them: those of its Graph, and those of the Pipeline that
/// the Bundle has a step for.
fn before(world: &World<'_>, view: &PromotionView<'_>) -> Vec<String> {
    let mut all = view.upstreams.clone();
    let route = Route::intended(&world.pipeline.spec, view.bundle.spec.intent.as_ref()).ok();
    let stop = route.as_ref().and_then(|route| route.stop(&view.environment));
    let steps = steps_of(world, &view.bundle);
    for name in stop.into_iter().flat_map(|stop| &stop.upstreams) {
        let is_on_the_way = steps.iter().any(|step| step.spec.environment == **name);
        if is_on_the_way && !all.iter().any(|known| known == name) {
            all.push((*name).to_owned());
        }
    }
    all
}

/// The template of an instance, where it was seen; a template is its own.
fn template<'a>(world: &World<'a>, gate: &'a PolicyGate) -> Option<&'a PolicyGate> {
    match label_of(&gate.metadata, GATE_TEMPLATE_LABEL) {
        Some(_) => template_of(gate, world.gates),
        None => Some(gate),
    }
}

/// How people call a gate: by the name of its template, or what the label holds of it.
fn title<'g>(template: Option<&'g PolicyGate>, gate: &'g PolicyGate) -> &'g str {
    let known = template.map(|template| name_of(&template.metadata));
    known.or_else(|| label_of(&gate.metadata, GATE_TEMPLATE_LABEL)).unwrap_or(name_of(&gate.metadata))
}

/// The gates that the Graph has not created yet.
fn not_created(world: &World<'_>, view: &PromotionView<'_>) -> Vec<Gate> {
    let Some(graph) = view.graph else { return Vec::new() };
    let required = view.required_gates();
    let mut rows = Vec::new();
    for node in graph.spec.nodes.iter().filter(|node| !view.is_excluded(&node.id)) {
        let Some(template) =
            node.template.as_ref().filter(|template| text(template, "/kind") == Some("PolicyGate"))
        else {
            continue;
        };
        let Some(object) = text(template, "/metadata/name") else { continue };
        let labelled = |key: &str| template.pointer("/metadata/labels")?.get(key)?.as_str();
        let is_required = required.contains(object);
        if !is_required && labelled(ENVIRONMENT_LABEL) != Some(view.environment.as_str()) {
            continue;
        }
        let exists = world.gates.iter().any(|gate| {
            gate.metadata.name.as_deref() == Some(object)
                && gate.metadata.namespace == graph.metadata.namespace
        });
        if exists {
            continue;
        }
        let annotated =
            template.pointer("/metadata/annotations").and_then(|map| map.get(UPSTREAMS_ANNOTATION)?.as_str());
        let upstreams = annotated.map(split).unwrap_or_else(|| view.upstreams.clone());
        let reason = not_yet(view, &upstreams).unwrap_or_else(|| "is about to be created".to_owned());
        rows.push(Gate {
            name: labelled(GATE_TEMPLATE_LABEL).unwrap_or(object).to_owned(),
            object: Some(object.to_owned()),
            scope: labelled(SCOPE_LABEL).map(str::to_owned),
            verdict: GateVerdict::Pending,
            reason,
            message: text(template, "/spec/message").map(str::to_owned),
            blocking: is_required || text(template, "/spec/when") != Some("post-deploy"),
            pause: false,
            eta: None,
            basis: None,
            changes_at: None,
        });
    }
    rows
}

/// What the gates said when the environment was promoted; what they say now matters only behind the environment.
fn from_evidence(scene: &Scene<'_, '_>) -> Vec<Gate> {
    let Scene { world, view, .. } = *scene;
    let evidence = view.entry().and_then(|entry| entry.evidence.as_ref()?.policy_gates.as_deref());
    let evidence = evidence.unwrap_or_default();
    let mut rows = existing(scene);
    rows.retain(|row| !row.blocking || evidence.iter().any(|proof| is_about(proof, &row.name)));
    for proof in evidence {
        match rows.iter_mut().find(|row| is_about(proof, &row.name)) {
            Some(row) => apply_evidence(row, proof),
            None => rows.push(from_evidence_only(world, proof)),
        }
    }
    rows.sort_by(|a, b| (!a.blocking, &a.name).cmp(&(!b.blocking, &b.name)));
    rows
}

/// Whether evidence is about the gate of this name. It may have the name as the label of an instance holds it.
fn is_about(proof: &GateEvidence, name: &str) -> bool {
    label_value(&proof.name) == label_value(name)
}

fn apply_evidence(row: &mut Gate, proof: &GateEvidence) {
    row.verdict = match proof.result {
        GateResult::Pass => GateVerdict::Pass,
        GateResult::Fail => GateVerdict::Fail,
    };
    if let Some(reason) = &proof.reason {
        row.reason.clone_from(reason);
    }
    if let Some(by) = &proof.forced_by {
        row.reason = format!("{}, forced by {by}", row.reason);
    }
    if proof.check_was_green == Some(true) {
        row.reason = format!("{}; merged while the check on the forge was still green", row.reason);
    }
    row.eta = None;
    row.basis = None;
    row.changes_at = None;
}

/// A gate whose instance is gone.
fn from_evidence_only(world: &World<'_>, proof: &GateEvidence) -> Gate {
    let template = world.gates.iter().find(|gate| is_about(proof, name_of(&gate.metadata)));
    let mut row = Gate {
        name: proof.name.clone(),
        object: None,
        scope: template.map(|gate| scope(gate).as_str().to_owned()),
        verdict: GateVerdict::Pass,
        reason: String::new(),
        message: None,
        blocking: true,
        pause: false,
        eta: None,
        basis: None,
        changes_at: None,
    };
    apply_evidence(&mut row, proof);
    row
}

/// Why a gate is not asked yet: the environments before it are not verified.
fn not_yet(view: &PromotionView<'_>, upstreams: &[String]) -> Option<String> {
    let open: Vec<&str> = upstreams
        .iter()
        .map(String::as_str)
        .filter(|name| view.record(name).and_then(|entry| entry.state) != Some(PromotionState::Verified))
        .collect();
    (!open.is_empty()).then(|| format!("is asked when {} is verified", open.join(" and ")))
}

/// What the time at which a gate opens follows from.
fn based_on(gate: &PolicyGate, upstreams: &[String]) -> String {
    let reads = reads_of(&gate.spec.expression);
    let mut sources = Vec::new();
    if has_soak(&reads) {
        sources.push(format!("{} verifiedAt", upstreams.join(" and ")));
    }
    if reads.has_schedule() {
        let zone = gate.spec.time_zone.as_deref().unwrap_or("UTC");
        sources.push(format!("the schedule in {zone}"));
    }
    if sources.is_empty() {
        sources.push("the clock".to_owned());
    }
    format!("based on {}", sources.join(" and "))
}

fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}
