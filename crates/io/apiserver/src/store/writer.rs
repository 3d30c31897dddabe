//! The one writer: drains its queue, decides a batch, makes it durable in one transaction, publishes, answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kardinal_apimodel::{Batch, Change, Object, Outcome, Request, Status};
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::disk::{Disk, Row};
use crate::clock::Clock;
use crate::ids::IdSource;

/// One write and the caller who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) reply: oneshot::Sender<Result<Outcome, Status>>,
}

/// What the queue carries.
#[derive(Debug)]
pub(super) enum Message {
    /// Boxed: requests are large and move through the queue twice.
    Write(Box<Job>),
    /// Finish what is queued, then end.
    Stop,
}

type Answer = (oneshot::Sender<Result<Outcome, Status>>, Result<Outcome, Status>);

/// The writer's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Message>,
    clock: Arc<dyn Clock>,
    ids: IdSource,
    batch: usize,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Message>,
        clock: Arc<dyn Clock>,
        ids: IdSource,
        batch: usize,
    ) -> Writer {
        Writer { shared, queue, clock, ids, batch }
    }

    /// In memory: a plain task, so that a paused runtime stays deterministic.
    pub(super) async fn run_in_task(mut self) {
        let mut messages = Vec::new();
        while self.queue.recv_many(&mut messages, self.batch).await > 0 {
            self.process(&mut messages, None);
        }
    }

    /// Durable: a thread of its own, because a commit waits for the disk.
    pub(super) fn run_in_thread(mut self, disk: Disk) {
        let mut messages = Vec::new();
        while self.queue.blocking_recv_many(&mut messages, self.batch) > 0 {
            self.process(&mut messages, Some(&disk));
        }
    }

    fn process(&mut self, messages: &mut Vec<Message>, disk: Option<&Disk>) {
        let mut answers: Vec<Answer> = Vec::with_capacity(messages.len());
        // A panic is a bug in deciding one request. Nothing of the batch is durable or visible yet, so dropping it
        // whole keeps the state sound; its callers get an error instead of an answer that never comes.
        let prepared = catch_unwind(AssertUnwindSafe(|| self.prepare(messages, &mut answers)));
        let failure = match prepared {
            Ok(batch) if batch.is_empty() => None,
            Ok(batch) => match make_durable(disk, &batch) {
                Ok(()) => {
                    self.publish(batch);
                    None
                }
                Err(message) => {
                    tracing::error!(error = %message, "the store refused a commit; nothing of it was published");
                    self.shared.broken.store(true, Ordering::Relaxed);
                    Some(Status::internal("the store could not make the write durable"))
                }
            },
            Err(_) => {
                tracing::error!("a request made the model panic; its batch was dropped");
                messages.clear();
                Some(Status::internal("the request could not be processed"))
            }
        };
        for (reply, answer) in answers {
            // An error may rest on a write of the same batch that never happened, so a failure answers them all.
            let answer = failure.clone().map_or(answer, Err);
            // A caller that went away needs no answer.
            let _ = reply.send(answer);
        }
    }

    fn prepare(&mut self, messages: &mut Vec<Message>, answers: &mut Vec<Answer>) -> Batch {
        let model = self.shared.read();
        let mut batch = model.begin();
        for message in messages.drain(..) {
            match message {
                Message::Write(job) => {
                    let Job { request, reply } = *job;
                    let now = self.clock.now();
                    let answer = model.prepare(&mut batch, request, now, &mut self.ids);
                    answers.push((reply, answer));
                }
                // Later senders are refused; what is queued already is still received and done.
                Message::Stop => self.queue.close(),
            }
        }
        batch
    }

    fn publish(&self, batch: Batch) {
        let rv = batch.resource_version();
        // Most writes concern no owner and end nothing; only the others are kept for housekeeping.
        let concerning: Vec<Change> =
            batch.changes().iter().filter(|change| concerns(change)).cloned().collect();
        {
            let mut model = self.shared.write();
            model.commit(batch);
            if !concerning.is_empty() {
                let mut collector = self.shared.collector();
                for change in &concerning {
                    collector.observe(&model, change);
                }
            }
        }
        if !concerning.is_empty() {
            self.shared.work.notify_one();
        }
        self.shared.committed.send_replace(rv);
    }
}

/// Whether housekeeping may have to do something about a change.
fn concerns(change: &Change) -> bool {
    let owned = |object: &Arc<Object>| object.owner_references().next().is_some();
    match &change.new {
        None => true,
        Some(new) => new.terminating() || owned(new) || change.old.as_ref().is_some_and(owned),
    }
}

fn make_durable(disk: Option<&Disk>, batch: &Batch) -> Result<(), String> {
    let Some(disk) = disk else { return Ok(()) };
    let rows: Vec<Row<'_>> = batch
        .changes()
        .iter()
        .map(|change| Row {
            key: change.key.to_path().into_bytes(),
            value: change.new.as_ref().map(|object| (object.resource_version(), object.json())),
        })
        .collect();
    catch_unwind(AssertUnwindSafe(|| disk.commit(&rows, batch.resource_version())))
        .map_err(|_| "the database panicked".to_owned())?
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
