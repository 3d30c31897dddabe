//! A table of what a kind hears, tried out on an API server in memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use kardinal_apiserver::{Options, Server};
use kardinal_cluster::watches::Object;
use kardinal_cluster::{Change, SystemClock, install};
use kardinal_object::Gvk;
use kardinal_reach::Hosts;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Hearer, Need, route, watch};
use crate::promotion::context::{self, PromotionContext};
use crate::reconcile::driver::{Driver, Listener, Route, deliver, spawn_fair};
use crate::reconcile::objects::gvk;
use crate::reconcile::pass::{Controller, Kind, Memories};
use crate::{Context, Outside, Settings};

/// The namespace of everything that names none.
pub(crate) const TEAM: &str = "team";
/// Where the organisation has its gates.
pub(super) const ORGANISATION: &str = "platform-policies";

/// Who hears changes, and the server on which they are made.
pub(crate) struct Bench<K: Hearer> {
    server: Server,
    context: Arc<Context>,
    changes: UnboundedReceiver<Change>,
    pub(super) kind: K,
    memories: Memories<K::Memory>,
    /// The kinds whose changes were tried.
    tried: BTreeSet<Gvk>,
    _folder: tempfile::TempDir,
}

impl<K: Hearer> Bench<K> {
    /// A server with nothing on it, everything of which is watched that the kind hears.
    pub(crate) async fn new(make: impl FnOnce(Arc<Context>) -> K) -> Bench<K> {
        Bench::made_by(|context, _, _| make(context)).await
    }

    /// The same for a kind of promotions.
    pub(super) async fn of_promotions(make: impl FnOnce(Arc<PromotionContext>) -> K) -> Bench<K> {
        Bench::made_by(|context, outside, stop| {
            let (context, _) = context::build(context, &Settings::default(), outside, stop);
            make(context)
        })
        .await
    }

    async fn made_by(make: impl FnOnce(Arc<Context>, &Outside, &CancellationToken) -> K) -> Bench<K> {
        let server = Server::start(Options::default()).await.unwrap();
        let client = server.client("default");
        install::ensure_definitions(&client, &kardinal_api::crds()).await.unwrap();
        for namespace in [TEAM, ORGANISATION] {
            install::ensure_namespace(&client, namespace).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let outside = outside(&client, &folder);
        let stop = CancellationToken::new();
        let (context, changes) =
            crate::context::build(client, Arc::new(SystemClock), &Settings::default(), &outside, &stop);
        let kind = make(context.clone(), &outside, &stop);
        watch::<K>(&context);
        let mut bench = Bench {
            server,
            context,
            changes,
            kind,
            memories: Memories::default(),
            tried: BTreeSet::new(),
            _folder: folder,
        };
        for row in K::HEARS {
            bench.see((row.kind)()).await;
        }
        bench
    }

    /// Waits until it is known how a kind stands.
    async fn see(&mut self, kind: Gvk) {
        self.context.watches.ensure(&kind);
        while !self.context.watches.view([&kind]).attempted() {
            self.changes.recv().await.unwrap();
        }
    }

    /// Applies an object, and its status if it has one, and tells who looks at the last of these changes.
    pub(super) async fn apply(&mut self, mut object: Value) -> (Vec<String>, SignedDuration) {
        let status = object.as_object_mut().unwrap().remove("status");
        let (api, name) = self.api(&object);
        let params = PatchParams::apply("test").force();
        let mut written = api.patch(&name, &params, &Patch::Apply(&object)).await.unwrap();
        if let Some(status) = status {
            let of = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "status": status});
            written = api.patch_status(&name, &params, &Patch::Apply(&of)).await.unwrap();
        }
        let version = written.metadata.resource_version.unwrap();
        let is_it = |new: &Option<Arc<Object>>| {
            new.as_ref().is_some_and(|new| new.tree()["metadata"]["resourceVersion"] == version.as_str())
        };
        loop {
            let change = self.changes.recv().await.unwrap();
            if let Change::Object { id, new, .. } = &change
                && is_it(new)
            {
                self.tried.insert(id.gvk.clone());
                return self.route(&change);
            }
        }
    }

    /// The objects that look at a change, each once, and how soon.
    fn route(&self, change: &Change) -> (Vec<String>, SignedDuration) {
        let Route { keys, pace } = route(&self.kind, &self.memories, change);
        let names: BTreeSet<String> =
            keys.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
        (names.into_iter().collect(), pace)
    }

    fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let gvk = Gvk::parse(&text("/apiVersion"), &text("/kind")).unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind));
        let client = self.server.client("default");
        let api = match text("/metadata/namespace").as_str() {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        };
        (api, text("/metadata/name"))
    }

    /// Goes through a table: what is applied, and who looks at it.
    pub(super) async fn go_through(&mut self, table: Vec<(&str, Value, &[&str])>) {
        for (what, object, expected) in table {
            assert_eq!(self.apply(object).await.0, expected, "{what}");
        }
    }

    /// Every row was tried, all objects look at a kind that they are decided from, and nobody at another one.
    pub(super) fn has_tried_everything(&self, all: &[&str]) {
        for row in K::HEARS {
            let kind = (row.kind)();
            assert!(self.tried.contains(&kind), "no case is about {kind:?}");
            let expected = if row.need == Need::Read { all } else { &[] };
            assert_eq!(self.route(&Change::Kind(kind.clone())).0, expected, "{kind:?}");
        }
        let unrelated = Gvk::parse("v1", "ConfigMap").unwrap();
        assert_eq!(self.route(&Change::Kind(unrelated)).0, [""; 0], "nobody hears of other kinds");
    }
}

