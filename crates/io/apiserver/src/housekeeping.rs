//! What the server does by itself: the first namespaces, garbage collection, the end of namespaces and CRDs.
//!
//! The model decides, this task submits. It is woken by commits and, unless the disk takes no writes, never by a timer; its
//! decisions carry preconditions, so one that has become stale is refused and taken again.

use std::time::Duration;

use futures::future::join_all;
use kardinal_apimodel::namespace;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Error;
use crate::store::Store;

/// Objects looked at in one turn.
const TURN: usize = 64;

/// How long it waits when the disk takes no writes.
const PAUSE: Duration = Duration::from_secs(1);

/// Creates what every server has and starts the task.
pub(crate) async fn start(store: &Store, stop: &CancellationToken, tasks: &TaskTracker) -> Result<(), Error> {
    let missing = namespace::initial(&store.read());
    for request in missing {
        let name = format!("{:?}", request.target);
        store.submit(request).await.map_err(|status| Error::Bootstrap { name, message: status.message })?;
    }
    let (store, stop) = (store.clone(), stop.clone());
    tasks.spawn(async move {
        // Ending in the middle of a turn is harmless: a restart looks at everything again.
        tokio::select! {
            () = stop.cancelled() => {}
            () = run(&store) => {}
        }
    });
    Ok(())
}

async fn run(store: &Store) {
    loop {
        store.work_to_do().await;
        while turn(store).await {}
    }
}

/// Takes one turn; says whether another one is due.
async fn turn(store: &Store) -> bool {
    let decided = store.decide(TURN);
    let submitted =
        decided.into_iter().map(|(key, request)| async move { (key, store.submit(request).await) });
    let mut refused = false;
    for (key, answer) in join_all(submitted).await {
        match answer {
            Ok(_) => {}
            // The object changed since it was looked at: look again.
            Err(status) if status.code == 409 => store.look_again(key),
            // Somebody else was faster.
            Err(status) if status.code == 404 => {}
            // The disk takes no writes: what is due stays due.
            Err(status) if status.code == 503 => {
                store.look_again(key);
                refused = true;
            }
            Err(status) => tracing::warn!(object = %key, error = %status, "housekeeping was refused"),
        }
    }
    if refused {
        tokio::time::sleep(PAUSE).await;
    }
    store.has_work()
}
