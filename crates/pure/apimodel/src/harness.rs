//! A world for tests: a model, a clock that stands still, ids that count, and requests written as URLs.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::gc::Collector;
use crate::model::{
    Change, DeleteOptions, FieldValidation, Ids, ListOptions, Model, Outcome, PatchKind, Request, Target,
    Verb, VersionMatch, WriteOptions, parse_dry_run, parse_propagation,
};
use crate::namespace;
use crate::status::Status;
use crate::watch::Limits;

#[derive(Default)]
pub(crate) struct Counter(u64);

impl Ids for Counter {
    fn uid(&mut self) -> String {
        self.0 += 1;
        format!("uid-{}", self.0)
    }

    fn suffix(&mut self) -> String {
        self.0 += 1;
        format!("{:05}", self.0)
    }
}

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) now: Timestamp,
    pub(crate) ids: Counter,
    pub(crate) collector: Collector,
    pub(crate) history: Vec<Change>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> World {
        let model = Model::new(limits);
        let mut world = World {
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            ids: Counter::default(),
            collector: Collector::new(&model),
            history: Vec::new(),
            model,
        };
        for request in namespace::initial(&world.model) {
            world.submit(request).unwrap();
        }
        world
    }

    pub(crate) fn tick(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn submit(&mut self, request: Request) -> Result<Outcome, Status> {
        let mut batch = self.model.begin();
        let outcome = self.model.prepare(&mut batch, request, self.now, &mut self.ids)?;
        let changes = batch.changes().to_vec();
        self.model.commit(batch);
        for change in &changes {
            self.collector.observe(&self.model, change);
        }
        self.history.extend(changes);
        Ok(outcome)
    }

    /// Runs housekeeping until it has nothing left to do.
    pub(crate) fn run_housekeeping(&mut self) {
        for _ in 0..10_000 {
            if self.collector.is_idle() {
                return;
            }
            for (_, request) in self.collector.decide(&self.model, 16) {
                // A decision may be overtaken by an earlier one of the same round; its object is queued again then.
                let _overtaken = self.submit(request);
            }
        }
        panic!("housekeeping does not come to rest");
    }

    pub(crate) fn send(&mut self, line: &str, body: Value) -> Result<Value, Status> {
        self.outcome(line, body).map(|outcome| outcome.value().into_owned())
    }

    /// `VERB path?query`, where VERB is POST, PUT, DELETE, JSON, MERGE, STRATEGIC or APPLY.
    pub(crate) fn outcome(&mut self, line: &str, body: Value) -> Result<Outcome, Status> {
        self.submit(request(line, body)?)
    }

    pub(crate) fn ok(&mut self, line: &str, body: Value) -> Value {
        match self.send(line, body) {
            Ok(value) => value,
            Err(status) => panic!("{line}: {}", status.to_json()),
        }
    }

    pub(crate) fn err(&mut self, line: &str, body: Value) -> Status {
        match self.send(line, body) {
            Ok(value) => panic!("{line} should fail: {value}"),
            Err(status) => status,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let (target, _) = parse(path);
        let object = self.model.get(&target).ok()?;
        Some(object.value_as(&target.api_version()))
    }

    pub(crate) fn must(&self, path: &str) -> Value {
        self.get(path).unwrap_or_else(|| panic!("{path} should exist"))
    }

    pub(crate) fn list(&self, path: &str) -> Result<(Vec<String>, Value), Status> {
        let (target, query) = parse(path);
        let list = self.model.list(&target, &list_options(&query)?)?;
        let parsed: Value = serde_json::from_slice(&list.json()).unwrap();
        let names = parsed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let name = item["metadata"]["name"].as_str().unwrap();
                match item["metadata"]["namespace"].as_str() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                }
            })
            .collect();
        Ok((names, parsed["metadata"].clone()))
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap().0
    }
}

pub(crate) fn request(line: &str, body: Value) -> Result<Request, Status> {
    let (verb, path) = line.split_once(' ').unwrap();
    let (target, query) = parse(path);
    let get = |name: &str| query.get(name).cloned().unwrap_or_default();
    let options = WriteOptions {
        dry_run: parse_dry_run(&get("dryRun"))?,
        field_manager: get("fieldManager"),
        user_agent: "test/1.0".into(),
        field_validation: FieldValidation::parse(&get("fieldValidation"))?,
        force: query.get("force").map(|v| v == "true"),
        decoding_problems: Vec::new(),
    };
    let patch = |kind| Verb::Patch { kind, body: body.clone(), options: options.clone() };
    let verb = match verb {
        "POST" => Verb::Create { body, options },
        "PUT" => Verb::Update { body, options },
        "JSON" => patch(PatchKind::Json),
        "MERGE" => patch(PatchKind::Merge),
        "STRATEGIC" => patch(PatchKind::Strategic),
        "APPLY" => patch(PatchKind::Apply),
        "DELETE" => {
            let mut delete =
                if body.is_null() { DeleteOptions::default() } else { DeleteOptions::from_json(&body)? };
            delete.dry_run |= options.dry_run;
            if let Some(policy) = query.get("propagationPolicy") {
                delete.propagation = Some(parse_propagation(policy)?);
            }
            if target.name.is_empty() {
                Verb::DeleteCollection { list: list_options(&query)?, options: delete }
            } else {
                Verb::Delete { options: delete }
            }
        }
        other => panic!("no such verb: {other}"),
    };
    Ok(Request { target, verb })
}

fn list_options(query: &BTreeMap<String, String>) -> Result<ListOptions, Status> {
    let get = |name: &str| query.get(name).cloned().unwrap_or_default();
    Ok(ListOptions {
        label_selector: get("labelSelector"),
        field_selector: get("fieldSelector"),
        limit: get("limit").parse().unwrap_or_default(),
        continue_token: get("continue"),
        resource_version: get("resourceVersion"),
        version_match: VersionMatch::parse(&get("resourceVersionMatch"))?,
    })
}

fn parse(path: &str) -> (Target, BTreeMap<String, String>) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let mut steps: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let mut target = Target::default();
    if steps.remove(0) == "apis" {
        target.group = steps.remove(0).into();
    }
    target.version = steps.remove(0).into();
    let scoped = steps.first() == Some(&"namespaces")
        && steps.len() > 2
        && steps[2] != "finalize"
        && steps[2] != "status";
    if scoped {
        steps.remove(0);
        target.namespace = steps.remove(0).into();
    }
    let mut rest = steps.into_iter().map(str::to_owned);
    target.resource = rest.next().unwrap_or_default();
    target.name = rest.next().unwrap_or_default();
    target.subresource = rest.next().unwrap_or_default();
    (target, query)
}

pub(crate) const CM: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// A CRD `widgets.example.com` with two versions, status and scale.
pub(crate) fn widget_crd() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "default": 1, "minimum": 0},
                    "color": {"type": "string", "enum": ["red", "green"]},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "phase": {"type": "string"},
                    "replicas": {"type": "integer"},
                    "selector": {"type": "string"},
                },
            },
        },
    });
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                },
            },
            "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}
