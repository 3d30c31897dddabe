//! A change that asks whether it may still go out, when nothing but the push is left to do.
//!
//! The push is made by whoever serves the repository; who may allow it is the pass that ordered it. A channel connects the
//! two.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kardinal_git::{Change, ChangeError, Tree, Write};
use tokio::sync::{mpsc, oneshot};

/// A change that asks before it goes out.
pub(super) struct Confirmed<C> {
    change: Arc<C>,
    ask: mpsc::Sender<Question>,
}

/// Whether a change of these files may go out.
pub(super) struct Question {
    pub(super) files: Vec<String>,
    answer: oneshot::Sender<bool>,
}

impl Question {
    pub(super) fn answer(self, allowed: bool) {
        // Whoever asked may have been given up.
        let _ = self.answer.send(allowed);
    }
}

/// The same change, and where its questions arrive.
pub(super) fn confirmed<C: Change>(change: Arc<C>) -> (Confirmed<C>, mpsc::Receiver<Question>) {
    let (ask, questions) = mpsc::channel(1);
    (Confirmed { change, ask }, questions)
}

impl<C: Change> Change for Confirmed<C> {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        self.change.apply(tree)
    }

    fn confirm<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, Result<(), ChangeError>> {
        async move {
            let (answer, answered) = oneshot::channel();
            // Nobody listens any more when the pass was given up; then nothing may go out either.
            let _ = self.ask.send(Question { files: files.to_vec(), answer }).await;
            match answered.await {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(ChangeError::problem("it may not go out any more")),
            }
        }
        .boxed()
    }
}
