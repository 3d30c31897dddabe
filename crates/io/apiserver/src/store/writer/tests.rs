use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};

use kardinal_apimodel::gc::Collector;
use kardinal_apimodel::model::{Target, Verb, WriteOptions};
use kardinal_apimodel::watch::Limits;
use kardinal_apimodel::{Key, Model};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use serde_json::json;
use tokio::sync::{Notify, watch};

use super::*;
use crate::clock::SystemClock;

/// A disk that can be made to fail.
#[derive(Debug)]
struct Frail {
    inner: InMemoryBackend,
    broken: Arc<AtomicBool>,
}

impl Frail {
    fn check(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) {
            Err(io::Error::other("no space left on device"))
        } else {
            Ok(())
        }
    }
}

impl StorageBackend for Frail {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.inner.write(offset, data)
    }
}

fn writer() -> (Writer, Arc<Shared>) {
    let model = Model::new(Limits::default());
    let shared = Arc::new(Shared {
        committed: watch::Sender::new(model.resource_version()),
        collector: Mutex::new(Collector::new(&model)),
        model: RwLock::new(model),
        work: Notify::new(),
        broken: AtomicBool::new(false),
    });
    let (_, queue) = mpsc::channel(1);
    (Writer::new(shared.clone(), queue, Arc::new(SystemClock), IdSource::new(Some(1)), 16), shared)
}

fn create(name: &str, body: serde_json::Value) -> (Message, oneshot::Receiver<Result<Outcome, Status>>) {
    let target = Target { version: "v1".into(), resource: "namespaces".into(), ..Target::default() };
    let mut body = body;
    body["metadata"]["name"] = name.into();
    let verb = Verb::Create { body, options: WriteOptions::default() };
    let (reply, answer) = oneshot::channel();
    (Message::Write(Box::new(Job { request: Request { target, verb }, reply })), answer)
}

fn exists(shared: &Shared, name: &str) -> bool {
    shared.read().object(&Key::new("namespaces", "", name)).is_some()
}

#[test]
fn a_failed_commit_publishes_nothing_and_answers_500() {
    let broken = Arc::new(AtomicBool::new(false));
    let disk = Disk::on(Frail { inner: InMemoryBackend::new(), broken: broken.clone() });
    let (mut writer, shared) = writer();
    let (message, mut answer) = create("a", json!({}));
    writer.process(&mut vec![message], Some(&disk));
    assert_eq!(answer.try_recv().unwrap().unwrap().code, 201);
    let before = *shared.committed.borrow();

    broken.store(true, Ordering::SeqCst);
    let (first, mut first_answer) = create("b", json!({}));
    let (same, mut same_answer) = create("b", json!({}));
    writer.process(&mut vec![first, same], Some(&disk));
    assert_eq!(first_answer.try_recv().unwrap().unwrap_err().code, 500);
    // "Already exists" would rest on a write that never was.
    assert_eq!(same_answer.try_recv().unwrap().unwrap_err().code, 500);
    assert!(exists(&shared, "a") && !exists(&shared, "b"));
    assert_eq!(*shared.committed.borrow(), before, "nobody is woken");
    assert_eq!(shared.read().resource_version(), before);
    assert!(shared.broken.load(Ordering::SeqCst));
}

#[test]
fn a_batch_is_one_step_and_each_request_sees_the_ones_before() {
    let (mut writer, shared) = writer();
    let before = *shared.committed.borrow();
    let (first, mut first_answer) = create("a", json!({}));
    let (again, mut again_answer) = create("a", json!({}));
    let (other, mut other_answer) = create("b", json!({}));
    writer.process(&mut vec![first, again, other], None);
    assert_eq!(first_answer.try_recv().unwrap().unwrap().code, 201);
    assert_eq!(again_answer.try_recv().unwrap().unwrap_err().code, 409);
    assert_eq!(other_answer.try_recv().unwrap().unwrap().code, 201);
    assert_eq!(*shared.committed.borrow(), before + 2);
}
