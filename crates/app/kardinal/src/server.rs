//! The server as commands use it: every failure names what was asked for and what to do next.

mod all;

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep, SHARD_LABEL};
use kardinal_object::can_be_namespace;
use kardinal_planner::problem::Problem;
use kardinal_promotion::bundle::up_to_date;
use kardinal_promotion::explain::{Explanation, World, explain};
use kardinal_promotion::intent::{Error, FORCE, check_name, check_namespace, only_pipeline, pipeline_named};
use kardinal_promotion::shard::Agent;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::ServerArguments;
use crate::connect;
use crate::failure::{Failure, Kind};

pub(crate) use all::Place;

/// Who writes, in `managedFields`.
const MANAGER: &str = "kardinal-cli";

/// The names of Bundles end with the second of their order.
const SAME_SECOND: &str = "the same version was ordered within this second: `kardinal get bundles` shows that Bundle; \
                           repeat the command if it is not what you want";

/// A server and a namespace there.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
}

/// A kind of ours: namespaced, and known at compile time.
pub(crate) trait Ours:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> Ours for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

impl Server {
    /// The server that the arguments name. Nothing is sent yet.
    pub(crate) async fn connect(arguments: &ServerArguments) -> anyhow::Result<Server> {
        let client = connect::client(arguments).await?;
        let namespace = client.default_namespace().to_owned();
        check_namespace("namespace", &namespace).map_err(not_a_name)?;
        Ok(Server { client, namespace })
    }

    /// The objects of a kind in the namespace.
    pub(crate) fn api<K: Ours>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Lists a kind in the namespace.
    pub(crate) async fn list<K: Ours>(&self, params: &ListParams) -> Result<Vec<K>, Failure> {
        list(&self.api(), params).await
    }

    /// A Pipeline, or a failure that names those that exist.
    pub(crate) async fn pipeline(&self, name: &str) -> Result<Pipeline, Failure> {
        check_name("pipeline", name).map_err(not_a_name)?;
        match self.api::<Pipeline>().get_opt(name).await {
            Ok(Some(pipeline)) => Ok(pipeline),
            Ok(None) => {
                let all = self.list::<Pipeline>(&ListParams::default()).await?;
                Ok(pipeline_named(&all, name, &self.namespace)?.clone())
            }
            Err(error) => Err(server_failure::<Pipeline>(error)),
        }
    }

    /// The name of this Pipeline, or of the only one in the namespace.
    pub(crate) async fn this_or_the_only(&self, name: Option<&str>) -> Result<String, Failure> {
        if let Some(name) = name {
            check_name("pipeline", name).map_err(not_a_name)?;
            return Ok(name.to_owned());
        }
        let all = self.list::<Pipeline>(&ListParams::default()).await?;
        Ok(only_pipeline(&all, &self.namespace)?.to_owned())
    }

    /// The Bundles of a Pipeline, the newest first.
    pub(crate) async fn bundles(&self, pipeline: &str) -> Result<Vec<Bundle>, Failure> {
        let of_pipeline = ListParams::default().labels(&format!("{PIPELINE_LABEL}={pipeline}"));
        let mut bundles: Vec<Bundle> = self.list(&of_pipeline).await?;
        bundles.sort_by_key(|bundle| std::cmp::Reverse(age_key(bundle)));
        Ok(bundles)
    }

