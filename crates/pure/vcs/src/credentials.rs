//! How to get in. Nothing here shows a secret, whichever way it is printed.

use std::fmt;

/// A text that must not be seen: it prints as `***`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to get into a repository or its forge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// Anonymously.
    #[default]
    None,
    /// With an access token, as every forge takes it: the password of any user.
    Token(Secret),
    /// Over SSH, with a key of its own. It opens repositories only, and no forge's API.
    Ssh {
        /// The private key, as OpenSSH writes it.
        key: Secret,
        /// The lines of `known_hosts` for the remote. Without them, those of the system decide.
        known_hosts: Option<String>,
    },
    /// With a user name and a password or token.
    Basic {
        /// The user name.
        user: String,
        /// The password, or a token in its place.
        password: Secret,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let password = || Secret::new("s3cret");
        let all = [
            Credentials::Token(password()),
            Credentials::Basic { user: "alice".to_owned(), password: password() },
            Credentials::Ssh { key: password(), known_hosts: None },
        ];
        for shown in all.iter().map(|one| format!("{one:?}")).chain([password().to_string()]) {
            assert!(!shown.contains("s3cret"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
        }
    }
}
