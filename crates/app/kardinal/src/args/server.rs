//! What most commands take alike: which server, on whose behalf, and how to print.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::names;

/// Which server, and which namespace there.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    /// The kubeconfig to use; otherwise KUBECONFIG, then .kardinal/kubeconfig, then ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace; otherwise the context's
    #[arg(long, short, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Table,
    Json,
    Yaml,
}

/// Which server, and how to print.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
}

/// Where gate templates of the organisation live.
#[derive(Debug, Args)]
pub(crate) struct PolicyNamespaces {
    /// The namespaces of the organisation's gates, as the controllers were told
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', default_value = "platform-policies")]
    #[arg(value_parser = names::namespace)]
    pub(crate) policy_namespaces: Vec<String>,
}

/// On whose behalf something is asked for.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Who asks; otherwise $USER, then Git's user.name
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}
