//! Thousands of requests that are wrong in some way: whatever a client sends, the answer never blames the server.

use anyhow::ensure;
use serde_json::{Map, Value, json};

use crate::target::{JSON, in_process};

const REQUESTS: usize = 4000;

/// The same numbers on every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from((z ^ (z >> 31)) % bound).unwrap_or_default()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.get(self.below(of.len())).copied().unwrap_or_default()
    }
}

const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS", "HEAD"];
const PATHS: [&str; 30] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/configmaps/a/status",
    "/api/v1/namespaces/default/configmaps/a/scale",
    "/api/v1/namespaces/default/secrets/s",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/n",
    "/api/v1/namespaces/n/finalize",
    "/api/v1/namespaces/n/status",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/serviceaccounts/default/token",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/apps/v1/namespaces/default/deployments/d/status",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/graphs.experimental.kro.run",
    "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs",
    "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/g",
    "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/g/status",
    "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/g/scale",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/%ff/v1/x",
    "/apis/../../etc/passwd",
    "/api/v1/namespaces/%2e%2e/configmaps/%00",
    "/openapi/v3/apis/x/y",
    "/kardinal/backup/x",
    "//api//v1//namespaces//",
];
const TYPES: [&str; 9] = [
    JSON,
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    ";;;charset=",
];
const QUERIES: [&str; 32] = [
    "labelSelector=a%3D%3D%3Db",
    "labelSelector=a%20in%20(b%2C",
    "labelSelector=!",
    "labelSelector=%00",
    "fieldSelector=metadata.name%3D",
    "fieldSelector=a.b.c%3Dd%2C",
    "limit=-1",
    "limit=99999999999999999999",
    "limit=1",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
    "continue=AAAA",
    "continue=%F0%9F%98%80",
    "resourceVersion=x",
    "resourceVersion=18446744073709551615",
    "resourceVersion=-0",
    "resourceVersionMatch=Never",
    "resourceVersionMatch=Exact&resourceVersion=1",
    "timeoutSeconds=-1",
    "dryRun=Some",
    "dryRun=All",
    "fieldManager=%00",
    "fieldManager=a&force=true",
    "fieldManager=a&force=perhaps",
    "fieldValidation=Strict",
    "fieldValidation=Loose",
    "propagationPolicy=Sideways",
    "gracePeriodSeconds=-9",
    "orphanDependents=maybe",
    "pretty=x",
    "includeObject=Everything",
    "=&&==",
    "%zz=%",
];
const WORDS: [&str; 24] = [
    "",
    "a",
    "A",
    "-",
    "..",
    "\u{0}",
    "é",
    "😀",
    "metadata",
    "name",
    "spec",
    "$patch",
    "replace",
    "delete",
    "$retainKeys",
    "$setElementOrder/containers",
    "kubernetes.io/x",
    "a/b/c",
    "v1",
    "ConfigMap",
    "2024-13-45T99:99:99Z",
    "1e999",
    "f:metadata",
    "k:{\"name\":1}",
];

