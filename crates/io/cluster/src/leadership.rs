//! The right to write, for as long as a Lease is held.
//!
//! # Guarantee
//! Nothing is begun, and nothing that waits is continued, later than the renew deadline after the last renewal was sent.
//! That is before anybody else can take the Lease, whatever the clocks say and however long the process was stopped: the
//! time is looked at right before each request and at every step of one.
//!
//! What remains is a request whose last byte had left when the process was stopped. It is harmless because requests are
//! guarded themselves: writes carry a uid or a version, pushes name the commit they replace, names are deterministic.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kardinal_planner::lease::RENEW_DEADLINE;
use tokio::time::Instant;
use tower::BoxError;

use crate::clock::Clock;

/// A write was refused or given up because another replica may lead by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead any more: its Lease was not renewed in time")]
pub struct NotLeading;

/// One term of office, shared by all who write. The default needs no Lease: nobody else can be there.
#[derive(Clone, Default)]
pub struct Leadership {
    term: Option<Arc<Term>>,
}

struct Term {
    clock: Arc<dyn Clock>,
    /// When the last renewal that succeeded was sent; `None` once the term is over, for ever.
    renewed: Mutex<Option<Moment>>,
}

/// An instant by both clocks. A machine that sleeps stops the one, a person may set the other; the later one counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    monotonic: Instant,
    wall: Timestamp,
}

impl Moment {
    pub(crate) fn now(clock: &dyn Clock) -> Moment {
        Moment { monotonic: Instant::now(), wall: clock.now() }
    }

    /// How long ago it was.
    pub(crate) fn age(&self, clock: &dyn Clock) -> Duration {
        let by_wall = Duration::try_from(clock.now().duration_since(self.wall)).unwrap_or_default();
        self.monotonic.elapsed().max(by_wall)
    }

    /// How long ago it was by the clock that nobody can set.
    pub(crate) fn elapsed(&self) -> Duration {
        self.monotonic.elapsed()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            None => f.write_str("Leadership(alone)"),
            Some(_) => write!(f, "Leadership(left: {:?})", self.left()),
        }
    }
}

impl Leadership {
    /// A term that began with a Lease that was written at this moment.
    pub(crate) fn begun(clock: Arc<dyn Clock>, at: Moment) -> Leadership {
        Leadership { term: Some(Arc::new(Term { clock, renewed: Mutex::new(Some(at)) })) }
    }

    /// The Lease was renewed by a request that was sent at this moment. A term that is over stays over.
    pub(crate) fn renew(&self, at: Moment) {
        if let Some(term) = &self.term
            && self.left().is_ok()
        {
            *term.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
        }
    }

    /// Ends the term.
    pub fn end(&self) {
        if let Some(term) = &self.term {
            *term.renewed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// How long writing is allowed if the Lease is not renewed; `None`: for ever.
    pub fn left(&self) -> Result<Option<Duration>, NotLeading> {
        let Some(term) = &self.term else { return Ok(None) };
        let mut renewed = term.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let allowed = Duration::try_from(RENEW_DEADLINE).unwrap_or_default();
        let age = renewed.map(|moment| moment.age(&*term.clock));
        match age.and_then(|age| allowed.checked_sub(age)).filter(|left| !left.is_zero()) {
            Some(left) => Ok(Some(left)),
            None => {
                // Somebody else may have written by now, so a late renewal must not bring the right back.
                *renewed = None;
                Err(NotLeading)
            }
        }
    }

    /// Returns once the term is over.
    pub async fn over(&self) {
        loop {
            match self.left() {
                Ok(Some(left)) => tokio::time::sleep(left).await,
                Ok(None) => std::future::pending().await,
                Err(NotLeading) => return,
            }
        }
    }

    /// Carries out an effect, or gives it up at the moment at which the term is over.
    pub async fn guard<F: Future>(&self, effect: F) -> Result<F::Output, NotLeading> {
        if self.term.is_none() {
            return Ok(effect.await);
        }
        let mut effect = pin!(effect);
        let mut over = pin!(self.over());
        poll_fn(|context| {
            // The timer alone will not do: after a stop of the process it may fire later than the effect goes on.
            if over.as_mut().poll(context).is_ready() || self.left().is_err() {
                return Poll::Ready(Err(NotLeading));
            }
            effect.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// The same client, through which nothing is written any more once the term is over.
    pub fn fence(&self, client: kube::Client) -> kube::Client {
        if self.term.is_none() {
            return client;
        }
        let (namespace, leadership) = (client.default_namespace().to_owned(), self.clone());
        let fenced = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (client, leadership) = (client.clone(), leadership.clone());
            async move {
                let reads = matches!(*request.method(), Method::GET | Method::HEAD);
                let sent = client.send(request);
                match reads {
                    true => sent.await.map_err(BoxError::from),
                    false => leadership.guard(sent).await?.map_err(BoxError::from),
                }
            }
        });
        kube::Client::new(fenced, namespace)
    }
}
