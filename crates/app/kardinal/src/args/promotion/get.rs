//! `kardinal get`.

use clap::{Args, Subcommand};

use super::super::{Common, PolicyNamespaces};

#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    #[command(subcommand)]
    pub(crate) command: GetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// Lists Pipelines with the version of each environment
    #[command(visible_alias = "pipeline")]
    Pipelines {
        /// Those of all namespaces
        #[arg(long, short = 'A')]
        all_namespaces: bool,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Shows the steps and gates of the Bundles on their way
    Steps {
        /// The Pipeline; may be left out where there is only one
        pipeline: Option<String>,
        /// Only those of this Bundle
        #[arg(long, value_name = "NAME")]
        bundle: Option<String>,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Lists Bundles with where they come from
    #[command(visible_alias = "bundle")]
    Bundles {
        /// The Pipeline; may be left out where there is only one
        pipeline: Option<String>,
        /// Only those on their way
        #[arg(long)]
        active: bool,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Watch {
    /// Prints again whenever something changes, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}
