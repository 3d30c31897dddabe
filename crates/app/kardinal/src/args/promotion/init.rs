//! `kardinal init`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{Common, PolicyNamespaces};

const INIT_HELP: &str = "\
The configuration:
  app: my-app
  image: ghcr.io/myorg/my-app
  git:
    url: https://github.com/myorg/gitops-repo
    secret: github-token
  environments: [dev, staging, prod]
  prodApproval: pr-review

Examples:
  kardinal init -f kardinal.yaml
  kardinal init -f kardinal.yaml --dry-run > pipeline.yaml
  kardinal init --mode graph --from my-app > graph.yaml";

#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub(crate) struct InitArguments {
    /// The configuration; `-` reads standard input
    #[arg(long, short, value_name = "FILE", default_value = "kardinal.yaml")]
    pub(crate) file: PathBuf,
    /// What to make: a Pipeline, or the Graph of a Pipeline to go on by hand
    #[arg(long, value_enum, default_value_t = InitMode::Pipeline)]
    pub(crate) mode: InitMode,
    /// The Pipeline whose Graph is printed
    #[arg(long, value_name = "PIPELINE", required_if_eq("mode", "graph"))]
    pub(crate) from: Option<String>,
    /// The Bundle that the printed Graph promotes
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) bundle: Option<String>,
    /// Prints the Pipeline and creates nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitMode {
    Pipeline,
    Graph,
}
