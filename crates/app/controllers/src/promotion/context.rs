//! What only the controllers of promotions are given.

use std::path::PathBuf;
use std::sync::Arc;

use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::Watches;
use kardinal_promotion::shard::{self, Shards};

use super::agents::Agents;
use super::clusters::Clusters;
use super::gates_read::GatesRead;
use super::sealing::Sealing;
use crate::Context;

/// What promotions need besides the control plane, Git and forges.
pub(crate) struct PromotionContext {
    /// The workloads of steps that name no cluster.
    pub(crate) workloads: Arc<Watches>,
    /// Where the organisation's gates are.
    pub(crate) policy_namespaces: Vec<String>,
    /// Which namespaces health checks see besides that of their step; absent: what their defaults need.
    pub(crate) health_namespaces: Option<Vec<String>>,
    /// Which gates were read past their watch.
    pub(crate) gates_read: GatesRead,
    /// The key that verifications are sealed with.
    pub(crate) sealing: Sealing,
    /// Which steps are carried out here.
    pub(crate) shards: Shards,
    /// Which agents are at work.
    pub(crate) agents: Agents,
    /// The clusters that steps name.
    pub(crate) clusters: Clusters,
    /// The program that `kustomize-build` runs.
    pub(crate) kustomize: Option<PathBuf>,
    /// For custom tasks.
    pub(crate) http: reqwest::Client,
}

impl Context {
    /// Whether this process carries a step out.
    pub(crate) fn serves(&self, step: &PromotionStep) -> bool {
        let PromotionContext { shards, agents, .. } = &self.promotion;
        shard::serves(shards, shard::shard_of(step), |shard| agents.has(shard))
    }
}
