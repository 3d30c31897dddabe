//! `kardinal controller`: the same controllers on a cluster.

use std::sync::Arc;

use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::Controllers;

use crate::args::ControllerArguments;
use crate::connect;
use crate::failure::Failure;

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
    let controllers = Controllers::start(client, Arc::new(SystemClock), &arguments.controllers.settings());
    tracing::info!("controllers run");
    super::asked_to_stop().await?;
    controllers.stop().await;
    Ok(())
}
