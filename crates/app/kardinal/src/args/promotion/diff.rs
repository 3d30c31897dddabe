//! `kardinal diff`.

use clap::Args;

use super::super::Common;

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The Bundle to compare
    #[arg(value_name = "BUNDLE-A")]
    pub(crate) from: String,
    /// The Bundle to compare it with
    #[arg(value_name = "BUNDLE-B")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) common: Common,
}
