//! Who hears of a Pipeline, of which there may be very many in other namespaces.

use std::sync::Arc;

use kardinal_apiserver::{Options, Server};
use kardinal_cluster::{Change, Kinds, Watches, install};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::dialect::facets_of;
use crate::reconcile::objects::{before_and_after, is};

const ORGANISATION: &str = "platform-policies";

struct Bench {
    server: Server,
    watches: Arc<Watches>,
    changes: UnboundedReceiver<Change>,
}

impl Bench {
    /// A server with one template in each of these namespaces, all of which have been seen.
    async fn with_templates(namespaces: &[&str]) -> Bench {
        let server = Server::start(Options::default()).await.unwrap();
        let client = server.client("default");
        install::ensure_definitions(&client, &kardinal_api::crds()).await.unwrap();
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (watches, changes) = Watches::new(client.clone(), kinds, facets_of, CancellationToken::new());
        let mut bench = Bench { server, watches, changes };
        for namespace in namespaces {
            install::ensure_namespace(&client, namespace).await;
            let spec = json!({"expression": "true", "appliesTo": ["prod"]});
            bench.apply("PolicyGate", namespace, "gate", spec).await;
        }
        for kind in [gvk::<PolicyGate>(), gvk::<Pipeline>()] {
            bench.watches.ensure(&kind);
            while !matches!(bench.changes.recv().await.unwrap(), Change::Kind(seen) if seen == kind) {}
        }
        bench
    }

    async fn apply(&self, kind: &str, namespace: &str, name: &str, spec: Value) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kardinal.io", "v1alpha1", kind));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.server.client("default"), namespace, &resource);
        let object = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": kind, "spec": spec});
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }

    /// The namespaces whose gates hear that a Pipeline of `team-a` is like this now.
    async fn hearing(&mut self, changed: Value) -> Vec<String> {
        let mut spec =
            json!({"git": {"url": "https://git.invalid/app.git"}, "environments": [{"name": "prod"}]});
        spec.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        self.apply("Pipeline", "team-a", "app", spec).await;
        loop {
            let change = self.changes.recv().await.unwrap();
            if matches!(&change, Change::Object { id, .. } if is::<Pipeline>(&id.gvk)) {
                let view = self.watches.view(&[gvk::<PolicyGate>()]);
                let both = before_and_after(&change);
                let heard = templates(&view, both, &[ORGANISATION.to_owned()]);
                return heard.into_iter().map(|(namespace, _)| namespace).collect();
            }
        }
    }
}

#[tokio::test]
async fn a_pipeline_is_heard_only_where_its_templates_may_be_and_only_of_what_they_guard() {
    let mut bench = Bench::with_templates(&["team-a", "team-b", "shared", ORGANISATION]).await;
    assert_eq!(bench.hearing(json!({})).await, [ORGANISATION, "team-a"], "it is new");
    assert!(bench.hearing(json!({"historyLimit": 3})).await.is_empty(), "no gate asks for that");
    let environments = json!([{"name": "prod"}, {"name": "dev"}]);
    assert_eq!(bench.hearing(json!({"environments": environments})).await, [ORGANISATION, "team-a"]);
    let more = json!({"policyNamespaces": ["shared"]});
    assert_eq!(bench.hearing(more).await, [ORGANISATION, "shared", "team-a"]);
    assert_eq!(
        bench.hearing(json!({})).await,
        [ORGANISATION, "shared", "team-a"],
        "it searched there before"
    );
}
