//! `Status`: the one error type that the API answers with, worded as kube-apiserver words it.
//!
//! Clients match on `reason`, `code` and sometimes on the text, so the constructors below mirror
//! `k8s.io/apimachinery/pkg/api/errors`. Nothing here knows about objects or requests.

use std::ops::{Deref, DerefMut};

use serde_json::{Map, Value, json};

use crate::schema::FieldError;

/// Why a request failed, as the `reason` field of a `Status` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// 409: the name is taken.
    AlreadyExists,
    /// 400: the request itself is malformed.
    BadRequest,
    /// 409: a precondition (version, uid, field ownership) does not hold.
    Conflict,
    /// 410: the version asked for is no longer in the watch window.
    Expired,
    /// 403: understood and refused.
    Forbidden,
    /// 410: gone for good.
    Gone,
    /// 500: a fault of ours.
    InternalError,
    /// 422: the object breaks a rule of its kind.
    Invalid,
    /// 405: this resource does not have that verb.
    MethodNotAllowed,
    /// 406: none of the asked-for media types can be produced.
    NotAcceptable,
    /// 404: no such object or resource.
    NotFound,
    /// 413: the body is too large.
    RequestEntityTooLarge,
    /// 500: try again later.
    ServerTimeout,
    /// 503: not ready.
    ServiceUnavailable,
    /// 504: not done in time.
    Timeout,
    /// 429: slow down.
    TooManyRequests,
    /// 401: no valid credentials.
    Unauthorized,
    /// No reason given (kube leaves the field out).
    Unknown,
    /// 415: the body's media type is not understood.
    UnsupportedMediaType,
}

impl Reason {
    /// The text in the `reason` field; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::AlreadyExists => "AlreadyExists",
            Reason::BadRequest => "BadRequest",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::Forbidden => "Forbidden",
            Reason::Gone => "Gone",
            Reason::InternalError => "InternalError",
            Reason::Invalid => "Invalid",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::NotFound => "NotFound",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::Unauthorized => "Unauthorized",
            Reason::Unknown => "",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// `FieldValueInvalid`, `FieldManagerConflict`, …; left out when empty.
    pub reason: String,
    /// What is wrong, without the field's name.
    pub message: String,
    /// The field's path, left out when empty.
    pub field: String,
}

impl StatusCause {
    /// A cause about one field of an object.
    pub fn field(
        reason: impl Into<String>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> StatusCause {
        StatusCause { reason: reason.into(), message: message.into(), field: field.into() }
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "reason", &self.reason);
        put(&mut map, "message", &self.message);
        put(&mut map, "field", &self.field);
        Value::Object(map)
    }

    fn sentence(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// An error answer of the API.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The text that `kubectl` prints.
    pub message: String,
    details: Box<Details>,
}

/// The rest of a [`Status`], reached through it; apart so that an error stays small.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// `details.name`
    pub name: String,
    /// `details.group`
    pub group: String,
    /// `details.kind` (kube puts the resource here for most errors).
    pub kind: String,
    /// `details.uid`
    pub uid: String,
    /// `details.causes`
    pub causes: Vec<StatusCause>,
    /// `details.retryAfterSeconds`; the shell also sends it as a `Retry-After` header.
    pub retry_after_seconds: u32,
    /// A continue token that `metadata.continue` carries (an expired list can be resumed inconsistently).
    pub continue_token: String,
    /// Whether `details` is written even when it is empty, as kube does for answers that no object is to blame for.
    pub always: bool,
}

impl Deref for Status {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.details
    }
}

impl DerefMut for Status {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.details
    }
}

