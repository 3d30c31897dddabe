//! From a repository's URL to its forge.

use std::sync::Arc;

use kardinal_api::kardinal::GitProvider;
use kardinal_vcs::Credentials;

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

fn unsupported(provider: GitProvider) -> Error {
    let word = match provider {
        GitProvider::Github => "github",
        GitProvider::Gitlab => "gitlab",
        GitProvider::Bitbucket => "bitbucket",
        GitProvider::Gitea => "gitea",
        GitProvider::Forgejo => "forgejo",
        GitProvider::Local => "local",
    };
    Error::problem(format!(
        "`spec.git.provider` is `{word}`, for which there are no pull requests here; use `github`, `gitea` or \
         `forgejo`, or environments with `approval: auto`"
    ))
}
