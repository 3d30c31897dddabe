//! What the required gates say: whether the promotion may start, and what people are shown of them.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::GoDuration;
use kardinal_api::kardinal::{Evidence, GateEvidence, GateResult, PolicyGate, PromotionStep};
use kardinal_policy::GATE_TEMPLATE_LABEL;
use sha2::{Digest, Sha256};

use super::Snapshot;

/// How often a gate that says nothing about it is asked.
const RECHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

/// One required gate.
pub(super) struct Gate<'a> {
    name: &'a str,
    found: Option<&'a PolicyGate>,
}

pub(super) fn required<'a>(snapshot: &'a Snapshot<'_>) -> impl Iterator<Item = Gate<'a>> {
    let names = snapshot.step.spec.required_gates.iter();
    names.map(|name| Gate { name, found: snapshot.gates.get(name).copied() })
}

/// What stands in the way of the first side effect; `None` when nothing does. Old answers do not count.
pub(super) fn blocker(snapshot: &Snapshot<'_>) -> Option<String> {
    required(snapshot).find_map(|gate| gate.blocker(snapshot.step, snapshot.now))
}

/// Stands for the gates with their answers: equal while nothing that people see has changed.
pub(super) fn key(snapshot: &Snapshot<'_>) -> String {
    let mut hash = Sha256::new();
    for gate in required(snapshot) {
        hash.update(gate.name);
        hash.update([0]);
        hash.update(gate.word(snapshot.step, snapshot.now));
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The gates that are closed, by the names that people know.
pub(super) fn closed(snapshot: &Snapshot<'_>) -> Vec<String> {
    let closed = required(snapshot).filter(|gate| !gate.is_open(snapshot.step, snapshot.now));
    closed.map(|gate| gate.title().to_owned()).collect()
}

/// What the gates said at the moment the promotion passed them.
pub(super) fn evidence(snapshot: &Snapshot<'_>) -> Evidence {
    let created = snapshot.gates.values().map(|gate| gate.metadata.creation_timestamp.as_ref());
    let since =
        created.chain([snapshot.step.metadata.creation_timestamp.as_ref()]).flatten().map(|time| time.0);
    let waited = since.min().map_or(SignedDuration::ZERO, |since| snapshot.now.duration_since(since));
    let gates = required(snapshot).map(|gate| {
        let status = gate.found.and_then(|found| found.status.as_ref());
        let open = gate.is_open(snapshot.step, snapshot.now);
        GateEvidence {
            name: gate.title().to_owned(),
            result: if open { GateResult::Pass } else { GateResult::Fail },
            reason: status.and_then(|status| status.reason.clone()),
            evaluated_at: status.and_then(|status| status.last_evaluated_at),
        }
    });
    Evidence {
        metrics: None,
        gate_duration: Some(GoDuration::new(duration(waited))),
        approved_by: Some(Vec::new()),
        policy_gates: Some(gates.collect()),
    }
}

impl<'a> Gate<'a> {
    /// The name of the gate instance.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// The name that people know: that of the template.
    pub(super) fn title(&self) -> &'a str {
        let labels = self.found.and_then(|found| found.metadata.labels.as_ref());
        labels.and_then(|labels| labels.get(GATE_TEMPLATE_LABEL)).map_or(self.name, String::as_str)
    }

    pub(super) fn scope(&self) -> &'static str {
        self.found.map_or("unknown", |found| kardinal_policy::scope(found).as_str())
    }

    pub(super) fn reason(&self) -> Option<&'a str> {
        self.found?.status.as_ref()?.reason.as_deref()
    }

    fn is_open(&self, step: &PromotionStep, now: Timestamp) -> bool {
        self.found.is_some_and(|gate| is_ready(gate) || is_overridden(gate, step, now))
    }

    /// The answer in one word.
    pub(super) fn word(&self, step: &PromotionStep, now: Timestamp) -> &'static str {
        let answered = self.found.and_then(|gate| gate.status.as_ref()).and_then(|status| status.ready);
        match (self.is_open(step, now), answered) {
            (true, _) => "PASS",
            (false, Some(_)) => "FAIL",
            (false, None) => "PENDING",
        }
    }

    fn blocker(&self, step: &PromotionStep, now: Timestamp) -> Option<String> {
        let title = self.title();
        let Some(gate) = self.found else {
            return Some(format!("waiting for gate `{title}`: it does not exist"));
        };
        if is_overridden(gate, step, now) {
            return None;
        }
        let status = gate.status.as_ref();
        let Some(asked) = status.and_then(|status| status.last_evaluated_at) else {
            return Some(format!("waiting for gate `{title}`: it was not evaluated yet"));
        };
        if !is_ready(gate) {
            let reason = self.reason().or(gate.spec.message.as_deref()).unwrap_or("it is closed");
            return Some(format!("held by gate `{title}`: {reason}"));
        }
        let longest = recheck_interval(gate) * 2;
        let age = now.duration_since(asked);
        (age >= longest).then(|| {
            let (age, longest) = (duration(age), duration(longest));
            format!(
                "waiting for gate `{title}`: its last answer is {age} old, and must be newer than {longest}"
            )
        })
    }
}

fn is_ready(gate: &PolicyGate) -> bool {
    gate.status.as_ref().and_then(|status| status.ready) == Some(true)
}

fn is_overridden(gate: &PolicyGate, step: &PromotionStep, now: Timestamp) -> bool {
    gate.spec.overrides.iter().any(|given| {
        given.expires_at.is_none_or(|expires| expires > now)
            && given.stage.as_ref().is_none_or(|stage| *stage == step.spec.environment)
    })
}

fn recheck_interval(gate: &PolicyGate) -> SignedDuration {
    let interval = gate.spec.recheck_interval.as_ref().and_then(|interval| interval.parse().ok());
    interval.filter(|interval| *interval > SignedDuration::ZERO).unwrap_or(RECHECK_INTERVAL)
}

/// A duration as Go writes it, in whole seconds: `4m12s`.
pub(super) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let parts = [(seconds / 3600, "h"), (seconds % 3600 / 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}
