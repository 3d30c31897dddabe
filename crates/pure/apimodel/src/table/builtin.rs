//! The columns of the built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{age_since, human_duration};
use super::{definition, pod};
use crate::registry::conditions::{TRUE, condition, holds};

/// Makes the cells of one object.
pub(super) type Printer = fn(&Value, Timestamp) -> Vec<Value>;

/// A column: name, type, and 1 if it shows only with `-o wide`.
type Column = (&'static str, &'static str, i64);

const S: &str = "string";
const I: &str = "integer";
const WORKLOAD: [Column; 3] = [("Containers", S, 1), ("Images", S, 1), ("Selector", S, 1)];
const SUBJECTS: [Column; 3] = [("Users", S, 1), ("Groups", S, 1), ("ServiceAccounts", S, 1)];

/// The column definitions of a kind and what fills them.
pub(super) fn columns(group: &str, kind: &str) -> (Vec<Value>, Printer) {
    let (head, tail, printer) = layout(group, kind);
    let all = head.iter().chain(tail);
    let definitions = all.map(|(name, ty, priority)| {
        definition(name, ty, if *name == "Name" { "name" } else { "" }, *priority)
    });
    (definitions.collect(), printer)
}

type Layout = (&'static [Column], &'static [Column], Printer);

const NAME: Column = ("Name", S, 0);
const AGE: Column = ("Age", S, 0);

fn layout(group: &str, kind: &str) -> Layout {
    let known = if group.is_empty() { core_layout(kind) } else { group_layout(group, kind) };
    known.unwrap_or((&[NAME, ("Created At", "date", 0)], &[], name_and_creation))
}

fn core_layout(kind: &str) -> Option<Layout> {
    Some(match kind {
        "Namespace" => (&[NAME, ("Status", S, 0), AGE], &[], namespace),
        "Secret" => (&[NAME, ("Type", S, 0), ("Data", S, 0), AGE], &[], secret),
        "ConfigMap" => (&[NAME, ("Data", S, 0), AGE], &[], config_map),
        "ServiceAccount" => (&[NAME, AGE], &[], name_and_age),
        "Pod" => (
            &[NAME, ("Ready", S, 0), ("Status", S, 0), ("Restarts", S, 0), AGE],
            &[("IP", S, 1), ("Node", S, 1), ("Nominated Node", S, 1), ("Readiness Gates", S, 1)],
            pod::cells,
        ),
        "Service" => (
            &[NAME, ("Type", S, 0), ("Cluster-IP", S, 0), ("External-IP", S, 0), ("Port(s)", S, 0), AGE],
            &[("Selector", S, 1)],
            service,
        ),
        "Endpoints" => (&[NAME, ("Endpoints", S, 0), AGE], &[], endpoints),
        "Event" => (EVENT, &[], event),
        "Node" => (
            &[NAME, ("Status", S, 0), ("Roles", S, 0), AGE, ("Version", S, 0)],
            &[
                ("Internal-IP", S, 1),
                ("External-IP", S, 1),
                ("OS-Image", S, 1),
                ("Kernel-Version", S, 1),
                ("Container-Runtime", S, 1),
            ],
            node,
        ),
        "PersistentVolumeClaim" => (
            &[
                NAME,
                ("Status", S, 0),
                ("Volume", S, 0),
                ("Capacity", S, 0),
                ("Access Modes", S, 0),
                ("StorageClass", S, 0),
                ("VolumeAttributesClass", S, 0),
                AGE,
            ],
            &[("VolumeMode", S, 1)],
            claim,
        ),
        _ => return None,
    })
}

