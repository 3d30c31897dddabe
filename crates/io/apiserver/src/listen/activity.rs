//! What happens on one connection, and until when it must go on.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::ConnectionLimits;

/// Shared by the stream, the requests and the supervisor of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    /// Something has begun or ended, so another deadline may hold.
    pub(super) changed: Notify,
}

#[derive(Debug)]
struct State {
    requests: usize,
    /// How many of them are answered by a stream that only our own end ends.
    endless: usize,
    /// HTTP/2 has frames between requests that mean nothing here; its pings watch over the connection.
    multiplexed: bool,
    resting_since: Instant,
    head_since: Option<Instant>,
    stalled_since: Option<Instant>,
    /// When the server was asked to stop.
    leaving_since: Option<Instant>,
}

/// What to do with a connection at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The client does not do its part.
    Cut,
    /// Nobody needs it; a request that is under way may still finish.
    Rest,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Arc<Activity> {
        let state = State {
            requests: 0,
            endless: 0,
            multiplexed: false,
            resting_since: now,
            head_since: Some(now),
            stalled_since: None,
            leaving_since: None,
        };
        Arc::new(Activity { state: Mutex::new(state), changed: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the connection is overdue unless something happens, and what it is then.
    pub(super) fn deadline(&self, limits: &ConnectionLimits) -> Option<(Instant, Overdue)> {
        let state = self.state();
        let stalled = state.stalled_since.map(|since| (since + limits.write_timeout, Overdue::Cut));
        let waiting = match (state.requests, state.head_since) {
            (0, Some(since)) => Some((since + limits.header_timeout, Overdue::Cut)),
            (0, None) => Some((state.resting_since + limits.idle_timeout, Overdue::Rest)),
            _ => None,
        };
        let leaving = state.leaving(limits).map(|at| (at, Overdue::Cut));
        stalled.into_iter().chain(waiting).chain(leaving).min_by_key(|(at, _)| *at)
    }

    /// The server was asked to stop.
    pub(super) fn leave(&self, now: Instant) {
        self.state().leaving_since = Some(now);
    }

    /// A head has arrived whole; its request lives as long as what is returned.
    pub(super) fn begin(self: &Arc<Activity>, multiplexed: bool) -> InFlight {
        let mut state = self.state();
        state.requests += 1;
        state.multiplexed = multiplexed;
        state.head_since = None;
        drop(state);
        self.changed.notify_one();
        InFlight { activity: self.clone(), endless: false }
    }

    fn received(&self) {
        let mut state = self.state();
        if state.requests == 0 && state.head_since.is_none() && !state.multiplexed {
            state.head_since = Some(Instant::now());
            drop(state);
            self.changed.notify_one();
        }
    }

    fn sent(&self, stalled: bool) {
        let mut state = self.state();
        if state.stalled_since.is_some() != stalled {
            state.stalled_since = stalled.then(Instant::now);
            drop(state);
            self.changed.notify_one();
        }
    }
}

impl State {
    /// When a connection is given up that the server's end has not ended. An answer that has an end may be completed as
    /// long as its client takes it; it counts as answered when its last bytes are buffered, so a connection without
    /// requests may still have much to send. Where nothing but watches is left, nobody waits.
    fn leaving(&self, limits: &ConnectionLimits) -> Option<Instant> {
        let since = self.leaving_since?;
        let only_watches = self.endless > 0 && self.requests == self.endless;
        let last = if only_watches { since } else { self.stalled_since?.max(since) };
        Some(last + limits.leave)
    }
}

/// A request that is not answered to its last byte.
#[derive(Debug)]
pub(super) struct InFlight {
    activity: Arc<Activity>,
    endless: bool,
}

impl InFlight {
    /// Its answer is a stream that only our own end ends.
    pub(super) fn mark_endless(&mut self) {
        if !std::mem::replace(&mut self.endless, true) {
            self.activity.state().endless += 1;
            self.activity.changed.notify_one();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.requests = state.requests.saturating_sub(1);
        state.endless = state.endless.saturating_sub(usize::from(self.endless));
        state.resting_since = Instant::now();
        drop(state);
        self.activity.changed.notify_one();
    }
}

/// An answer that keeps its request in flight until it is sent.
pub(super) struct Answer {
    pub(super) body: Body,
    pub(super) _in_flight: InFlight,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body of which is known whether anybody has read it to its end.
pub(super) struct Received {
    body: Incoming,
    left: Arc<AtomicBool>,
}

impl Received {
    /// The body, and whether some of it is left.
    pub(super) fn new(body: Incoming) -> (Received, Arc<AtomicBool>) {
        let left = Arc::new(AtomicBool::new(!body.is_end_stream()));
        (Received { body, left: left.clone() }, left)
    }
}

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.left.store(false, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells what comes and what does not go.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    pub(super) activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.received();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.activity.sent(written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.activity.sent(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.activity.sent(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits() -> ConnectionLimits {
        let seconds = Duration::from_secs;
        ConnectionLimits {
            header_timeout: seconds(10),
            idle_timeout: seconds(100),
            write_timeout: seconds(50),
            leave: seconds(1),
            ..ConnectionLimits::default()
        }
    }

    /// Seconds from now, and what happens then.
    fn due(activity: &Activity) -> Option<(u64, Overdue)> {
        activity
            .deadline(&limits())
            .map(|(at, overdue)| (at.saturating_duration_since(Instant::now()).as_secs(), overdue))
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_and_rest_has_another() {
        let activity = Activity::new(Instant::now());
        assert_eq!(due(&activity), Some((10, Overdue::Cut)), "the first head is awaited");
        tokio::time::advance(Duration::from_secs(4)).await;
        activity.received();
        assert_eq!(due(&activity), Some((6, Overdue::Cut)), "a part of it changes nothing");
        let request = activity.begin(false);
        assert_eq!(due(&activity), None, "requests have limits of their own");
        activity.received();
        drop(request);
        assert_eq!(due(&activity), Some((100, Overdue::Rest)));
        activity.received();
        assert_eq!(due(&activity), Some((10, Overdue::Cut)), "another head has begun");
        let request = activity.begin(false);
        activity.sent(true);
        assert_eq!(due(&activity), Some((50, Overdue::Cut)), "a client must take its answer");
        activity.sent(false);
        assert_eq!(due(&activity), None);
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_between_requests_begin_no_head() {
        let activity = Activity::new(Instant::now());
        drop(activity.begin(true));
        activity.received();
        assert_eq!(due(&activity), Some((100, Overdue::Rest)));
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_nobody_waits_for_a_client_that_does_not_read() {
        let activity = Activity::new(Instant::now());
        let mut watch = activity.begin(true);
        watch.mark_endless();
        assert_eq!(due(&activity), None);
        activity.leave(Instant::now());
        assert_eq!(due(&activity), Some((1, Overdue::Cut)), "a watch should have ended");
        let list = activity.begin(true);
        assert_eq!(due(&activity), None, "what has an end of its own is completed");
        tokio::time::advance(Duration::from_secs(4)).await;
        activity.sent(true);
        assert_eq!(due(&activity), Some((1, Overdue::Cut)), "while its client takes it");
        activity.sent(false);
        assert_eq!(due(&activity), None);
        drop((list, watch));
        assert!(
            due(&activity).is_none_or(|(_, overdue)| overdue == Overdue::Rest),
            "its last bytes may be on their way"
        );
        activity.sent(true);
        assert_eq!(due(&activity), Some((1, Overdue::Cut)), "unless nobody takes them");
    }
}
