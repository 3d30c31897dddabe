//! The admin's bearer token and the kubeconfig that carries it.
//!
//! The token never appears in a log or in an error.

use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::files::{read_optional, write_private};

/// A bearer token; its text is only shown to the kubeconfig.
#[derive(Clone)]
pub(crate) struct Token {
    text: String,
    digest: [u8; 32],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    pub(crate) fn new(text: String) -> Token {
        let digest = Sha256::digest(text.as_bytes()).into();
        Token { text, digest }
    }

    /// A token of 256 random bits.
    pub(crate) fn random() -> Result<Token, Error> {
        let mut bytes = [0u8; 32];
        rustls::crypto::ring::default_provider()
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| Error::Random("the generator failed".to_owned()))?;
        Ok(Token::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The directory's token, made on first use.
    pub(crate) fn load_or_create(dir: &Path) -> Result<Token, Error> {
        let path = dir.join("token");
        if let Some(text) = read_optional(&path)? {
            let text = text.trim();
            // A token that is too short was cut off or put there by hand: never weaken the door because of it.
            if text.len() >= 32 {
                return Ok(Token::new(text.to_owned()));
            }
        }
        let token = Token::random()?;
        write_private(&path, token.text.as_bytes())?;
        Ok(token)
    }

    /// Whether an `Authorization` header carries this token. Both sides are hashed first and all bytes of the hashes
    /// are compared, so the time it takes says nothing about the token.
    pub(crate) fn accepts(&self, authorization: &[u8]) -> bool {
        let Some((scheme, given)) = authorization.split_at_checked(7) else { return false };
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return false;
        }
        let digest: [u8; 32] = Sha256::digest(given.trim_ascii()).into();
        let difference = digest.iter().zip(&self.digest).fold(0u8, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

/// The text of a kubeconfig for the admin.
pub(crate) fn kubeconfig(address: SocketAddr, ca_pem: &str, token: &Token) -> String {
    // A wildcard address is no address to connect to; the certificate names loopback.
    let host = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => "127.0.0.1".to_owned(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => "[::1]".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: kardinal\n  \
           cluster:\n    \
             server: https://{host}:{port}\n    \
             certificate-authority-data: {ca}\n\
         users:\n\
         - name: kardinal-admin\n  \
           user:\n    \
             token: {token}\n\
         contexts:\n\
         - name: kardinal\n  \
           context:\n    \
             cluster: kardinal\n    \
             user: kardinal-admin\n    \
             namespace: default\n\
         current-context: kardinal\n",
        port = address.port(),
        ca = STANDARD.encode(ca_pem),
        token = token.text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, accepted: bool) {
        assert_eq!(Token::new("s3cret".into()).accepts(header.as_bytes()), accepted, "{header}");
    }

    #[test]
    fn only_the_exact_token_is_accepted() {
        check("Bearer s3cret", true);
        check("bearer s3cret", true);
        check("Bearer  s3cret ", true);
        check("Bearer s3cre", false);
        check("Bearer s3crett", false);
        check("Basic s3cret", false);
        check("s3cret", false);
        check("Bearer", false);
        check("", false);
    }

    #[test]
    fn a_token_is_kept_between_starts_and_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let first = Token::load_or_create(dir.path()).unwrap();
        let second = Token::load_or_create(dir.path()).unwrap();
        assert_eq!(first.text, second.text);
        assert!(first.text.len() >= 43);
        assert!(!format!("{first:?}").contains(&first.text));
        std::fs::write(dir.path().join("token"), "short").unwrap();
        assert!(Token::load_or_create(dir.path()).unwrap().text.len() >= 43);
    }
}
