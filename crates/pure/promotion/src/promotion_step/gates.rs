//! What the required gates say: whether the promotion may start, and what people are shown of them.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::GoDuration;
use kardinal_api::kardinal::{Evidence, GateEvidence, GateResult, PolicyGate, PromotionStep, TaskState};
use kardinal_policy::{GATE_TEMPLATE_LABEL, Scope, freshness};

use super::draft::{self, output};
use super::organisation::Answer;
use super::{
    Hold, Organisation, PullRequest, Snapshot, change, closing, commit_check, late, pull_request, why,
};
use crate::policy_gate::READY;
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::why::Wait;

/// Under this name the evidence tells that a merge disregarded a pause.
const PAUSED: &str = "paused";
/// Under this name the evidence tells that something else was merged than what kardinal had written.
const OWN_COMMIT: &str = "own-commit";
/// Under this name the evidence tells that nobody knows what the organisation's gates said.
const NOT_ASKED: &str = "organisation-gates";

/// Under this name the evidence tells that a promotion had been rejected before it was merged.
const REJECTED: &str = "rejected";
/// Under this name the evidence tells that a promotion had failed before it was merged.
const FAILED: &str = "failed";

/// One required gate.
pub(super) struct Gate<'a> {
    name: &'a str,
    source: Source<'a>,
}

