//! Continue tokens: opaque to clients, in kube's own form.
//!
//! A token names the version of the snapshot that the list began with and the place to go on from. Every text that a
//! client may send decodes to a token or to kube's 400.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::status::Status;

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The version of the snapshot; `None` means "whatever is current" (an inconsistent continuation).
    pub rv: Option<u64>,
    /// The place of the last item that was shown.
    pub after: String,
}

impl Token {
    /// The text for `metadata.continue`.
    pub fn encode(&self) -> String {
        let rv = self.rv.map_or(-1, |rv| i64::try_from(rv).unwrap_or(i64::MAX));
        let body = json!({"v": "meta.k8s.io/v1", "rv": rv, "start": format!("{}\u{0}", self.after)});
        URL_SAFE_NO_PAD.encode(body.to_string())
    }

    /// Reads a `continue` parameter.
    pub fn decode(text: &str) -> Result<Token, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        };
        let data = URL_SAFE_NO_PAD.decode(text).map_err(|e| bad(&format!(": {e}")))?;
        let body: Value = serde_json::from_slice(&data).map_err(|e| bad(&format!(": {e}")))?;
        let version = body.get("v").and_then(Value::as_str).unwrap_or_default();
        if version != "meta.k8s.io/v1" {
            return Err(bad(&format!(": server does not recognize this encoded version {version}")));
        }
        let rv = body.get("rv").and_then(Value::as_i64).unwrap_or_default();
        if rv == 0 {
            return Err(bad(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let start = body.get("start").and_then(Value::as_str).unwrap_or_default();
        if start.is_empty() {
            return Err(bad(": encoded start key empty (version meta.k8s.io/v1)"));
        }
        let climbs = start.split('/').any(|part| matches!(part, "" | "." | ".."));
        if climbs {
            return Err(bad(&format!(": {start}")));
        }
        let after = start.strip_suffix('\u{0}').unwrap_or(start).to_owned();
        Ok(Token { rv: u64::try_from(rv).ok(), after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_trip() {
        for (rv, after) in [(Some(7), "default/a"), (None, "a"), (Some(u64::from(u32::MAX)), "x/y.z")] {
            let token = Token { rv, after: after.into() };
            assert_eq!(Token::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn bad_tokens_are_refused_as_kube_refuses_them() {
        let check = |json: &str, message: &str| {
            let status = Token::decode(&URL_SAFE_NO_PAD.encode(json)).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (400, message));
        };
        check(
            r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#,
            "invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        );
        check(
            r#"{"v":"meta.k8s.io/v1","rv":5}"#,
            "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
        );
        check(
            r#"{"v":"v9","rv":5,"start":"a"}"#,
            "invalid continue token: continue key is not valid: server does not recognize this encoded version v9",
        );
        check(
            r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#,
            "invalid continue token: continue key is not valid: ../a",
        );
        for text in ["!!", "bm90IGpzb24", "", "%00", "W10"] {
            assert_eq!(Token::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}
