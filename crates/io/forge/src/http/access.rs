//! Who asks: the token of a request, and what the owner of the forge says about it.

use http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::commands::RefChange;

/// What a client proves itself with. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user of Basic authentication; any name goes with a token.
    pub user: Option<String>,
    /// The token.
    pub secret: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).field("secret", &"***").finish()
    }
}

/// Somebody who may use a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Who it is.
    pub name: String,
    /// Whether it is kardinal itself, which may push to protected branches.
    pub trusted: bool,
}

/// The owner of the forge: it knows the tokens and which branches are protected. Its answers must not block.
pub trait Guard: Send + Sync + 'static {
    /// Who comes with these credentials, or nobody. Compare with [`same_secret`].
    fn authenticate(&self, namespace: &str, name: &str, credentials: &Credentials) -> Option<Identity>;
    /// Whether only pull requests and kardinal may change the branch.
    fn protected(&self, namespace: &str, name: &str, branch: &str) -> bool;
    /// A push has ended well; these refs were asked to move. Look again.
    fn pushed(&self, namespace: &str, name: &str, refs: &[RefChange]);
}

/// Whether two secrets are the same, in a time that does not depend on where they differ.
pub fn same_secret(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

/// What a request proves itself with: `Basic` with any user and the token as password, or `Bearer`.
pub(super) fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials { user: None, secret: rest.to_owned() });
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, rest).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, secret) = decoded.split_once(':')?;
    Some(Credentials { user: Some(user.to_owned()), secret: secret.to_owned() })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::{Credentials, credentials, same_secret};

    fn of(value: &str) -> Option<(Option<String>, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        credentials(&headers).map(|found| (found.user, found.secret))
    }

    #[test]
    fn headers() {
        assert_eq!(of("Bearer abc"), Some((None, "abc".to_owned())));
        assert_eq!(of("bearer  abc "), Some((None, "abc".to_owned())));
        assert_eq!(of("Basic YWxpY2U6YTpi"), Some((Some("alice".to_owned()), "a:b".to_owned())));
        for bad in ["Basic", "Basic !!!", "Basic YWxpY2U=", "Digest abc", "", "Basic //79"] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert!(credentials(&HeaderMap::new()).is_none());
    }

    #[test]
    fn secrets() {
        assert!(same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd"));
        assert!(!same_secret("abc", "abcd"));
        let shown = format!("{:?}", Credentials { user: None, secret: "abc".to_owned() });
        assert!(!shown.contains("abc"), "{shown}");
    }
}
