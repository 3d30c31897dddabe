//! Answers: JSON from bytes that exist already, `Status` errors, warnings.

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use kardinal_apimodel::Status;
use serde_json::Value;

use super::Head;
use super::negotiate::Syntax;

/// Header values longer than this are cut: clients print warnings, they do not parse them.
const WARNING_LENGTH: usize = 500;

/// An answer with a JSON body that is serialised already.
pub(crate) fn json_bytes(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, HeaderValue::from_static("application/json"), Body::from(body.into()))
}

/// An answer with a JSON body.
pub(crate) fn json(code: StatusCode, value: &Value) -> Response<Body> {
    json_bytes(code, serde_json::to_vec(value).unwrap_or_default())
}

/// An answer of any type.
pub(crate) fn typed(code: StatusCode, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Plain text, for health probes.
pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, HeaderValue::from_static("text/plain; charset=utf-8"), Body::from(body.into()))
}

/// An error as Kubernetes clients expect it.
pub(crate) fn status(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &status.to_json());
    if status.retry_after_seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(status.retry_after_seconds));
    }
    response
}

/// An answer in the syntax and layout that the request asked for.
pub(crate) fn laid_out(code: StatusCode, bytes: Bytes, head: &Head) -> Response<Body> {
    let (bytes, content_type) = layout(bytes, head.syntax, head.pretty);
    typed(code, content_type, Body::from(bytes))
}

/// Writes JSON bytes in the syntax and layout the client asked for.
fn layout(bytes: Bytes, syntax: Syntax, pretty: bool) -> (Bytes, HeaderValue) {
    let json = HeaderValue::from_static("application/json");
    if syntax == Syntax::Json && !pretty {
        return (bytes, json);
    }
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return (bytes, json) };
    if syntax == Syntax::Yaml {
        return match serde_saphyr::to_string(&value) {
            Ok(text) => (text.into(), HeaderValue::from_static("application/yaml")),
            // JSON is YAML: nothing is lost when the writer cannot do better.
            Err(_) => (bytes, HeaderValue::from_static("application/yaml")),
        };
    }
    match serde_json::to_vec_pretty(&value) {
        Ok(text) => (text.into(), json),
        Err(_) => (bytes, json),
    }
}

/// Adds `Warning` headers in the form of RFC 7234, as kubectl prints them.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let mut text = String::with_capacity(warning.len() + 8);
        text.push_str("299 - \"");
        for c in warning.chars().take(WARNING_LENGTH) {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                c if c.is_control() => text.push(' '),
                c => text.push(c),
            }
        }
        text.push('"');
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_bounded() {
        let mut response = json(StatusCode::OK, &Value::Null);
        warn(
            &mut response,
            &["unknown field \"spec.x\"".to_owned(), "a\r\nb: c".to_owned(), "x".repeat(10_000)],
        );
        let values: Vec<String> = response
            .headers()
            .get_all(WARNING)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        assert_eq!(values[0], r#"299 - "unknown field \"spec.x\"""#);
        assert_eq!(values[1], r#"299 - "a  b: c""#);
        assert!(values[2].len() < 600);
    }

    #[test]
    fn errors_carry_code_and_retry_after() {
        let response = status(&Status::too_many_requests("slow down"));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn layouts() {
        let bytes = Bytes::from_static(br#"{"a":[1],"b":"x: y"}"#);
        assert_eq!(layout(bytes.clone(), Syntax::Json, false).0, bytes);
        assert!(layout(bytes.clone(), Syntax::Json, true).0.starts_with(b"{\n  \"a\""));
        let (yaml, kind) = layout(bytes.clone(), Syntax::Yaml, false);
        assert_eq!(kind, "application/yaml");
        let back: Value = serde_saphyr::from_slice(&yaml).unwrap();
        assert_eq!(back, serde_json::from_slice::<Value>(&bytes).unwrap());
    }
}