impl Status {
    /// An error with no details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Status {
        Status { code, reason, message: message.into(), details: Box::default() }
    }

    /// An error that concerns the request as such: its `details` are there and empty.
    pub fn generic(code: u16, reason: Reason, message: impl Into<String>) -> Status {
        let mut status = Status::new(code, reason, message);
        status.always = true;
        status
    }

    /// Adds `details.name/group/kind`; `resource` is `plural.group` (or `Kind.group`).
    #[must_use]
    pub fn about(mut self, resource: &str, name: &str) -> Status {
        let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.kind = kind.to_owned();
        self.group = group.to_owned();
        self.name = name.to_owned();
        self
    }

    /// Adds one cause.
    #[must_use]
    pub fn because(mut self, cause: StatusCause) -> Status {
        self.causes.push(cause);
        self
    }

    /// 404 for one object; `resource` is `plural.group`.
    pub fn not_found(resource: &str, name: &str) -> Status {
        Status::new(404, Reason::NotFound, format!("{resource} {} not found", quoted(name)))
            .about(resource, name)
    }

    /// 404 for a path that is not served at all.
    pub fn no_such_resource() -> Status {
        Status::generic(404, Reason::NotFound, "the server could not find the requested resource")
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &str, name: &str) -> Status {
        Status::new(409, Reason::AlreadyExists, format!("{resource} {} already exists", quoted(name)))
            .about(resource, name)
    }

    /// 409: generateName made a name that is taken.
    pub fn generate_name_conflict(resource: &str, name: &str) -> Status {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quoted(name)
        );
        let mut status = Status::new(409, Reason::AlreadyExists, message).about(resource, name);
        status.retry_after_seconds = 1;
        status
    }

    /// 409 with the given explanation.
    pub fn conflict(resource: &str, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Status::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// 409: the object changed since the client read it.
    pub fn modified(resource: &str, name: &str) -> Status {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(resource, name, why)
    }

    /// 403 with kube's sentence.
    pub fn forbidden(resource: &str, name: &str, why: &str) -> Status {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quoted(name))
        };
        Status::new(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 401
    pub fn unauthorized() -> Status {
        Status::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, Reason::BadRequest, message)
    }

    /// 422; `kind` is `Kind.group`.
    pub fn invalid(kind: &str, name: &str, causes: Vec<StatusCause>) -> Status {
        let mut sentences: Vec<String> = Vec::new();
        for cause in &causes {
            let sentence = cause.sentence();
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        let start = format!("{kind} {} is invalid", quoted(name));
        let message = match sentences.as_slice() {
            [] => start,
            [one] => format!("{start}: {one}"),
            many => format!("{start}: [{}]", many.join(", ")),
        };
        let mut status = Status::new(422, Reason::Invalid, message).about(kind, name);
        status.causes = causes;
        status
    }

    /// 422 from field errors; `kind` is `Kind.group`.
    pub fn invalid_fields(kind: &str, name: &str, errors: Vec<FieldError>) -> Status {
        let path =
            |error: &FieldError| if error.path.is_empty() { "<nil>".into() } else { error.path.clone() };
        let causes = errors.into_iter().map(|error| {
            let field = path(&error);
            StatusCause { reason: error.reason.as_str().into(), message: error.message, field }
        });
        Status::invalid(kind, name, causes.collect())
    }

    /// 410: the version is no longer available.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, Reason::Expired, message)
    }

    /// 410
    pub fn gone(message: impl Into<String>) -> Status {
        Status::new(410, Reason::Gone, message)
    }

    /// 504 as kube words a version from the future.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Status {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = StatusCause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let mut status = Status::new(504, Reason::Timeout, message).because(cause);
        status.retry_after_seconds = 1;
        status
    }

    /// 504
    pub fn timeout(message: &str) -> Status {
        Status::new(504, Reason::Timeout, format!("Timeout: {message}"))
    }

    /// 415; `accepted` lists the media types that are understood.
    pub fn unsupported_media_type(accepted: &[&str]) -> Status {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::new(415, Reason::UnsupportedMediaType, message)
    }

    /// 406; `accepted` lists the media types that can be produced.
    pub fn not_acceptable(accepted: &[&str]) -> Status {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::generic(406, Reason::NotAcceptable, message)
    }

    /// 413; `limit` in bytes.
    pub fn too_large(limit: usize) -> Status {
        let message = format!("Request entity too large: limit is {limit}");
        Status::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// 429
    pub fn too_many_requests(message: impl Into<String>) -> Status {
        let mut status = Status::new(429, Reason::TooManyRequests, message);
        status.retry_after_seconds = 1;
        status
    }

    /// 503
    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::new(503, Reason::ServiceUnavailable, message)
    }

    /// 500 with kube's prefix.
    pub fn internal(message: impl Into<String>) -> Status {
        let message = message.into();
        let cause = StatusCause { message: message.clone(), ..StatusCause::default() };
        Status::new(500, Reason::InternalError, format!("Internal error occurred: {message}")).because(cause)
    }

    /// The `Status` object of `v1`, with empty fields left out as kube leaves them out.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("kind".into(), "Status".into());
        map.insert("apiVersion".into(), "v1".into());
        let mut metadata = Map::new();
        put(&mut metadata, "continue", &self.continue_token);
        map.insert("metadata".into(), Value::Object(metadata));
        map.insert("status".into(), "Failure".into());
        put(&mut map, "message", &self.message);
        put(&mut map, "reason", self.reason.as_str());
        let details = self.details_map();
        if self.always || !details.is_empty() {
            map.insert("details".into(), Value::Object(details));
        }
        map.insert("code".into(), self.code.into());
        Value::Object(map)
    }

    fn details_map(&self) -> Map<String, Value> {
        let mut details = Map::new();
        put(&mut details, "name", &self.name);
        put(&mut details, "group", &self.group);
        put(&mut details, "kind", &self.kind);
        put(&mut details, "uid", &self.uid);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(StatusCause::to_json).collect();
            details.insert("causes".into(), Value::Array(causes));
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        details
    }
}

/// The answer to a delete that removed the object at once.
pub fn deleted(resource: &str, name: &str, uid: &str) -> Value {
    let (kind, group) = resource.split_once('.').unwrap_or((resource, ""));
    let mut details = Map::new();
    put(&mut details, "name", name);
    put(&mut details, "group", group);
    put(&mut details, "kind", kind);
    put(&mut details, "uid", uid);
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// A string in Go's `%q` form.
pub fn quoted(text: &str) -> String {
    crate::schema::quote(text)
}

fn put(map: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        map.insert(key.into(), text.into());
    }
}
