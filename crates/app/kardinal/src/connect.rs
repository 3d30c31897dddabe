//! From flags and files to a client.

mod folder;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::ServerArguments;
use crate::failure::{Failure, Kind};

/// The kubeconfig of the embedded server that was started in this directory.
const EMBEDDED: &str = ".kardinal/kubeconfig";

/// A client for the server that the arguments name.
pub(crate) async fn client(arguments: &ServerArguments) -> anyhow::Result<kube::Client> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let file = match &arguments.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path);
            Some(file.with_context(|| format!("the kubeconfig `{}` cannot be read", path.display()))?)
        }
        None => match kubeconfig(arguments) {
            Some(path) => Some(folder::trusted(&path)?),
            None => None,
        },
    };
    let config = match file {
        Some(file) => kube::Config::from_custom_kubeconfig(file, &options).await,
        None => kube::Config::from_kubeconfig(&options).await,
    };
    // In a Pod there is no kubeconfig; what the cluster has put there leads to it.
    let config = config.or_else(|error| match arguments.kubeconfig {
        Some(_) => Err(error),
        None => kube::Config::incluster().map_err(|_| error),
    });
    let mut config = config.map_err(|error| {
        Failure::new(Kind::NotReachable, format!("no server is known: {error}"))
            .hint("start one with `kardinal up`, or name one with `--kubeconfig`")
    })?;
    if let Some(namespace) = &arguments.namespace {
        config.default_namespace.clone_from(namespace);
    }
    Ok(kube::Client::try_from(config)?)
}

/// The file to use, unless the client library's own search should decide. What merely lies in this folder is looked at
/// closely before it is used.
pub(crate) fn kubeconfig(arguments: &ServerArguments) -> Option<PathBuf> {
    if let Some(path) = &arguments.kubeconfig {
        return Some(path.clone());
    }
    let embedded = Path::new(EMBEDDED);
    let is_there = std::env::var_os("KUBECONFIG").is_none() && embedded.symlink_metadata().is_ok();
    is_there.then(|| embedded.to_owned())
}
