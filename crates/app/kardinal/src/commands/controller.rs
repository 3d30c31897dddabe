//! `kardinal controller`: the same controllers on a cluster.

use std::sync::Arc;

use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::Controllers;
use tokio_util::sync::CancellationToken;

use crate::args::ControllerArguments;
use crate::failure::Failure;
use crate::http::{self, Keys, Web};
use crate::{connect, outside};

/// Works until it is asked to stop.
pub(crate) fn run(arguments: ControllerArguments) -> anyhow::Result<()> {
    super::block_on(control(arguments))
}

async fn control(arguments: ControllerArguments) -> anyhow::Result<()> {
    let client = connect::client(&arguments.server).await?;
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| Failure::of_server("the server does not answer", error))?;
    tracing::info!(server = %version.git_version, "connected");
    if !arguments.skip_install {
        install::ensure_definitions(&client, &kardinal_api::crds()).await?;
    }
    let git = Arc::new(outside::git(arguments.git_cache_dir.clone(), None));
    let outside = outside::outside(client.clone(), git, None)?;
    let metrics = outside.metrics.clone();
    let settings = arguments.controllers.settings();
    let controllers = Arc::new(Controllers::start(client.clone(), Arc::new(SystemClock), &settings, outside));
    tracing::info!("controllers run");
    let stop = CancellationToken::new();
    let web = match arguments.http {
        None => None,
        Some(address) => {
            let listener = http::bind(address).await?;
            tracing::info!(address = %listener.local_addr()?, "web side listens");
            let web = Web::new(client, Keys::of_environment(), metrics, controllers.clone(), None);
            Some(tokio::spawn(http::serve(listener, Arc::new(web), stop.clone())))
        }
    };
    super::asked_to_stop().await?;
    stop.cancel();
    if let Some(web) = web {
        web.await??;
    }
    // The web side has ended, so nobody else holds the controllers.
    if let Some(controllers) = Arc::into_inner(controllers) {
        controllers.stop().await;
    }
    Ok(())
}
