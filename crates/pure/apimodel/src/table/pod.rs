//! The columns of a Pod: its status is folded from many places.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::age_since;
use super::builtin::{age, count, list, name, text};
use crate::registry::conditions::holds;

/// The cells of a Pod, in the order of its column definitions.
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(then) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, age_since(then, now)),
        _ => summary.restarts.to_string(),
    };
    let or_none = |text: &str| json!(if text.is_empty() { "<none>" } else { text });
    let gates = list(pod, "/spec/readinessGates");
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let met = gates.iter().filter(|gate| holds(pod, text(gate, "/conditionType"))).count();
        format!("{met}/{}", gates.len())
    };
    vec![
        name(pod),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        age(pod, now),
        or_none(text(pod, "/status/podIP")),
        or_none(text(pod, "/spec/nodeName")),
        or_none(text(pod, "/status/nominatedNodeName")),
        json!(gates),
    ]
}

struct Summary {
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

fn summarise(pod: &Value) -> Summary {
    let phase = text(pod, "/status/phase");
    let reason = text(pod, "/status/reason");
    let mut summary = Summary {
        ready: 0,
        total: list(pod, "/spec/containers").len(),
        restarts: 0,
        last_restart: None,
        reason: if reason.is_empty() { phase.to_owned() } else { reason.to_owned() },
    };
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
    if gated {
        summary.reason = "SchedulingGated".to_owned();
    }
    let sidecars = sidecars(pod);
    summary.total += sidecars.len();
    let initializing = init_containers(pod, &sidecars, &mut summary);
    if !initializing || holds(pod, "Initialized") {
        containers(pod, &sidecars, &mut summary);
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        if reason == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if phase != "Succeeded" && phase != "Failed" {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// The names of init containers that run on beside the others.
fn sidecars(pod: &Value) -> Vec<&str> {
    list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| text(container, "/restartPolicy") == "Always")
        .map(|container| text(container, "/name"))
        .collect()
}

fn count_restarts(status: &Value, summary: &mut Summary) {
    summary.restarts += count(status, "/restartCount");
    let finished = text(status, "/lastState/terminated/finishedAt").parse().ok();
    summary.last_restart = summary.last_restart.max(finished);
}

/// Folds the init containers; true while one of them has not finished.
fn init_containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) -> bool {
    let total = list(pod, "/spec/initContainers").len();
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        count_restarts(status, summary);
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        if terminated.is_some_and(|t| count(t, "/exitCode") == 0) {
            continue;
        }
        let sidecar = sidecars.contains(&text(status, "/name"));
        if sidecar && status.pointer("/started") == Some(&json!(true)) {
            summary.ready += usize::from(status.pointer("/ready") == Some(&json!(true)));
            continue;
        }
        summary.reason = match terminated {
            Some(terminated) => format!("Init:{}", ended(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{total}"),
        };
        return true;
    }
    false
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), count(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", count(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn containers(pod: &Value, sidecars: &[&str], summary: &mut Summary) {
    summary.restarts = 0;
    summary.last_restart = None;
    for status in list(pod, "/status/initContainerStatuses") {
        if sidecars.contains(&text(status, "/name")) {
            count_restarts(status, summary);
        }
    }
    let mut running = false;
    let mut failed = None;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        count_restarts(status, summary);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            summary.reason = ended(terminated);
            if count(terminated, "/exitCode") != 0 {
                failed = Some(summary.reason.clone());
            }
        } else if status.pointer("/ready") == Some(&json!(true)) && status.pointer("/state/running").is_some()
        {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if running && holds(pod, "Ready") {
            summary.reason = "Running".to_owned();
        } else if let Some(failed) = failed {
            summary.reason = failed;
        } else if running {
            summary.reason = "NotReady".to_owned();
        }
    }
}
