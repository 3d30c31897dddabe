//! `POST /webhooks`: a forge tells that something has happened.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use kardinal_scm::webhook::{self, Delivery, Event, Rejected, Seen};

use super::Web;

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
}

/// Verifies first, in constant time; nothing of the body counts before that.
pub(super) async fn receive(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> (StatusCode, String) {
    let body = match body {
        Ok(body) => body,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return refuse(&web, &Rejected::TooLarge);
        }
        Err(rejection) => return refuse(&web, &Rejected::Malformed(rejection.body_text())),
    };
    let delivery = match webhook::verify(&headers, &body, web.keys.webhook_secret.as_bytes()) {
        Ok(delivery) => delivery,
        Err(rejected) => return refuse(&web, &rejected),
    };
    let say = |code, text: &str| (code, format!("{text}\n"));
    if !web.deliveries.is_new(&delivery) {
        return say(StatusCode::OK, "seen before");
    }
    match delivery.event {
        Event::PullRequest { repository_urls, .. }
        | Event::Review { repository_urls, .. }
        | Event::Push { repository_urls, .. } => {
            web.controllers.repository_changed(&repository_urls);
            say(StatusCode::ACCEPTED, "looking at it")
        }
        Event::Other => say(StatusCode::OK, "nothing to do"),
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
