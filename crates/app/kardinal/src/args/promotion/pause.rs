//! `kardinal pause`.

use clap::Args;

use super::super::{Common, Who};

#[derive(Debug, Args)]
pub(crate) struct PauseArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) common: Common,
}
