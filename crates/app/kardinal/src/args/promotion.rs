//! What can be typed about promotions: a file for each command, named as the command's own.

mod create;
mod diff;
mod explain;
mod get;
mod history;
mod init;
mod order;
mod override_;
mod pause;
mod policy;
mod promote;
mod resume;
mod rollback;

pub(crate) use create::{CreateArguments, CreateBundleArguments, CreateCommand};
pub(crate) use diff::DiffArguments;
pub(crate) use explain::ExplainArguments;
pub(crate) use get::{GetArguments, GetCommand, Watch};
pub(crate) use history::HistoryArguments;
pub(crate) use init::{InitArguments, InitMode};
pub(crate) use order::OrderArguments;
pub(crate) use override_::OverrideArguments;
pub(crate) use pause::PauseArguments;
pub(crate) use policy::{PolicyArguments, PolicyCommand, SimulateArguments};
pub(crate) use promote::PromoteArguments;
pub(crate) use resume::ResumeArguments;
pub(crate) use rollback::RollbackArguments;
