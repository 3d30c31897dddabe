//! From a repository's URL to its forge.

use std::sync::Arc;

use kardinal_api::kardinal::GitProvider;
use kardinal_vcs::Credentials;
use serde_json::Value;

use crate::address::Address;
use crate::error::Error;
use crate::forge::Forge;
use crate::gitea::Gitea;
use crate::github::Github;
use crate::http::Http;

/// The forge of a repository. The root of its API follows from the URL; nothing is asked yet.
pub fn open(
    provider: GitProvider,
    url: &str,
    credentials: &Credentials,
    ca: Option<&[u8]>,
    http: &Http,
) -> Result<Arc<dyn Forge>, Error> {
    let address = Address::parse(url)?;
    match provider {
        GitProvider::Github => Ok(Arc::new(Github::new(address, credentials, ca, http)?)),
        GitProvider::Gitea | GitProvider::Forgejo => {
            Ok(Arc::new(Gitea::new(address, credentials, ca, http)?))
        }
        other => Err(unsupported(other)),
    }
}

/// Asks the forge who we are and what we may do, for people who want to know before they promote.
pub async fn probe(
    provider: GitProvider,
    url: &str,
    credentials: &Credentials,
    ca: Option<&[u8]>,
    http: &Http,
) -> Result<Access, Error> {
    let address = Address::parse(url)?;
    match provider {
        GitProvider::Github => Github::new(address, credentials, ca, http)?.access().await,
        GitProvider::Gitea | GitProvider::Forgejo => {
            Gitea::new(address, credentials, ca, http)?.access().await
        }
        other => Err(unsupported(other)),
    }
}

fn unsupported(provider: GitProvider) -> Error {
    let word = match provider {
        GitProvider::Github => "github",
        GitProvider::Gitlab => "gitlab",
        GitProvider::Bitbucket => "bitbucket",
        GitProvider::Gitea => "gitea",
        GitProvider::Forgejo => "forgejo",
        GitProvider::Local => "local",
    };
    Error::Problem(format!(
        "`spec.git.provider` is `{word}`, for which there are no pull requests here; use `github`, `gitea` or \
         `forgejo`, or environments with `approval: auto`"
    ))
}

/// Who we are on a forge, and what we may do in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Our name, where the token may ask for it.
    pub user: Option<String>,
    /// We can read the repository.
    pub pull: bool,
    /// We can write to it.
    pub push: bool,
    /// We may change its settings.
    pub admin: bool,
    /// It is read-only for everybody.
    pub archived: bool,
}

impl Access {
    /// Reads the answers for the user and the repository, which look alike on all supported forges.
    pub(crate) fn read(user: &Value, repository: &Value) -> Access {
        let may = |what: &str| {
            let permissions = repository.get("permissions");
            permissions
                .and_then(|permissions| permissions.get(what))
                .and_then(Value::as_bool)
                .unwrap_or(false)
        };
        Access {
            user: user.get("login").and_then(Value::as_str).map(str::to_owned),
            // Whoever gets an answer can read, also where the forge lists no permissions for strangers.
            pull: true,
            push: may("push"),
            admin: may("admin"),
            archived: repository.get("archived").and_then(Value::as_bool).unwrap_or(false),
        }
    }
}
