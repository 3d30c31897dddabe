//! The one writer: drains its queue, decides a batch, makes it durable in one transaction, publishes, answers.
//!
//! A disk that refuses a commit (most often because it is full) stops writes and nothing else. From then on the writer
//! tries to open the file again, and goes on by itself when that works.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kardinal_apimodel::{Batch, Change, Key, Object, Outcome, Request, Status};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::disk::{Disk, Refusal, Row};
use crate::clock::Clock;
use crate::ids::IdSource;

/// How often a disk that refused a commit is tried again.
const HEAL: Duration = Duration::from_secs(1);
/// How often the queue is looked at meanwhile: nobody waits long for an answer that is a refusal.
const LOOK: Duration = Duration::from_millis(20);
/// When clients are asked to come back, in seconds.
const COME_BACK: u32 = 2;

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
    /// Why the disk refuses commits, while it does.
    refusal: Option<Refusal>,
    /// What a refused commit was about. It may be on the disk all the same, so the next commit writes these anew.
    doubtful: BTreeSet<Key>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Message>,
        clock: Arc<dyn Clock>,
        ids: IdSource,
        batch: usize,
    ) -> Writer {
        Writer { shared, queue, clock, ids, batch, refusal: None, doubtful: BTreeSet::new() }
    }

    /// In memory: a plain task, so that a paused runtime stays deterministic.
    pub(super) async fn run_in_task(mut self) {
        let mut messages = Vec::new();
        while self.queue.recv_many(&mut messages, self.batch).await > 0 {
            self.process(&mut messages, None);
        }
    }

    /// Durable: a thread of its own, because a commit waits for the disk.
    pub(super) fn run_in_thread(mut self, mut disk: Disk) {
        let mut messages = Vec::new();
        let mut healed = Instant::now();
        loop {
            if self.refusal.is_none() {
                if self.queue.blocking_recv_many(&mut messages, self.batch) == 0 {
                    return;
                }
                self.process(&mut messages, Some(&mut disk));
                healed = Instant::now();
                continue;
            }
            match self.queue.try_recv() {
                Ok(message) => {
                    messages.push(message);
                    self.process(&mut messages, Some(&mut disk));
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => std::thread::sleep(LOOK),
            }
            if healed.elapsed() >= HEAL {
                self.heal(&mut disk);
                healed = Instant::now();
            }
        }
    }

    /// Tries whether the disk takes commits again: opens the file anew and writes what memory has of everything that a
    /// refused commit was about.
    fn heal(&mut self, disk: &mut Disk) {
        let tried = match disk.is_open() {
            true => Ok(()),
            false => disk.reopen(),
        };
        let tried = tried.and_then(|()| {
            let model = self.shared.read();
            let rows: Vec<Row<'_>> = self.doubtful.iter().map(|key| row(key, model.object(key))).collect();
            disk.commit(&rows, model.resource_version())
        });
        match tried {
            Ok(()) => {
                tracing::info!("the store takes writes again");
                self.refusal = None;
                self.doubtful.clear();
                self.shared.broken.store(false, Ordering::Relaxed);
            }
            Err(refusal) => self.refusal = Some(refusal),
        }
    }

    fn process(&mut self, messages: &mut Vec<Message>, disk: Option<&mut Disk>) {
        let mut answers: Vec<Answer> = Vec::with_capacity(messages.len());
        // A panic is a bug in deciding one request. Nothing of the batch is durable or visible yet, so dropping it
        // whole keeps the state sound; its callers get an error instead of an answer that never comes.
        let prepared = catch_unwind(AssertUnwindSafe(|| self.prepare(messages, &mut answers)));
        let failure = match prepared {
            Ok(batch) if batch.is_empty() => None,
            Ok(batch) => match self.make_durable(disk, &batch) {
                Ok(()) => {
                    self.publish(batch);
                    None
                }
                Err(refusal) => Some(unavailable(&refusal)),
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

    fn make_durable(&mut self, disk: Option<&mut Disk>, batch: &Batch) -> Result<(), Refusal> {
        let Some(disk) = disk else { return Ok(()) };
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let changes = batch.changes();
        let rows: Vec<Row<'_>> = changes.iter().map(|change| row(&change.key, change.new.as_ref())).collect();
        let Err(refusal) = disk.commit(&rows, batch.resource_version()) else { return Ok(()) };
        tracing::error!(error = %refusal, "the store refused a commit; nothing of it was published");
        self.shared.broken.store(true, Ordering::Relaxed);
        self.doubtful.extend(changes.iter().map(|change| change.key.clone()));
        self.refusal = Some(refusal.clone());
        Err(refusal)
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

fn row<'a>(key: &Key, object: Option<&'a Arc<Object>>) -> Row<'a> {
    Row {
        key: key.to_path().into_bytes(),
        value: object.map(|object| (object.resource_version(), object.json())),
    }
}

/// The answer to a write that could not be made durable. Nothing of it is visible, so it can be sent again.
fn unavailable(refusal: &Refusal) -> Status {
    let message =
        format!("the store cannot be written: {refusal}; reads go on, and writes when that is over");
    let mut status = Status::unavailable(message);
    status.retry_after_seconds = COME_BACK;
    status
}

#[cfg(test)]
mod tests;
