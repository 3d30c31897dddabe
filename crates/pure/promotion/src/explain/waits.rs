//! What an environment waits for, and the one line that sums it up.

use jiff::Timestamp;
use kardinal_api::kardinal::{Approval, PromotionState};
use kardinal_object::name_of;

use super::choose::Journey;
use super::gates::pauses;
use super::outside::{action, silence};
use super::text::{display_version, roughly};
use super::{Gate, GateVerdict, Outcome, Promotion, Wait, WaitOn, World};
use crate::bundle::{refusal, takes_back, why};
use crate::promotion_step::{
    Ending, ending, holds_foreign_commits, lane, promoted_commit, pull_request_number,
};
use crate::shard::shard_of;

/// What a person can do about something that the API server does not take.
pub const REFUSAL_REMEDY: &str =
    "needs a person to change what the API server says; kardinal offers it again each minute";

/// What is waited for, the most important first. `before` are the environments that were explained already.
pub(super) fn waits(
    world: &World<'_>,
    journey: &Journey<'_>,
    gates: &[Gate],
    before: &[Promotion],
) -> Vec<Wait> {
    let mut waits: Vec<Wait> = agent(world, journey).into_iter().collect();
    match journey.state() {
        Some(PromotionState::Verified | PromotionState::Failed) => waits.clear(),
        Some(PromotionState::HealthChecking) => {
            waits.extend(action(journey).or_else(|| health(world, journey)))
        }
        Some(PromotionState::WaitingForMerge) => {
            waits.extend(paused(world));
            waits.extend(action(journey).or_else(|| silence(journey)));
            waits.extend(closed(gates));
            waits.push(pull_request(journey));
        }
        Some(PromotionState::Promoting) => {
            waits.extend(paused(world));
            waits.extend(action(journey).or_else(|| silence(journey)));
            if has_begun(journey) {
                // The organisation's gates hold every change, not only the first.
                let ours = gates.iter().filter(|gate| gate.scope.as_deref() == Some("org")).cloned();
                waits.extend(closed(&ours.collect::<Vec<_>>()));
            } else {
                waits.extend(closed(gates));
                waits.extend(holder(world, journey));
            }
            if waits.is_empty() {
                waits.push(controller(journey));
            }
        }
        None | Some(PromotionState::Pending) => {
            waits.extend(paused(world));
            waits.extend(unaccepted(journey));
            waits.extend(action(journey).or_else(|| silence(journey)));
            waits.extend(upstreams(journey, before));
            waits.extend(closed(gates));
            waits.extend(holder(world, journey));
            if waits.is_empty() {
                waits.push(controller(journey));
            }
        }
    }
    waits
}