/// The controller of a kind at work.
pub(crate) struct AtWork<K: Kind> {
    pub(crate) client: kube::Client,
    driver: Arc<Driver<Controller<K>>>,
    changes: UnboundedReceiver<Change>,
    _server: Server,
    _folder: tempfile::TempDir,
}

impl<K: Kind> Bench<K> {
    /// Starts the controller; `limit` passes are made at a time in one namespace.
    pub(crate) fn start(self, limit: usize) -> AtWork<K> {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let driver = spawn_fair(Controller::new(self.kind), limit, (&stop, &stop), &tasks);
        let (teller, changes) = unbounded_channel();
        let listeners: Vec<Arc<dyn Listener>> = vec![driver.clone(), Arc::new(Teller(teller))];
        tokio::spawn(deliver(listeners, self.changes));
        let client = self.server.client("default");
        AtWork { client, driver, changes, _server: self.server, _folder: self._folder }
    }
}

impl<K: Kind> AtWork<K> {
    /// The kind.
    pub(crate) fn kind(&self) -> &K {
        self.driver.controller().kind()
    }

    /// The next object of the kind that the controller has heard of.
    pub(crate) async fn heard(&mut self) -> K::Object {
        loop {
            let change = self.changes.recv().await.unwrap();
            if let Change::Object { id, new: Some(new), .. } = change
                && id.gvk == gvk::<K::Object>()
            {
                return new.read().unwrap();
            }
        }
    }
}

/// Passes on what the controller hears.
struct Teller(UnboundedSender<Change>);

impl Listener for Teller {
    fn hear(&self, change: &Change) {
        let _ = self.0.send(change.clone());
    }
}

fn outside(client: &kube::Client, folder: &tempfile::TempDir) -> Outside {
    // A second installation is no news.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = kardinal_git::Settings {
        cache_dir: folder.path().to_owned(),
        max_bytes: 1 << 20,
        max_age: std::time::Duration::from_secs(60),
        local: None,
        limits: kardinal_git::Limits::default(),
    };
    let http = kardinal_scm::Http::new(kardinal_scm::Settings::default(), None);
    Outside {
        repositories: Arc::new(kardinal_git::Git::new(settings)),
        forges: Arc::new(crate::RealForges { http, client: client.clone() }),
        forge: None,
        kustomize: None,
        http: reqwest::Client::new(),
        reach: kardinal_reach::Policy::machine(Hosts::default()),
        metrics: Arc::default(),
        workloads: None,
    }
}

/// An object of ours in [`TEAM`].
pub(super) fn object(kind: &str, name: &str, rest: Value) -> Value {
    let ours = kardinal_api::crds().into_iter().find(|crd| crd.spec.names.kind == kind);
    let group = ours.unwrap_or_else(|| panic!("`{kind}` is no kind of ours")).spec.group;
    let mut object = json!({
        "apiVersion": format!("{group}/v1alpha1"),
        "kind": kind,
        "metadata": {"namespace": TEAM, "name": name},
    });
    for (field, value) in rest.as_object().unwrap() {
        match field.as_str() {
            "labels" | "annotations" | "namespace" | "ownerReferences" => {
                object["metadata"][field] = value.clone();
            }
            _ => object[field] = value.clone(),
        }
    }
    object
}
