//! The secrets of the web side: made once, kept where only the owner reads them.

use std::path::Path;

use anyhow::Context as _;
use subtle::ConstantTimeEq as _;

use super::promotion::signed::CiKey;
use crate::private;

/// What callers must know.
#[derive(Clone)]
pub(crate) struct Keys {
    /// Those of CI that hold for every namespace: the current ones, and those before them while they are replaced.
    pub(super) ci: Vec<CiKey>,
    /// The password of `/git` and of the pages of pull requests; it is the owner's and not for CI.
    git_token: String,
    /// Signs webhooks.
    pub(super) webhook_secret: String,
}

impl Keys {
    /// Those of a data directory, made on first use.
    pub(crate) fn of_directory(directory: &Path) -> anyhow::Result<Keys> {
        let made = |name: &str| read_or_make(&directory.join(name));
        let current = CiKey { token: made("api-token")?, signing_key: made("api-signing-key")? };
        let previous = CiKey::pair(
            read(&directory.join("api-token.previous"))?,
            read(&directory.join("api-signing-key.previous"))?,
        );
        Ok(Keys {
            ci: [Some(current), previous].into_iter().flatten().collect(),
            git_token: made("git-token")?,
            webhook_secret: made("webhook-secret")?,
        })
    }

    /// Those of the environment, as a cluster's Secret sets them. A missing one is random: nobody knows it.
    pub(crate) fn of_environment() -> Keys {
        let set = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let current = CiKey::pair(set("KARDINAL_API_TOKEN"), set("KARDINAL_API_SIGNING_KEY"));
        if current.is_none() {
            tracing::info!(
                "KARDINAL_API_TOKEN and KARDINAL_API_SIGNING_KEY are not set: only CI with the token of a namespace gets in"
            );
        }
        let previous =
            CiKey::pair(set("KARDINAL_API_TOKEN_PREVIOUS"), set("KARDINAL_API_SIGNING_KEY_PREVIOUS"));
        Keys {
            ci: [current, previous].into_iter().flatten().collect(),
            git_token: random(),
            webhook_secret: set("KARDINAL_WEBHOOK_SECRET").unwrap_or_else(|| {
                tracing::warn!("KARDINAL_WEBHOOK_SECRET is not set: every webhook is refused");
                random()
            }),
        }
    }

    /// Whether a token is the one of Git; takes as long for a wrong one as for a right one.
    pub(super) fn is_git_token(&self, token: &str) -> bool {
        self.git_token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// The token of `Authorization: Bearer …`.
pub(super) fn bearer(headers: &http::HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// 64 characters that nobody can guess.
pub(super) fn random() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// What a file says; nothing if it is missing or empty. Whoever else could read it cannot any more.
fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            private::tighten_file(path)?;
            Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

/// Whoever comes second reads what the first one wrote.
fn read_or_make(path: &Path) -> anyhow::Result<String> {
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    let text = random();
    private::write_file(path, &format!("{text}\n"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keys_are_made_once_and_are_private() {
        let dir = tempfile::tempdir().unwrap();
        // A file of somebody's own, readable for all.
        std::fs::write(dir.path().join("api-token"), "own\n").unwrap();
        std::fs::set_permissions(dir.path().join("api-token"), std::fs::Permissions::from_mode(0o644))
            .unwrap();
        let first = Keys::of_directory(dir.path()).unwrap();
        let second = Keys::of_directory(dir.path()).unwrap();
        assert!(first.ci == second.ci && first.git_token == second.git_token);
        assert_eq!(first.ci.len(), 1);
        let own = first.ci.first().unwrap();
        assert!(own.token == "own" && own.signing_key.len() == 64 && own.signing_key != first.git_token);
        for file in ["api-token", "api-signing-key", "git-token", "webhook-secret"] {
            let mode = std::fs::metadata(dir.path().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    #[test]
    fn the_token_of_git_and_that_of_ci_are_two() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Keys::of_directory(dir.path()).unwrap();
        let token = std::fs::read_to_string(dir.path().join("git-token")).unwrap();
        assert!(keys.is_git_token(token.trim()));
        assert!(keys.ci.iter().all(|key| !keys.is_git_token(&key.token)));
    }

    #[test]
    fn the_keys_before_hold_while_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let first = Keys::of_directory(dir.path()).unwrap();
        for file in ["api-token", "api-signing-key"] {
            let kept = dir.path().join(format!("{file}.previous"));
            std::fs::rename(dir.path().join(file), kept).unwrap();
        }
        let second = Keys::of_directory(dir.path()).unwrap();
        assert_eq!(second.ci.len(), 2);
        assert!(second.ci.first() != first.ci.first() && second.ci.last() == first.ci.first());
        std::fs::remove_file(dir.path().join("api-token.previous")).unwrap();
        assert_eq!(Keys::of_directory(dir.path()).unwrap().ci.len(), 1);
    }
}