/// Who says what a gate answers.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// The gate in the team's namespace, when it exists.
    Instance(Option<&'a PolicyGate>),
    /// The organisation's template itself.
    Organisation(&'a Answer),
}

/// The organisation's gates as the step works them out, then the others that it names. An instance that shows one of
/// the former is only a view of it.
pub(super) fn required<'a>(snapshot: &'a Snapshot<'_>) -> impl Iterator<Item = Gate<'a>> {
    let organisation = snapshot.organisation.ok();
    let answers = organisation.into_iter().flat_map(Organisation::answers);
    let ours = answers.map(|answer| Gate { name: &answer.name, source: Source::Organisation(answer) });
    let named = snapshot.step.spec.required_gates.iter();
    let named = named.map(|name| (name, snapshot.gates.get(name).copied()));
    let others = named.filter(move |(_, found)| {
        !found.is_some_and(|found| organisation.is_some_and(|known| known.is_shown_by(found)))
    });
    ours.chain(others.map(|(name, found)| Gate { name, source: Source::Instance(found) }))
}

/// What stands in the way of the first side effect; `None` when nothing does. Old answers do not count.
pub(super) fn blocker(snapshot: &Snapshot<'_>) -> Option<Wait> {
    required(snapshot).find_map(|gate| gate.blocker(snapshot.step, snapshot.now))
}

/// The gates that are closed, by the names that people know.
pub(super) fn closed(snapshot: &Snapshot<'_>) -> Vec<Wait> {
    let closed = required(snapshot).filter(|gate| !gate.is_open(snapshot.step, snapshot.now));
    closed.map(|gate| gate.wait()).collect()
}

/// What the gates said at the moment the promotion passed them.
pub(super) fn evidence(snapshot: &Snapshot<'_>) -> Evidence {
    // A template may be older than any promotion; the instance that shows it is as old as the waiting.
    let created = snapshot.gates.values().map(|gate| gate.metadata.creation_timestamp.as_ref());
    let since =
        created.chain([snapshot.step.metadata.creation_timestamp.as_ref()]).flatten().map(|time| time.0);
    // What keeps the promotion after that is not the gates' doing.
    let opened = |gate: &PolicyGate| {
        let ready = gate.status.as_ref().and_then(|status| condition::find(&status.conditions, READY));
        ready.filter(|ready| condition::is(ready, Truth::True)).map(|ready| ready.last_transition_time.0)
    };
    let until = snapshot.gates.values().map(|gate| opened(gate).unwrap_or(snapshot.now)).max();
    let until = until.unwrap_or(snapshot.now).min(snapshot.now);
    let waited = since.min().map_or(SignedDuration::ZERO, |since| until.duration_since(since));
    let gates: Vec<GateEvidence> =
        required(snapshot).map(|gate| gate.evidence(snapshot.step, snapshot.now)).collect();
    Evidence {
        metrics: None,
        gate_duration: (!gates.is_empty()).then(|| GoDuration::new(duration(waited))),
        approved_by: Some(Vec::new()),
        policy_gates: Some(gates),
        not_proven: None,
    }
}

/// What the gates said when the change was merged. One that was closed did not hold the merge, so somebody forced it,
/// unless the forge still showed a green check. The same goes for a pause, and for commits of others that went in with the
/// change.
pub(super) fn at_merge(
    snapshot: &Snapshot<'_>,
    at: Timestamp,
    pull_request: &PullRequest,
) -> Vec<GateEvidence> {
    let by = pull_request.merged_by.as_deref();
    let organisation = snapshot.organisation.ok();
    let then = organisation.map(|organisation| during(organisation, at, snapshot.now)).unwrap_or_default();
    let others = required(snapshot).filter(|gate| matches!(gate.source, Source::Instance(_)));
    let green = commit_check::was_green(snapshot, &pull_request.head, at);
    // Of what was closed only later, or nobody knows since when, or was shown as open, nobody is accused.
    let forced = |mut evidence: GateEvidence| {
        let was_closed = evidence.evaluated_at.is_some_and(|evaluated_at| evaluated_at <= at);
        if evidence.result == GateResult::Fail && was_closed {
            match green {
                true => evidence.check_was_green = Some(true),
                false => {
                    let by = by.unwrap_or("somebody whom the forge does not name");
                    evidence.forced_by = Some(by.to_owned());
                }
            }
        }
        evidence
    };
    let ours = then.iter().map(|answer| {
        let gate = Gate { name: &answer.name, source: Source::Organisation(answer) };
        let evidence = gate.evidence(snapshot.step, at);
        match answer.changed_at.filter(|changed_at| changed_at.as_second() >= at.as_second()) {
            Some(changed_at) => before_the_change(evidence, (changed_at, at), green),
            None => evidence,
        }
    });
    let gates = ours.chain(others.map(|gate| gate.evidence(snapshot.step, at)));
    gates.chain(disregarded(snapshot, at, pull_request)).map(forced).collect()
}

/// What is known of a gate that was changed after a merge: what it asks now is not what it asked then. Of two things in the
/// same second nobody knows which came first, so that nothing was passed and nobody is accused.
fn before_the_change(
    evidence: GateEvidence,
    (changed_at, at): (Timestamp, Timestamp),
    green: bool,
) -> GateEvidence {
    let is_later = changed_at.as_second() > at.as_second();
    let (result, reason) = match (green, is_later) {
        (true, true) => (
            GateResult::Pass,
            format!("the check was green at the merge; the gate was changed later, at {changed_at:.0}"),
        ),
        (false, true) => (
            GateResult::Fail,
            format!("what it said at the merge is not known: the gate was changed later, at {changed_at:.0}"),
        ),
        (_, false) => (
            GateResult::Fail,
            format!(
                "what it said at the merge is not known: the gate was changed in the same second, at {changed_at:.0}"
            ),
        ),
    };
    GateEvidence { result, reason: Some(reason), evaluated_at: None, ..evidence }
}

/// The answers at a merge. Forges tell its time in whole seconds: a gate that was open at the beginning or at the end of
/// that second has let it pass.
fn during(organisation: &Organisation, at: Timestamp, now: Timestamp) -> Vec<Answer> {
    let first = organisation.at(at);
    let whole = at.subsec_nanosecond() == 0;
    let end = at.saturating_add(SignedDuration::from_nanos(999_999_999)).unwrap_or(at).min(now);
    if !whole || end <= at {
        return first;
    }
    let last = organisation.at(end);
    first
        .into_iter()
        .zip(last)
        .map(|(first, last)| if last.verdict.is_open() { last } else { first })
        .collect()
}

/// What else a merge has passed over.
fn disregarded(
    snapshot: &Snapshot<'_>,
    at: Timestamp,
    pull_request: &PullRequest,
) -> impl Iterator<Item = GateEvidence> {
    let failed = |name: &str, reason: String| GateEvidence {
        name: name.to_owned(),
        result: GateResult::Fail,
        reason: Some(reason),
        evaluated_at: Some(at),
        forced_by: None,
        check_was_green: None,
    };
    // A pause that came after the merge has held nobody.
    let hold = snapshot.hold.as_ref().filter(|hold| hold.since.is_none_or(|since| since <= at));
    // `spec.paused` has no time. If the check told of it, it was there before the merge.
    let is_known = |hold: &Hold| hold.since.is_some() || is_shown(snapshot, pull_request);
    let paused = hold.map(|hold| GateEvidence {
        evaluated_at: is_known(hold).then_some(at),
        ..failed(PAUSED, hold.why.clone())
    });
    let strange = pull_request::foreign(snapshot, pull_request).map(|why| {
        match was_looked_at(snapshot, pull_request) {
            true => failed(OWN_COMMIT, why),
            // It may be our own change, rebuilt in a life that ended before it was written down.
            false => GateEvidence { evaluated_at: None, ..failed(OWN_COMMIT, not_on_record(pull_request)) },
        }
    });
    let not_asked = snapshot.bundle.is_none().then(|| GateEvidence {
        evaluated_at: None,
        ..failed(NOT_ASKED, "they could not be asked: the Bundle does not exist any more".to_owned())
    });
    let over = (closing::has_failed(snapshot) && late::ended_before(snapshot, at)).then(|| {
        let name = if super::is_rejected(snapshot.step) { REJECTED } else { FAILED };
        failed(name, format!("the promotion was over: {}", end(snapshot)))
    });
    paused.into_iter().chain(strange).chain(not_asked).chain(over)
}

/// How the promotion came to its end, by what the seal covers: the message of a status can be anybody's.
fn end(snapshot: &Snapshot<'_>) -> String {
    let tasks = snapshot.step.status.iter().flat_map(|status| &status.steps);
    let mut failed = tasks.filter(|task| task.state == TaskState::Failed);
    let why = failed.find_map(|task| task.message.clone());
    why.unwrap_or_else(|| match late::ended_at(snapshot) {
        Some(at) => format!("it ended at {at:.0}"),
        None => "it has failed".to_owned(),
    })
}

/// Whether the check says what it would say now.
fn is_shown(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> bool {
    let shown = snapshot.step.status.as_ref().and_then(|status| output(status, draft::STATUS_KEY));
    shown == Some(commit_check::status_key(snapshot, pull_request).as_str())
}

fn not_on_record(pull_request: &PullRequest) -> String {
    let head = change::cut(&pull_request.head, 7);
    format!("its newest commit `{head}` is not the one on record, and it was merged before it was looked at")
}

/// Whether the newest commit of a pull request was looked at and found to be somebody else's.
fn was_looked_at(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> bool {
    let status = snapshot.step.status.as_ref();
    status.and_then(|status| output(status, draft::FOREIGN_HEAD)) == Some(pull_request.head.as_str())
}

impl<'a> Gate<'a> {
    fn instance(&self) -> Option<&'a PolicyGate> {
        match self.source {
            Source::Instance(found) => found,
            Source::Organisation(_) => None,
        }
    }

    /// The name that people know: that of the template.
    pub(super) fn title(&self) -> &'a str {
        let labels = self.instance().and_then(|found| found.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(GATE_TEMPLATE_LABEL)).map_or(self.name, String::as_str)
    }

    /// What it asks.
    pub(super) fn expression(&self) -> &'a str {
        match self.source {
            Source::Organisation(answer) => &answer.expression,
            Source::Instance(found) => found.map_or("", |found| &found.spec.expression),
        }
    }

    pub(super) fn scope(&self) -> &'static str {
        match self.source {
            Source::Organisation(_) => Scope::Org.as_str(),
            Source::Instance(found) => {
                found.map_or("unknown", |found| kardinal_policy::scope(found).as_str())
            }
        }
    }

    /// What a pull request says about it.
    pub(super) fn detail(&self, snapshot: &'a Snapshot<'_>) -> Option<&'a str> {
        match self.source {
            Source::Organisation(answer) => Some(&answer.detail),
            Source::Instance(_) => snapshot.gate_texts.get(self.name).map(String::as_str).or(self.reason()),
        }
    }

    fn reason(&self) -> Option<&'a str> {
        match self.source {
            Source::Organisation(answer) => Some(&answer.verdict.reason),
            Source::Instance(found) => found?.status.as_ref()?.reason.as_deref(),
        }
    }

    fn is_open(&self, step: &PromotionStep, now: Timestamp) -> bool {
        match self.source {
            Source::Organisation(answer) => answer.verdict.is_open(),
            Source::Instance(found) => {
                found.is_some_and(|gate| is_ready(gate) || is_overridden(gate, step, now))
            }
        }
    }

    fn evidence(&self, step: &PromotionStep, now: Timestamp) -> GateEvidence {
        let open = self.is_open(step, now);
        let evaluated_at = match self.source {
            Source::Organisation(answer) => Some(answer.asked_at),
            Source::Instance(found) => {
                found.and_then(|found| found.status.as_ref()).and_then(|status| status.last_evaluated_at)
            }
        };
        GateEvidence {
            name: self.title().to_owned(),
            result: if open { GateResult::Pass } else { GateResult::Fail },
            reason: self.reason().map(str::to_owned),
            evaluated_at,
            forced_by: None,
            check_was_green: None,
        }
    }

    /// What is waited for while it is closed.
    fn wait(&self) -> Wait {
        let title = self.title();
        match self.source {
            Source::Organisation(answer) => answer.wait(),
            Source::Instance(None) => why::gate(title, why::reason::MISSING, "it does not exist"),
            Source::Instance(Some(gate)) => {
                let reason = self.reason().or(gate.spec.message.as_deref()).unwrap_or("it is closed");
                let opens_at = gate.status.as_ref().and_then(|status| status.next_change_at);
                why::closed(title, reason, opens_at)
            }
        }
    }

    /// The answer in one word.
    pub(super) fn word(&self, step: &PromotionStep, now: Timestamp) -> &'static str {
        let answered = match self.source {
            Source::Organisation(_) => true,
            Source::Instance(found) => {
                found.and_then(|gate| gate.status.as_ref()).is_some_and(|status| status.ready.is_some())
            }
        };
        match (self.is_open(step, now), answered) {
            (true, _) => "PASS",
            (false, true) => "FAIL",
            (false, false) => "PENDING",
        }
    }

    /// What stands in the way. The organisation's own gates are asked elsewhere, at every change.
    fn blocker(&self, step: &PromotionStep, now: Timestamp) -> Option<Wait> {
        let Source::Instance(found) = self.source else { return None };
        let title = self.title();
        let Some(gate) = found else {
            return Some(why::gate(title, why::reason::MISSING, "it does not exist"));
        };
        if is_overridden(gate, step, now) {
            return None;
        }
        let status = gate.status.as_ref();
        let Some(asked) = status.and_then(|status| status.last_evaluated_at) else {
            return Some(why::gate(title, why::reason::NOT_ASKED, "it was not evaluated yet"));
        };
        if !is_ready(gate) {
            return Some(self.wait());
        }
        let longest = freshness(&gate.spec);
        let age = now.duration_since(asked);
        (age >= longest).then(|| {
            let (age, longest) = (duration(age), duration(longest));
            let detail = format!("its last answer is {age} old, and must be newer than {longest}");
            why::gate(title, why::reason::NOT_ASKED, detail)
        })
    }
}

fn is_ready(gate: &PolicyGate) -> bool {
    gate.status.as_ref().and_then(|status| status.ready) == Some(true)
}

fn is_overridden(gate: &PolicyGate, step: &PromotionStep, now: Timestamp) -> bool {
    let promotion = kardinal_policy::Promotion {
        environment: &step.spec.environment,
        namespace: step.metadata.namespace.as_deref(),
        pipeline: Some(&step.spec.pipeline),
        bundle: Some(&step.spec.bundle_ref),
        // The team can write its own gates anyway.
        created: None,
    };
    kardinal_policy::is_overridden(&gate.spec, &promotion, now)
}

/// A duration as Go writes it, in whole seconds: `4m12s`.
pub(super) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let parts = [(seconds / 3600, "h"), (seconds % 3600 / 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}
