//! `kardinal version`.

use serde::Serialize;

use crate::args::VersionArguments;
use crate::failure::Failure;
use crate::{connect, output};

#[derive(Serialize)]
struct Versions {
    client: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

/// Prints this program's version, and the server's unless told not to ask or none is known.
pub(crate) fn run(arguments: VersionArguments) -> anyhow::Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    let server = match arguments.client {
        true => None,
        false => super::block_on(server(&arguments))?,
    };
    let versions = Versions { client, server };
    output::value(arguments.output, &versions, || match &versions.server {
        Some(server) => format!("kardinal {client}\nserver   {server}\n"),
        None => format!("kardinal {client}\n"),
    })
}

async fn server(arguments: &VersionArguments) -> anyhow::Result<Option<String>> {
    // No server being known is normal; one that is known but silent is not.
    let Ok(client) = connect::client(&arguments.server).await else { return Ok(None) };
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| {
        Failure::of_server("the server does not answer", error)
            .hint("`--client` prints only this program's version")
    })?;
    Ok(Some(version.git_version))
}
