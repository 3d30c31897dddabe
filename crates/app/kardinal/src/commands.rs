//! One file per verb.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod create;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod install;
mod order;
pub(crate) mod override_;
pub(crate) mod pause;
pub(crate) mod policy;
pub(crate) mod pr;
pub(crate) mod promote;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod rollback;
pub(crate) mod up;
pub(crate) mod version;

use anyhow::Context as _;

/// Runs a command's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the async runtime cannot start")?;
    let ended = runtime.block_on(future);
    // Work that blocks and does not end must not keep the program from ending.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}

/// Waits until somebody asks the program to end.
async fn asked_to_stop() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}