fn templates() -> Vec<Value> {
    let container =
        json!({"name": "c", "image": "i", "ports": [{"containerPort": 1}], "env": [{"name": "e"}]});
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": "b"},
            "finalizers": ["x/y"], "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
            "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:a": {}}}}]}, "data": {"a": "b"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1,
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container]}}}}),
        json!({"apiVersion": "experimental.kro.run/v1alpha1", "kind": "Graph", "metadata": {"name": "g"},
            "spec": {"nodes": [{"id": "a", "def": {"value": "${1}"}}]}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "ws.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "W", "plural": "ws", "singular": "w", "listKind": "WList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "x", "type": "string", "jsonPath": ".spec.x"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                    "x-kubernetes-validations": [{"rule": "self.x == 'a'"}],
                    "properties": {"x": {"type": "string", "pattern": "^[a-z:]+$", "default": "a"}}}}}}}]}}),
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}, "gracePeriodSeconds": 1}),
        json!([{"op": "add", "path": "/data/a", "value": "b"}, {"op": "test", "path": "/metadata/name", "value": "a"},
            {"op": "move", "from": "/data", "path": "/data/x"}, {"op": "remove", "path": "/spec/nodes/7"}]),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 3}}),
        json!({"spec": {"template": {"spec": {"containers": [{"$patch": "delete", "name": "c"}]}}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": []}}),
    ]
}

fn any(chance: &mut Chance, depth: usize) -> Value {
    match chance.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(chance.below(2) == 0),
        2 => json!(i64::MIN),
        3 => json!(1.5e300),
        4 => json!(u64::MAX),
        5 => json!(chance.one(&WORDS)),
        6 => Value::Array((0..chance.below(3)).map(|_| any(chance, depth - 1)).collect()),
        _ => {
            let fields =
                (0..chance.below(3)).map(|_| (chance.one(&WORDS).to_owned(), any(chance, depth - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Spoils one place of a value.
fn spoil(value: &mut Value, chance: &mut Chance) {
    let stop = chance.below(4) == 0;
    match value {
        Value::Object(map) if !stop && !map.is_empty() => {
            let at = chance.below(map.len());
            match chance.below(6) {
                0 => drop(map.insert(chance.one(&WORDS).to_owned(), any(chance, 2))),
                1 => {
                    let key = map.keys().nth(at).cloned().unwrap_or_default();
                    map.remove(&key);
                }
                _ => {
                    if let Some(inner) = map.values_mut().nth(at) {
                        spoil(inner, chance);
                    }
                }
            }
        }
        Value::Array(items) if !stop && !items.is_empty() => {
            let at = chance.below(items.len());
            if let Some(inner) = items.get_mut(at) {
                spoil(inner, chance);
            }
        }
        other => *other = any(chance, 2),
    }
}

fn body(chance: &mut Chance, templates: &[Value]) -> Vec<u8> {
    let mut value = templates.get(chance.below(templates.len())).cloned().unwrap_or_default();
    for _ in 0..chance.below(4) {
        spoil(&mut value, chance);
    }
    let mut text = value.to_string().into_bytes();
    match chance.below(8) {
        0 => text.truncate(chance.below(text.len() + 1)),
        1 => {
            let at = chance.below(text.len());
            let byte = u8::try_from(chance.below(256)).unwrap_or_default();
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
        }
        2 => text.splice(0..0, *b"k8s\0").for_each(drop),
        _ => {}
    }
    text
}

/// Where a mistake in the body is all that is wrong.
const SOUND: [(&str, &str, &str); 14] = [
    ("POST", "/api/v1/namespaces/default/configmaps", JSON),
    ("PUT", "/api/v1/namespaces/default/configmaps/a", JSON),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a", "application/merge-patch+json"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a", "application/json-patch+json"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a?fieldManager=m", "application/apply-patch+yaml"),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/d", JSON),
    ("PATCH", "/apis/apps/v1/namespaces/default/deployments/d", "application/strategic-merge-patch+json"),
    ("PATCH", "/apis/apps/v1/namespaces/default/deployments/d", "application/json-patch+json"),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m&force=true",
        "application/apply-patch+yaml",
    ),
    ("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", JSON),
    ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON),
    (
        "PATCH",
        "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/g",
        "application/merge-patch+json",
    ),
    (
        "PATCH",
        "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/g?fieldManager=m",
        "application/apply-patch+yaml",
    ),
    ("DELETE", "/api/v1/namespaces/default/configmaps/b", JSON),
];

#[test]
fn client_mistakes_are_never_answered_with_500() -> anyhow::Result<()> {
    in_process(async |target| {
        let templates = templates();
        let collections = [
            "/api/v1/namespaces/default/configmaps",
            "/apis/apps/v1/namespaces/default/deployments",
            "/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs",
        ];
        for (path, template) in collections.iter().zip(&templates) {
            target.post(path, template).await?;
        }
        let mut chance = Chance(1);
        let mut refused = 0;
        for number in 0..REQUESTS {
            let sound = SOUND.get(chance.below(2 * SOUND.len()));
            let (method, path, kind) = sound
                .copied()
                .unwrap_or_else(|| (chance.one(&METHODS), chance.one(&PATHS), chance.one(&TYPES)));
            let mut path = path.to_owned();
            for _ in 0..chance.below(if sound.is_some() { 1 } else { 3 }) {
                path.push(if path.contains('?') { '&' } else { '?' });
                path.push_str(chance.one(&QUERIES));
            }
            let body = body(&mut chance, &templates);
            let text = String::from_utf8_lossy(&body).into_owned();
            let reply = target.send(method, &path, kind, body).await?;
            // As on a real server: a version of the future may still come, and clients try again.
            let future = reply.code == 504 && path.contains("resourceVersion=18446744073709551615");
            ensure!(
                reply.code < 500 || future,
                "request {number}: {method} {path} ({kind}) {text} answers {}: {}",
                reply.code,
                reply.body
            );
            refused += usize::from(reply.code >= 400);
        }
        ensure!(refused > REQUESTS / 2 && refused < REQUESTS, "{refused} were refused");
        Ok(())
    })
}
