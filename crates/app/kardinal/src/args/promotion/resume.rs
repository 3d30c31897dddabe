//! `kardinal resume`.

use clap::Args;

use super::super::Common;

#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    #[command(flatten)]
    pub(crate) common: Common,
}