/// The answer in one word and in one line.
pub(super) fn result(journey: &Journey<'_>, waits: &[Wait]) -> (Outcome, String) {
    let said = journey.entry().and_then(|entry| entry.message.clone());
    match journey.state() {
        Some(PromotionState::Verified) => {
            let at = journey.entry().and_then(|entry| entry.verified_at);
            let at = at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
            let evidence = journey.entry().and_then(|entry| entry.evidence.as_ref());
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
        let names: Vec<&str> =
            waits.iter().filter(|wait| on.contains(&wait.on)).map(|wait| wait.name.as_str()).collect();
        names.join(", ")
    };
    match first.on {
        WaitOn::Pause | WaitOn::Gate => {
            (Outcome::Blocked, format!("BLOCKED by {}", named(&[WaitOn::Pause, WaitOn::Gate])))
        }
        WaitOn::Agent => (Outcome::Waiting, format!("WAITING: {}", first.detail)),
        WaitOn::Action | WaitOn::Outside => (Outcome::Blocked, format!("BLOCKED: {}", first.detail)),
        WaitOn::PullRequest => (Outcome::Waiting, format!("WAITING for {} to be merged", first.name)),
        WaitOn::Health => (Outcome::Waiting, format!("WAITING for {} to become healthy", first.name)),
        WaitOn::Upstream => {
            (Outcome::Waiting, format!("WAITING for {} to be verified", named(&[WaitOn::Upstream])))
        }
        WaitOn::Bundle => {
            (Outcome::Waiting, format!("WAITING for {} to leave {}", first.name, journey.environment))
        }
        WaitOn::Controller => (Outcome::Promoting, format!("PROMOTING: {}", first.detail)),
    }
}

fn paused(world: &World<'_>) -> Vec<Wait> {
    let pipeline = name_of(&world.pipeline.metadata);
    let resume = format!("needs a person to run `kardinal resume {pipeline}`");
    let pause = |name: &str, detail: &str| Wait {
        on: WaitOn::Pause,
        name: name.to_owned(),
        detail: detail.to_owned(),
        eta: None,
        deadline: None,
        basis: resume.clone(),
    };
    let mut waits: Vec<Wait> = pauses(world)
        .map(|gate| {
            pause(name_of(&gate.metadata), gate.spec.message.as_deref().unwrap_or("the Pipeline is paused"))
        })
        .collect();
    if world.pipeline.spec.paused() {
        waits.push(pause("spec.paused", "the Pipeline is paused"));
    }
    waits
}

/// The agent that should carry out the step, when it is away: nobody else touches it.
fn agent(world: &World<'_>, journey: &Journey<'_>) -> Option<Wait> {
    let shard = shard_of(journey.step?)?;
    let agent = world.agents.iter().find(|agent| agent.shard == shard)?;
    Some(Wait {
        on: WaitOn::Agent,
        name: shard.to_owned(),
        detail: agent.away(world.now)?,
        eta: None,
        deadline: None,
        basis: format!("goes on when `kardinal agent --shard {shard}` runs again"),
    })
}

/// The closed gates in front of the environment; a pause is told by itself.
fn closed(gates: &[Gate]) -> impl Iterator<Item = Wait> {
    let holds = |gate: &&Gate| gate.blocking && gate.verdict == GateVerdict::Fail && !gate.pause;
    gates.iter().filter(holds).map(|gate| Wait {
        on: WaitOn::Gate,
        name: gate.name.clone(),
        detail: gate.reason.clone(),
        eta: gate.eta,
        deadline: None,
        basis: gate.basis.clone().unwrap_or_default(),
    })
}

/// Another Bundle that has the environment to itself, once everything else is in order.
fn holder(world: &World<'_>, journey: &Journey<'_>) -> Option<Wait> {
    let own = journey.step?;
    let others = world.steps.iter().filter(|other| {
        other.metadata.name != own.metadata.name
            && other.metadata.namespace == own.metadata.namespace
            && other.spec.pipeline == own.spec.pipeline
            && other.spec.environment == own.spec.environment
    });
    let holder = lane::holder(takes_back(&journey.bundle, world.bundles), others)?;
    let name = holder.spec.bundle_ref.clone();
    Some(Wait {
        on: WaitOn::Bundle,
        detail: lane::deed(holder),
        basis: format!("follows when {name} is through in {}", journey.environment),
        name,
        eta: None,
        deadline: None,
    })
}

fn pull_request(journey: &Journey<'_>) -> Wait {
    let status = journey.step.and_then(|step| step.status.as_ref());
    let url = status.and_then(|status| status.pr_url.clone());
    let url = url.or_else(|| journey.entry().and_then(|entry| entry.pr_url.clone())).unwrap_or_default();
    let number = status.and_then(pull_request_number).map(str::to_owned).or_else(|| number_of(&url));
    let name = number.map_or_else(|| "the pull request".to_owned(), |number| format!("PR #{number}"));
    let conflict = status.and_then(|status| status.message.clone()).filter(|said| said.contains("conflict"));
    let in_conflict = conflict.is_some();
    let foreign = status.is_some_and(holds_foreign_commits);
    let detail = match conflict.or_else(|| foreign.then(|| status?.message.clone()).flatten()) {
        Some(trouble) => format!("{url} ({trouble})"),
        None => url,
    };
    let reviewed =
        journey.step.is_none_or(|step| step.spec.approval.unwrap_or_default() == Approval::PrReview);
    let basis = match (in_conflict, foreign, reviewed) {
        (true, _, _) => format!("needs a person to resolve the conflicts or to close {name}"),
        (false, true, _) => format!("needs a person to look at {name}, and to merge or close it"),
        (false, false, true) => format!("needs a person to merge {name}"),
        (false, false, false) => format!("kardinal merges {name} by itself"),
    };
    Wait { on: WaitOn::PullRequest, name, detail, eta: None, deadline: None, basis }
}

/// Whether something was written already; the gates are asked up to then.
fn has_begun(journey: &Journey<'_>) -> bool {
    journey.step.and_then(|step| step.status.as_ref()).and_then(promoted_commit).is_some()
}

/// The digits at the end of a pull request's URL.
fn number_of(url: &str) -> Option<String> {
    let last = url.trim_end_matches('/').rsplit('/').next()?;
    (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())).then(|| last.to_owned())
}

