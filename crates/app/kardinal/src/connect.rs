//! From flags and files to a client.

mod folder;

pub(crate) use folder::caller;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::ServerArguments;
use crate::failure::{Failure, Kind};
use kardinal_planner::problem::listed;

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
            None => Kubeconfig::read().ok(),
        },
    };
    if let (Some(wanted), Some(file)) = (&arguments.context, &file) {
        check_context(file, wanted)?;
    }
    let config = match file {
        Some(file) => kube::Config::from_custom_kubeconfig(file, &options).await,
        None => kube::Config::from_kubeconfig(&options).await,
    };
    // In a Pod there is no kubeconfig; what the cluster has put there leads to it.
    let named = arguments.kubeconfig.is_some() || arguments.context.is_some();
    let config = config.or_else(|error| match named {
        true => Err(error),
        false => kube::Config::incluster().map_err(|_| error),
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

/// Makes sure that a kubeconfig has a context, and names those it has.
fn check_context(file: &Kubeconfig, wanted: &str) -> Result<(), Failure> {
    let known: Vec<&str> = file.contexts.iter().map(|context| context.name.as_str()).collect();
    if known.contains(&wanted) {
        return Ok(());
    }
    let failure =
        Failure::new(Kind::Usage, format!("--context: there is no context `{wanted}` in the kubeconfig"));
    Err(match known.is_empty() {
        true => failure.hint("it has no contexts at all; `--kubeconfig` names another file"),
        false => failure.hint(format!("there are {}", listed(known))),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_is_not_there_is_told_with_those_that_are() {
        let file = |contexts: &str| Kubeconfig::from_yaml(&format!("contexts: {contexts}")).unwrap();
        let two = file("[{name: prod, context: {cluster: c}}, {name: dev, context: {cluster: c}}]");
        check_context(&two, "dev").unwrap();
        let failure = check_context(&two, "nope").unwrap_err();
        assert_eq!(failure.kind, Kind::Usage);
        assert!(failure.to_string().contains("no context `nope`"), "{failure}");
        assert_eq!(failure.hint.as_deref(), Some("there are `prod` and `dev`"));
        let failure = check_context(&file("[]"), "nope").unwrap_err();
        assert!(failure.hint.unwrap().contains("no contexts at all"));
    }
}
