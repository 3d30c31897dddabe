//! Deliveries from forges: who sent it is proved before what it says is read.
//!
//! An event is a hint that something changed; what is true is then asked from the forge. So a delivery that is lost,
//! repeated or late does no harm.

mod event;
mod seen;

use ::http::HeaderMap;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kardinal_api::kardinal::GitProvider;
use sha2::Sha256;

pub use self::event::{Action, Event, Verdict};
pub use self::seen::Seen;

/// How large a delivery may be. A push of thousands of commits stays below it.
pub const MAX_BODY: usize = 5 * 1024 * 1024;

/// A delivery whose sender knows the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The forge's own number for it. Not signed: somebody who repeats a delivery can change it.
    pub id: String,
    /// The signature of the body, which nobody can change.
    pub fingerprint: String,
    /// The kind of forge that sent it.
    pub provider: GitProvider,
    /// What happened.
    pub event: Event,
}

/// Why a delivery is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// We have no secret, so nobody can prove anything.
    #[error("no webhook secret is configured: without one every delivery is refused")]
    NoSecret,
    /// It has no signature.
    #[error("the delivery is not signed: set the webhook's secret on the forge")]
    Unsigned,
    /// Its signature is not made with our secret.
    #[error("the delivery's signature is wrong: the webhook's secret on the forge differs from ours")]
    BadSignature,
    /// It is larger than [`MAX_BODY`].
    #[error("the delivery is larger than {MAX_BODY} bytes")]
    TooLarge,
    /// It is signed, but not what a forge sends.
    #[error("the delivery cannot be understood: {0}")]
    Malformed(String),
}

/// Where each kind of forge puts things; the most specific first, since Forgejo also sends Gitea's headers and both
/// also send GitHub's.
const DIALECTS: [Dialect; 3] = [
    Dialect { provider: GitProvider::Forgejo, event: "x-forgejo-event", delivery: "x-forgejo-delivery" },
    Dialect { provider: GitProvider::Gitea, event: "x-gitea-event", delivery: "x-gitea-delivery" },
    Dialect { provider: GitProvider::Github, event: "x-github-event", delivery: "x-github-delivery" },
];

struct Dialect {
    provider: GitProvider,
    event: &'static str,
    delivery: &'static str,
}

/// Whether a delivery has a signature that could be right. Its body need not be read if it has none.
pub fn check_signed(headers: &HeaderMap) -> Result<(), Rejected> {
    signature(headers).map(|_| ())
}

/// Proves that the sender knows the secret, in constant time, and then reads the event.
pub fn verify(headers: &HeaderMap, body: &[u8], secret: &[u8]) -> Result<Delivery, Rejected> {
    if secret.is_empty() {
        return Err(Rejected::NoSecret);
    }
    if body.len() > MAX_BODY {
        return Err(Rejected::TooLarge);
    }
    let signature = signature(headers)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| Rejected::NoSecret)?;
    mac.update(body);
    mac.verify_slice(&signature).map_err(|_| Rejected::BadSignature)?;

    let dialect = DIALECTS.iter().find(|dialect| headers.contains_key(dialect.event));
    let dialect = dialect.ok_or_else(|| Rejected::Malformed("no header names the event".to_owned()))?;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = header(dialect.delivery).to_owned();
    if id.is_empty() {
        return Err(Rejected::Malformed(format!("the header `{}` is missing", dialect.delivery)));
    }
    if header("content-type").starts_with("application/x-www-form-urlencoded") {
        return Err(Rejected::Malformed("set the webhook's content type to `application/json`".to_owned()));
    }
    let event = event::read(header(dialect.event), body)?;
    let fingerprint = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Delivery { id, fingerprint, provider: dialect.provider, event })
}

/// The signature that came with the delivery. The first header that is there decides: a wrong one is not made good
/// by another.
fn signature(headers: &HeaderMap) -> Result<Vec<u8>, Rejected> {
    for name in ["x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"] {
        let Some(value) = headers.get(name) else { continue };
        let text = value.to_str().map_err(|_| Rejected::BadSignature)?;
        // Without a secret on its side Gitea sends the header empty.
        if text.is_empty() || text == "sha256=" {
            return Err(Rejected::Unsigned);
        }
        let digits = match (name, text.strip_prefix("sha256=")) {
            (_, Some(digits)) => digits,
            ("x-hub-signature-256", None) => return Err(Rejected::BadSignature),
            (_, None) => text,
        };
        return from_hex(digits).ok_or(Rejected::BadSignature);
    }
    Err(Rejected::Unsigned)
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
