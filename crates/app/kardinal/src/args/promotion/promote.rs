//! `kardinal promote`.

use clap::Args;

use super::OrderArguments;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kardinal promote my-app --env prod\n  kardinal promote my-app --env prod --dry-run"
)]
pub(crate) struct PromoteArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The environment to promote to
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The Bundle whose content is promoted, by its name or by its version; otherwise what the environments
    /// right before have now
    #[arg(long, value_name = "NAME")]
    pub(crate) bundle: Option<String>,
    /// Also when the version was taken back or has failed there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) how: OrderArguments,
}
