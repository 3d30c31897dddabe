//! `kardinal history`.

use clap::Args;

use super::super::Common;

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// Only this environment
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    /// How many promotions to show at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}
