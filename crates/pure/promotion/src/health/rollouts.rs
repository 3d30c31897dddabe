//! The `argoRollouts` adapter: a Rollout whose phase is Healthy with the promoted images.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Adapter, Expected, Target, Verdict, images, is_current, label, proof, text};

/// The workload whose pod template the Rollout uses, where it has none of its own.
pub(super) fn workload(target: &Target, object: &Value) -> Option<Target> {
    Some(Target {
        adapter: Adapter::Resource,
        api_version: text(object, "/spec/workloadRef/apiVersion").unwrap_or("apps/v1").to_owned(),
        kind: text(object, "/spec/workloadRef/kind").unwrap_or("Deployment").to_owned(),
        namespace: target.namespace.clone(),
        name: Some(text(object, "/spec/workloadRef/name")?.to_owned()),
        labels: BTreeMap::new(),
        condition: None,
    })
}

pub(super) fn judge(object: &Value, others: &[&Value], expected: &Expected<'_>) -> Verdict {
    let name = label(object);
    if !is_current(object) {
        return Verdict::Progressing(format!("{name} has not acted on its newest spec yet"));
    }
    let referred = text(object, "/spec/workloadRef/name");
    let template = match referred {
        None => Some(object),
        Some(workload) => {
            others.iter().copied().find(|other| text(other, "/metadata/name") == Some(workload))
        }
    };
    match template {
        Some(template) => {
            if let Some(old) = images::missing(template, expected.images) {
                return Verdict::Progressing(old);
            }
        }
        None => {
            let workload = referred.unwrap_or_default();
            return Verdict::Missing(format!("{name} refers to `{workload}`, which does not exist"));
        }
    }
    let message = text(object, "/status/message").map(|text| format!(": {text}")).unwrap_or_default();
    match text(object, "/status/phase") {
        Some("Healthy") if expected.images.is_empty() => {
            proof::weigh(Verdict::Healthy(format!("{name} is Healthy")), template.unwrap_or(object), expected)
        }
        Some("Healthy") => Verdict::Healthy(format!("{name} is Healthy")),
        Some("Degraded") => Verdict::Degraded(format!("{name} is Degraded{message}")),
        Some(phase) => Verdict::Progressing(format!("{name} is {phase}{message}")),
        None => Verdict::Progressing(format!("{name} has no phase yet")),
    }
}
