//! What a pull request tells the people who approve it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, Evidence, PromotionStep, PromotionStepStatus};
use kardinal_manifest::Image;
use sha2::{Digest, Sha256};

use super::draft::{self, output};
use super::{Hold, Snapshot, change, gates, is_of_another, pending, pull_request};
use crate::bundle::is_emergency;

/// Longer values make a table unreadable.
const CELL_LIMIT: usize = 200;
/// Longer tables make a body unreadable.
const ROW_LIMIT: usize = 50;
/// Forges refuse longer bodies.
const BODY_LIMIT: usize = 60_000;

/// The labels of the pull request. That a Bundle says that it is a rollback makes it none.
pub(super) fn labels(snapshot: &Snapshot<'_>, bundle: &Bundle) -> Vec<String> {
    let mut labels = vec!["kardinal", "kardinal/promotion"];
    if snapshot.takes_back {
        labels.push("kardinal/rollback");
    }
    if snapshot.takes_back && is_emergency(bundle) {
        labels.push("kardinal/emergency");
    }
    labels.into_iter().map(str::to_owned).collect()
}

/// The body of the pull request, in Markdown.
pub(super) fn body(snapshot: &Snapshot<'_>, bundle: &Bundle, status: &PromotionStepStatus) -> String {
    let spec = &snapshot.step.spec;
    let mut text = change::marker(snapshot.step);
    text.push('\n');
    if let Some(reverted) = change::rollback_of(bundle).map(escape) {
        text.push_str(&match (snapshot.takes_back, is_emergency(bundle)) {
            (true, true) => format!(
                "> **Emergency rollback**: takes back {reverted} by promoting an earlier version again.\n\n"
            ),
            (true, false) => {
                format!("> **Rollback**: takes back {reverted} by promoting an earlier version again.\n\n")
            }
            (false, _) => format!(
                "> **Look twice**: the Bundle says that it takes back {reverted}, and that is not so.\n\n"
            ),
        });
    }
    let (pipeline, environment) = (escape(&spec.pipeline), escape(&spec.environment));
    text.push_str(&format!("## Promotion: {pipeline} {} to {environment}\n\n", escape(&version(bundle))));
    text.push_str(&format!("As of {}.\n\n", snapshot.now.strftime("%Y-%m-%d %H:%M UTC")));
    if let Some(held) = pending::held(snapshot) {
        let since = snapshot.hold.as_ref().and_then(|hold| hold.since);
        let since = since.map(|since| format!(" since {}", since.strftime("%Y-%m-%d %H:%M UTC")));
        let since = since.unwrap_or_default();
        text.push_str(&format!("> **Paused**{since}, please do not merge: {}.\n\n", cell(&held.detail)));
    }
    if let Some(strange) = strange(snapshot) {
        text.push_str(&format!("> **Look twice**: {}.\n\n", escape(&strange)));
    }
    text.push_str("### Policy Gates\n");
    text.push_str(&gate_table(snapshot));
    text.push_str("\n### Artifact\n");
    text.push_str(&table(["Field", "Value"], artifact_rows(bundle)));
    text.push_str("\n### Upstream Verification\n");
    text.push_str(&upstream_table(snapshot, bundle));
    text.push_str("\n### Changes\n");
    text.push_str(&changes(snapshot, bundle, status));
    change::cut(&text, BODY_LIMIT).to_owned()
}

/// What of the pull request is not what this body speaks of.
fn strange(snapshot: &Snapshot<'_>) -> Option<String> {
    snapshot.pull_request.and_then(|pull_request| pull_request::foreign(snapshot, pull_request))
}

/// The version as people say it: a tag that is a bare number gets its `v`.
fn version(bundle: &Bundle) -> String {
    let version = crate::gate_context::version(&bundle.spec);
    let first = bundle.spec.artifacts.images.first();
    let is_tag = first.is_some_and(|image| image.reference.contains(&format!(":{version}")));
    if is_tag && version.starts_with(|first: char| first.is_ascii_digit()) {
        format!("v{version}")
    } else {
        version
    }
}

