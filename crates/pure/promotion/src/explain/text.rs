//! An explanation as text for people.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{Explanation, Gate, GateVerdict, Outcome, Present, Promotion, Wait, WaitOn};

/// All environments, one block for each.
pub(super) fn render(explanation: &Explanation) -> String {
    let blocks: Vec<String> = explanation
        .environments
        .iter()
        .map(|promotion| block(&explanation.pipeline, promotion, explanation.now))
        .collect();
    blocks.join("\n")
}

fn block(pipeline: &str, promotion: &Promotion, now: Timestamp) -> String {
    let mut text = format!("PROMOTION: {pipeline} / {}\n", promotion.environment);
    if let Some(version) = &promotion.version {
        line(&mut text, &in_one_line(&format!("  Bundle: {}", display_version(version))));
    }
    for one in promotion.has.iter().filter(|one| is_shown(promotion, one)) {
        line(&mut text, &in_one_line(&format!("  Now:    {}", present(one))));
    }
    for note in &promotion.notes {
        line(&mut text, &in_one_line(&format!("  Note: {note}")));
    }
    if !promotion.gates.is_empty() {
        text.push_str("\nPOLICY GATES:\n");
        text.push_str(&gate_table(&promotion.gates, now));
    }
    let waits: Vec<&Wait> = promotion
        .waits
        .iter()
        .filter(|wait| wait.on != WaitOn::Gate)
        // A pause that is a gate is in the table already.
        .filter(|wait| !promotion.gates.iter().any(|gate| gate.name == wait.subject.name))
        .collect();
    if !waits.is_empty() {
        text.push_str("\nWAITING FOR:\n");
        text.push_str(&wait_table(&waits, now));
    }
    text.push('\n');
    line(&mut text, &in_one_line(&format!("RESULT: {}", promotion.result)));
    text
}

/// What an environment has is told where nothing else does: nothing is on its way, what came has failed, or what is there was
/// never found healthy.
fn is_shown(promotion: &Promotion, one: &Present) -> bool {
    let shown = promotion.bundle.as_ref() == Some(&one.bundle);
    match promotion.outcome {
        Outcome::Idle | Outcome::Failed => true,
        Outcome::Verified => !shown,
        Outcome::Promoting | Outcome::Waiting | Outcome::Blocked => {
            one.deleted || (!shown && one.verified_at.is_none())
        }
    }
}

/// `v1.28.0 (my-app-v1-28-0-1712481490), verified at 2026-04-09T10:29:00Z`.
fn present(one: &Present) -> String {
    let deleted = if one.deleted { ", which does not exist any more" } else { "" };
    let verified = match (one.verified_at, &one.not_proven) {
        (Some(at), Some(_)) => format!("verified at {at:.0}, not proven"),
        (Some(at), None) => format!("verified at {at:.0}"),
        (None, _) => "not verified".to_owned(),
    };
    format!("{} ({}{deleted}), {verified}", display_version(&one.version), one.bundle)
}

fn gate_table(gates: &[Gate], now: Timestamp) -> String {
    let scope = |gate: &Gate| format!("[{}]", gate.scope.as_deref().unwrap_or("-"));
    let names = width(gates.iter().map(|gate| gate.name.clone())) + 2;
    let scopes = width(gates.iter().map(scope)) + 3;
    let verdicts = width(gates.iter().map(|gate| gate.verdict.as_str().to_owned())) + 3;
    let indent = 2 + names + scopes + verdicts;
    let mut text = String::new();
    for gate in gates {
        let after = if gate.blocking { "" } else { " (holds what comes after)" };
        let (name, scope, verdict) = (&gate.name, scope(gate), gate.verdict.as_str());
        // An expression is shown with the place that is wrong, below its own column.
        let reason = gate.reason.replace('\r', " ").replace('\n', &format!("\n{:indent$}", ""));
        line(&mut text, &format!("  {name:names$}{scope:scopes$}{verdict:verdicts$}{reason}{after}"));
        // What a gate said in the past has no end.
        if let Some(basis) = gate.basis.as_deref().filter(|_| gate.verdict == GateVerdict::Fail) {
            line(&mut text, &format!("{:indent$}{}", "", eta(gate.eta, basis, now)));
        }
    }
    text
}

fn wait_table(waits: &[&Wait], now: Timestamp) -> String {
    let names = width(waits.iter().map(|wait| wait.subject.name.clone())) + 2;
    let mut text = String::new();
    for wait in waits {
        line(&mut text, &in_one_line(&format!("  {:names$}{}", wait.subject.name, wait.detail)));
        let (indent, basis) = (2 + names, wait.basis.as_deref().unwrap_or_default());
        line(&mut text, &in_one_line(&format!("{:indent$}{}", "", eta(wait.until, basis, now))));
    }
    text
}

/// `ETA: ~18 minutes (based on staging verifiedAt)`, or why there is none.
fn eta(eta: Option<Timestamp>, basis: &str, now: Timestamp) -> String {
    let Some(eta) = eta else { return format!("no ETA: {basis}") };
    let left = eta.duration_since(now);
    let about = roughly(left);
    if left < SignedDuration::from_hours(2) {
        return format!("ETA: ~{about} ({basis})");
    }
    let when = eta.to_zoned(TimeZone::UTC).strftime("%A %Y-%m-%d %H:%M UTC").to_string();
    format!("ETA: ~{about}, {when} ({basis})")
}

/// A duration in one unit, rounded up: `18 minutes`.
pub fn roughly(duration: SignedDuration) -> String {
    let whole = u64::try_from(duration.as_secs()).unwrap_or(0);
    let seconds = whole + u64::from(duration.subsec_nanos() > 0);
    let (count, unit) = match seconds {
        0..=90 => (seconds, "second"),
        91..=7199 => (seconds.div_ceil(60), "minute"),
        7200..=172_799 => (seconds.div_ceil(3600), "hour"),
        _ => (seconds.div_ceil(86_400), "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// A version as people say it: numbers with dots get a `v` before them.
pub fn display_version(version: &str) -> String {
    let mut parts = version.split('.');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let starts_with_digit =
        |part: Option<&str>| part.is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
    match is_number(parts.next()) && starts_with_digit(parts.next()) {
        true => format!("v{version}"),
        false => version.to_owned(),
    }
}

fn width(cells: impl Iterator<Item = String>) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
}

/// Others write what is waited for: a line of theirs must not look like one of ours.
fn in_one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// A word as a shell takes it, whatever is in it.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
