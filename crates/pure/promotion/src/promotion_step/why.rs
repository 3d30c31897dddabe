//! What a step waits for, as data, and the one way to say it in words.
//!
//! Whoever decides to wait makes a [`Wait`] here. The message of the status is [`message`] of them; `kardinal explain`, the
//! board of the demo and the pull request render the same values, so nobody has to read prose.

use jiff::Timestamp;
use kardinal_planner::why::{Subject, Wait, WaitOn, Who};
use kardinal_vcs::Barrier;

use super::Ending;

/// The words of [`Wait::reason`]. Programs may rely on them.
pub mod reason {
    /// A gate answers no.
    pub const CLOSED: &str = kardinal_policy::CLOSED;
    /// A gate that the step requires does not exist.
    pub const MISSING: &str = "Missing";
    /// A gate has not answered yet, or not lately enough.
    pub const NOT_ASKED: &str = "NotAsked";
    /// What a gate says cannot be found out, so it holds.
    pub const UNKNOWN: &str = "Unknown";
    /// A newer Bundle has taken the place of this one.
    pub const SUPERSEDED: &str = "Superseded";
    /// Another Bundle has the environment to itself.
    pub const AHEAD: &str = "Ahead";
    /// An environment before this one is not verified.
    pub const NOT_VERIFIED: &str = "NotVerified";
    /// Somebody has to merge the pull request.
    pub const REVIEW: &str = "Review";
    /// kardinal merges the pull request by itself.
    pub const MERGING: &str = "Merging";
    /// The pull request cannot be merged without conflicts.
    pub const CONFLICT: &str = "Conflict";
    /// The pull request holds something that kardinal did not write.
    pub const FOREIGN: &str = "Foreign";
    /// The pull request was deleted, and another one is opened.
    pub const GONE: &str = "Gone";
    /// The check of the environment has begun.
    pub const BEGUN: &str = "Begun";
    /// The environment is not healthy yet.
    pub const CHECKING: &str = "Checking";
    /// The environment has become worse.
    pub const DEGRADED: &str = "Degraded";
    /// The environment is healthy, and nothing shows with which version.
    pub const NOT_PROVEN: &str = "NotProven";
    /// Nothing is known of the environment.
    pub const UNREACHABLE: &str = "Unreachable";
    /// Somebody paused the Pipeline.
    pub const PAUSED: &str = "Paused";
    /// A person has to mend something.
    pub const ACTION_NEEDED: &str = "ActionNeeded";
    /// Somebody outside does not let us in with the credentials that we have.
    pub const NOT_LET_IN: &str = "NotLetIn";
    /// The operator does not permit to reach the host.
    pub const HOST_NOT_ALLOWED: &str = "HostNotAllowed";
    /// Somebody outside failed, and it is tried again.
    pub const TRYING_AGAIN: &str = "TryingAgain";
    /// The agent of a shard is away.
    pub const AWAY: &str = "Away";
    /// kardinal does this next.
    pub const NEXT: &str = "Next";
}

/// Under this name a [`Wait`] tells the number of a pull request.
const NUMBER: &str = "number";
/// Under this name a [`Wait`] tells when something was noticed.
const SINCE: &str = "since";
/// Under this name a [`Wait`] tells with which code of HTTP somebody does not let us in.
const CODE: &str = "code";
/// The codes with which a cluster does not let us in, or look around no further, and the words that Kubernetes has for them.
const REFUSALS: [(u16, &str); 2] = [(401, "Unauthorized"), (403, "Forbidden")];
/// Under this name a [`Wait`] tells the environment that it is about.
pub(crate) const ENVIRONMENT: &str = "environment";
/// Stands for an environment that nobody has named.
const BEFORE: &str = "the environment before";

/// Somebody paused the Pipeline.
pub(crate) fn paused(pipeline: &str, why: &str) -> Wait {
    Wait::new(WaitOn::Pause, reason::PAUSED, Subject::object("Pipeline", pipeline), Who::Person)
        .detail(why)
        .basis(format!("needs a person to run `kardinal resume {pipeline}`"))
}

