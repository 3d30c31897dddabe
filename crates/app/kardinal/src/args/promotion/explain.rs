//! `kardinal explain`.

use clap::Args;

use super::super::{Common, PolicyNamespaces};
use super::Watch;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kardinal explain my-app --env prod\n  kardinal explain my-app --watch")]
pub(crate) struct ExplainArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// Only this environment
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}
