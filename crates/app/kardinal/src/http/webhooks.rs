//! `POST /webhooks`: a forge tells that something has happened.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use kardinal_scm::webhook::{self, Event, Rejected, Seen};

use super::Web;

/// The deliveries of the last while: a second one of the same id is no news.
#[derive(Default)]
pub(crate) struct Deliveries {
    seen: Mutex<Seen>,
}

/// Verifies first, in constant time; nothing of the body counts before that.
pub(super) async fn receive(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let delivery = match webhook::verify(&headers, &body, web.keys.webhook_secret.as_bytes()) {
        Ok(delivery) => delivery,
        Err(rejected) => return refuse(&web, &rejected),
    };
    let is_new = {
        let mut seen = web.deliveries.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(&delivery.id, Timestamp::now())
    };
    if !is_new {
        return (StatusCode::OK, "seen before");
    }
    match delivery.event {
        Event::PullRequest { repository_urls, .. }
        | Event::Review { repository_urls, .. }
        | Event::Push { repository_urls, .. } => {
            web.controllers.repository_changed(&repository_urls);
            (StatusCode::ACCEPTED, "looking at it")
        }
        Event::Other => (StatusCode::OK, "nothing to do"),
    }
}

fn refuse(web: &Web, rejected: &Rejected) -> (StatusCode, &'static str) {
    match rejected {
        Rejected::Unsigned => {
            web.metrics.webhook_rejected("unsigned");
            (StatusCode::UNAUTHORIZED, "the delivery is not signed: set the webhook's secret at the forge")
        }
        Rejected::BadSignature => {
            web.metrics.webhook_rejected("bad-signature");
            (StatusCode::UNAUTHORIZED, "the signature is wrong: the forge and kardinal need the same secret")
        }
        Rejected::Malformed(_) => {
            web.metrics.webhook_rejected("malformed");
            (StatusCode::BAD_REQUEST, "the delivery cannot be read")
        }
    }
}
