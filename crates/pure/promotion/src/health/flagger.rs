//! The `flagger` adapter: a Canary whose phase is Succeeded for the promoted version.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{Adapter, Expected, Target, Verdict, condition, images, label, said, text};

/// The workload that serves once the Canary has succeeded. The Canary itself does not tell which images it runs.
pub(super) fn workload(target: &Target, object: &Value) -> Option<Target> {
    let name = text(object, "/spec/targetRef/name")?;
    let kind = text(object, "/spec/targetRef/kind").unwrap_or("Deployment");
    // A DaemonSet or Deployment has a `-primary` twin; a Service has no pods.
    if kind == "Service" {
        return None;
    }
    Some(Target {
        adapter: Adapter::Resource,
        api_version: text(object, "/spec/targetRef/apiVersion").unwrap_or("apps/v1").to_owned(),
        kind: kind.to_owned(),
        namespace: target.namespace.clone(),
        name: Some(format!("{name}-primary")),
        labels: BTreeMap::new(),
        condition: None,
    })
}

pub(super) fn judge(object: &Value, others: &[&Value], expected: &Expected<'_>) -> Verdict {
    let name = label(object);
    match text(object, "/status/phase") {
        Some("Succeeded") => {}
        Some("Failed") => {
            let why = condition(object, "Promoted").map_or("no reason given", said);
            return Verdict::Degraded(format!("{name} has failed: {why}"));
        }
        Some(phase) => return Verdict::Progressing(format!("{name} is {phase}")),
        None => return Verdict::Progressing(format!("{name} has no phase yet")),
    }
    let primary = text(object, "/spec/targetRef/name").map(|target| format!("{target}-primary"));
    let twin = others.iter().find(|other| text(other, "/metadata/name") == primary.as_deref());
    let old = match twin {
        Some(twin) if !expected.images.is_empty() => images::missing(twin, expected.images),
        _ => before(object, expected),
    };
    match old {
        Some(old) => Verdict::Progressing(old),
        None => Verdict::Healthy(format!("{name} has Succeeded")),
    }
}

/// Whether the success belongs to an analysis that ended before the change was made.
fn before(object: &Value, expected: &Expected<'_>) -> Option<String> {
    let since = expected.since?;
    let ended = text(object, "/status/lastTransitionTime").and_then(|text| text.parse::<Timestamp>().ok());
    // Kubernetes times have whole seconds.
    let after = ended.is_some_and(|ended| ended.as_second() >= since.as_second());
    (!after).then(|| format!("{} has not analysed the new version yet", label(object)))
}
