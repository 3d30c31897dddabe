//! The organisation's gates, as the step itself works them out from where the team cannot write.
//!
//! Gate instances, Graphs, `requiredGates` and statuses in the team's namespace are a view for people. Before anything in
//! Git changes, the step asks the templates in the policy namespaces, with facts that carry the controller's seal.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Approval, Bundle, GateStage, Pipeline, PolicyGate, PromotionStep};
use kardinal_object::{created_at, name_of};
use kardinal_planner::why::Wait;
use kardinal_policy::{
    Verdict, at_place, decide, detail, guards, is_skip_permission, recheck_interval, shows_organisation,
    speaks_for_organisation,
};

use super::check::Checked;
use super::draft::Draft;
use super::target::{target, written_to};
use super::{Effect, ForgeEffect, GitEffect, Plan, Snapshot, StepEffect, pending, why};
use crate::bundle::{Route, is_made_from, template_of};
use crate::gate_context::{Candidate, EnvironmentFacts, Surroundings};
use crate::policy_gate::is_released;
use crate::seal::{Door, Key};

/// How long to wait before what could not be read is asked for again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What the organisation's gates say about one step.
#[derive(Clone, Debug, Default)]
pub struct Organisation {
    asked: Vec<Asked>,
    /// What the gates are told of.
    candidate: Option<Candidate<'static>>,
    /// Their answers now.
    answers: Vec<Answer>,
    /// The instances that the step names and that show gates which the organisation has deleted.
    withdrawn: BTreeSet<String>,
}

/// One gate and the door at which it is asked.
#[derive(Clone, Debug)]
struct Asked {
    template: PolicyGate,
    environment: String,
    approval: Approval,
    upstreams: Vec<String>,
}

/// The answer of one gate of the organisation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) expression: String,
    pub(super) verdict: Verdict,
    /// What a pull request says about it.
    pub(super) detail: String,
    pub(super) asked_at: Timestamp,
    /// When somebody last wrote what the gate asks.
    pub(super) changed_at: Option<Timestamp>,
    /// When to ask again although nothing else happens.
    wake: Timestamp,
}

/// What the answers are worked out from.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The step.
    pub step: &'a PromotionStep,
    /// Its Bundle.
    pub bundle: &'a Bundle,
    /// Its Pipeline.
    pub pipeline: Option<&'a Pipeline>,
    /// The gates in the namespaces that the operator has named; nobody else's count.
    pub gates: &'a [PolicyGate],
    /// The gate instances that the step names.
    pub instances: &'a [&'a PolicyGate],
    /// These namespaces.
    pub policy_namespaces: &'a [String],
    /// What gates see around the Bundle.
    pub around: &'a Surroundings,
    /// Reads the steps of the Bundle. There is one for each environment and all of them ask, several times, so they are
    /// read only where a gate may have a say.
    pub steps: &'a dyn Fn() -> Vec<PromotionStep>,
    /// The controller's key.
    pub key: &'a Key,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

impl Organisation {
    /// Asks the gates that guard the step.
    pub fn of(ground: &Ground<'_>) -> Organisation {
        let none = Organisation { withdrawn: withdrawn(ground), ..Organisation::default() };
        let templates = in_question(ground);
        if templates.is_empty() {
            return none;
        }
        let steps = (ground.steps)();
        let asked = required(ground, &templates, &steps);
        if asked.is_empty() {
            return none;
        }
        let spec = &ground.step.spec;
        let place = Some(written_to(ground.step, ground.bundle.spec.kind()));
        let door = Door { pipeline: &spec.pipeline, environment: &spec.environment, place };
        let candidate = Candidate::proven(ground.key, &door, ground.bundle, &steps, ground.around);
        let mut organisation = Organisation { asked, candidate: Some(candidate), ..none };
        organisation.answers = organisation.at(ground.now);
        organisation
    }

    /// The answers at an instant.
    pub(super) fn at(&self, now: Timestamp) -> Vec<Answer> {
        let Some(candidate) = &self.candidate else { return Vec::new() };
        self.asked.iter().map(|asked| asked.answer(candidate, now)).collect()
    }

    pub(super) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Whether a gate instance is only a view: of one of these gates, or of one that the organisation has deleted.
    pub(super) fn is_shown_by(&self, instance: &PolicyGate) -> bool {
        self.answers.iter().any(|answer| is_made_from(instance, &answer.namespace, &answer.name))
            || self.withdrawn.contains(name_of(&instance.metadata))
    }

    /// When the answers have to be worked out again although nothing else happens.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.answers.iter().map(|answer| answer.wake).min()
    }
}