fn health(world: &World<'_>, journey: &Journey<'_>) -> Option<Wait> {
    let entry = journey.entry();
    let said = journey.step.and_then(|step| step.status.as_ref()?.message.clone());
    let said = said.or_else(|| entry?.message.clone());
    let (mut eta, mut deadline) = (None, None);
    let basis = match journey.step.and_then(ending) {
        Some(Ending::Open) => {
            "the time of the check does not run while nothing is known of the environment".to_owned()
        }
        Some(Ending::Fails(at)) => {
            deadline = Some(at);
            format!("no later than {at:.0}, or it fails ({})", left(at, world.now))
        }
        Some(Ending::Counts(at)) => {
            eta = Some(at);
            format!("without a proof it counts as verified at {at:.0}")
        }
        None => "it goes on as soon as the environment is healthy".to_owned(),
    };
    Some(Wait {
        on: WaitOn::Health,
        name: journey.environment.clone(),
        detail: wanted(journey, said.as_deref()),
        eta,
        deadline,
        basis,
    })
}

/// What the environment shall run, and what was seen of it last.
fn wanted(journey: &Journey<'_>, said: Option<&str>) -> String {
    let version = display_version(&kardinal_policy::version(&journey.bundle.spec));
    let said = said.map(|said| said.strip_prefix("checking health: ").unwrap_or(said));
    format!("wants {version}: {}", said.unwrap_or("nothing was seen of the environment yet"))
}

fn left(deadline: Timestamp, now: Timestamp) -> String {
    match deadline > now {
        true => format!("in {}", roughly(deadline.duration_since(now))),
        false => "now".to_owned(),
    }
}

/// The environments before this one that are not verified, with what those wait for.
fn upstreams(journey: &Journey<'_>, before: &[Promotion]) -> Vec<Wait> {
    let open = journey
        .upstreams
        .iter()
        .filter(|name| journey.record(name).and_then(|entry| entry.state) != Some(PromotionState::Verified));
    open.map(|name| {
        let bundle = name_of(&journey.bundle.metadata);
        let known = before
            .iter()
            .find(|promotion| promotion.environment == *name && promotion.bundle.as_deref() == Some(bundle));
        let detail = known.map_or_else(|| "is not verified yet".to_owned(), |known| known.result.clone());
        Wait {
            on: WaitOn::Upstream,
            name: name.clone(),
            detail,
            eta: None,
            deadline: None,
            basis: format!("follows when {name} is verified"),
        }
    })
    .collect()
}

/// A Bundle that has no Graph because the API server does not take it.
fn unaccepted(journey: &Journey<'_>) -> Option<Wait> {
    let said = refusal(&journey.bundle).filter(|_| journey.graph.is_none())?;
    Some(Wait {
        on: WaitOn::Action,
        name: "ActionNeeded".to_owned(),
        detail: said.to_owned(),
        eta: None,
        deadline: None,
        basis: REFUSAL_REMEDY.to_owned(),
    })
}

/// kardinal's own next move, as the step, the Graph or the Bundle tells it.
fn controller(journey: &Journey<'_>) -> Wait {
    let of_step = journey.step.and_then(|step| step.status.as_ref()?.message.clone());
    // What holds a node is said in expressions, and is over once its step exists.
    let of_node =
        journey.node_status().filter(|_| journey.step.is_none()).and_then(|node| node.message.clone());
    let of_bundle = journey.graph.is_none().then(|| why(&journey.bundle).map(str::to_owned)).flatten();
    let detail = of_step.or(of_node).or(of_bundle).unwrap_or_else(|| {
        match (journey.step.map(shard_of), journey.graph) {
            (Some(Some(shard)), _) => format!("the agent of shard {shard} is about to begin"),
            (Some(None), _) => "the step is about to begin".to_owned(),
            (None, Some(_)) => "the step is about to be created".to_owned(),
            (None, None) => "no controller has looked at the Bundle yet".to_owned(),
        }
    });
    Wait {
        on: WaitOn::Controller,
        name: "kardinal".to_owned(),
        detail,
        eta: None,
        deadline: None,
        basis: "kardinal does it next; `kardinal doctor` tells whether it runs".to_owned(),
    }
}