fn group_layout(group: &str, kind: &str) -> Option<Layout> {
    Some(match (group, kind) {
        ("events.k8s.io", "Event") => (EVENT, &[], event),
        ("apps", "Deployment") => {
            (&[NAME, ("Ready", S, 0), ("Up-to-date", S, 0), ("Available", S, 0), AGE], &WORKLOAD, deployment)
        }
        ("apps", "ReplicaSet") => {
            (&[NAME, ("Desired", I, 0), ("Current", I, 0), ("Ready", I, 0), AGE], &WORKLOAD, replica_set)
        }
        ("apps", "StatefulSet") => {
            (&[NAME, ("Ready", S, 0), AGE], &[("Containers", S, 1), ("Images", S, 1)], stateful_set)
        }
        ("apps", "DaemonSet") => (
            &[
                NAME,
                ("Desired", I, 0),
                ("Current", I, 0),
                ("Ready", I, 0),
                ("Up-to-date", I, 0),
                ("Available", I, 0),
                ("Node Selector", S, 0),
                AGE,
            ],
            &WORKLOAD,
            daemon_set,
        ),
        ("batch", "Job") => {
            (&[NAME, ("Status", S, 0), ("Completions", S, 0), ("Duration", S, 0), AGE], &WORKLOAD, job)
        }
        ("batch", "CronJob") => (
            &[
                NAME,
                ("Schedule", S, 0),
                ("Timezone", S, 0),
                ("Suspend", "boolean", 0),
                ("Active", I, 0),
                ("Last Schedule", S, 0),
                AGE,
            ],
            &WORKLOAD,
            cron_job,
        ),
        ("networking.k8s.io", "Ingress") => {
            (&[NAME, ("Class", S, 0), ("Hosts", S, 0), ("Address", S, 0), ("Ports", S, 0), AGE], &[], ingress)
        }
        ("networking.k8s.io", "IngressClass") => {
            (&[NAME, ("Controller", S, 0), ("Parameters", S, 0), AGE], &[], ingress_class)
        }
        ("coordination.k8s.io", "Lease") => (&[NAME, ("Holder", S, 0), AGE], &[], lease),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            (&[NAME, ("Role", S, 0), AGE], &SUBJECTS, role_binding)
        }
        _ => return None,
    })
}

const EVENT: &[Column] = &[
    ("Last Seen", S, 0),
    ("Type", S, 0),
    ("Reason", S, 0),
    ("Object", S, 0),
    ("Subobject", S, 1),
    ("Source", S, 1),
    ("Message", S, 0),
    ("First Seen", S, 1),
    ("Count", S, 1),
    ("Name", S, 1),
];

/// The text at a pointer, or nothing.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a pointer, or zero.
pub(super) fn count(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The list at a pointer, or an empty one.
pub(super) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

/// The object's age.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(text(object, "/metadata/creationTimestamp"), now))
}

fn since(then: &str, now: Timestamp) -> String {
    then.parse().map_or_else(|_| "<unknown>".to_owned(), |then| age_since(then, now))
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn size(object: &Value, pointers: &[&str]) -> i64 {
    let sizes = pointers.iter().filter_map(|p| object.pointer(p)?.as_object().map(serde_json::Map::len));
    sizes.sum::<usize>() as i64
}

/// Labels as `a=b,c=d`.
fn labels(value: Option<&Value>) -> Value {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&pairs.join(","))
}

