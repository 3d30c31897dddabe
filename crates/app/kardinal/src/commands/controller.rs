//! `kardinal controller`: the same controllers on a cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_cluster::lease::Desk;
use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::{Controllers, Outside, Replica, Settings};
use tokio_util::sync::CancellationToken;

use crate::args::{ControllerArguments, ServerArguments, WebArguments};
use crate::failure::Failure;
use crate::http::{self, Keys, Web};
use crate::{connect, outside};

/// Works until it is asked to stop.
pub(crate) fn run(arguments: ControllerArguments) -> anyhow::Result<()> {
    let (http, web) = (arguments.http, arguments.web.clone());
    super::block_on(work_until_asked(http, web, prepare(arguments)))
}

async fn prepare(arguments: ControllerArguments) -> anyhow::Result<Replica> {
    let client = connect::client(&arguments.server).await?;
    greet(&client).await?;
    let election = &arguments.election;
    if !arguments.skip_install {
        install::ensure_definitions(&client, &kardinal_api::crds()).await?;
        if election.leader_elect {
            install::ensure_namespace(&client, SYSTEM_NAMESPACE).await;
        }
    }
    let bounds = arguments.controllers.bounds.on_a_cluster();
    let git = Arc::new(outside::git(arguments.git_cache_dir.clone(), None, &bounds));
    let outside = outside::outside(client.clone(), git, None, &bounds)?;
    let mut replica = replica(client, arguments.controllers.settings(), outside);
    match election.leader_elect {
        true => replica.election = Some(election_desk(arguments.server).await?),
        false => replica.identity = None,
    }
    Ok(replica)
}

/// Works as the prepared replica until somebody asks the program to end, who is heard from the beginning.
pub(super) async fn work_until_asked(
    http: Option<SocketAddr>,
    web: WebArguments,
    prepared: impl Future<Output = anyhow::Result<Replica>>,
) -> anyhow::Result<()> {
    let stop = stop_when_asked();
    match stop.run_until_cancelled(prepared).await {
        Some(replica) => serve(replica?, http, &web, stop).await,
        None => Ok(()),
    }
}

/// This process as one of several.
pub(super) fn replica(client: kube::Client, settings: Settings, outside: Outside) -> Replica {
    Replica {
        client,
        clock: Arc::new(SystemClock),
        settings,
        outside,
        identity: Some(identity()),
        election: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        controllers: Arc::new(Controllers::standby()),
    }
}

/// A place where the Lease is renewed whatever else goes on, and the way from there to the server.
pub(super) async fn election_desk(server: ServerArguments) -> anyhow::Result<(Desk, kube::Client)> {
    let desk = Desk::open().context("the thread of the Lease cannot start")?;
    let client = desk.run(async move { connect::client(&server).await }).await??;
    Ok((desk, client))
}

/// A name that no other process has, and that tells people where this one is.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty()).unwrap_or("kardinal");
    format!("{host}_{}_{}", std::process::id(), uuid::Uuid::new_v4())
}

/// Makes sure that the server is there before anything else is tried.
pub(super) async fn greet(client: &kube::Client) -> anyhow::Result<()> {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| Failure::of_server("the server does not answer", error))?;
    tracing::info!(server = %version.git_version, "connected");
    Ok(())
}

/// Cancelled once somebody asks the program to end.
fn stop_when_asked() -> CancellationToken {
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        if let Err(error) = super::asked_to_stop().await {
            tracing::error!(%error, "signals cannot be heard");
        }
        asked.cancel();
    });
    stop
}

/// Runs the replica and its web side until `stop`.
async fn serve(
    replica: Replica,
    http: Option<SocketAddr>,
    limits: &WebArguments,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let web = match http {
        None => None,
        Some(address) => {
            let listener = http::bind(address).await?;
            tracing::info!(address = %listener.local_addr()?, "web side listens");
            let (client, metrics) = (replica.client.clone(), replica.outside.metrics.clone());
            let web = Web::new(client, Keys::of_environment(), metrics, replica.controllers.clone(), None)
                .with(limits);
            Some(tokio::spawn(http::serve(listener, Arc::new(web), stop.clone())))
        }
    };
    replica.run(stop).await;
    if let Some(web) = web {
        web.await??;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::{Path, PathBuf};

    use clap::Parser as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::args::{Arguments, Command};

    /// A server that is there and can do nothing else, until the test's runtime ends.
    pub(in super::super) async fn somebody() -> SocketAddr {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let version = r#"{"major":"1","minor":"34","gitVersion":"v1.34.0","gitCommit":"","gitTreeState":"",
                "buildDate":"","goVersion":"","compiler":"","platform":""}"#;
            while let Ok((mut caller, _)) = listener.accept().await {
                let _ = caller.read(&mut [0; 4096]).await;
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
                let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{version}", version.len());
                let _ = caller.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    /// A kubeconfig that leads there, and whose namespace tells it from others.
    pub(in super::super) fn kubeconfig(folder: &Path, server: SocketAddr, namespace: &str) -> PathBuf {
        let path = folder.join(namespace);
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: it, users: [{{name: it, user: {{}}}}],\n\
             clusters: [{{name: it, cluster: {{server: 'http://{server}'}}}}],\n\
             contexts: [{{name: it, context: {{cluster: it, user: it, namespace: {namespace}}}}}]}}\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn a_controller_uses_no_files_and_no_ssh_keys_of_its_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = kubeconfig(folder.path(), somebody().await, "control-plane");
        let cache = folder.path().join("cache");
        let words = ["kardinal", "controller", "--skip-install", "--leader-elect=false", "--kubeconfig"];
        let words = words.map(std::ffi::OsStr::new).into_iter();
        let words = words.chain([file.as_os_str(), "--git-cache-dir".as_ref(), cache.as_os_str()]);
        let Command::Controller(arguments) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("another command")
        };
        assert!(!prepare(arguments).await.unwrap().outside.reach.uses_machine());
    }
}
