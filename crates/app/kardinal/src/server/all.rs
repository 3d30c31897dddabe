//! What explains every Pipeline of a namespace, or of all: each kind is listed once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep};
use kardinal_planner::names::label_value;
use kardinal_policy::is_template;
use kardinal_promotion::bundle::searches;
use kardinal_promotion::shard::{Agent, shard_of};
use kube::Api;
use kube::api::ListParams;

use super::{Ours, Seen, Server, age_key, list};
use crate::failure::Failure;

/// One namespace, or all of them.
pub(crate) struct Place {
    pub(crate) server: Server,
    pub(crate) all: bool,
}

impl Place {
    /// The objects of a kind there.
    pub(crate) fn api<K: Ours>(&self) -> Api<K> {
        match self.all {
            true => Api::all(self.server.client.clone()),
            false => self.server.api(),
        }
    }

    async fn list<K: Ours>(&self) -> Result<Vec<K>, Failure> {
        list(&self.api(), &ListParams::default()).await
    }

    /// The gates there, and those of the organisation and of the namespaces that Pipelines name.
    async fn gates(
        &self,
        pipelines: &[Pipeline],
        policy_namespaces: &[String],
    ) -> Result<Vec<PolicyGate>, Failure> {
        if self.all {
            return self.list().await;
        }
        let named = pipelines.iter().map(|pipeline| pipeline.spec.policy_namespaces.as_slice());
        let namespaces: Vec<&[String]> = std::iter::once(policy_namespaces).chain(named).collect();
        self.server.gates(&namespaces).await
    }

    /// For each Pipeline there the same as [`Server::seen`] finds for it.
    pub(crate) async fn seen(&self, policy_namespaces: &[String]) -> Result<Vec<Seen>, Failure> {
        let pipelines: Vec<Pipeline> = self.list().await?;
        let (mut bundles, steps, gates, graphs) = futures::try_join!(
            self.list::<Bundle>(),
            self.list::<PromotionStep>(),
            self.gates(&pipelines, policy_namespaces),
            self.list::<Graph>(),
        )?;
        bundles.sort_by_key(|bundle| std::cmp::Reverse(age_key(bundle)));
        let agents = self.server.agents_of(&steps).await?;
        let everything = Everything { bundles, steps, gates, graphs, agents };
        Ok(pipelines.into_iter().map(|pipeline| everything.part(pipeline, policy_namespaces)).collect())
    }
}

impl Server {
    /// The agents of the shards that steps have, as far as one may read their Leases.
    pub(super) async fn agents_of(&self, steps: &[PromotionStep]) -> Result<Vec<Agent>, Failure> {
        match steps.iter().any(|step| shard_of(step).is_some()) {
            true => Ok(self.agents(Timestamp::now()).await?.unwrap_or_default()),
            false => Ok(Vec::new()),
        }
    }
}

/// The objects of many Pipelines.
struct Everything {
    bundles: Vec<Bundle>,
    steps: Vec<PromotionStep>,
    gates: Vec<PolicyGate>,
    graphs: Vec<Graph>,
    agents: Vec<Agent>,
}

impl Everything {
    /// What belongs to one Pipeline.
    fn part(&self, pipeline: Pipeline, policy_namespaces: &[String]) -> Seen {
        let namespace = &pipeline.metadata.namespace;
        let name = pipeline.metadata.name.clone().unwrap_or_default();
        let short = label_value(&name);
        let bundles = self.bundles.iter().filter(|one| {
            one.metadata.namespace == *namespace && of_pipeline(&one.metadata.labels) == Some(name.as_str())
        });
        let steps: Vec<PromotionStep> = self
            .steps
            .iter()
            .filter(|one| one.metadata.namespace == *namespace && one.spec.pipeline == name)
            .cloned()
            .collect();
        let required: Vec<&String> = steps.iter().flat_map(|step| &step.spec.required_gates).collect();
        let gates = self.gates.iter().filter(|gate| {
            let place = gate.metadata.namespace.as_deref().unwrap_or_default();
            let is_ours = gate.metadata.namespace == *namespace
                && (of_pipeline(&gate.metadata.labels) == Some(short.as_str())
                    || gate.metadata.name.as_ref().is_some_and(|name| required.contains(&name)));
            is_ours || (is_template(gate) && searches(&pipeline, place, policy_namespaces))
        });
        // Graphs that people wrote have no label, and may promote anything.
        let graphs = self.graphs.iter().filter(|one| {
            one.metadata.namespace == *namespace
                && of_pipeline(&one.metadata.labels).is_none_or(|of| of == short)
        });
        Seen {
            bundles: bundles.cloned().collect(),
            gates: gates.cloned().collect(),
            graphs: graphs.cloned().collect(),
            steps,
            agents: self.agents.clone(),
            policy_namespaces: policy_namespaces.to_vec(),
            pipeline,
        }
    }
}

fn of_pipeline(labels: &Option<BTreeMap<String, String>>) -> Option<&str> {
    labels.as_ref()?.get(PIPELINE_LABEL).map(String::as_str)
}
