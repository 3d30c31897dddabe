//! Where a repository is.

use std::fmt;

use crate::{Credentials, Secret};

/// A repository and the way into it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Remote {
    /// `https://…`, `http://…`, `file://…`, an absolute path, `ssh://…` or `git@host:path`.
    pub url: String,
    /// How to get in. User and password in the URL are used when this is `None`.
    pub credentials: Credentials,
    /// Certificates to trust besides the system's, in PEM.
    pub ca: Option<Vec<u8>>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("url", &take_credentials(&self.url).0)
            .field("credentials", &self.credentials)
            .field("ca", &self.ca.as_ref().map(Vec::len))
            .finish()
    }
}

/// Takes user and password out of a URL.
pub fn take_credentials(url: &str) -> (String, Credentials) {
    let Some((scheme, rest)) = url.split_once("://") else { return (url.to_owned(), Credentials::None) };
    if scheme == "file" {
        return (url.to_owned(), Credentials::None);
    }
    // A query is no part of a repository's address, but people put tokens there.
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let url = &format!("{scheme}://{rest}");
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let Some((info, host)) = authority.rsplit_once('@') else {
        return (url.to_owned(), Credentials::None);
    };
    if scheme == "ssh" {
        // The user belongs to the address; a password would not be used.
        let user = info.split(':').next().unwrap_or_default();
        return (format!("{scheme}://{user}@{host}{path}"), Credentials::None);
    }
    let credentials = match info.split_once(':') {
        Some((user, password)) if !password.is_empty() => {
            Credentials::Basic { user: decode(user), password: Secret::from(decode(password)) }
        }
        _ => Credentials::Token(Secret::from(decode(info.trim_end_matches(':')))),
    };
    (format!("{scheme}://{host}{path}"), credentials)
}

/// Undoes percent encoding; what is not valid stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_url_is_taken_out_and_never_shown() {
        let token = |text: &str| Credentials::Token(text.into());
        let basic = Credentials::Basic { user: "alice".to_owned(), password: "p@ss".into() };
        for (url, plain, credentials) in [
            ("https://example.com/x", "https://example.com/x", Credentials::None),
            ("https://alice:p%40ss@example.com/x", "https://example.com/x", basic),
            ("https://p%40ss:@example.com/x", "https://example.com/x", token("p@ss")),
            ("https://example.com/x?token=p@ss", "https://example.com/x", Credentials::None),
            ("ssh://git:p@ss@example.com/x", "ssh://git@example.com/x", Credentials::None),
            ("file:///srv/a@b", "file:///srv/a@b", Credentials::None),
            ("git@example.com:a/b", "git@example.com:a/b", Credentials::None),
        ] {
            assert_eq!(take_credentials(url), (plain.to_owned(), credentials.clone()), "{url}");
            let shown = format!("{:?}", Remote { url: url.to_owned(), credentials, ca: None });
            assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
        }
    }
}
