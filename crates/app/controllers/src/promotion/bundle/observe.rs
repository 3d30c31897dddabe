//! What a pass over one Bundle is decided from. Only reads.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_cluster::View;
use kardinal_object::name_of;
use kardinal_promotion::bundle::{self as planner, Commit, Effect, Search, Snapshot};
use kardinal_promotion::gate_context::Surroundings;
use kardinal_promotion::seal::Key as SealKey;

use super::{Kind, Memory, Refusal};
use crate::promotion::context::PromotionContext;
use crate::promotion::surroundings::around;
use crate::promotion::{access, facets};
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{get, list, lock};
use crate::reconcile::pass::{Observed, Remembered, sight};

/// Reads the Bundle and everything around it out of the watches, and looks for its commit when nothing can be decided
/// without.
pub(super) async fn observe(
    context: &Arc<PromotionContext>,
    key: &Key,
    remembered: &Remembered<Memory>,
    before: Option<Observation>,
) -> Result<Observation, Next> {
    // Before the look at the objects, so that nothing is waited for between that and the decision.
    let (seal, commit) = match before {
        Some(before) => (before.seal, before.commit),
        None => (context.key().await.cloned(), Commit::Unknown),
    };
    let view = sight::<Kind>(context)?;
    let mut seen = Observation::of(&view, key, context, seal).ok_or(Next::Never)?;
    drop(view);
    seen.refusal = lock(remembered).refusal.clone();
    seen.commit = commit;
    if let Some(search) = seen.ask(planner::search) {
        seen.commit = look_for(context, &key.0, &search).await;
    }
    Ok(seen)
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.bundle.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

/// What was seen of one Bundle and everything around it.
pub(crate) struct Observation {
    pub(super) bundle: Bundle,
    pipeline: Option<Pipeline>,
    around: Surroundings,
    gates: Vec<PolicyGate>,
    graphs: Vec<Graph>,
    steps: Vec<PromotionStep>,
    /// Looked for only when a decision needs it.
    commit: Commit,
    seal: Result<SealKey, String>,
    /// What was refused lately.
    refusal: Option<Refusal>,
    context: Arc<PromotionContext>,
    pub(super) now: Timestamp,
}

impl Observation {
    fn of(
        view: &View,
        key: &Key,
        context: &Arc<PromotionContext>,
        seal: Result<SealKey, String>,
    ) -> Option<Observation> {
        let (namespace, name) = key;
        let bundle: Bundle = get(view, namespace, name)?;
        let pipeline_name = planner::pipeline_name(&bundle).unwrap_or_default().to_owned();
        let pipeline: Option<Pipeline> = get(view, namespace, &pipeline_name);
        let around = around(view, namespace, &bundle);
        let namespaces: BTreeSet<&str> =
            planner::searched(pipeline.as_ref(), namespace, &context.policy_namespaces).collect();
        let mut graphs: Vec<Graph> = list(view, namespace, facets::BUNDLE, name);
        for wanted in planner::graph_names(&bundle) {
            if !graphs.iter().any(|graph| graph.metadata.name.as_ref() == Some(&wanted)) {
                graphs.extend(get::<Graph>(view, namespace, &wanted));
            }
        }
        // Templates matter until the Bundle has a Graph, after that the instances that were made for it, and at its end
        // neither. A team can have very many of them, and every change of a Bundle looks here for all of its Pipeline.
        let ended = planner::phase_of(&bundle).is_some_and(planner::is_finished);
        let has_graph = graphs.iter().any(|graph| planner::carries(graph, &bundle));
        let wanted = if has_graph { vec![name.as_str()] } else { vec!["", name] };
        let gates = namespaces
            .iter()
            .filter(|_| !ended)
            .flat_map(|place| wanted.iter().map(move |of| list(view, place, facets::BUNDLE, of)))
            .flatten()
            .collect();
        let steps = list(view, namespace, facets::BUNDLE, name);
        Some(Observation {
            bundle,
            pipeline,
            around,
            gates,
            graphs,
            steps,
            commit: Commit::Unknown,
            seal,
            refusal: None,
            context: context.clone(),
            now: context.clock.now(),
        })
    }

    /// Asks for a decision.
    pub(super) fn ask<T>(&self, decide: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        decide(&Snapshot {
            bundle: &self.bundle,
            pipeline: self.pipeline.as_ref(),
            around: &self.around,
            gates: &self.gates.iter().collect::<Vec<_>>(),
            graphs: &self.graphs.iter().collect::<Vec<_>>(),
            steps: &self.steps.iter().collect::<Vec<_>>(),
            policy_namespaces: &self.context.policy_namespaces,
            commit: &self.commit,
            key: self.seal.as_ref().map_err(String::as_str),
            now: self.now,
        })
    }

    pub(super) fn namespace(&self) -> &str {
        self.bundle.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        name_of(&self.bundle.metadata)
    }

    /// Which text its Pipeline has.
    pub(super) fn generation(&self) -> Option<i64> {
        self.pipeline.as_ref().and_then(|pipeline| pipeline.metadata.generation)
    }

    /// What the API server has said lately against such an effect, as long as that counts.
    pub(super) fn refuses(&self, effect: &Effect) -> Option<&Refusal> {
        let refusal = self.refusal.as_ref()?;
        let counts = refusal.what == discriminant(effect)
            && refusal.until > self.now
            && refusal.pipeline == self.generation();
        counts.then_some(refusal)
    }
}

/// Looks for a commit with the credentials of a step that will take it over.
async fn look_for(context: &PromotionContext, namespace: &str, search: &Search) -> Commit {
    let Some(step) = search.steps.iter().find(|step| context.serves(step)) else { return Commit::Elsewhere };
    let remote = async { context.remote(&access::of_step(namespace, step)?).await };
    let remote = match remote.await {
        Ok(remote) => remote,
        Err(trouble) => return Commit::Unreachable(trouble.into_message()),
    };
    let source = match context.source(namespace, &remote, &search.commit.repository) {
        Ok(source) => source,
        // Whose repository it is does not change by itself.
        Err(trouble) => return Commit::Missing(trouble.into_message()),
    };
    let repositories = &context.repositories;
    let found = async {
        let id = repositories.resolve(&source, &search.commit.sha).await?;
        // A whole id is taken as it is: only who reads the commit knows that it is there.
        repositories.contains(&source, &id, &id).await
    };
    match found.await {
        Ok(_) => Commit::Found,
        Err(kardinal_git::Error::NoCommit(message)) => Commit::Missing(message),
        Err(error) => Commit::Unreachable(error.to_string()),
    }
}
