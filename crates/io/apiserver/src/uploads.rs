//! Bodies on their way in: their bytes are counted while they are held, and nobody sends them slowly for long.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::limits::UploadLimits;
use crate::shares::{Share, Shares};

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UploadRefused {
    /// As many bytes as may be are held for requests that are not answered yet.
    #[error("too many requests are being received, try again later")]
    Busy,
    /// The client has sent nothing for too long.
    #[error("the request's body arrives too slowly")]
    Slow,
}

/// Counts the bytes of bodies until their requests are answered.
#[derive(Debug, Clone)]
pub struct Uploads {
    limits: UploadLimits,
    bytes: Arc<Shares>,
}

impl Uploads {
    /// Nothing is held yet.
    #[must_use]
    pub fn new(limits: UploadLimits) -> Uploads {
        let bytes = Shares::new(limits.total, limits.per_peer);
        Uploads { limits, bytes }
    }

    /// How many bytes are held for requests that are not answered yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.taken()
    }

    /// Has a request answered with its body counted. What the answer says of a body that was cut off is of no interest:
    /// the refusal takes its place.
    pub async fn answered(
        &self,
        peer: IpAddr,
        request: Request<Body>,
        answer: impl AsyncFnOnce(Request<Body>) -> Response<Body>,
    ) -> Result<Response<Body>, UploadRefused> {
        if hyper::body::Body::is_end_stream(request.body()) {
            return Ok(answer(request).await);
        }
        let account =
            Arc::new(Account { share: Mutex::new(self.bytes.none(peer)), refused: Mutex::new(None) });
        let idle = self.limits.idle_timeout;
        let counted = request.map(|body| {
            let timer = Box::pin(tokio::time::sleep(idle));
            Body::new(Counted { body, account: account.clone(), idle, timer })
        });
        let response = answer(counted).await;
        let refused = *account.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.map_or(Ok(response), Err)
    }
}

/// What one request holds.
struct Account {
    share: Mutex<Share>,
    refused: Mutex<Option<UploadRefused>>,
}

impl Account {
    fn refuse(&self, why: UploadRefused) -> UploadRefused {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        why
    }
}

/// A body whose bytes are counted as they come.
struct Counted {
    body: Body,
    account: Arc<Account>,
    idle: std::time::Duration,
    timer: Pin<Box<Sleep>>,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(self.timer.as_mut().poll(context));
                return Poll::Ready(Some(Err(self.account.refuse(UploadRefused::Slow).into())));
            }
        };
        let deadline = Instant::now() + self.idle;
        self.timer.as_mut().reset(deadline);
        let size = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Bytes::len));
        let mut share = self.account.share.lock().unwrap_or_else(PoisonError::into_inner);
        if size.is_some_and(|size| !share.grow(size)) {
            drop(share);
            return Poll::Ready(Some(Err(self.account.refuse(UploadRefused::Busy).into())));
        }
        drop(share);
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    fn uploads(total: usize) -> Uploads {
        Uploads::new(UploadLimits { total, per_peer: total, idle_timeout: Duration::from_secs(10) })
    }

    fn peer() -> IpAddr {
        "10.0.0.1".parse().unwrap()
    }

    async fn whole(request: Request<Body>) -> Response<Body> {
        let read = request.into_body().collect().await.map(|body| body.to_bytes());
        Response::new(Body::from(read.map_or("broken".to_owned(), |bytes| bytes.len().to_string())))
    }

    #[tokio::test]
    async fn unfinished_bodies_are_held_within_a_budget_and_given_back() {
        let uploads = uploads(100);
        let seen = uploads.clone();
        let answered = uploads.answered(peer(), Request::new(Body::from(vec![0; 100])), async |request| {
            let response = whole(request).await;
            assert_eq!(seen.held(), 100, "held until the answer is there");
            response
        });
        answered.await.unwrap();
        assert_eq!(uploads.held(), 0);
        let large = Request::new(Body::from(vec![0; 101]));
        assert_eq!(uploads.answered(peer(), large, whole).await.unwrap_err(), UploadRefused::Busy);
        assert_eq!(uploads.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_arriving_is_given_up() {
        let uploads = uploads(100);
        let begun = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"half"))]);
        let body = Body::from_stream(begun.chain(futures::stream::pending()));
        let refused = uploads.answered(peer(), Request::new(body), whole).await;
        assert_eq!(refused.unwrap_err(), UploadRefused::Slow);
        assert_eq!(uploads.held(), 0);
    }
}