    /// All gates in the namespace and in further ones. Namespaces that one may not read are passed over, and what cannot
    /// be one: teams name them in their Pipelines, and the name becomes a part of a path.
    pub(crate) async fn gates(&self, others: &[&[String]]) -> Result<Vec<PolicyGate>, Failure> {
        let mut gates = self.list::<PolicyGate>(&ListParams::default()).await?;
        let mut read = vec![self.namespace.as_str()];
        for namespace in others.iter().copied().flatten() {
            if read.contains(&namespace.as_str()) || !can_be_namespace(namespace) {
                continue;
            }
            read.push(namespace);
            let api: Api<PolicyGate> = Api::namespaced(self.client.clone(), namespace);
            match list(&api, &ListParams::default()).await {
                Ok(found) => gates.extend(found),
                Err(failure) if failure.kind == Kind::Refused => {
                    tracing::warn!(namespace, "the gates of this namespace may not be read: {failure}");
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(gates)
    }

    /// Everything that explains a Pipeline.
    pub(crate) async fn seen(&self, pipeline: &str, policy_namespaces: &[String]) -> Result<Seen, Failure> {
        let pipeline = self.pipeline(pipeline).await?;
        let name = pipeline.metadata.name.clone().unwrap_or_default();
        let of_pipeline = ListParams::default().fields(&format!("spec.pipeline={name}"));
        let everything = ListParams::default();
        let namespaces = [policy_namespaces, &pipeline.spec.policy_namespaces];
        let (bundles, steps, gates, graphs) = futures::try_join!(
            self.bundles(&name),
            self.list::<PromotionStep>(&of_pipeline),
            self.gates(&namespaces),
            self.list::<Graph>(&everything),
        )?;
        let agents = self.agents_of(&steps).await?;
        let policy_namespaces = policy_namespaces.to_vec();
        Ok(Seen { pipeline, bundles, steps, gates, graphs, agents, policy_namespaces })
    }

    /// The agents of all shards; `None`: one may not read their Leases.
    pub(crate) async fn agents(&self, now: Timestamp) -> Result<Option<Vec<Agent>>, Failure> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        match list(&api, &ListParams::default().labels(SHARD_LABEL)).await {
            Ok(leases) => Ok(Some(leases.iter().filter_map(|lease| Agent::of(lease, now)).collect())),
            Err(failure) if failure.kind == Kind::Refused => {
                tracing::warn!("the Leases of agents may not be read: {failure}");
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Creates an object, or only checks it.
    pub(crate) async fn create<K: Ours>(&self, object: &K, dry_run: bool) -> Result<K, Failure> {
        let params = PostParams { dry_run, field_manager: Some(MANAGER.to_owned()) };
        let name = object.meta().name.clone().unwrap_or_default();
        self.api::<K>().create(&params, object).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.is_already_exists() => {
                let failure = Failure::new(Kind::Failed, format!("{} `{name}` exists already", K::kind(&())));
                match K::kind(&()) == Bundle::kind(&()) {
                    true => failure.hint(SAME_SECOND),
                    false => failure,
                }
            }
            _ => about::<K>(&name, error),
        })
    }

    /// Creates an object unless it exists; says whether it was created.
    pub(crate) async fn ensure<K: Ours>(&self, object: &K) -> Result<(K, bool), Failure> {
        let name = object.meta().name.clone().unwrap_or_default();
        check_name("name", &name).map_err(not_a_name)?;
        let existing = self.api::<K>().get_opt(&name).await.map_err(|error| about::<K>(&name, error))?;
        match existing {
            Some(existing) => Ok((existing, false)),
            None => self.create(object, false).await.map(|made| (made, true)),
        }
    }

    /// Merges a patch into an object of any namespace.
    pub(crate) async fn patch<K: Ours>(&self, object: &K, patch: &serde_json::Value) -> Result<K, Failure> {
        let metadata = object.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or(&self.namespace);
        let name = metadata.name.clone().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(&name, &params, &Patch::Merge(patch)).await.map_err(|error| match &error {
            kube::Error::Api(status) if status.is_conflict() => {
                let what = format!("{} `{name}` was changed by somebody else at the same time", K::kind(&()));
                Failure::new(Kind::Failed, what).hint("look at it again, then repeat the command")
            }
            _ => about::<K>(&name, error),
        })
    }
}

/// What was seen of one Pipeline.
pub(crate) struct Seen {
    pub(crate) pipeline: Pipeline,
    /// The newest first.
    pub(crate) bundles: Vec<Bundle>,
    pub(crate) steps: Vec<PromotionStep>,
    pub(crate) gates: Vec<PolicyGate>,
    pub(crate) graphs: Vec<Graph>,
    /// The agents of its shards.
    pub(crate) agents: Vec<Agent>,
    /// Where the organisation keeps its gates.
    pub(crate) policy_namespaces: Vec<String>,
}

impl Seen {
    /// All of it at one moment.
    pub(crate) fn world(&self, now: Timestamp) -> World<'_> {
        World {
            pipeline: &self.pipeline,
            bundles: &self.bundles,
            steps: &self.steps,
            gates: &self.gates,
            policy_namespaces: &self.policy_namespaces,
            graphs: &self.graphs,
            agents: &self.agents,
            now,
        }
    }

    /// Where its promotions stand.
    pub(crate) fn explain(&self, environment: Option<&str>, now: Timestamp) -> Explanation {
        explain(&self.world(now), environment)
    }

    /// The Bundles with what their steps say now.
    pub(crate) fn up_to_date(&self) -> Vec<Bundle> {
        self.bundles.iter().map(|bundle| up_to_date(bundle, &self.steps)).collect()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (kind, problem) = match error {
            Error::NotFound(problem) => (Kind::NotFound, problem),
            Error::Unclear(problem) => (Kind::Usage, problem),
            Error::Refused(problem) => return refused(problem),
        };
        Failure { kind, message: problem.message, hint: problem.hint }
    }
}

/// What is wrong with the value of a flag.
pub(crate) fn wrong_flag(flag: &str, problem: Problem) -> Failure {
    Failure { kind: Kind::Usage, message: format!("{flag}: {}", problem.message), hint: problem.hint }
}

/// A wish that cannot be fulfilled as it is.
pub(crate) fn refused(problem: Problem) -> Failure {
    let typed = ["images", "gitCommit", "reason", "expires", "stage", "app", "git", "environments"];
    let wrong_usage = typed.iter().any(|field| problem.field.split(['[', '.']).next() == Some(field));
    let failure = match (problem.field == FORCE, wrong_usage) {
        (true, _) => Failure::new(Kind::Refused, problem.message),
        (false, true) => Failure::new(Kind::Usage, format!("{}: {}", problem.field, problem.message)),
        (false, false) => Failure::new(Kind::Failed, format!("{}: {}", problem.field, problem.message)),
    };
    match problem.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A text that cannot be part of a path to an object.
pub(crate) fn not_a_name(problem: Problem) -> Failure {
    Failure { kind: Kind::Usage, ..refused(problem) }
}

/// Lists a kind; a kind that the server does not know is no empty list.
pub(crate) async fn list<K: Ours>(api: &Api<K>, params: &ListParams) -> Result<Vec<K>, Failure> {
    let found = api.list(params).await.map_err(server_failure::<K>)?;
    Ok(found.items)
}

/// What went wrong with one object.
pub(crate) fn about<K: Ours>(name: &str, error: kube::Error) -> Failure {
    Failure::of_server(&format!("{} `{name}`", K::kind(&())), error)
}

fn server_failure<K: Ours>(error: kube::Error) -> Failure {
    let unknown_kind = matches!(&error, kube::Error::Api(status) if status.code == 404);
    let failure = Failure::of_server(&format!("{} cannot be read", K::plural(&())), error);
    match unknown_kind {
        true => failure.hint("`kardinal install` installs kardinal's kinds"),
        false => failure,
    }
}

/// Later is newer; Bundles of the same second are told apart by name.
fn age_key(bundle: &Bundle) -> (Option<Timestamp>, String) {
    let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, bundle.metadata.name.clone().unwrap_or_default())
}
