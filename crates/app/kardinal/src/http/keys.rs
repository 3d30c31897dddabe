//! The secrets of the web side: made once, kept where only the owner reads them.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// What callers must know.
#[derive(Clone)]
pub(crate) struct Keys {
    /// The bearer token of `/api/v1` and `/git`.
    pub(crate) token: String,
    /// Signs the bodies that go to `/api/v1`.
    pub(crate) signing_key: String,
    /// Signs webhooks.
    pub(crate) webhook_secret: String,
}

impl Keys {
    /// Those of a data directory, made on first use.
    pub(crate) fn of_directory(directory: &Path) -> anyhow::Result<Keys> {
        Ok(Keys {
            token: read_or_make(&directory.join("api-token"))?,
            signing_key: read_or_make(&directory.join("api-signing-key"))?,
            webhook_secret: read_or_make(&directory.join("webhook-secret"))?,
        })
    }

    /// Those of the environment, as a cluster's Secret sets them. A missing one is random: nobody knows it.
    pub(crate) fn of_environment() -> Keys {
        let read = |name: &str| {
            let set = std::env::var(name).ok().filter(|text| !text.is_empty());
            set.unwrap_or_else(|| {
                tracing::warn!("{name} is not set: nobody gets in where it is asked for");
                random()
            })
        };
        Keys {
            token: read("KARDINAL_API_TOKEN"),
            signing_key: read("KARDINAL_API_SIGNING_KEY"),
            webhook_secret: read("KARDINAL_WEBHOOK_SECRET"),
        }
    }

    /// Whether a bearer token is ours; takes as long for a wrong one as for a right one.
    pub(crate) fn admits(&self, token: &str) -> bool {
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// Whether a body is signed with our key: `sha256=<hex>`.
    pub(crate) fn signed(&self, body: &[u8], signature: &str) -> bool {
        let Some(expected) = signature.strip_prefix("sha256=").and_then(unhex) else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.signing_key.as_bytes()) else { return false };
        mac.update(body);
        mac.verify_slice(&expected).is_ok()
    }
}

/// The token of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &http::HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn random() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// Whoever comes second reads what the first one wrote.
fn read_or_make(path: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
    let text = random();
    let made = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    made.and_then(|mut file| writeln!(file, "{text}").and_then(|()| file.sync_all()))
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let first = Keys::of_directory(dir.path()).unwrap();
        let second = Keys::of_directory(dir.path()).unwrap();
        assert!(first.token == second.token && first.signing_key == second.signing_key);
        assert!(first.token.len() == 64 && first.token != first.signing_key);
        let mode = std::fs::metadata(dir.path().join("api-token")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn only_the_right_signature_counts() {
        let key = |text: &str| text.to_owned();
        let keys = Keys { token: key("t"), signing_key: key("key"), webhook_secret: key("w") };
        let mut mac = Hmac::<Sha256>::new_from_slice(b"key").unwrap();
        mac.update(b"body");
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(keys.signed(b"body", &format!("sha256={hex}")));
        for wrong in ["", "sha256=", "sha256=zz", "sha256=+a", &hex, &format!("sha1={hex}")] {
            assert!(!keys.signed(b"body", wrong), "{wrong}");
        }
        assert!(!keys.signed(b"bodY", &format!("sha256={hex}")));
        assert!(keys.admits("t") && !keys.admits("") && !keys.admits("tt"));
    }
}
