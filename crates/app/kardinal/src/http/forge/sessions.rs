//! Browsers that were signed in: `kardinal pr open` gets a code that works once, the browser gets a session for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};

use crate::http::keys::random;

const COOKIE: &str = "kardinal-session";
/// How long a code may be on its way into a browser.
const CODE: Duration = Duration::from_secs(60);
/// How long a browser stays signed in.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// So many codes, and so many sessions, are good at a time; the oldest gives way.
const REMEMBERED: usize = 1000;

/// Codes and sessions, in memory only: a restart signs everybody out.
#[derive(Default)]
pub(crate) struct Sessions {
    codes: Mutex<Secrets>,
    sessions: Mutex<Secrets>,
}

/// By their hashes, with the time until which they hold: what is looked up tells nothing by how long it takes.
type Secrets = BTreeMap<[u8; 32], Instant>;

impl Sessions {
    /// A code that works once.
    pub(in crate::http) fn code(&self, now: Instant) -> String {
        add(&self.codes, now, CODE)
    }

    /// A session for a code, which is then used up.
    pub(in crate::http) fn redeem(&self, code: &str, now: Instant) -> Option<String> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let until = codes.remove(&hash(code))?;
        drop(codes);
        (now < until).then(|| add(&self.sessions, now, SESSION))
    }

    /// Whether a request comes from a browser that was signed in.
    pub(in crate::http) fn admit(&self, headers: &HeaderMap, now: Instant) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        cookies(headers).any(|cookie| sessions.get(&hash(cookie)).is_some_and(|until| now < *until))
    }
}

/// What the browser shall keep: no script reads it, no other site sends it.
pub(in crate::http) fn cookie(session: &str) -> String {
    format!("{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/forge; Max-Age={}", SESSION.as_secs())
}

fn add(secrets: &Mutex<Secrets>, now: Instant, lifetime: Duration) -> String {
    let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.retain(|_, until| now < *until);
    if secrets.len() >= REMEMBERED {
        let oldest = secrets.iter().min_by_key(|(_, until)| **until).map(|(hash, _)| *hash);
        oldest.and_then(|oldest| secrets.remove(&oldest));
    }
    let secret = random();
    secrets.insert(hash(&secret), now + lifetime);
    secret
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, cookie.parse().unwrap())])
    }

    #[test]
    fn a_code_works_once_and_for_a_minute() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let (used, late) = (sessions.code(now), sessions.code(now));
        let session = sessions.redeem(&used, now).unwrap();
        assert!(sessions.redeem(&used, now).is_none(), "it was used");
        assert!(sessions.redeem(&late, now + CODE).is_none(), "it is too old");
        assert!(sessions.redeem("guessed", now).is_none());
        let sent = with(&format!("other=1; {COOKIE}={session}"));
        assert!(sessions.admit(&sent, now) && !sessions.admit(&sent, now + SESSION));
        assert!(!sessions.admit(&with(&format!("{COOKIE}={used}")), now), "a code is no session");
        assert!(!sessions.admit(&HeaderMap::new(), now));
    }

    #[test]
    fn a_flood_of_codes_keeps_no_more_than_so_many() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        for _ in 0..REMEMBERED + 10 {
            sessions.code(now);
        }
        assert_eq!(sessions.codes.lock().unwrap().len(), REMEMBERED);
    }
}
