//! `POST /webhooks`: a forge tells that something has happened.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use jiff::Timestamp;
use kardinal_scm::webhook::{self, Delivery, Event, MAX_BODY, Rejected, Seen};

use super::reading::{self, Unread};
use super::{Web, elsewhere};

/// So many deliveries are remembered, each for so long.
const REMEMBERED: usize = 10_000;
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The deliveries of the last while: the same one again is no news.
pub(crate) struct Deliveries {
    seen: Mutex<Seen>,
}

impl Default for Deliveries {
    fn default() -> Deliveries {
        Deliveries { seen: Mutex::new(Seen::new(REMEMBERED, KEPT)) }
    }
}

impl Deliveries {
    fn is_new(&self, delivery: &Delivery) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_new(delivery, Timestamp::now())
    }

    fn forget(&self, delivery: &Delivery) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).forget(delivery);
    }
}

/// Verifies first, in constant time; nothing of the body counts before that, and without a signature none of it is read.
pub(super) async fn receive(State(web): State<Arc<Web>>, request: Request) -> (StatusCode, String) {
    let (head, body) = request.into_parts();
    if let Err(rejected) = webhook::check_signed(&head.headers) {
        return refuse(&web, &rejected);
    }
    let body = match reading::whole(body, MAX_BODY).await {
        Ok(body) => body,
        Err(Unread::TooLarge) => return refuse(&web, &Rejected::TooLarge),
        Err(Unread::Broken) => return refuse(&web, &Rejected::Malformed("it broke off".to_owned())),
    };
    let delivery = match webhook::verify(&head.headers, &body, web.keys.webhook_secret.as_bytes()) {
        Ok(delivery) => delivery,
        Err(rejected) => return refuse(&web, &rejected),
    };
    let say = |code, text: &str| (code, format!("{text}\n"));
    if !web.deliveries.is_new(&delivery) {
        return say(StatusCode::OK, "seen before");
    }
    let (urls, pull_request) = match &delivery.event {
        Event::PullRequest { repository_urls, number, .. }
        | Event::Review { repository_urls, number, .. } => (repository_urls, Some(*number)),
        Event::Push { repository_urls, .. } => (repository_urls, None),
        Event::Other => return say(StatusCode::OK, "nothing to do"),
    };
    match elsewhere::tell(&web, urls, pull_request).await {
        Ok(()) => say(StatusCode::ACCEPTED, "looking at it"),
        Err(error) => {
            tracing::warn!(%error, "a webhook cannot be passed on to the replica that it concerns");
            web.deliveries.forget(&delivery);
            say(StatusCode::SERVICE_UNAVAILABLE, "it cannot be passed on now; send it again")
        }
    }
}

fn refuse(web: &Web, rejected: &Rejected) -> (StatusCode, String) {
    let (code, reason) = match rejected {
        Rejected::Unsigned => (StatusCode::UNAUTHORIZED, "unsigned"),
        Rejected::BadSignature => (StatusCode::UNAUTHORIZED, "bad-signature"),
        Rejected::NoSecret => (StatusCode::UNAUTHORIZED, "no-secret"),
        Rejected::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
        Rejected::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
    };
    web.metrics.webhook_rejected(reason);
    (code, format!("{rejected}\n"))
}
