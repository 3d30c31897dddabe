//! What can be typed about replicas and agents.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::names::shard;
use super::{BoundsArguments, PolicyNamespaces, WebArguments};

/// How several replicas agree on the one that works.
#[derive(Debug, Args)]
pub(crate) struct ElectionArguments {
    /// Whether replicas elect one that works while the others stand by; `false` only where there is never a second one
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true")]
    #[arg(action = ArgAction::Set, num_args = 0..=1, require_equals = true)]
    pub(crate) leader_elect: bool,
}

const AGENT_HELP: &str = "\
Example:
  kardinal agent --shard=eu-cluster --control-plane-kubeconfig=/etc/kardinal/kubeconfig";

#[derive(Debug, Args)]
#[command(after_help = AGENT_HELP)]
pub(crate) struct AgentArguments {
    /// The shard whose steps are carried out here: the `shard` of environments
    #[arg(long, value_name = "NAME", value_parser = shard)]
    pub(crate) shard: String,
    /// The kubeconfig of the cluster where Pipelines, Bundles and steps are
    #[arg(long, value_name = "FILE")]
    pub(crate) control_plane_kubeconfig: PathBuf,
    /// The kubeconfig of the agent's own cluster, which tells of health; otherwise that of the Pod, or as for all commands
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the agent's own kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Where fetched repositories are kept
    #[arg(long, value_name = "DIR", default_value = "/var/cache/kardinal")]
    pub(crate) git_cache_dir: PathBuf,
    /// Address of the web side: `/webhooks`, `/metrics`, `/healthz`, `/readyz`; absent: none
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) web: WebArguments,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    /// How many steps are worked on at the same time, in units of eight
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) bounds: BoundsArguments,
}
