//! A thread on which nothing but the Lease is worked on.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// A thread with a runtime of its own. However busy all others are, what runs here goes on, as long as it uses a client
/// that was made here: a client's connections are driven where they were opened.
pub struct Desk {
    runtime: Handle,
    /// The thread ends when this is gone.
    _open: oneshot::Sender<()>,
}

/// The thread has ended, or what ran on it had a bug.
#[derive(Debug, thiserror::Error)]
#[error("the thread of the Lease has ended")]
pub struct Closed;

impl Desk {
    /// Starts the thread.
    pub fn open() -> io::Result<Desk> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (open, closed) = oneshot::channel::<()>();
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            // Nobody sends anything: the other end goes.
            let _ = runtime.block_on(closed);
            // A lookup of a host that takes long must not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok(Desk { runtime: handle, _open: open })
    }

    /// Runs something on the thread and waits for it; whoever does not wait any more ends it.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Closed> {
        AbortOnDropHandle::new(self.runtime.spawn(work)).await.map_err(|_| Closed)
    }
}