fn gate_table(snapshot: &Snapshot<'_>) -> String {
    let rows: Vec<[String; 4]> = gates::required(snapshot)
        .map(|gate| {
            [
                cell(gate.title()),
                cell(gate.scope()),
                gate.word(snapshot.step, snapshot.now).to_owned(),
                cell(gate.detail(snapshot).unwrap_or("not evaluated yet")),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "No gates guard this environment.\n".to_owned();
    }
    table(["Gate", "Scope", "Status", "Detail"], rows)
}

fn artifact_rows(bundle: &Bundle) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    let mut row = |field: &str, value: String| rows.push([field.to_owned(), value]);
    for image in &bundle.spec.artifacts.images {
        row("Image", cell(&image.reference));
        if let Some(digest) = &image.digest {
            row("Digest", cell(short_digest(digest)));
        }
    }
    if let Some(commit) = &bundle.spec.artifacts.git_commit {
        row("Config Repository", cell(&commit.repository));
        row("Config Commit", cell(change::cut(&commit.sha, 7)));
        if let Some(message) = &commit.message {
            row("Config Message", cell(message));
        }
    }
    let provenance = bundle.spec.provenance.as_ref();
    if let Some(commit) = provenance.and_then(|provenance| provenance.commit_sha.as_deref()) {
        row("Source Commit", cell(change::cut(commit, 7)));
    }
    if let Some(url) = provenance.and_then(|provenance| provenance.ci_run_url.as_deref()) {
        row("CI Run", ci_run(url));
    }
    rows
}

/// `sha256:` and the first eight of its digits.
fn short_digest(digest: &str) -> &str {
    let prefix = digest.find(':').map_or(0, |colon| colon + 1);
    change::cut(digest, prefix + 8)
}

/// A link that is called by the number of the run. Text that could break out of a link stays text.
fn ci_run(url: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._~:/?#@!&=+%,;".contains(character);
    let is_link = (url.starts_with("https://") || url.starts_with("http://")) && url.chars().all(plain);
    if !is_link {
        return cell(url);
    }
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.len() <= 20 && last.bytes().all(|byte| byte.is_ascii_digit());
    let title = if is_number { format!("Build #{last}") } else { "Build".to_owned() };
    format!("[{title}]({url})")
}

/// When each other environment was verified with the Bundle, the earliest first. The steps themselves tell; the Bundle's
/// record, which may be behind them, only where a step is gone.
fn verified(snapshot: &Snapshot<'_>, bundle: &Bundle) -> Vec<Upstream> {
    let proven = |evidence: Option<&Evidence>| evidence.is_none_or(|evidence| evidence.not_proven.is_none());
    let environments = bundle.status.iter().flat_map(|status| &status.environments);
    let recorded = environments.filter_map(|(name, record)| {
        Some((name.clone(), (record.verified_at?, proven(record.evidence.as_ref()))))
    });
    let mut all: BTreeMap<String, (Timestamp, bool)> = recorded.collect();
    for step in siblings(snapshot, bundle) {
        if let Some(status) = &step.status
            && let Some(at) = status.verified_at
        {
            all.insert(step.spec.environment.clone(), (at, proven(status.evidence.as_ref())));
        }
    }
    let before = before(snapshot, bundle);
    let has_step = |name: &str| siblings(snapshot, bundle).any(|step| step.spec.environment == name);
    // Of one without a step nobody knows any more where it stands.
    all.retain(|name, _| before.contains(name) || !has_step(name));
    all.remove(&snapshot.step.spec.environment);
    let upstream = |(name, (at, proven))| Upstream { at, name, proven };
    let mut verified: Vec<Upstream> = all.into_iter().map(upstream).collect();
    verified.sort();
    verified
}

/// The other steps of the Bundle. Those of a deleted one that had its name may still be there.
fn siblings<'a>(snapshot: &Snapshot<'a>, bundle: &'a Bundle) -> impl Iterator<Item = &'a PromotionStep> {
    snapshot.siblings.clone().into_iter().filter(|step| !is_of_another(step, bundle))
}

/// The environments on the way to this one, as far as the steps know them.
fn before(snapshot: &Snapshot<'_>, bundle: &Bundle) -> BTreeSet<String> {
    let names = |step: &PromotionStep| -> Vec<String> {
        let all = pending::upstreams_of(step);
        all.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let mut before = BTreeSet::new();
    let mut next = names(snapshot.step);
    while let Some(name) = next.pop() {
        if before.insert(name.clone()) {
            let steps = siblings(snapshot, bundle).filter(|step| step.spec.environment == name);
            next.extend(steps.flat_map(names));
        }
    }
    before
}

/// An environment that was verified before.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Upstream {
    at: Timestamp,
    name: String,
    /// Whether something shows that it runs the promoted version.
    proven: bool,
}

fn upstream_table(snapshot: &Snapshot<'_>, bundle: &Bundle) -> String {
    let direct = pending::upstreams(snapshot);
    let direct: Vec<&str> = direct.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let verified = verified(snapshot, bundle);
    let mut rows: Vec<[String; 3]> = verified
        .iter()
        .map(|Upstream { at, name, proven }| {
            let age = rough(snapshot.now.duration_since(*at));
            let soak = if direct.contains(&name.as_str()) { age.clone() } else { "n/a".to_owned() };
            let doubt = if *proven { "" } else { ", not proven" };
            [cell(name), format!("{age} ago{doubt}"), soak]
        })
        .collect();
    let unknown = direct.iter().filter(|name| !verified.iter().any(|known| known.name == **name));
    rows.extend(unknown.map(|name| [cell(name), "not known".to_owned(), "n/a".to_owned()]));
    let skipped = bundle.spec.intent.iter().flat_map(|intent| &intent.skip).map(|name| cell(name));
    let skipped: Vec<String> = skipped.collect();
    match (rows.is_empty(), skipped.is_empty()) {
        (true, true) => "This is the first environment.\n".to_owned(),
        (true, false) => format!("Nothing was verified before: this Bundle skips {}.\n", skipped.join(", ")),
        (false, true) => table(["Environment", "Verified", "Soak"], rows),
        (false, false) => {
            let table = table(["Environment", "Verified", "Soak"], rows);
            format!("{table}\nThis Bundle skips {}.\n", skipped.join(", "))
        }
    }
}

/// Stands for the facts that a body tells: the gates with what they ask and answer, what was verified, what changes.
/// Equal while the body is true. The values behind an answer and the ages are those of the time that it names: they
/// change all the time, and a pull request that merely waits is not written to.
pub(super) fn fingerprint(snapshot: &Snapshot<'_>) -> String {
    let mut hash = Sha256::new();
    let mut tell = |text: &str| {
        hash.update(text);
        hash.update([0]);
    };
    tell(&strange(snapshot).unwrap_or_default());
    if let Some(Hold { why, since }) = &snapshot.hold {
        tell(why);
        tell(&since.map(|since| since.to_string()).unwrap_or_default());
    }
    for gate in gates::required(snapshot) {
        tell(gate.title());
        tell(gate.expression());
        tell(gate.word(snapshot.step, snapshot.now));
    }
    if let Some(bundle) = snapshot.bundle {
        tell(&change::title(snapshot.step, bundle));
        labels(snapshot, bundle).iter().for_each(|label| tell(label));
        for [field, value] in artifact_rows(bundle) {
            tell(&field);
            tell(&value);
        }
        for Upstream { at, name, proven } in verified(snapshot, bundle) {
            tell(&name);
            tell(&at.to_string());
            if !proven {
                tell("not proven");
            }
        }
        tell(&pending::upstreams(snapshot));
        let status = snapshot.step.status.clone().unwrap_or_default();
        tell(&changes(snapshot, bundle, &status));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A duration in its largest unit: `45m`, `2h`, `3d`.
fn rough(duration: SignedDuration) -> String {
    let minutes = duration.as_mins().max(0);
    match minutes {
        0 => format!("{}s", duration.as_secs().max(0)),
        1..120 => format!("{minutes}m"),
        120..2880 => format!("{}h", minutes / 60),
        _ => format!("{}d", minutes / 1440),
    }
}

fn changes(snapshot: &Snapshot<'_>, bundle: &Bundle, status: &PromotionStepStatus) -> String {
    let written = output(status, draft::CHANGES).filter(|changes| !changes.is_empty());
    let lines: Vec<String> = match written {
        Some(changes) => changes.lines().map(str::to_owned).collect(),
        None => moves(snapshot, bundle),
    };
    let lines: Vec<String> = lines.iter().map(|line| cell(line)).collect();
    match lines.as_slice() {
        [] => "Nothing is known of what changes.\n".to_owned(),
        [line] => format!("{line}\n"),
        lines => lines.iter().map(|line| format!("- {line}\n")).collect(),
    }
}

/// The images of the Bundle against those of the one before.
fn moves(snapshot: &Snapshot<'_>, bundle: &Bundle) -> Vec<String> {
    let now = change::images(bundle).unwrap_or_default();
    let before = snapshot.previous.and_then(|previous| change::images(previous).ok()).unwrap_or_default();
    let version = |image: &Image| image.tag.clone().or_else(|| image.digest.clone()).unwrap_or_default();
    let line = |image: &Image| {
        let old = before.iter().find(|other| other.repository == image.repository);
        match old {
            Some(old) => format!("{}: {} to {}", image.repository, version(old), version(image)),
            None => format!("{}: {} (new)", image.repository, version(image)),
        }
    };
    now.iter().map(line).collect()
}

fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    let more = rows.len().saturating_sub(ROW_LIMIT);
    for row in rows.into_iter().take(ROW_LIMIT) {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    if more > 0 {
        text.push_str(&format!("\nAnd {more} more.\n"));
    }
    text
}

fn cell(text: &str) -> String {
    let short = change::cut(text, CELL_LIMIT);
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", escape(short))
}

/// Makes foreign text harmless in Markdown: no table cell, line, link, code, comment or tag can begin or end in it.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '|' | '\\' | '`' | '[' | ']' | '*' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