/// A gate that does not let the step pass. Only a closed one may open by itself.
pub(crate) fn gate(name: &str, reason: &str, detail: impl Into<String>) -> Wait {
    let who = match reason {
        reason::MISSING | reason::NOT_ASKED => Who::Kardinal,
        reason::UNKNOWN => Who::Outside,
        _ => Who::Person,
    };
    Wait::new(WaitOn::Gate, reason, Subject::object("PolicyGate", name), who).detail(detail)
}

/// A gate that says no; it may open by itself.
pub(crate) fn closed(name: &str, detail: &str, opens_at: Option<Timestamp>) -> Wait {
    let who = if opens_at.is_some() { Who::Time } else { Who::Person };
    Wait { who, until: opens_at, ..gate(name, reason::CLOSED, detail) }
}

/// What the organisation's gates say cannot be found out.
pub(super) fn unknown_gates(detail: &str) -> Wait {
    Wait::new(WaitOn::Gate, reason::UNKNOWN, Subject::new("the organisation's gates"), Who::Outside)
        .detail(detail)
}

/// The Bundle of the step does not exist, or another one has taken its place.
pub(super) fn bundle(name: &str, reason: &str) -> Wait {
    Wait::new(WaitOn::Bundle, reason, Subject::object("Bundle", name), Who::Kardinal)
}

/// Another Bundle that has the environment to itself, and what it does there.
pub(crate) fn ahead(bundle: &str, environment: &str, what: &str) -> Wait {
    Wait::new(WaitOn::Bundle, reason::AHEAD, Subject::object("Bundle", bundle), Who::Kardinal)
        .detail(what)
        .basis(format!("follows when {bundle} is through in {environment}"))
        .value(ENVIRONMENT, environment)
}

/// An environment before this one, and where it stands.
pub(crate) fn upstream(name: &str, state: &str) -> Wait {
    Wait::new(WaitOn::Upstream, reason::NOT_VERIFIED, Subject::new(name), Who::Kardinal)
        .detail(state)
        .basis(format!("follows when {name} is verified"))
}

/// The same for several; `names` is empty where nobody has written them down.
pub(super) fn upstreams<'a>(names: impl Iterator<Item = &'a str>, state: &str) -> Vec<Wait> {
    let all: Vec<Wait> = names.map(|name| upstream(name, state)).collect();
    if all.is_empty() { vec![upstream(BEFORE, state)] } else { all }
}

/// A pull request; its number may not be on record.
pub(crate) fn pull_request(number: Option<u64>, url: Option<&str>, reason: &str) -> Wait {
    let name = number.map_or_else(|| "the pull request".to_owned(), |number| format!("PR #{number}"));
    let subject = Subject { url: url.map(str::to_owned), ..Subject::new(name.as_str()) };
    let who = match reason {
        reason::MERGING | reason::GONE => Who::Kardinal,
        _ => Who::Person,
    };
    let wait = Wait::new(WaitOn::PullRequest, reason, subject, who);
    let wait = number.map_or(wait.clone(), |number| wait.value(NUMBER, number.to_string()));
    wait.basis(match reason {
        reason::CONFLICT => format!("needs a person to resolve the conflicts or to close {name}"),
        reason::FOREIGN => format!("needs a person to look at {name}, and to merge or close it"),
        reason::MERGING => format!("kardinal merges {name} by itself"),
        reason::GONE => "kardinal opens another one by itself".to_owned(),
        _ => format!("needs a person to merge {name}"),
    })
}

/// The number of the pull request that is waited for.
pub fn number(wait: &Wait) -> Option<u64> {
    wait.value_of(NUMBER)?.parse().ok()
}

/// The environment, which is not verified yet. What is seen of it ends the waiting, or the time does.
pub(crate) fn health(environment: &str, reason: &str, detail: &str) -> Wait {
    Wait::new(WaitOn::Health, reason, Subject::new(environment), Who::Outside).detail(detail)
}

