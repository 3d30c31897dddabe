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

/// A disk that can be full.
#[derive(Debug, Clone, Default)]
struct Frail {
    inner: Arc<InMemoryBackend>,
    full: Arc<AtomicBool>,
    /// Whether data arrives although the disk says that it does not.
    lies: Arc<AtomicBool>,
}

impl Frail {
    fn disk(&self) -> Disk {
        let backend = self.clone();
        Disk::on(move || backend.clone())
    }

    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
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
        self.inner.sync_data()?;
        // The last thing that a commit does: all is written, and the answer is an error.
        if self.lies.swap(false, Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.check()
        }
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

fn names(disk: &Disk) -> Vec<String> {
    let mut names = Vec::new();
    disk.load(|key, _, _| {
        names.push(String::from_utf8_lossy(key).into_owned());
        Ok(())
    })
    .unwrap();
    names
}

#[test]
fn a_full_disk_publishes_nothing_answers_503_and_heals_without_a_restart() {
    let backend = Frail::default();
    let mut disk = backend.disk();
    let (mut writer, shared) = writer();
    let write = |writer: &mut Writer, disk: &mut Disk, name: &str| {
        let (message, mut answer) = create(name, json!({}));
        writer.process(&mut vec![message], Some(disk));
        answer.try_recv().unwrap()
    };
    assert_eq!(write(&mut writer, &mut disk, "a").unwrap().code, 201);
    let before = *shared.committed.borrow();

    backend.full.store(true, Ordering::SeqCst);
    let (first, mut first_answer) = create("b", json!({}));
    let (same, mut same_answer) = create("b", json!({}));
    writer.process(&mut vec![first, same], Some(&mut disk));
    // "Already exists" would rest on a write that never was.
    for answer in [first_answer.try_recv(), same_answer.try_recv()] {
        let refused = answer.unwrap().unwrap_err();
        assert_eq!(refused.code, 503);
        assert!(refused.retry_after_seconds > 0);
        assert!(refused.message.contains("no space is left on the disk"), "{}", refused.message);
    }
    assert!(exists(&shared, "a") && !exists(&shared, "b"), "reads go on");
    assert_eq!(*shared.committed.borrow(), before, "nobody is woken");
    assert_eq!(shared.read().resource_version(), before);
    assert!(shared.broken.load(Ordering::SeqCst));
    // Still full: trying changes nothing.
    writer.heal(&mut disk);
    assert_eq!(write(&mut writer, &mut disk, "c").unwrap_err().code, 503);

    backend.full.store(false, Ordering::SeqCst);
    writer.heal(&mut disk);
    assert!(!shared.broken.load(Ordering::SeqCst));
    assert_eq!(write(&mut writer, &mut disk, "b").unwrap().code, 201);
    assert!(exists(&shared, "b"));
    drop(disk);
    assert_eq!(names(&backend.disk()), ["namespaces//a", "namespaces//b"]);
}

#[test]
fn what_a_refused_commit_left_on_the_disk_is_taken_back() {
    let backend = Frail::default();
    let mut disk = backend.disk();
    let (mut writer, shared) = writer();
    let (message, _answer) = create("a", json!({}));
    writer.process(&mut vec![message], Some(&mut disk));
    backend.lies.store(true, Ordering::SeqCst);
    let (message, mut answer) = create("b", json!({}));
    writer.process(&mut vec![message], Some(&mut disk));
    assert_eq!(answer.try_recv().unwrap().unwrap_err().code, 503);
    writer.heal(&mut disk);
    assert!(!shared.broken.load(Ordering::SeqCst));
    drop(disk);
    assert_eq!(names(&backend.disk()), ["namespaces//a"], "nobody was told that `b` exists");
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
