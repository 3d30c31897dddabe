//! One file per verb.

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
pub(crate) mod override_;
pub(crate) mod pause;
pub(crate) mod policy;
pub(crate) mod pr;
pub(crate) mod promote;
pub(crate) mod resume;
pub(crate) mod rollback;
pub(crate) mod up;
pub(crate) mod version;

use anyhow::Context as _;

/// Runs a command's future on a runtime of its own.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("the async runtime cannot start")?.block_on(future)
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
