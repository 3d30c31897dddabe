//! One file per verb; those of a dialect are in its folder.

pub(crate) mod agent;
pub(crate) mod backup;
pub(crate) mod completion;
pub(crate) mod controller;
pub(crate) mod doctor;
pub(crate) mod forge;
pub(crate) mod graph;
pub(crate) mod install;
pub(crate) mod promotion;
pub(crate) mod restore;
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
