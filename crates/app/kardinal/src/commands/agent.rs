//! `kardinal agent`: carries out the steps of one shard, on behalf of a control plane elsewhere.

use std::sync::Arc;

use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_cluster::install;
use kardinal_controllers::{Replica, Settings, Shards};

use super::controller::{election_desk, greet, replica, work_until_asked};
use crate::args::{AgentArguments, ServerArguments};
use crate::failure::{Failure, Kind};
use crate::{connect, outside};

/// Works until it is asked to stop.
pub(crate) fn run(arguments: AgentArguments) -> anyhow::Result<()> {
    let (http, web) = (arguments.http, arguments.web.clone());
    super::block_on(work_until_asked(http, web, prepare(arguments)))
}

async fn prepare(arguments: AgentArguments) -> anyhow::Result<Replica> {
    let server = |kubeconfig, context| ServerArguments { kubeconfig, context, namespace: None };
    let control_plane = server(Some(arguments.control_plane_kubeconfig.clone()), None);
    let client = connect::client(&control_plane).await?;
    let own = server(arguments.kubeconfig.clone(), arguments.context.clone());
    let own = connect::client(&own).await.map_err(|error| no_cluster(&error))?;
    greet(&client).await?;
    install::ensure_namespace(&client, SYSTEM_NAMESPACE).await;
    let bounds = arguments.bounds.on_a_cluster();
    let git = Arc::new(outside::git(arguments.git_cache_dir.clone(), None, &bounds));
    let mut outside = outside::outside(client.clone(), git, None, &bounds)?;
    outside.workloads = Some(own);
    let settings = Settings {
        concurrency: usize::from(arguments.concurrency),
        policy_namespaces: arguments.policies.policy_namespaces.clone(),
        health_namespaces: arguments.bounds.health_namespaces.clone(),
        shards: Shards::Only(arguments.shard.clone()),
        ..Settings::default()
    };
    let mut replica = replica(client, settings, outside);
    replica.election = Some(election_desk(control_plane).await?);
    Ok(replica)
}

/// The control plane is known; it is the agent's own cluster that is not.
fn no_cluster(error: &anyhow::Error) -> Failure {
    Failure::new(
        Kind::NotReachable,
        format!("the cluster of the agent, whose workloads it watches: {error:#}"),
    )
    .hint("name its kubeconfig with `--kubeconfig`; if the workloads are on the control plane, that one's")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::Parser as _;

    use super::super::controller::tests::{kubeconfig, somebody};
    use super::*;
    use crate::args::{Arguments, Command};

    #[tokio::test]
    async fn an_agents_health_comes_from_its_own_cluster_unless_a_step_names_another() {
        let folder = tempfile::tempdir().unwrap();
        let control_plane = kubeconfig(folder.path(), somebody().await, "control-plane");
        // Nobody has to answer there yet.
        let own = kubeconfig(folder.path(), "127.0.0.1:9".parse().unwrap(), "own-cluster");
        let cache = folder.path().join("cache");
        let words: [&OsStr; 10] = [
            "kardinal".as_ref(),
            "agent".as_ref(),
            "--shard".as_ref(),
            "eu-cluster".as_ref(),
            "--control-plane-kubeconfig".as_ref(),
            control_plane.as_os_str(),
            "--kubeconfig".as_ref(),
            own.as_os_str(),
            "--git-cache-dir".as_ref(),
            cache.as_os_str(),
        ];
        let Command::Agent(arguments) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("another command")
        };
        let replica = prepare(arguments).await.unwrap();
        let workloads = replica.outside.workloads.as_ref().map(kube::Client::default_namespace);
        assert_eq!(workloads, Some("own-cluster"));
        assert_eq!(replica.client.default_namespace(), "control-plane");
        assert_eq!(replica.settings.shards, Shards::Only("eu-cluster".to_owned()));
        assert!(!replica.outside.reach.uses_machine(), "neither files nor SSH keys of its machine");
    }
}