impl Answer {
    /// What is waited for while it is closed.
    pub(super) fn wait(&self) -> Wait {
        why::closed(&self.name, &self.verdict.reason, self.verdict.satisfied_at)
    }
}

impl Asked {
    fn answer(&self, candidate: &Candidate<'_>, now: Timestamp) -> Answer {
        let Asked { template, environment, approval, upstreams } = self;
        let environment = EnvironmentFacts { name: environment, approval: *approval, upstreams };
        let context = candidate.context(environment, now);
        let name = name_of(&template.metadata);
        let verdict = decide(name, &template.spec, &context);
        let again = now.saturating_add(recheck_interval(&template.spec)).unwrap_or(Timestamp::MAX);
        Answer {
            name: name.to_owned(),
            namespace: template.metadata.namespace.clone().unwrap_or_default(),
            expression: template.spec.expression.clone(),
            detail: detail(&template.spec, &context),
            asked_at: now,
            changed_at: changed_at(template),
            wake: verdict.next_change.map_or(again, |change| change.min(again)),
            verdict,
        }
    }
}

/// When somebody last wrote a gate, its status aside, by the server's own record.
fn changed_at(gate: &PolicyGate) -> Option<Timestamp> {
    let written = gate.metadata.managed_fields.iter().flatten();
    let written = written.filter(|entry| entry.subresource.as_deref().is_none_or(str::is_empty));
    written.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()
}

/// The gates that may guard a step: templates of the organisation that were there when the Bundle was created, asked
/// before the environment changes; and all that are asked after a change, as only the other steps tell where that was.
fn in_question<'a>(ground: &Ground<'a>) -> Vec<&'a PolicyGate> {
    let Ground { step, bundle, gates, policy_namespaces, .. } = *ground;
    let counts = |gate: &&PolicyGate| {
        speaks_for_organisation(gate, policy_namespaces, created_at(&bundle.metadata))
            && !is_skip_permission(gate)
    };
    let target = target(step, bundle.spec.kind());
    let may_guard = |gate: &&PolicyGate| match gate.spec.when.unwrap_or_default() {
        GateStage::PreDeploy => guards(gate, &target),
        GateStage::PostDeploy => true,
    };
    gates.iter().filter(counts).filter(may_guard).collect()
}

/// The instances of gates that the organisation has deleted for good. Until that is certain the instance goes on holding; and
/// one that was made anew is younger than the Bundle and does not hold it by itself, so its instance does.
fn withdrawn(ground: &Ground<'_>) -> BTreeSet<String> {
    let shown = ground.instances.iter().filter(|gate| shows_organisation(gate, ground.policy_namespaces));
    let gone = shown.filter(|gate| is_released(gate) && template_of(gate, ground.gates).is_none());
    gone.map(|gate| name_of(&gate.metadata).to_owned()).collect()
}

/// Those of them that guard it: asked before its environment changes, or after one of the environments before it has.
fn required(ground: &Ground<'_>, templates: &[&PolicyGate], steps: &[PromotionStep]) -> Vec<Asked> {
    let Ground { step, bundle, pipeline, .. } = *ground;
    let upstreams = upstreams(ground, steps);
    let own = target(step, bundle.spec.kind());
    let approval = step.spec.approval.unwrap_or_default();
    let mut asked = Vec::new();
    for &template in templates {
        match template.spec.when.unwrap_or_default() {
            GateStage::PreDeploy => asked.push(Asked {
                template: at_place(template, &own),
                environment: step.spec.environment.clone(),
                approval,
                upstreams: upstreams.clone(),
            }),
            GateStage::PostDeploy => {
                let is_behind = |name: &&String| is_behind(template, name, bundle, steps);
                let behind = upstreams.iter().filter(is_behind);
                asked.extend(behind.map(|name| Asked {
                    template: at_places(template, name, bundle, steps),
                    environment: name.clone(),
                    approval: approval_of(pipeline, name),
                    upstreams: vec![name.clone()],
                }));
            }
        }
    }
    asked.sort_by_key(|asked| {
        let metadata = &asked.template.metadata;
        (metadata.namespace.clone(), metadata.name.clone(), asked.environment.clone())
    });
    asked
}

/// A gate behind an environment, with the overrides that are meant for wherever the steps to it write.
fn at_places(gate: &PolicyGate, upstream: &str, bundle: &Bundle, steps: &[PromotionStep]) -> PolicyGate {
    let there = steps.iter().filter(|step| step.spec.environment == upstream);
    there.fold(gate.clone(), |gate, step| at_place(&gate, &target(step, bundle.spec.kind())))
}

