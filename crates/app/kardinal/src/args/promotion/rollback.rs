//! `kardinal rollback`.

use clap::Args;

use super::OrderArguments;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kardinal rollback my-app --env prod\n  kardinal rollback my-app --env prod --dry-run\n  kardinal rollback my-app --env prod --emergency"
)]
pub(crate) struct RollbackArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The environment to bring back
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The Bundle to go back to, by its name or by its version; otherwise the newest verified there before
    /// that was neither taken back nor has failed
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
    /// Marks it for people as urgent
    #[arg(long)]
    pub(crate) emergency: bool,
    /// Also to a version that was taken back or has failed there, and further back while a rollback is under way
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) how: OrderArguments,
}
