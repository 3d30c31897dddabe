//! What `promote` and `rollback` have in common.

use clap::Args;

use super::super::{Common, PolicyNamespaces};

/// What `promote` and `rollback` take alike.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    /// Says what would happen, checks it on the server and creates nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}
