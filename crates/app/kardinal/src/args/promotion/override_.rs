//! `kardinal override`.

use clap::Args;

use super::super::{Common, Who};

const OVERRIDE_HELP: &str = "\
The override counts for the Bundles that are on their way now, is kept on record with its reason, and ends by itself.

Example:
  kardinal override my-app --gate no-weekend-deploys --reason \"hotfix for the outage\" --expires-in 30m";

#[derive(Debug, Args)]
#[command(after_help = OVERRIDE_HELP)]
pub(crate) struct OverrideArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The gate, by the name that `kardinal explain` shows
    #[arg(long, value_name = "NAME")]
    pub(crate) gate: String,
    /// Why the gate may be passed
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only for this environment
    #[arg(long, visible_alias = "stage", value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    /// How long it holds, such as `30m` or `2h`
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) expires_in: String,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) common: Common,
}
