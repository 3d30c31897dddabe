//! What an environment waits for, and the one line that sums it up.

use jiff::Timestamp;
use kardinal_api::kardinal::{Approval, PromotionState, PromotionStepStatus};
use kardinal_object::name_of;
use kardinal_planner::why::{Subject, Wait, WaitOn};

use super::choose::PromotionView;
use super::gates::pauses;
use super::outside::action;
use super::text::{display_version, roughly};
use super::{Gate, GateVerdict, Outcome, Promotion, World};
use crate::bundle::{refusal, takes_back, why};
use crate::promotion_step::why::{self as step, reason, sentence};
use crate::promotion_step::{ending, has_begun, lane, pull_request_number};
use crate::shard::shard_of;

/// What is waited for, the most important first. `before` are the environments that were explained already.
///
/// The step tells what it waits for itself. Gates, pauses and the environments before are looked at anew, so that nothing
/// is older than the objects.
pub(super) fn waits(
    world: &World<'_>,
    view: &PromotionView<'_>,
    gates: &[Gate],
    before: &[Promotion],
) -> Vec<Wait> {
    let mut waits: Vec<Wait> = agent(world, view).into_iter().collect();
    match view.state() {
        Some(PromotionState::Verified | PromotionState::Failed) => waits.clear(),
        Some(PromotionState::HealthChecking) => {
            waits.push(action(view).unwrap_or_else(|| health(world, view)));
        }
        Some(PromotionState::WaitingForMerge) => {
            waits.extend(paused(world));
            waits.extend(trouble(view));
            waits.extend(closed(gates));
            waits.push(pull_request(view));
        }
        Some(PromotionState::Promoting) => {
            waits.extend(paused(world));
            waits.extend(trouble(view));
            if view.step.is_some_and(has_begun) {
                // The organisation's gates hold every change, not only the first.
                let ours = gates.iter().filter(|gate| gate.scope.as_deref() == Some("org")).cloned();
                waits.extend(closed(&ours.collect::<Vec<_>>()));
            } else {
                waits.extend(closed(gates));
                waits.extend(ahead(world, view));
            }
            if waits.is_empty() {
                waits.push(controller(view));
            }
        }
        None | Some(PromotionState::Pending) => {
            waits.extend(paused(world));
            waits.extend(unaccepted(view));
            waits.extend(trouble(view));
            waits.extend(upstreams(view, before));
            waits.extend(closed(gates));
            waits.extend(ahead(world, view));
            if waits.is_empty() {
                waits.push(controller(view));
            }
        }
    }
    waits
}

/// Something outside that is in the way: a person has to mend it, or it is tried again.
fn trouble(view: &PromotionView<'_>) -> Option<Wait> {
    action(view).or_else(|| own(view, WaitOn::Outside).cloned())
}

/// What the step itself waits for of a kind.
fn own<'j>(view: &'j PromotionView<'_>, on: WaitOn) -> Option<&'j Wait> {
    view.step?.status.as_ref()?.waits.iter().find(|wait| wait.on == on)
}

