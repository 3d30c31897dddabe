//! Orders for the same branch wait in one lane; whoever is next takes all of them along in a single push.

use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::{Committed, Error, Order, store::guard};

/// At most this many orders share a push.
const BATCH: usize = 64;

/// An order with the way back to the one who waits for it.
pub(crate) struct Waiting {
    pub(crate) order: Order,
    pub(crate) answer: oneshot::Sender<Result<Committed, Error>>,
}

/// The orders that wait for one branch of one repository.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: Mutex<Vec<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

impl Lane {
    /// Queues an order and waits for its answer. The first in line works for everybody who waits behind it;
    /// if its caller gives up half-way, those behind it queue again.
    pub(crate) async fn pass(&self, order: &Order, work: &impl AsyncWork) -> Result<Committed, Error> {
        loop {
            let (answer, mut reply) = oneshot::channel();
            guard(&self.waiting).push(Waiting { order: order.clone(), answer });
            let _turn = self.turn.lock().await;
            loop {
                match reply.try_recv() {
                    Ok(result) => return result,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => self.work(work).await,
                }
            }
        }
    }

    async fn work(&self, work: &impl AsyncWork) {
        let batch = self.take();
        let orders = batch.iter().map(|waiting| waiting.order.clone()).collect();
        let results = work.run(orders).await;
        for (waiting, result) in batch.into_iter().zip(results) {
            // Nobody there any more: its caller asks again or does not care.
            drop(waiting.answer.send(result));
        }
    }

    /// Takes the orders whose callers still wait, oldest first.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = guard(&self.waiting);
        waiting.retain(|one| !one.answer.is_closed());
        let count = waiting.len().min(BATCH);
        let rest = waiting.split_off(count);
        std::mem::replace(&mut *waiting, rest)
    }
}

/// Carries out a batch: one result per order, in the same order.
pub(crate) trait AsyncWork: Send + Sync {
    /// Does it.
    fn run(&self, orders: Vec<Order>) -> impl Future<Output = Vec<Result<Committed, Error>>> + Send;
}