/// The same where the cluster cannot be reached, which was noticed at this time. `code` is what it answers with, if it does.
pub(crate) fn unreachable(environment: &str, why: &str, code: Option<u16>, since: Timestamp) -> Wait {
    let wait = health(environment, reason::UNREACHABLE, why).value(SINCE, format!("{since:.0}"));
    match code.filter(|code| REFUSALS.iter().any(|(refusal, _)| refusal == code)) {
        Some(code) => wait.value(CODE, code.to_string()),
        None => wait,
    }
}

/// What a condition says of a cluster that cannot be reached, in one word: of one that refuses, with which code.
pub(super) fn unreachable_reason(code: Option<u16>) -> &'static str {
    let refusal = REFUSALS.iter().find(|(refusal, _)| Some(*refusal) == code);
    refusal.map_or(reason::UNREACHABLE, |(_, word)| word)
}

/// The code that such a word stands for.
pub(crate) fn unreachable_code(reason: &str) -> Option<u16> {
    REFUSALS.iter().find(|(_, word)| *word == reason).map(|(code, _)| *code)
}

/// The code of HTTP with which a cluster does not let us in, or look around no further.
pub(crate) fn code(wait: &Wait) -> Option<&str> {
    wait.value_of(CODE)
}

/// A wait for the environment with how its check ends if nothing of what is seen changes any more. Absent: the check has not
/// begun.
pub(crate) fn ends(wait: Wait, ending: Option<Ending>) -> Wait {
    let (until, deadline, basis) = match ending {
        Some(Ending::Open) => {
            let basis = "the time of the check does not run while nothing is known of the environment";
            (None, None, basis.to_owned())
        }
        Some(Ending::Fails(at)) => (None, Some(at), format!("no later than {at:.0}, or it fails")),
        Some(Ending::Counts(at)) => {
            (Some(at), None, format!("without a proof it counts as verified at {at:.0}"))
        }
        None => (None, None, "it goes on as soon as the environment is healthy".to_owned()),
    };
    Wait { until, deadline, ..wait.basis(basis) }
}

/// Something that a person has to mend.
pub(crate) fn action(detail: &str) -> Wait {
    Wait::new(WaitOn::Action, reason::ACTION_NEEDED, Subject::new(reason::ACTION_NEEDED), Who::Person)
        .detail(detail)
}

/// The same with what stands in the way.
pub(crate) fn blocked(barrier: Barrier, detail: &str) -> Wait {
    Wait { reason: blocked_reason(barrier).to_owned(), ..action(detail) }
}

/// What stands in the way, in one word: the reason of the wait and of the condition.
pub(super) fn blocked_reason(barrier: Barrier) -> &'static str {
    match barrier {
        Barrier::NotLetIn => reason::NOT_LET_IN,
        Barrier::HostNotAllowed => reason::HOST_NOT_ALLOWED,
        Barrier::Other => reason::ACTION_NEEDED,
    }
}

/// What stands in the way by that word. Conditions that were written before they had it tell only that somebody has to act.
pub(crate) fn barrier(reason: &str) -> Barrier {
    let all = [Barrier::NotLetIn, Barrier::HostNotAllowed, Barrier::Other];
    all.into_iter().find(|barrier| blocked_reason(*barrier) == reason).unwrap_or(Barrier::Other)
}

/// Somebody outside who failed; the step tries again.
pub(crate) fn outside(detail: impl Into<String>) -> Wait {
    Wait::new(WaitOn::Outside, reason::TRYING_AGAIN, Subject::new("outside"), Who::Outside)
        .detail(detail)
        .basis("kardinal tries again by itself and goes on as soon as that works")
}

/// The agent of a shard that is away; `since` tells how long.
pub(crate) fn away(shard: &str, since: impl Into<String>) -> Wait {
    Wait::new(WaitOn::Agent, reason::AWAY, Subject::new(shard), Who::Person)
        .detail(since)
        .basis(format!("goes on when `kardinal agent --shard {shard}` runs again"))
}