/// A label selector as one line.
fn selector(value: Option<&Value>) -> Value {
    let Some(value) = value else { return json!("<none>") };
    let mut parts: Vec<String> = value
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in list(value, "/matchExpressions") {
        let key = text(expression, "/key");
        let values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        parts.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    or_none(&parts.join(","))
}

/// The names and images of a template's containers.
fn containers(object: &Value, pointer: &str) -> [Value; 2] {
    let all = list(object, pointer);
    let join = |field: &str| all.iter().map(|c| text(c, field)).collect::<Vec<_>>().join(",");
    [json!(join("/name")), json!(join("/image"))]
}

fn workload(mut cells: Vec<Value>, object: &Value) -> Vec<Value> {
    cells.extend(containers(object, "/spec/template/spec/containers"));
    cells.push(selector(object.pointer("/spec/selector")));
    cells
}

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn name_and_creation(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/metadata/creationTimestamp"))]
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/status/phase")), age(object, now)]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/type")), json!(size(object, &["/data"])), age(object, now)]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(size(object, &["/data", "/binaryData"])), age(object, now)]
}

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let external: Vec<&str> = list(object, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    let balancers = addresses(object);
    let external = match text(object, "/spec/type") {
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let all: Vec<&str> = balancers.iter().map(String::as_str).chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    };
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (count(port, "/port"), text(port, "/protocol"));
            match count(port, "/nodePort") {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    vec![
        name(object),
        json!(text(object, "/spec/type")),
        or_none(text(object, "/spec/clusterIP")),
        json!(external),
        or_none(&ports.join(",")),
        age(object, now),
        labels(object.pointer("/spec/selector")),
    ]
}

fn addresses(object: &Value) -> Vec<String> {
    let all = list(object, "/status/loadBalancer/ingress").iter();
    all.map(|entry| match text(entry, "/ip") {
        "" => text(entry, "/hostname").to_owned(),
        ip => ip.to_owned(),
    })
    .collect()
}

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        for address in list(subset, "/addresses") {
            for port in list(subset, "/ports") {
                all.push(format!("{}:{}", text(address, "/ip"), count(port, "/port")));
            }
        }
    }
    let shown = all.get(..3).unwrap_or(&all).join(",");
    let more = all.len().saturating_sub(3);
    let shown = if more > 0 { format!("{shown} + {more} more...") } else { shown };
    vec![name(object), or_none(&shown), age(object, now)]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    // Both event APIs describe the same object under different names.
    let either = |a: &str, b: &str| {
        let found = text(object, a);
        if found.is_empty() { text(object, b).to_owned() } else { found.to_owned() }
    };
    let age = |then: &str| since(then, now);
    let first = match either("/firstTimestamp", "/deprecatedFirstTimestamp").as_str() {
        "" => age(text(object, "/eventTime")),
        then => age(then),
    };
    let mut last = match either("/lastTimestamp", "/deprecatedLastTimestamp").as_str() {
        "" => first.clone(),
        then => age(then),
    };
    let mut seen = count(object, "/count").max(count(object, "/deprecatedCount")).max(1);
    if object.get("series").is_some_and(Value::is_object) {
        last = age(text(object, "/series/lastObservedTime"));
        seen = count(object, "/series/count");
    }
    let subject = if object.get("regarding").is_some() { "/regarding" } else { "/involvedObject" };
    let kind = text(object, &format!("{subject}/kind")).to_lowercase();
    let target = match text(object, &format!("{subject}/name")) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = match either("/source/component", "/deprecatedSource/component") {
        empty if empty.is_empty() => either("/reportingComponent", "/reportingController"),
        component => component,
    };
    let host = match either("/source/host", "/deprecatedSource/host") {
        empty if empty.is_empty() => text(object, "/reportingInstance").to_owned(),
        host => host,
    };
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    vec![
        json!(last),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(object, &format!("{subject}/fieldPath"))),
        json!(source),
        json!(either("/message", "/note").trim()),
        json!(first),
        json!(seen),
        name(object),
    ]
}

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(object, "Ready") {
        Some(TRUE) => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let roles = labels.into_iter().flatten().filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"));
    let roles = roles.collect::<Vec<_>>().join(",");
    let address = |ty: &str| {
        let found = list(object, "/status/addresses").iter().find(|a| text(a, "/type") == ty);
        or_none(found.map(|a| text(a, "/address")).unwrap_or_default())
    };
    let info = |field: &str| match text(object, &format!("/status/nodeInfo/{field}")) {
        "" => json!("<unknown>"),
        known => json!(known),
    };
    vec![
        name(object),
        json!(status),
        or_none(&roles),
        age(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    let bound = !text(object, "/spec/volumeName").is_empty();
    let modes: Vec<&str> = list(object, "/status/accessModes")
        .iter()
        .filter_map(Value::as_str)
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    let class = |pointer: &str| match text(object, pointer) {
        "" => json!("<unset>"),
        class => json!(class),
    };
    let when_bound = |value: String| json!(if bound { value } else { String::new() });
    vec![
        name(object),
        json!(if deleting { "Terminating" } else { text(object, "/status/phase") }),
        json!(text(object, "/spec/volumeName")),
        when_bound(text(object, "/status/capacity/storage").to_owned()),
        when_bound(modes.join(",")),
        json!(text(object, "/spec/storageClassName")),
        class("/spec/volumeAttributesClassName"),
        age(object, now),
        class("/spec/volumeMode"),
    ]
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    let cells = vec![
        name(object),
        json!(ready),
        json!(count(object, "/status/updatedReplicas")),
        json!(count(object, "/status/availableReplicas")),
        age(object, now),
    ];
    workload(cells, object)
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let cells = vec![
        name(object),
        json!(count(object, "/spec/replicas")),
        json!(count(object, "/status/replicas")),
        json!(count(object, "/status/readyReplicas")),
        age(object, now),
    ];
    workload(cells, object)
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    let mut cells = vec![name(object), json!(ready), age(object, now)];
    cells.extend(containers(object, "/spec/template/spec/containers"));
    cells
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let cells = vec![
        name(object),
        json!(count(object, "/status/desiredNumberScheduled")),
        json!(count(object, "/status/currentNumberScheduled")),
        json!(count(object, "/status/numberReady")),
        json!(count(object, "/status/updatedNumberScheduled")),
        json!(count(object, "/status/numberAvailable")),
        labels(object.pointer("/spec/template/spec/nodeSelector")),
        age(object, now),
    ];
    workload(cells, object)
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let done = count(object, "/status/succeeded");
    let completions = match object.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match count(object, "/spec/parallelism") {
            many if many > 1 => format!("{done}/1 of {many}"),
            _ => format!("{done}/1"),
        },
    };
    let instant = |pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let duration = instant("/status/startTime").map_or_else(String::new, |start| {
        let end = instant("/status/completionTime").unwrap_or(now);
        human_duration(end.as_second() - start.as_second())
    });
    let has = |kind: &str| holds(object, kind);
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if object.pointer("/metadata/deletionTimestamp").is_some() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let cells = vec![name(object), json!(status), json!(completions), json!(duration), age(object, now)];
    workload(cells, object)
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = text(object, "/status/lastScheduleTime");
    let last = if last.is_empty() { "<none>".to_owned() } else { since(last, now) };
    let suspended = object.pointer("/spec/suspend") == Some(&json!(true));
    let mut cells = vec![
        name(object),
        json!(text(object, "/spec/schedule")),
        or_none(text(object, "/spec/timeZone")),
        json!(if suspended { "True" } else { "False" }),
        json!(list(object, "/status/active").len()),
        json!(last),
        age(object, now),
    ];
    cells.extend(containers(object, "/spec/jobTemplate/spec/template/spec/containers"));
    cells.push(selector(object.pointer("/spec/jobTemplate/spec/selector")));
    cells
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let rules = list(object, "/spec/rules");
    let hosts: Vec<&str> =
        rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    let shown = hosts.get(..3).unwrap_or(&hosts).join(",");
    let hosts = match hosts.len() {
        0 => "*".to_owned(),
        1..=3 => shown,
        _ => format!("{shown} + {} more...", rules.len().saturating_sub(3)),
    };
    let ports = if list(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        or_none(text(object, "/spec/ingressClassName")),
        json!(hosts),
        json!(addresses(object).join(",")),
        json!(ports),
        age(object, now),
    ]
}

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = match object.pointer("/spec/parameters") {
        None => "<none>".to_owned(),
        Some(reference) => {
            let group = text(reference, "/apiGroup");
            let kind = text(reference, "/kind");
            let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            format!("{kind}/{}", text(reference, "/name"))
        }
    };
    vec![name(object), json!(text(object, "/spec/controller")), json!(parameters), age(object, now)]
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/spec/holderIdentity")), age(object, now)]
}

fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    let subjects = |kind: &str| {
        let all = list(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
        let names = all.map(|subject| match (kind, text(subject, "/namespace")) {
            ("ServiceAccount", namespace) if !namespace.is_empty() => {
                format!("{namespace}/{}", text(subject, "/name"))
            }
            _ => text(subject, "/name").to_owned(),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        json!(role),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
