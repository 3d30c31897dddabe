//! What a forge's API takes of the credentials. A key for SSH opens none.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kardinal_vcs::{Credentials, Secret};

/// A secret as it is sent: white space around it (the newline at the end of a file) does not belong to it.
pub(crate) fn plain(secret: &Secret) -> &str {
    secret.reveal().trim()
}

/// The secret part, to keep it out of messages.
pub(crate) fn secret(credentials: &Credentials) -> Option<&str> {
    let text = match credentials {
        Credentials::None | Credentials::Ssh { .. } => return None,
        Credentials::Token(token) => plain(token),
        Credentials::Basic { password, .. } => plain(password),
    };
    (!text.is_empty()).then_some(text)
}

/// Tells one account's budget from another's on the same host.
pub(crate) fn account(credentials: &Credentials) -> u64 {
    let mut hasher = DefaultHasher::new();
    match credentials {
        Credentials::None | Credentials::Ssh { .. } => {}
        Credentials::Token(token) => plain(token).hash(&mut hasher),
        Credentials::Basic { user, password } => (user, plain(password)).hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newline_at_the_end_of_a_file_is_no_part_of_a_token() {
        let token = |text: &str| Credentials::Token(text.into());
        assert_eq!(secret(&token("abc\n")), Some("abc"));
        assert_eq!(account(&token("abc\n")), account(&token("abc")));
        assert_eq!(plain(&Secret::new(" abc\n")), "abc");
    }

    #[test]
    fn a_key_for_ssh_is_no_account_of_a_forge() {
        let key = Credentials::Ssh { key: "key".into(), known_hosts: None };
        assert_eq!((secret(&key), account(&key)), (None, account(&Credentials::None)));
    }
}
