//! Who we are to a forge. Nothing here shows itself in `Debug`.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A token or a password. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text; white space around it (the newline at the end of a file) does not belong to it.
    pub fn new(text: impl AsRef<str>) -> Secret {
        Secret(text.as_ref().trim().to_owned())
    }

    /// The text itself, for the request that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// How to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Not at all: public repositories can be read.
    None,
    /// With an access token.
    Token(Secret),
    /// With a user name and a password or token.
    Basic {
        /// The user's name.
        user: String,
        /// The user's password, or a token in its place.
        password: Secret,
    },
}

impl Credentials {
    /// The secret part, to keep it out of messages.
    pub(crate) fn secret(&self) -> Option<&str> {
        let text = match self {
            Credentials::None => return None,
            Credentials::Token(token) => token.expose(),
            Credentials::Basic { password, .. } => password.expose(),
        };
        (!text.is_empty()).then_some(text)
    }

    /// Tells one account's budget from another's on the same host.
    pub(crate) fn account(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        match self {
            Credentials::None => {}
            Credentials::Token(token) => token.expose().hash(&mut hasher),
            Credentials::Basic { user, password } => (user, password.expose()).hash(&mut hasher),
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_a_secret() {
        let basic = Credentials::Basic { user: "alice".to_owned(), password: Secret::new("s3cret") };
        for shown in [format!("{basic:?}"), format!("{:?}", Credentials::Token(Secret::new("s3cret")))] {
            assert!(!shown.contains("s3cret"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
        }
    }

    #[test]
    fn the_newline_at_the_end_of_a_file_is_no_part_of_a_token() {
        assert_eq!(Secret::new("abc\n").expose(), "abc");
    }
}