/// The answer in one word and in one line.
pub(super) fn result(view: &PromotionView<'_>, waits: &[Wait]) -> (Outcome, String) {
    let said = view.entry().and_then(|entry| entry.message.clone());
    match view.state() {
        Some(PromotionState::Verified) => {
            let at = view.entry().and_then(|entry| entry.verified_at);
            let at = at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
            let evidence = view.entry().and_then(|entry| entry.evidence.as_ref());
            let doubt = evidence.and_then(|evidence| evidence.not_proven.as_ref());
            let doubt = doubt.map(|why| format!(", not proven: {why}")).unwrap_or_default();
            return (Outcome::Verified, format!("VERIFIED{at}{doubt}"));
        }
        Some(PromotionState::Failed) => {
            let said = said.unwrap_or_else(|| "the promotion has failed".to_owned());
            return (Outcome::Failed, format!("FAILED: {said}"));
        }
        _ => {}
    }
    let Some(first) = waits.first() else { return (Outcome::Promoting, "PROMOTING".to_owned()) };
    let named = |on: &[WaitOn]| {
        let names: Vec<&str> = waits
            .iter()
            .filter(|wait| on.contains(&wait.on))
            .map(|wait| wait.subject.name.as_str())
            .collect();
        names.join(", ")
    };
    match first.on {
        WaitOn::Pause | WaitOn::Gate => {
            (Outcome::Blocked, format!("BLOCKED by {}", named(&[WaitOn::Pause, WaitOn::Gate])))
        }
        WaitOn::Agent => (Outcome::Waiting, format!("WAITING: {}", first.detail)),
        WaitOn::Action | WaitOn::Outside => (Outcome::Blocked, format!("BLOCKED: {}", first.detail)),
        WaitOn::PullRequest => (Outcome::Waiting, format!("WAITING for {} to be merged", first.subject.name)),
        WaitOn::Health => (Outcome::Waiting, format!("WAITING for {} to become healthy", first.subject.name)),
        WaitOn::Upstream => {
            (Outcome::Waiting, format!("WAITING for {} to be verified", named(&[WaitOn::Upstream])))
        }
        WaitOn::Bundle => {
            (Outcome::Waiting, format!("WAITING for {} to leave {}", first.subject.name, view.environment))
        }
        WaitOn::Controller => (Outcome::Promoting, format!("PROMOTING: {}", first.detail)),
    }
}

/// What pauses the Pipeline, each by its own name.
fn paused(world: &World<'_>) -> Vec<Wait> {
    let pipeline = name_of(&world.pipeline.metadata);
    let pause = |name: &str, detail: Option<&str>| {
        let wait = step::paused(pipeline, detail.unwrap_or("the Pipeline is paused"));
        Wait { subject: Subject::new(name), ..wait }
    };
    let gates = pauses(world).map(|gate| pause(name_of(&gate.metadata), gate.spec.message.as_deref()));
    gates.chain(world.pipeline.spec.paused().then(|| pause("spec.paused", None))).collect()
}

/// The agent that should carry out the step, when it is away: nobody else touches it.
fn agent(world: &World<'_>, view: &PromotionView<'_>) -> Option<Wait> {
    let shard = shard_of(view.step?)?;
    let agent = world.agents.iter().find(|agent| agent.shard == shard)?;
    Some(step::away(shard, agent.away(world.now)?))
}

/// The closed gates in front of the environment; a pause is told by itself.
fn closed(gates: &[Gate]) -> impl Iterator<Item = Wait> {
    let holds = |gate: &&Gate| gate.blocking && gate.verdict == GateVerdict::Fail && !gate.pause;
    gates.iter().filter(holds).map(|gate| {
        let wait = step::closed(&gate.name, &gate.reason, gate.eta);
        Wait { basis: gate.basis.clone(), ..wait }
    })
}

/// Another Bundle that has the environment to itself, once everything else is in order.
fn ahead(world: &World<'_>, view: &PromotionView<'_>) -> Option<Wait> {
    let own = view.step?;
    let others = world.steps.iter().filter(|other| {
        other.metadata.name != own.metadata.name
            && other.metadata.namespace == own.metadata.namespace
            && other.spec.pipeline == own.spec.pipeline
            && other.spec.environment == own.spec.environment
    });
    lane::ahead(takes_back(&view.bundle, world.bundles), others)
}

/// The pull request, and what is the matter with it.
fn pull_request(view: &PromotionView<'_>) -> Wait {
    let status = view.step.and_then(|step| step.status.as_ref());
    let recorded = || view.entry().and_then(|entry| entry.pr_url.clone());
    let url = status.and_then(|status| status.pr_url.clone()).or_else(recorded).unwrap_or_default();
    let said = own(view, WaitOn::PullRequest).cloned();
    let wait = said.unwrap_or_else(|| not_looked_at(view, status, &url));
    let detail = match wait.reason.as_str() {
        reason::CONFLICT | reason::FOREIGN if !wait.detail.is_empty() => {
            format!("{url} ({})", sentence(&wait))
        }
        _ => url.clone(),
    };
    wait.detail(detail)
}

