//! The commands about promotions, one file per verb.

pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod init;
mod order;
pub(crate) mod override_;
pub(crate) mod pause;
pub(crate) mod policy;
pub(crate) mod promote;
pub(crate) mod resume;
pub(crate) mod rollback;

use super::block_on;
