//! The defaults of built-in kinds that kubectl flows and the product rely on.
//!
//! The published schemas carry no usable defaults: Go code sets them. These functions set the same values; allocation
//! (cluster IPs, node ports) and everything that a scheduler or a kubelet would fill in is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Kind;

type Object = Map<String, Value>;

/// Sets the defaults of a built-in kind, in place, and drops fields that are `null`, which Go takes for missing. Doing it
/// twice changes nothing.
pub fn apply_defaults(kind: &Kind, object: &mut Value) {
    crate::schema::apply_defaults(&kind.schema(), object);
    let Some(root) = object.as_object_mut() else { return };
    match (kind.group, kind.kind) {
        ("", "Namespace") => namespace(root),
        ("", "Secret") => secret(root),
        ("", "Service") => service(root),
        ("", "Pod") => pod(root),
        ("", "PersistentVolumeClaim") => {
            within(root, "spec", |spec| set(spec, "volumeMode", json!("Filesystem")));
            create(root, "status", |status| set(status, "phase", json!("Pending")));
        }
        ("apps", _) => {
            within(root, "spec", |spec| apps(kind.kind, spec));
            workload_status(kind.kind, root);
        }
        ("batch", "Job") => {
            within(root, "spec", job);
            set(root, "status", json!({}));
        }
        ("batch", "CronJob") => {
            within(root, "spec", cron_job);
            set(root, "status", json!({}));
        }
        ("networking.k8s.io", "Ingress") => set(root, "status", json!({"loadBalancer": {}})),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => role_binding(root),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            within(root, "spec", custom_resource_definition)
        }
        _ => {}
    }
}

fn set(object: &mut Object, name: &str, value: Value) {
    let slot = object.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = value;
    }
}

/// Runs `edit` on the object under `name`, which is created when it is missing. A value of another type is left alone for
/// validation to refuse.
fn create(object: &mut Object, name: &str, edit: impl FnOnce(&mut Object)) {
    set(object, name, Value::Object(Object::new()));
    within(object, name, edit);
}

/// Runs `edit` on the object under `name` if there is one.
fn within(object: &mut Object, name: &str, edit: impl FnOnce(&mut Object)) {
    if let Some(Value::Object(map)) = object.get_mut(name) {
        edit(map);
    }
}

/// Runs `edit` on every object in the list under `name`.
fn each(object: &mut Object, name: &str, mut edit: impl FnMut(&mut Object)) {
    if let Some(Value::Array(list)) = object.get_mut(name) {
        list.iter_mut().filter_map(Value::as_object_mut).for_each(&mut edit);
    }
}

fn namespace(root: &mut Object) {
    let name = root.get("metadata").and_then(|m| m.get("name")).and_then(Value::as_str).map(str::to_owned);
    if let Some(name) = name {
        within(root, "metadata", |metadata| {
            create(metadata, "labels", |labels| {
                labels.insert("kubernetes.io/metadata.name".to_owned(), Value::String(name));
            });
        });
    }
    // A namespace that is going away has lost its finalizer for good.
    let deleting = root.get("metadata").is_some_and(|m| m.get("deletionTimestamp").is_some());
    create(root, "spec", |spec| {
        if !deleting {
            set(spec, "finalizers", json!(["kubernetes"]));
        }
    });
    create(root, "status", |status| set(status, "phase", json!("Active")));
}

fn secret(root: &mut Object) {
    set(root, "type", json!("Opaque"));
    // `stringData` is write-only: it is folded into `data` and never stored.
    let Some(Value::Object(plain)) = root.remove("stringData") else { return };
    create(root, "data", |data| {
        for (key, value) in plain {
            if let Some(text) = value.as_str() {
                data.insert(key, Value::String(STANDARD.encode(text)));
            }
        }
    });
}

fn service(root: &mut Object) {
    within(root, "spec", |spec| {
        set(spec, "type", json!("ClusterIP"));
        set(spec, "sessionAffinity", json!("None"));
        let external = spec.get("type") == Some(&json!("ExternalName"));
        if !external {
            set(spec, "internalTrafficPolicy", json!("Cluster"));
        }
        if matches!(spec.get("type").and_then(Value::as_str), Some("NodePort" | "LoadBalancer")) {
            set(spec, "externalTrafficPolicy", json!("Cluster"));
        }
        if spec.get("type") == Some(&json!("LoadBalancer")) {
            set(spec, "allocateLoadBalancerNodePorts", json!(true));
        }
        each(spec, "ports", |port| {
            set(port, "protocol", json!("TCP"));
            if let Some(number) = port.get("port").cloned() {
                set(port, "targetPort", number);
            }
        });
    });
    set(root, "status", json!({"loadBalancer": {}}));
}

fn pod(root: &mut Object) {
    within(root, "spec", |spec| {
        set(spec, "enableServiceLinks", json!(true));
        pod_spec(spec);
    });
    create(root, "status", |status| set(status, "phase", json!("Pending")));
}

