//! What CI proves: who calls, that the request is theirs, and that it was made just now.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::http::keys::bearer;

/// The header that signs the request.
const SIGNATURE: &str = "x-kardinal-signature";
/// When the request was made, in seconds since 1970.
const TIMESTAMP: &str = "x-kardinal-timestamp";
/// Asking twice with the same key makes one Bundle.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What is signed first: a signature for this place is good for no other.
const PLACE: &str = "POST\n/api/v1/bundles\n";
/// How far the caller's clock may be from ours.
const WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// So many requests without a key are remembered; a flood of more forgets the oldest.
const REMEMBERED: usize = 20_000;

/// A token and the key that goes with it. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::http) struct CiKey {
    pub(in crate::http) token: String,
    pub(in crate::http) signing_key: String,
}

impl CiKey {
    /// Both or nothing.
    pub(in crate::http) fn pair(token: Option<String>, signing_key: Option<String>) -> Option<CiKey> {
        Some(CiKey { token: token?, signing_key: signing_key? })
    }
}

/// Why the head of a request claims nothing.
#[derive(Debug)]
pub(in crate::http) enum NoClaim {
    /// A part of the proof is missing, wrong or of another time.
    Unproved(String),
    /// There is an idempotency key that says nothing. Signed it would look like none.
    Key,
}

impl From<&str> for NoClaim {
    fn from(message: &str) -> NoClaim {
        NoClaim::Unproved(message.to_owned())
    }
}

/// What the head of a request claims; nothing of it is proved yet.
pub(in crate::http) struct Claim<'a> {
    token: &'a str,
    timestamp: &'a str,
    /// When the request was made.
    pub(in crate::http) made: Timestamp,
    /// The idempotency key; it is not empty.
    pub(in crate::http) key: Option<&'a str>,
    signature: Vec<u8>,
}

impl<'a> Claim<'a> {
    /// Reads the head. Whatever lacks a part or is of another time is refused before its body is read.
    pub(in crate::http) fn of(headers: &'a HeaderMap, now: Timestamp) -> Result<Claim<'a>, NoClaim> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let token = bearer(headers).filter(|token| !token.is_empty());
        let token = token.ok_or("the bearer token is missing")?;
        let timestamp = text(TIMESTAMP).unwrap_or_default();
        let made = timestamp.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let made = made.ok_or(
            "`X-Kardinal-Timestamp` must be the time of the request in seconds since 1970, as `date +%s` prints it",
        )?;
        if now.duration_since(made).abs() > WINDOW {
            return Err(NoClaim::Unproved(format!(
                "`X-Kardinal-Timestamp` is more than {} minutes away from our clock, which says {}",
                WINDOW.as_mins(),
                now.as_second()
            )));
        }
        let signature = text(SIGNATURE).and_then(|text| unhex(text.strip_prefix("sha256=")?));
        let signature = signature.filter(|signature| !signature.is_empty()).ok_or(WRONG_SIGNATURE)?;
        let key = text(IDEMPOTENCY_KEY);
        if key.is_some_and(str::is_empty) {
            return Err(NoClaim::Key);
        }
        Ok(Claim { token, timestamp, made, key, signature })
    }

    /// Whether one of these keys has made the request, with this very body.
    pub(in crate::http) fn is_proved_by(&self, keys: &[CiKey], body: &[u8]) -> Result<bool, &'static str> {
        let is_own = |key: &&CiKey| key.token.as_bytes().ct_eq(self.token.as_bytes()).into();
        let own: Vec<&CiKey> = keys.iter().filter(is_own).collect();
        match (own.is_empty(), own.iter().any(|key| self.is_signed_with(&key.signing_key, body))) {
            (true, _) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => Err(WRONG_SIGNATURE),
        }
    }

    fn is_signed_with(&self, key: &str, body: &[u8]) -> bool {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { return false };
        for part in [PLACE, self.timestamp, "\n", self.key.unwrap_or_default(), "\n"] {
            mac.update(part.as_bytes());
        }
        mac.update(body);
        mac.verify_slice(&self.signature).is_ok()
    }
}

const WRONG_SIGNATURE: &str = "`X-Kardinal-Signature: sha256=<hex>` must be the HMAC-SHA256 with the signing key of \
     `POST`, `/api/v1/bundles`, the timestamp and the idempotency key, each with a newline after it, and the body";

/// Requests without an idempotency key, as long as their signature holds: a copy of one must not make another Bundle.
#[derive(Default)]
pub(crate) struct Copies {
    seen: Mutex<BTreeMap<Vec<u8>, Timestamp>>,
}

impl Copies {
    /// Whether a request is here for the first time. From now on it is not.
    pub(in crate::http) fn is_first(&self, claim: &Claim<'_>, now: Timestamp) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Twice the window: the caller's clock may be ahead by one.
        seen.retain(|_, at| now.duration_since(*at) <= WINDOW * 2);
        if seen.len() >= REMEMBERED {
            let oldest = seen.iter().min_by_key(|(_, at)| **at).map(|(signature, _)| signature.clone());
            oldest.and_then(|oldest| seen.remove(&oldest));
        }
        seen.insert(claim.signature.clone(), now).is_none()
    }