/// Whether a gate guards an environment before another one: by its name, or by where the Bundle's step there writes.
pub(crate) fn is_behind<'s>(
    gate: &PolicyGate,
    upstream: &str,
    bundle: &Bundle,
    steps: impl IntoIterator<Item = &'s PromotionStep>,
) -> bool {
    let kind = bundle.spec.kind();
    let mut there = steps.into_iter().filter(|step| step.spec.environment == upstream);
    kardinal_policy::applies_to(gate, upstream) || there.any(|step| guards(gate, &target(step, kind)))
}

fn approval_of(pipeline: Option<&Pipeline>, environment: &str) -> Approval {
    let environments = pipeline.iter().flat_map(|pipeline| &pipeline.spec.environments);
    let mut named = environments.filter(|one| one.name == environment);
    named.next().map(|one| one.approval()).unwrap_or_default()
}

/// The environments directly before the step's: those that its annotation froze, and those of the Pipeline that the
/// Bundle has a step for. An annotation that leaves one out spares nobody its gates.
fn upstreams(ground: &Ground<'_>, steps: &[PromotionStep]) -> Vec<String> {
    let Ground { step, bundle, pipeline, .. } = *ground;
    let frozen = pending::upstreams_of(step);
    let named: Vec<String> =
        frozen.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let route =
        pipeline.and_then(|pipeline| Route::intended(&pipeline.spec, bundle.spec.intent.as_ref()).ok());
    let stop = route.as_ref().and_then(|route| route.stop(&step.spec.environment));
    let before = stop.iter().flat_map(|stop| stop.upstreams.iter().map(|&name| name.to_owned()));
    // A Pipeline may have been edited since: an environment that the Bundle never goes to says nothing about it.
    let is_on_the_way = |name: &String| steps.iter().any(|step| step.spec.environment == *name);
    let mut all: Vec<String> = match named.is_empty() {
        true => before.collect(),
        false => named.into_iter().chain(before.filter(is_on_the_way)).collect(),
    };
    let mut seen = BTreeSet::new();
    all.retain(|name| seen.insert(name.clone()));
    all
}

/// Whether an effect changes what is in Git, or asks for it.
pub(super) fn changes_git(effect: &Effect) -> bool {
    match effect {
        Effect::Git(GitEffect::Commit(_))
        | Effect::Forge(ForgeEffect::OpenPullRequest(_) | ForgeEffect::MergePullRequest { .. }) => true,
        // What is shown, looked at or cleared away brings nothing into an environment.
        Effect::Step(StepEffect::ForgetStatus | StepEffect::AddFinalizer | StepEffect::RemoveFinalizer)
        | Effect::Forge(
            ForgeEffect::ReadPullRequest { .. }
            | ForgeEffect::FindPullRequest { .. }
            | ForgeEffect::FindMerge { .. }
            | ForgeEffect::UpdatePullRequest { .. }
            | ForgeEffect::CommentPullRequest { .. }
            | ForgeEffect::ClosePullRequest { .. },
        )
        | Effect::Git(GitEffect::DeleteBranch { .. })
        | Effect::Forge(ForgeEffect::SetCommitStatus { .. })
        | Effect::CallTask(_) => false,
    }
}

/// What keeps the step from changing Git; `None` when the organisation has nothing against it.
pub(super) fn blocker(snapshot: &Snapshot<'_>) -> Option<Wait> {
    if snapshot.bundle.is_none() {
        return Some(why::bundle(&snapshot.step.spec.bundle_ref, why::reason::MISSING));
    }
    let organisation = match snapshot.organisation {
        Ok(organisation) => organisation,
        Err(unknown) => return Some(why::unknown_gates(unknown)),
    };
    organisation.answers().iter().find(|answer| !answer.verdict.is_open()).map(Answer::wait)
}

/// The plan of a step that cannot know what the organisation says, and so does nothing at all.
pub(super) fn unknown(snapshot: &Snapshot<'_>, checked: &Checked, why: &str) -> Plan {
    Plan { wake: Some(ask_again(snapshot)), ..hold(snapshot, checked, why::unknown_gates(why)) }
}

/// When to ask again for what could not be read.
pub(super) fn ask_again(snapshot: &Snapshot<'_>) -> Timestamp {
    snapshot.now.saturating_add(ASK_AGAIN).unwrap_or(Timestamp::MAX)
}

/// The plan of a step that may not change Git now.
pub(super) fn hold(snapshot: &Snapshot<'_>, checked: &Checked, wait: Wait) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    draft.hold([wait]);
    draft.plan()
}
