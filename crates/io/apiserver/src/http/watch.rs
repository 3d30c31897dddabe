//! Watch streams: JSON lines pulled from the model's log.
//!
//! A stream holds a cursor and no queue. A client that reads too slowly therefore costs nothing; when the log has moved
//! past its cursor it gets the 410 event that tells it to list again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::header::HeaderValue;
use http::{Response, StatusCode};
use kardinal_apimodel::watch::{Cursor, Event, EventKind, Filter, error_event};
use kardinal_apimodel::{Object, Status};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::render::Shape;
use crate::listen::Endless;
use crate::shares::Share;
use crate::store::Store;

/// Events written into one chunk at most.
const EVENTS: usize = 256;
/// A chunk is sent when it is this large.
const CHUNK: usize = 64 * 1024;
/// How long a watch lives that named no time.
const LIFETIME: Duration = Duration::from_secs(3000);

/// What a watch begins with.
#[derive(Debug)]
pub(crate) struct Start {
    /// Objects to show as ADDED first.
    pub(crate) initial: Vec<Arc<Object>>,
    /// Whether a bookmark marks the end of the initial events.
    pub(crate) mark_end: bool,
    /// Everything up to here has been seen once the initial events are out.
    pub(crate) cursor: Cursor,
}

/// What a watch asks for.
pub(crate) struct Watch {
    pub(crate) store: Store,
    pub(crate) shape: Shape,
    pub(crate) filter: Filter,
    pub(crate) bookmarks: Option<Duration>,
    pub(crate) timeout: Option<i64>,
    pub(crate) stop: CancellationToken,
    /// Held as long as the watch lives.
    pub(crate) _share: Option<Share>,
}

/// The streaming answer to a watch.
pub(crate) fn respond(watch: Watch, start: Start) -> Response<Body> {
    let lifetime = watch
        .timeout
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0)
        .map_or(LIFETIME, |seconds| Duration::from_secs(seconds.min(24 * 3600)));
    let now = Instant::now();
    let state = State {
        commits: watch.store.commits(),
        initial: start.initial.into(),
        mark_end: start.mark_end,
        cursor: start.cursor,
        deadline: now + lifetime,
        next_bookmark: watch.bookmarks.map(|interval| now + interval),
        finished: false,
        first: true,
        watch,
    };
    let mut response = Response::new(Body::from_stream(lines(state)));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(Endless);
    response
}

fn lines(state: State) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures::stream::unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((Ok(chunk), state))
    })
}

struct State {
    watch: Watch,
    commits: watch::Receiver<u64>,
    initial: VecDeque<Arc<Object>>,
    mark_end: bool,
    cursor: Cursor,
    deadline: Instant,
    next_bookmark: Option<Instant>,
    finished: bool,
    /// Nothing was written yet.
    first: bool,
}

impl State {
    async fn next(&mut self) -> Option<Bytes> {
        if self.finished {
            return None;
        }
        if let Some(chunk) = self.initial_chunk() {
            return Some(chunk);
        }
        loop {
            if self.watch.stop.is_cancelled() || Instant::now() >= self.deadline {
                return None;
            }
            if let Some(chunk) = self.pull() {
                return Some(chunk);
            }
            if self.finished {
                return None;
            }
            // Without bookmarks the timer is the deadline itself, which is looked at again above.
            let timer = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
            tokio::select! {
                biased;
                () = self.watch.stop.cancelled() => return None,
                changed = self.commits.changed() => if changed.is_err() { return None },
                () = sleep_until(timer) => if timer < self.deadline {
                    return Some(self.bookmark(false));
                },
            }
        }
    }

    /// The next part of the initial events, and their end mark.
    fn initial_chunk(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        while chunk.len() < CHUNK {
            let Some(object) = self.initial.pop_front() else { break };
            let event = Event { kind: EventKind::Added, rv: object.resource_version(), object };
            self.write(&event, &mut chunk);
        }
        if self.initial.is_empty() && self.mark_end {
            self.mark_end = false;
            chunk.extend_from_slice(&self.bookmark(true));
        }
        (!chunk.is_empty()).then(|| chunk.freeze())
    }

    /// What the log has after the cursor.
    fn pull(&mut self) -> Option<Bytes> {
        self.commits.borrow_and_update();
        let (pulled, served) = {
            let model = self.watch.store.read();
            let resource = self.watch.shape.resource();
            let served = model.registry().get(resource).is_some();
            (model.log().since(resource, self.cursor, &self.watch.filter, EVENTS), served)
        };
        match pulled {
            Ok((events, cursor)) => {
                self.cursor = cursor;
                if events.is_empty() {
                    // A kind that is no longer served has no future to watch.
                    self.finished = !served;
                    return None;
                }
                let mut chunk = BytesMut::new();
                for event in &events {
                    self.write(event, &mut chunk);
                }
                Some(chunk.freeze())
            }
            Err(status) => {
                self.finished = true;
                Some(line(&error_event(&too_old(status))))
            }
        }
    }

    fn write(&mut self, event: &Event, chunk: &mut BytesMut) {
        self.watch.shape.write_event(event, self.first, chunk);
        self.first = false;
    }

    fn bookmark(&mut self, ends_initial_events: bool) -> Bytes {
        if let Some(interval) = self.watch.bookmarks {
            self.next_bookmark = Some(Instant::now() + interval);
        }
        let first = std::mem::take(&mut self.first);
        self.watch.shape.bookmark(self.cursor.0, ends_initial_events, first)
    }
}

/// Inside a stream every trouble with the cursor means the same to a client: list again.
fn too_old(status: Status) -> Status {
    if status.code == 410 { status } else { Status::expired(status.message) }
}

fn line(value: &Value) -> Bytes {
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    text.push(b'\n');
    text.into()
}
