//! The words scenarios are told in: apply a manifest, set a status, see a node's state.

use anyhow::Context as _;
use jiff::Timestamp;
use kardinal_api::graph::{Graph, NodeState, NodeStatus};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::apply::{self, apply};
use crate::world::World;

/// A scenario in one world.
pub struct Story<'a> {
    /// The world it happens in.
    pub world: &'a World,
}

impl<'a> Story<'a> {
    /// Begins.
    pub fn new(world: &'a World) -> Story<'a> {
        Story { world }
    }

    /// Objects of a kind in the scenario's namespace.
    pub fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        apply::api(&self.world.client, &self.world.namespace, api_version, kind)
    }

    /// Applies a manifest as a user would, into the scenario's namespace.
    pub async fn apply(&self, manifest: &Value) -> anyhow::Result<DynamicObject> {
        apply(&self.world.client, &self.world.namespace, manifest).await
    }

    /// Sets fields of an object's status, as its controller would.
    pub async fn set_status(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
        status: Value,
    ) -> anyhow::Result<DynamicObject> {
        let patch = json!({"status": status});
        let api = self.api(api_version, kind);
        let done = api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        done.with_context(|| format!("setting the status of {kind} `{name}`"))
    }

    /// The object, or `None`.
    pub async fn find(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<Option<Value>> {
        let found = self.api(api_version, kind).get_opt(name).await?;
        found.map(|object| serde_json::to_value(object).map_err(Into::into)).transpose()
    }

    /// Deletes an object, its dependents in the background.
    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
        self.api(api_version, kind).delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Waits until there is no such object.
    pub async fn gone(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<()> {
        let what = format!("{kind} `{name}` is gone");
        self.world
            .eventually(&what, async || {
                Ok(match self.find(api_version, kind, name).await? {
                    None => Ok(()),
                    Some(object) => Err(object.to_string()),
                })
            })
            .await
    }

    /// Waits until a condition of the Graph reads like this.
    pub async fn condition(
        &self,
        graph: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> anyhow::Result<()> {
        let api: Api<Graph> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let what = format!("Graph `{graph}` has {type_}={status} ({reason})");
        self.world
            .eventually(&what, async || {
                let seen = api.get(graph).await?.status.unwrap_or_default();
                let condition = seen.conditions.iter().find(|condition| condition.type_ == type_);
                Ok(match condition {
                    Some(condition) if condition.status == status && condition.reason == reason => Ok(()),
                    _ => Err(format!("{:?}", seen.conditions)),
                })
            })
            .await
    }

    /// Waits until a node of the Graph looks right.
    pub async fn node(
        &self,
        graph: &str,
        node: &str,
        what: &str,
        right: impl Fn(&NodeStatus) -> bool,
    ) -> anyhow::Result<NodeStatus> {
        let api: Api<Graph> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        self.world
            .eventually(&format!("node `{node}` {what}"), async || {
                let seen = api.get(graph).await?.status.unwrap_or_default();
                let found = seen.nodes.iter().find(|status| status.id == node).cloned();
                Ok(match found {
                    Some(status) if right(&status) => Ok(status),
                    other => Err(format!("{other:?}; {:?}", seen.conditions)),
                })
            })
            .await
    }

    /// Waits until a node is in this state.
    pub async fn state(&self, graph: &str, node: &str, state: NodeState) -> anyhow::Result<NodeStatus> {
        self.node(graph, node, &format!("is {state:?}"), |status| status.state == state).await
    }

    /// An instant as statuses carry it.
    pub fn stamp(&self, instant: Timestamp) -> String {
        instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}