/// What kardinal itself does next.
pub fn next(detail: impl Into<String>) -> Wait {
    Wait::new(WaitOn::Controller, reason::NEXT, Subject::new("kardinal"), Who::Kardinal).detail(detail)
}

/// What is waited for in one line: the message of a status. What holds a pull request is said with it.
pub fn message(waits: &[Wait]) -> String {
    let Some(first) = waits.first() else { return String::new() };
    let of = |on: WaitOn| waits.iter().filter(move |wait| wait.on == on);
    match (first.on, of(WaitOn::PullRequest).next()) {
        (WaitOn::Pause, Some(request)) => format!("held: {}; {} waits", first.detail, request.subject.name),
        (WaitOn::Gate, Some(request)) => {
            let closed: Vec<&str> = of(WaitOn::Gate).map(|wait| wait.subject.name.as_str()).collect();
            format!("{} waits: held by {}", request.subject.name, closed.join(", "))
        }
        (WaitOn::Upstream, _) => {
            let names: Vec<&str> = of(WaitOn::Upstream).map(|wait| wait.subject.name.as_str()).collect();
            upstream_sentence(&names.join(","), &first.detail)
        }
        _ => sentence(first),
    }
}

fn upstream_sentence(names: &str, state: &str) -> String {
    match state {
        "" => format!("waiting for {names} to be Verified"),
        _ => format!("waiting for {names} to be Verified: it is {state}"),
    }
}

/// One thing in words.
pub fn sentence(wait: &Wait) -> String {
    let (name, detail) = (&wait.subject.name, &wait.detail);
    match (wait.on, wait.reason.as_str()) {
        (WaitOn::Pause, _) => format!("held: {detail}"),
        (WaitOn::Gate, reason::UNKNOWN) => format!("waiting for {name}: {detail}"),
        (WaitOn::Gate, reason::CLOSED) => format!("held by gate `{name}`: {detail}"),
        (WaitOn::Gate, _) => format!("waiting for gate `{name}`: {detail}"),
        (WaitOn::Upstream, _) => upstream_sentence(name, detail),
        (WaitOn::Bundle, reason::SUPERSEDED) => {
            format!("Bundle `{name}` is superseded: a newer one has taken its place")
        }
        (WaitOn::Bundle, reason::AHEAD) => {
            let environment = wait.value_of(ENVIRONMENT).unwrap_or_default();
            format!("waiting for `{name}` to leave `{environment}`: {detail}")
        }
        (WaitOn::Bundle, _) => format!("waiting for Bundle `{name}`: it does not exist"),
        (WaitOn::PullRequest, reason::REVIEW) => format!("waiting for {name} to be merged"),
        (WaitOn::PullRequest, reason::MERGING) => format!("merging {name}"),
        (WaitOn::PullRequest, reason::GONE) => format!("{name} no longer exists: another one is opened"),
        (WaitOn::Health, reason::BEGUN) if detail.is_empty() => "checking health".to_owned(),
        (WaitOn::Health, reason::BEGUN) => format!("{detail}; checking health"),
        (WaitOn::Health, reason::CHECKING) => format!("checking health: {detail}"),
        (WaitOn::Health, reason::DEGRADED) => format!("degraded: {detail}"),
        (WaitOn::Health, reason::NOT_PROVEN) => {
            let until = wait.until.map(|until| format!("; without a proof it counts from {until:.0} on"));
            format!("not proven yet: {detail}{}", until.unwrap_or_default())
        }
        (WaitOn::Health, reason::UNREACHABLE) => {
            let since = wait.value_of(SINCE).unwrap_or_default();
            format!(
                "health is unknown: the cluster cannot be reached, which was noticed at {since}: {detail}"
            )
        }
        (WaitOn::Outside, _) => format!("{detail}; trying again"),
        // The rest was made by others as a whole sentence.
        (WaitOn::Agent | WaitOn::Action | WaitOn::PullRequest | WaitOn::Health | WaitOn::Controller, _) => {
            detail.clone()
        }
    }
}