    /// Nothing came of it, so the same request may come again.
    pub(in crate::http) fn forget(&self, claim: &Claim<'_>) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&claim.signature);
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    fn key(name: &str) -> CiKey {
        CiKey { token: format!("{name}-token"), signing_key: format!("{name}-key") }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// The head of a request as CI makes it.
    fn head(by: &CiKey, made: i64, idempotency: &str, body: &str) -> HeaderMap {
        let mut mac = Hmac::<Sha256>::new_from_slice(by.signing_key.as_bytes()).unwrap();
        mac.update(format!("POST\n/api/v1/bundles\n{made}\n{idempotency}\n{body}").as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: String| {
            headers.insert(name, value.parse().unwrap());
        };
        set("authorization", format!("Bearer {}", by.token));
        set(TIMESTAMP, made.to_string());
        set(SIGNATURE, format!("sha256={hex}"));
        if !idempotency.is_empty() {
            set(IDEMPOTENCY_KEY, idempotency.to_owned());
        }
        headers
    }

    fn proved(headers: &HeaderMap, keys: &[CiKey], body: &str) -> Result<bool, String> {
        let claim = Claim::of(headers, at(NOW)).map_err(|error| match error {
            NoClaim::Unproved(message) => message,
            NoClaim::Key => "the key".to_owned(),
        })?;
        claim.is_proved_by(keys, body.as_bytes()).map_err(str::to_owned)
    }

    #[test]
    fn the_timestamp_is_signed_and_holds_for_five_minutes() {
        let ci = key("ci");
        for made in [NOW, NOW - 300, NOW + 300] {
            assert_eq!(
                proved(&head(&ci, made, "", "{}"), std::slice::from_ref(&ci), "{}"),
                Ok(true),
                "{made}"
            );
        }
        for made in [NOW - 301, NOW + 301, 0] {
            let refused = proved(&head(&ci, made, "", "{}"), std::slice::from_ref(&ci), "{}").unwrap_err();
            assert!(refused.contains("5 minutes") && refused.contains(&NOW.to_string()), "{refused}");
        }
        // An old request with a new time.
        let mut renewed = head(&ci, NOW - 4000, "", "{}");
        renewed.insert(TIMESTAMP, NOW.into());
        assert_eq!(proved(&renewed, std::slice::from_ref(&ci), "{}"), Err(WRONG_SIGNATURE.to_owned()));
        for wrong in ["", "x", "1e9", "99999999999999999999"] {
            renewed.insert(TIMESTAMP, wrong.parse().unwrap());
            assert!(proved(&renewed, &[], "{}").unwrap_err().contains("date +%s"), "{wrong}");
        }
    }

    #[test]
    fn the_idempotency_key_is_signed() {
        let ci = key("ci");
        let keys = [ci.clone()];
        let mut headers = head(&ci, NOW, "run-1", "{}");
        assert_eq!(proved(&headers, &keys, "{}"), Ok(true));
        headers.insert(IDEMPOTENCY_KEY, "run-2".parse().unwrap());
        assert!(proved(&headers, &keys, "{}").is_err(), "another key makes another Bundle");
        headers.remove(IDEMPOTENCY_KEY);
        assert!(proved(&headers, &keys, "{}").is_err(), "without the key, too");
        let bare = head(&ci, NOW, "", "{}");
        assert_eq!(proved(&bare, &keys, "{} "), Err(WRONG_SIGNATURE.to_owned()), "another body");
    }

    #[test]
    fn a_key_that_is_empty_or_cannot_be_read_is_not_the_same_as_none() {
        let mut headers = head(&key("ci"), NOW, "", "{}");
        for nothing in [&b""[..], b"\xc3\xa4", b"\xff"] {
            headers.insert(IDEMPOTENCY_KEY, http::HeaderValue::from_bytes(nothing).unwrap());
            assert!(matches!(Claim::of(&headers, at(NOW)), Err(NoClaim::Key)), "{nothing:?}");
        }
    }

    #[test]
    fn a_token_goes_with_its_own_signing_key() {
        let (new, old) = (key("new"), key("old"));
        let keys = [new.clone(), old.clone()];
        for by in &keys {
            assert_eq!(proved(&head(by, NOW, "", "{}"), &keys, "{}"), Ok(true));
        }
        let mixed = CiKey { token: new.token.clone(), signing_key: old.signing_key };
        assert!(proved(&head(&mixed, NOW, "", "{}"), &keys, "{}").is_err());
        assert_eq!(proved(&head(&key("other"), NOW, "", "{}"), &keys, "{}"), Ok(false));
    }

    #[test]
    fn a_copy_is_known_as_long_as_it_could_pass() {
        let (copies, ci) = (Copies::default(), key("ci"));
        let headers = head(&ci, NOW, "", "{}");
        let claim = Claim::of(&headers, at(NOW)).ok().unwrap();
        assert!(copies.is_first(&claim, at(NOW)));
        assert!(!copies.is_first(&claim, at(NOW + 300)));
        copies.forget(&claim);
        assert!(copies.is_first(&claim, at(NOW + 300)));
    }
}
