//! `kardinal up`: the whole control plane on this machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use kardinal_apiserver::{Limits, Options, ServeHandle, Server, write_kubeconfig, write_private};
use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::{Controllers, GraphController, LocalForge};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::UpArguments;
use crate::failure::{Failure, Kind};
use crate::http::{self, Keys, Web};
use crate::{connect, demo, output, outside, private};

/// Serves until it is asked to stop.
pub(crate) fn run(arguments: UpArguments) -> anyhow::Result<()> {
    super::block_on(serve(arguments))
}

async fn serve(arguments: UpArguments) -> anyhow::Result<()> {
    // Whoever asks during the start is heard, too.
    let asked = tokio::spawn(super::asked_to_stop());
    let dir = &arguments.data_dir;
    private::data_folder(dir, connect::caller()?)?;
    let endpoints = dir.join("endpoints.json");
    let data_dir = (!arguments.ephemeral).then(|| dir.clone());
    let limits = Limits { connections: arguments.web.connections(), ..Limits::default() };
    let server = Server::start(Options { data_dir, limits, ..Options::default() }).await?;
    // Only now is the directory ours. Whoever waits for the file must not find that of the last run.
    remove(&endpoints)?;
    let handle = listen(&server, &arguments).await?;
    let client = server.client("default");
    install::ensure_definitions(&client, &kardinal_api::crds()).await?;
    let running = match arguments.no_controllers {
        true => None,
        false => {
            super::version::announce(&client).await?;
            Some(start(&arguments, client.clone()).await?)
        }
    };
    let place = Place {
        kubernetes: format!("https://{}", handle.local_addr()),
        web: running.as_ref().map(|running| running.url.clone()),
        dir: dir.clone(),
        ephemeral: arguments.ephemeral,
    };
    place.write(&endpoints)?;
    let stopped = async { asked.await.context("signals")? };
    let ended = match (&running, arguments.demo) {
        (Some(running), true) => demo::run(client, &running.demo_parts(), &place, stopped).await,
        _ => {
            output::text(&place.greeting(arguments.controllers.settings().graph_controller));
            stopped.await
        }
    };
    output::text("\nStopping.\n");
    if let Some(running) = running {
        running.stop().await?;
    }
    server.shutdown().await;
    remove(&endpoints)?;
    ended
}

async fn listen(server: &Server, arguments: &UpArguments) -> anyhow::Result<ServeHandle> {
    let listener = TcpListener::bind(arguments.listen).await.map_err(|error| {
        Failure::new(Kind::Failed, format!("cannot listen on `{}`: {error}", arguments.listen)).hint(
            "choose another address with `--listen`, for example `--listen 127.0.0.1:0` for any free port",
        )
    })?;
    let handle = server.serve(listener).await?;
    if arguments.ephemeral {
        write_kubeconfig(&arguments.data_dir.join("kubeconfig"), handle.kubeconfig())?;
    }
    Ok(handle)
}

/// The web side's port. Repositories are known by their URLs, so any free port is the same one again if it can be.
async fn bind_web(arguments: &UpArguments) -> anyhow::Result<TcpListener> {
    if arguments.http.port() != 0 || arguments.ephemeral {
        return http::bind(arguments.http).await;
    }
    let file = arguments.data_dir.join("http-port");
    let last = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    let again = match last {
        Some(port) => TcpListener::bind(SocketAddr::new(arguments.http.ip(), port)).await.ok(),
        None => None,
    };
    let listener = match again {
        Some(listener) => listener,
        None => http::bind(arguments.http).await?,
    };
    let port = listener.local_addr()?.port();
    write_private(&file, format!("{port}\n").as_bytes())?;
    Ok(listener)
}

/// Controllers and the web side.
struct Running {
    controllers: Arc<Controllers>,
    web: tokio::task::JoinHandle<anyhow::Result<()>>,
    forge: LocalForge,
    git: Arc<kardinal_git::Git>,
    url: String,
    stop: CancellationToken,
    /// Repositories that go with the objects, which are in memory only.
    _passing: Option<tempfile::TempDir>,
}

async fn start(arguments: &UpArguments, client: kube::Client) -> anyhow::Result<Running> {
    let listener = bind_web(arguments).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let stop = CancellationToken::new();
    let passing =
        arguments.ephemeral.then(tempfile::tempdir).transpose().context("no temporary directory")?;
    let dir = match &passing {
        Some(passing) => passing.path().to_owned(),
        None => std::path::absolute(&arguments.data_dir)?,
    };
    let forge = LocalForge {
        store: Arc::new(kardinal_forge::Store::new(dir.join("repositories"))),
        url: format!("{url}/git/"),
    };
    for folder in ["repositories", "git-cache"] {
        private::folder(&dir.join(folder))?;
    }
    let bounds = arguments.controllers.bounds.on_this_machine();
    let git = Arc::new(outside::git(dir.join("git-cache"), Some(&forge), &bounds));
    let outside = outside::outside(client.clone(), git.clone(), Some(forge.clone()), &bounds)?;
    let metrics = outside.metrics.clone();
    let mut settings = arguments.controllers.settings();
    // One person, who may see everything.
    settings.health_namespaces.get_or_insert_with(|| vec!["*".to_owned()]);
    let controllers = Arc::new(Controllers::start(client.clone(), Arc::new(SystemClock), &settings, outside));
    let keys = Keys::of_directory(&arguments.data_dir)?;
    let web = Web::new(client, keys, metrics, controllers.clone(), Some(forge.clone()));
    let web = Arc::new(web.with(&arguments.web));
    let web = tokio::spawn(http::serve(listener, web, stop.clone()));
    Ok(Running { controllers, web, forge, git, url, stop, _passing: passing })
}

impl Running {
    fn demo_parts(&self) -> demo::Parts {
        demo::Parts { forge: self.forge.clone(), git: self.git.clone() }
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.web.await.context("the web side")??;
        // The web side has ended, so nobody else holds the controllers.
        if let Some(controllers) = Arc::into_inner(self.controllers) {
            controllers.stop().await;
        }
        Ok(())
    }
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
pub(crate) struct Place {
    pub(crate) kubernetes: String,
    pub(crate) web: Option<String>,
    pub(crate) dir: PathBuf,
    pub(crate) ephemeral: bool,
}

impl Place {
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let written = serde_json::json!({"kubernetes": self.kubernetes, "http": self.web});
        // Whoever waits for the file finds all of it.
        Ok(write_private(path, format!("{written:#}\n").as_bytes())?)
    }

    /// Where the kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    fn greeting(&self, graphs: GraphController) -> String {
        let data = match self.ephemeral {
            true => "in memory: everything is gone when this program ends".to_owned(),
            false => format!("{}", self.dir.display()),
        };
        let graphs = match graphs {
            GraphController::Embedded => "run here",
            GraphController::External => "are left to another controller",
        };
        let web = match &self.web {
            Some(web) => format!("{web}  (/api/v1, /webhooks, /git, /metrics)"),
            None => "off: the controllers run elsewhere".to_owned(),
        };
        let kubeconfig = self.kubeconfig();
        let kubeconfig = kubeconfig.display();
        format!(
            "kardinal {version} is up.

  Kubernetes API  {url}
  web             {web}
  kubeconfig      {kubeconfig}
  data            {data}
  Graphs          {graphs}

Next:
  kardinal init -f kardinal.yaml            a Pipeline from a few lines
  kardinal get pipelines
  kubectl --kubeconfig {kubeconfig} api-resources --categories=kardinal

Ctrl-C stops it.
",
            version = env!("CARGO_PKG_VERSION"),
            url = self.kubernetes,
        )
    }
}
