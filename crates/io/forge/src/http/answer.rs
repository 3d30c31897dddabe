//! What a client gets to read: advertisements, streams, refusals and the report of a refused push.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use http::{HeaderValue, StatusCode, header};

use super::commands::{Push, Rejected};
use super::process::{Protocol, Service};

/// Band 1 of `side-band-64k` carries at most this much in one line.
const BAND_LIMIT: usize = 65_515;

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No token, or one that nobody knows.
    Unauthorized,
    /// No such repository.
    NotFound,
    /// The client speaks the protocol of plain files.
    Dumb,
    /// All processes are taken.
    Busy,
    /// The request makes no sense or is too large.
    Bad(StatusCode, String),
    /// Git could not be run.
    Failed,
}

impl Refusal {
    pub(super) fn bad(message: impl Into<String>) -> Refusal {
        Refusal::Bad(StatusCode::BAD_REQUEST, message.into())
    }

    /// The reason goes to the log; a stranger gets to know only that it did not work.
    pub(super) fn failed(error: impl std::fmt::Display) -> Refusal {
        tracing::warn!(%error, "git could not be run; check that it is installed");
        Refusal::Failed
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Refusal::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "give the token of the forge as password".to_owned())
            }
            Refusal::NotFound => (StatusCode::NOT_FOUND, "there is no such repository".to_owned()),
            Refusal::Dumb => {
                (StatusCode::FORBIDDEN, "only smart HTTP is served: use git 1.6.6 or later".to_owned())
            }
            Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests: try again".to_owned()),
            Refusal::Bad(status, text) => (status, text),
            Refusal::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "git could not be run".to_owned()),
        };
        let mut response = (status, format!("{text}\n")).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"kardinal\""));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

fn answer(content_type: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    response
}

/// What git says about a repository. Before protocol 2 a line with the service comes first.
pub(super) fn advertisement(service: Service, protocol: Option<Protocol>, output: &[u8]) -> Response {
    let mut body = Vec::with_capacity(output.len() + 64);
    if protocol != Some(Protocol::V2) {
        line(&mut body, format!("# service={}\n", service.name()).as_bytes());
        body.extend_from_slice(b"0000");
    }
    body.extend_from_slice(output);
    answer(&format!("application/x-{}-advertisement", service.name()), Body::from(body))
}

pub(super) fn streamed(
    service: Service,
    output: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Response {
    answer(&format!("application/x-{}-result", service.name()), Body::from_stream(output))
}

/// The report of a push that git never got to see, in the form in which git itself reports.
pub(super) fn rejected(push: &Push, rejected: &[Rejected]) -> Response {
    let mut report = Vec::new();
    line(&mut report, b"unpack ok\n");
    for one in rejected {
        line(&mut report, format!("ng {} {}\n", one.name, one.reason).as_bytes());
    }
    report.extend_from_slice(b"0000");
    let body = if !push.can("report-status") && !push.can("report-status-v2") {
        Vec::new()
    } else if push.can("side-band-64k") {
        let mut body = Vec::new();
        for chunk in report.chunks(BAND_LIMIT) {
            line(&mut body, &[&[1], chunk].concat());
        }
        body.extend_from_slice(b"0000");
        body
    } else {
        report
    };
    answer("application/x-git-receive-pack-result", Body::from(body))
}

fn line(to: &mut Vec<u8>, content: &[u8]) {
    to.extend_from_slice(format!("{:04x}", content.len() + 4).as_bytes());
    to.extend_from_slice(content);
}