/// A pull request of which the step has not said yet how it stands.
fn not_looked_at(view: &PromotionView<'_>, status: Option<&PromotionStepStatus>, url: &str) -> Wait {
    let number = status.and_then(pull_request_number).map(str::to_owned).or_else(|| number_of(url));
    let reviewed = view.step.is_none_or(|step| step.spec.approval.unwrap_or_default() == Approval::PrReview);
    let reason = if reviewed { reason::REVIEW } else { reason::MERGING };
    step::pull_request(number.and_then(|number| number.parse().ok()), Some(url), reason)
}

/// The digits at the end of a pull request's URL.
fn number_of(url: &str) -> Option<String> {
    let last = url.trim_end_matches('/').rsplit('/').next()?;
    (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())).then(|| last.to_owned())
}

/// The check of the environment, with what it is to run and the time that is left.
fn health(world: &World<'_>, view: &PromotionView<'_>) -> Wait {
    let wait = own(view, WaitOn::Health).cloned();
    let said = wait.as_ref().map(|wait| match wait.reason.as_str() {
        reason::CHECKING => wait.detail.clone(),
        _ => sentence(wait),
    });
    let message = || view.step.and_then(|step| step.status.as_ref()?.message.clone());
    let said = said.or_else(message).or_else(|| view.entry()?.message.clone());
    let wait = wait.unwrap_or_else(|| step::health(&view.environment, reason::BEGUN, ""));
    let wait = step::ends(wait.detail(wanted(view, said.as_deref())), view.step.and_then(ending));
    // A status does not tell how long that is: it would be another one in each pass.
    let Some(at) = wait.deadline else { return wait };
    let basis = format!("{} ({})", wait.basis.as_deref().unwrap_or_default(), left(at, world.now));
    wait.basis(basis)
}

/// What the environment shall run, and what was seen of it last.
fn wanted(view: &PromotionView<'_>, said: Option<&str>) -> String {
    let version = display_version(&crate::gate_context::version(&view.bundle.spec));
    format!("wants {version}: {}", said.unwrap_or("nothing was seen of the environment yet"))
}

fn left(deadline: Timestamp, now: Timestamp) -> String {
    match deadline > now {
        true => format!("in {}", roughly(deadline.duration_since(now))),
        false => "now".to_owned(),
    }
}

/// The environments before this one that are not verified, with what those wait for.
fn upstreams(view: &PromotionView<'_>, before: &[Promotion]) -> Vec<Wait> {
    let open = view
        .upstreams
        .iter()
        .filter(|name| view.record(name).and_then(|entry| entry.state) != Some(PromotionState::Verified));
    open.map(|name| {
        let bundle = name_of(&view.bundle.metadata);
        let known = before
            .iter()
            .find(|promotion| promotion.environment == *name && promotion.bundle.as_deref() == Some(bundle));
        let detail = known.map_or_else(|| "is not verified yet".to_owned(), |known| known.result.clone());
        step::upstream(name, &detail)
    })
    .collect()
}

/// A Bundle that has no Graph because the API server does not take it.
fn unaccepted(view: &PromotionView<'_>) -> Option<Wait> {
    refusal(&view.bundle).filter(|_| view.graph.is_none())
}

/// kardinal's own next move, as the step, the Graph or the Bundle tells it.
fn controller(view: &PromotionView<'_>) -> Wait {
    let of_step = view.step.and_then(|step| step.status.as_ref()?.message.clone());
    // What holds a node is said in expressions, and is over once its step exists.
    let of_node = view.node_status().filter(|_| view.step.is_none()).and_then(|node| node.message.clone());
    let of_bundle = view.graph.is_none().then(|| why(&view.bundle).map(str::to_owned)).flatten();
    let detail =
        of_step.or(of_node).or(of_bundle).unwrap_or_else(|| match (view.step.map(shard_of), view.graph) {
            (Some(Some(shard)), _) => format!("the agent of shard {shard} is about to begin"),
            (Some(None), _) => "the step is about to begin".to_owned(),
            (None, Some(_)) => "the step is about to be created".to_owned(),
            (None, None) => "no controller has looked at the Bundle yet".to_owned(),
        });
    // Every status says it for a moment on its way: there it is left out.
    step::next(detail).basis("kardinal does it next; `kardinal doctor` tells whether it runs")
}
