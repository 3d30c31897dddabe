//! `kardinal up`: the whole control plane on this machine.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use kardinal_apiserver::{Options, Server, write_kubeconfig};
use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::{Controllers, GraphController};
use tokio::net::TcpListener;

use crate::args::UpArguments;
use crate::failure::{Failure, Kind};
use crate::output;

/// Serves until it is asked to stop.
pub(crate) fn run(arguments: UpArguments) -> anyhow::Result<()> {
    super::block_on(serve(arguments))
}

async fn serve(arguments: UpArguments) -> anyhow::Result<()> {
    let dir = &arguments.data_dir;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create `{}`", dir.display()))?;
    let endpoints = dir.join("endpoints.json");
    let data_dir = (!arguments.ephemeral).then(|| dir.clone());
    let server = Server::start(Options { data_dir, ..Options::default() }).await?;
    // Only now is the directory ours. Whoever waits for the file must not find that of the last run.
    remove(&endpoints)?;
    let listener = TcpListener::bind(arguments.listen).await.map_err(|error| {
        Failure::new(Kind::Failed, format!("cannot listen on `{}`: {error}", arguments.listen)).hint(
            "choose another address with `--listen`, for example `--listen 127.0.0.1:0` for any free port",
        )
    })?;
    let handle = server.serve(listener).await?;
    let kubeconfig = dir.join("kubeconfig");
    if arguments.ephemeral {
        write_kubeconfig(&kubeconfig, handle.kubeconfig())?;
    }
    let client = server.client("default");
    install::ensure_definitions(&client, &kardinal_api::crds()).await?;
    let settings = arguments.controllers.settings();
    let controllers = Controllers::start(client, Arc::new(SystemClock), &settings);
    let url = format!("https://{}", handle.local_addr());
    let written = serde_json::json!({"kubernetes": url});
    std::fs::write(&endpoints, format!("{written:#}\n")).context("cannot write `endpoints.json`")?;
    let greeting = Greeting { url: &url, dir, kubeconfig: &kubeconfig, ephemeral: arguments.ephemeral };
    output::text(&greeting.render(settings.graph_controller));
    super::asked_to_stop().await?;
    output::text("Stopping.\n");
    controllers.stop().await;
    server.shutdown().await;
    remove(&endpoints)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// What runs where.
struct Greeting<'a> {
    url: &'a str,
    dir: &'a Path,
    kubeconfig: &'a Path,
    ephemeral: bool,
}

impl Greeting<'_> {
    fn render(&self, graphs: GraphController) -> String {
        let data = match self.ephemeral {
            true => "in memory: everything is gone when this program ends".to_owned(),
            false => format!("{}", self.dir.display()),
        };
        let graphs = match graphs {
            GraphController::Embedded => "run here",
            GraphController::External => "are left to another controller",
        };
        let kubeconfig = self.kubeconfig.display();
        format!(
            "kardinal {version} is up.

  Kubernetes API  {url}
  kubeconfig      {kubeconfig}
  data            {data}
  Graphs          {graphs}

Next:
  kubectl --kubeconfig {kubeconfig} api-resources --categories=kardinal
  kubectl --kubeconfig {kubeconfig} apply -f deploy/samples/graph.yaml

Ctrl-C stops it.
",
            version = env!("CARGO_PKG_VERSION"),
            url = self.url,
        )
    }
}