fn pod_template(spec: &mut Object) {
    within(spec, "template", |template| within(template, "spec", pod_spec));
}

fn pod_spec(spec: &mut Object) {
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", json!("default-scheduler"));
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        set(spec, "serviceAccount", name);
    }
    each(spec, "initContainers", container);
    each(spec, "containers", container);
    each(spec, "volumes", |volume| {
        for name in ["secret", "configMap", "downwardAPI", "projected"] {
            within(volume, name, |source| set(source, "defaultMode", json!(420)));
        }
        within(volume, "hostPath", |source| set(source, "type", json!("")));
        within(volume, "projected", |source| {
            each(source, "sources", |source| {
                within(source, "serviceAccountToken", |token| set(token, "expirationSeconds", json!(3600)));
            });
        });
    });
}

fn container(container: &mut Object) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let floating = !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    set(container, "imagePullPolicy", json!(if floating { "Always" } else { "IfNotPresent" }));
    set(container, "terminationMessagePath", json!("/dev/termination-log"));
    set(container, "terminationMessagePolicy", json!("File"));
    set(container, "resources", json!({}));
    each(container, "ports", |port| set(port, "protocol", json!("TCP")));
    each(container, "env", |variable| {
        within(variable, "valueFrom", |from| {
            within(from, "fieldRef", |reference| set(reference, "apiVersion", json!("v1")));
        });
    });
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, name, |probe| {
            set(probe, "timeoutSeconds", json!(1));
            set(probe, "periodSeconds", json!(10));
            set(probe, "successThreshold", json!(1));
            set(probe, "failureThreshold", json!(3));
            http_get(probe);
        });
    }
    within(container, "lifecycle", |lifecycle| {
        within(lifecycle, "postStart", http_get);
        within(lifecycle, "preStop", http_get);
    });
}

fn http_get(handler: &mut Object) {
    within(handler, "httpGet", |get| {
        set(get, "scheme", json!("HTTP"));
        set(get, "path", json!("/"));
    });
}

fn apps(kind: &str, spec: &mut Object) {
    pod_template(spec);
    if kind != "DaemonSet" && kind != "ControllerRevision" {
        set(spec, "replicas", json!(1));
    }
    if matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet") {
        set(spec, "revisionHistoryLimit", json!(10));
    }
    match kind {
        "Deployment" => {
            set(spec, "progressDeadlineSeconds", json!(600));
            rolling_update(spec, "strategy", &[("maxSurge", json!("25%")), ("maxUnavailable", json!("25%"))]);
        }
        "StatefulSet" => {
            set(spec, "podManagementPolicy", json!("OrderedReady"));
            let retain = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
            set(spec, "persistentVolumeClaimRetentionPolicy", retain);
            rolling_update(spec, "updateStrategy", &[("partition", json!(0))]);
        }
        "DaemonSet" => {
            rolling_update(spec, "updateStrategy", &[("maxSurge", json!(0)), ("maxUnavailable", json!(1))]);
        }
        _ => {}
    }
}

/// The counters that Go writes even when they are zero.
fn workload_status(kind: &str, root: &mut Object) {
    let zeros: &[&str] = match kind {
        "Deployment" => &[],
        "ReplicaSet" => &["replicas"],
        "StatefulSet" => &["replicas", "availableReplicas"],
        "DaemonSet" => {
            &["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
        }
        _ => return,
    };
    create(root, "status", |status| zeros.iter().for_each(|name| set(status, name, json!(0))));
}

fn rolling_update(spec: &mut Object, field: &str, values: &[(&str, Value)]) {
    create(spec, field, |strategy| {
        set(strategy, "type", json!("RollingUpdate"));
        if strategy.get("type") != Some(&json!("RollingUpdate")) {
            return;
        }
        create(strategy, "rollingUpdate", |rolling| {
            for (name, value) in values {
                set(rolling, name, value.clone());
            }
        });
    });
}

fn job(spec: &mut Object) {
    let open = !spec.contains_key("completions") && !spec.contains_key("parallelism");
    if open {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    set(spec, "backoffLimit", json!(6));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let policy = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set(spec, "podReplacementPolicy", json!(policy));
    pod_template(spec);
}

fn cron_job(spec: &mut Object) {
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    within(spec, "jobTemplate", |template| within(template, "spec", pod_template));
}

fn role_binding(root: &mut Object) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    within(root, "roleRef", |reference| set(reference, "apiGroup", json!(GROUP)));
    each(root, "subjects", |subject| {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            set(subject, "apiGroup", json!(GROUP));
        }
    });
}

fn custom_resource_definition(spec: &mut Object) {
    set(spec, "conversion", json!({"strategy": "None"}));
    within(spec, "names", |names| {
        let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned) else { return };
        set(names, "singular", json!(kind.to_lowercase()));
        set(names, "listKind", json!(format!("{kind}List")));
    });
}
