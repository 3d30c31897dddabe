//! An answer of a forge, whatever it says.

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::Error;

/// How much of a forge's message is worth repeating.
const MESSAGE: usize = 300;

/// Status, headers and body.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body, read as this type.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::fault(format!("the forge's answer cannot be understood: {error}")))
    }

    /// What the forge says about a refusal, in one line.
    pub(crate) fn message(&self) -> String {
        let Ok(Value::Object(body)) = serde_json::from_slice(&self.body) else {
            return self.status.canonical_reason().unwrap_or("no reason given").to_owned();
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(body.get("message").and_then(Value::as_str).map(str::to_owned));
        for error in body.get("errors").and_then(Value::as_array).into_iter().flatten() {
            let text = error.as_str().or_else(|| error.get("message").and_then(Value::as_str));
            parts.extend(text.map(str::to_owned));
        }
        if parts.is_empty() {
            return self.status.canonical_reason().unwrap_or("no reason given").to_owned();
        }
        let line: String = parts.join(": ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        line.trim().chars().take(MESSAGE).collect()
    }

    /// Whether the `Link` header names a next page.
    pub(crate) fn has_next_page(&self) -> bool {
        let links = self.headers.get_all(::http::header::LINK);
        links.iter().filter_map(|link| link.to_str().ok()).any(|link| {
            link.split(',').any(|part| part.split(';').any(|attribute| attribute.trim() == "rel=\"next\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Answer {
        Answer {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    #[test]
    fn a_refusal_says_why_in_one_short_line() {
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(5000));
        let cases = [
            (
                r#"{"message":"Validation Failed","errors":[{"message":"exists"}]}"#,
                "Validation Failed: exists",
            ),
            (r#"{"message":"a\nb","errors":["c"]}"#, "a b: c"),
            ("<html>login</html>", "Unprocessable Entity"),
            ("{}", "Unprocessable Entity"),
            ("", "Unprocessable Entity"),
        ];
        for (body, message) in cases {
            assert_eq!(answer(body).message(), message);
        }
        assert_eq!(answer(&long).message().len(), MESSAGE);
    }

    #[test]
    fn the_next_page_is_seen() {
        let mut page = answer("");
        assert!(!page.has_next_page());
        let last = r#"<https://x/?page=1>; rel="prev", <https://x/?page=1>; rel="first""#;
        page.headers.insert("link", last.parse().unwrap());
        assert!(!page.has_next_page());
        let middle = r#"<https://x/?page=1>; rel="prev", <https://x/?page=3>; rel="next""#;
        page.headers.insert("link", middle.parse().unwrap());
        assert!(page.has_next_page());
    }
}
