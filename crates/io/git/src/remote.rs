//! Where a repository is and how to get in.

use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use kardinal_reach::{Policy, authority, check_plain};
use kardinal_vcs::{Credentials, Remote, Secret, take_credentials};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The value of the `Authorization` header.
pub(crate) fn header(credentials: &Credentials) -> Option<Secret> {
    let (user, password) = match credentials {
        Credentials::None | Credentials::Ssh { .. } => return None,
        Credentials::Token(token) => ("x-access-token", token),
        Credentials::Basic { user, password } => (user.as_str(), password),
    };
    let pair = format!("{user}:{}", password.reveal());
    Some(Secret::from(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))))
}

/// Stands for what gets in, whatever its form: two that differ in anything have different ones.
pub(crate) fn fingerprint(credentials: &Credentials) -> [u8; 32] {
    let parts: [&str; 4] = match credentials {
        Credentials::None => ["none", "", "", ""],
        Credentials::Token(token) => ["token", token.reveal(), "", ""],
        Credentials::Basic { user, password } => ["basic", user, password.reveal(), ""],
        Credentials::Ssh { key, known_hosts } => {
            let known = if known_hosts.is_some() { "known" } else { "" };
            ["ssh", key.reveal(), known_hosts.as_deref().unwrap_or_default(), known]
        }
    };
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A directory on this machine, used as it is.
    Disk(PathBuf),
    /// Smart HTTP.
    Http,
    /// Whatever the git program understands.
    Program,
}

/// A remote whose URL has been understood.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The URL without credentials and without a slash at the end: for messages and as a key.
    pub(crate) url: String,
    /// Where it leads.
    pub(crate) place: Place,
    /// How to get in.
    pub(crate) credentials: Credentials,
    /// Extra certificates in PEM.
    pub(crate) ca: Option<Vec<u8>>,
}

/// URLs below `prefix` are repositories below `root` on this machine: our own forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The URL prefix, for example `http://127.0.0.1:8440/git/`.
    pub prefix: String,
    /// The directory that holds the repositories.
    pub root: PathBuf,
}

impl Target {
    /// Understands a remote.
    pub(crate) fn new(remote: &Remote, local: Option<&Local>, reach: &Policy) -> Result<Target, Error> {
        let given = remote.url.trim();
        let (url, inside) = take_credentials(given);
        let url = url.trim_end_matches('/').to_owned();
        let place = place(&url, local)?;
        if !matches!(place, Place::Disk(_)) {
            // Whoever chose the credentials has judged the URL as it was given.
            check_plain(given)?;
            if authority(given) != authority(&url) {
                return Err(Error::problem(format!("`{url}` is not a valid URL")));
            }
        }
        let credentials = match &remote.credentials {
            Credentials::None => inside,
            given => given.clone(),
        };
        let target = Target { url, place, credentials, ca: remote.ca.clone() };
        target.check(local, reach)?;
        Ok(target)
    }

    /// Whether the policy lets us there. Our own forge is no stranger.
    fn check(&self, local: Option<&Local>, reach: &Policy) -> Result<(), Error> {
        let own = local.is_some_and(|local| self.url.starts_with(local.prefix.trim_end_matches('/')));
        match self.place {
            Place::Disk(_) if own || reach.uses_machine() => Ok(()),
            Place::Disk(_) => Err(Error::problem(format!(
                "`{}` is a path on the machine of the controller, which is used by `kardinal up` only: give the URL of \
                 the repository, beginning with https:// or ssh://",
                self.url
            ))),
            Place::Http | Place::Program => Ok(reach.check_url(&self.url)?),
        }
    }

    /// The host, for messages; the URL when there is none.
    pub(crate) fn host(&self) -> &str {
        match self.url.split_once("://") {
            Some((_, rest)) => rest.split('/').next().unwrap_or(rest),
            None => self.url.split(':').next().unwrap_or(&self.url),
        }
    }
}

fn place(url: &str, local: Option<&Local>) -> Result<Place, Error> {
    if let Some(local) = local
        && let Some(rest) = url.strip_prefix(local.prefix.trim_end_matches('/'))
        && let Some(rest) = rest.strip_prefix('/')
    {
        return below(&local.root, rest, url).map(Place::Disk);
    }
    if let Some(path) = url.strip_prefix("file://") {
        let path = path.strip_prefix("localhost").unwrap_or(path);
        return absolute(path, url).map(Place::Disk);
    }
    if url.starts_with('/') {
        return absolute(url, url).map(Place::Disk);
    }
    if url.starts_with("https://") || url.starts_with("http://") {
        let valid = reqwest::Url::parse(url).is_ok_and(|parsed| parsed.has_host());
        return if valid {
            Ok(Place::Http)
        } else {
            Err(Error::problem(format!("`{url}` is not a valid URL")))
        };
    }
    if is_ssh(url) || is_scp(url) {
        return Ok(Place::Program);
    }
    Err(Error::problem(format!(
        "`{url}` is not a repository URL: allowed are https://, http://, ssh://, user@host:path, file:// and absolute paths"
    )))
}

/// `ssh://…` with a host that cannot be mistaken for an option.
fn is_ssh(url: &str) -> bool {
    url.strip_prefix("ssh://").is_some_and(|rest| {
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        !rest.starts_with('-') && !host.starts_with('-')
    })
}

/// `user@host:path`, where nothing can be mistaken for an option.
fn is_scp(url: &str) -> bool {
    match url.split_once(':') {
        Some((host, path)) => {
            host.contains('@') && !host.starts_with('-') && !host.contains('/') && !path.is_empty()
        }
        None => false,
    }
}

fn absolute(path: &str, url: &str) -> Result<PathBuf, Error> {
    let path = PathBuf::from(path);
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        return Ok(path);
    }
    Err(Error::problem(format!("`{url}` must be an absolute path without `..`")))
}

fn below(root: &Path, rest: &str, url: &str) -> Result<PathBuf, Error> {
    let plain =
        Path::new(rest).components().all(|part| matches!(part, Component::Normal(_))) && !rest.contains('\\');
    if rest.is_empty() || !plain {
        return Err(Error::problem(format!(
            "`{url}` is no repository of this forge: the path must be plain"
        )));
    }
    let path = root.join(rest);
    let named = if rest.ends_with(".git") { path } else { root.join(format!("{rest}.git")) };
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, Error> {
        let local = Local { prefix: "http://127.0.0.1:8440/git/".into(), root: "/data/git".into() };
        let policy = Policy::machine(kardinal_reach::Hosts::default());
        Target::new(
            &Remote { url: url.into(), credentials: Credentials::None, ca: None },
            Some(&local),
            &policy,
        )
    }

    #[test]
    fn whoever_gets_in_with_something_else_is_somebody_else() {
        let ssh = |key: &str, known_hosts: Option<&str>| Credentials::Ssh {
            key: key.into(),
            known_hosts: known_hosts.map(str::to_owned),
        };
        let basic = |user: &str, password: &str| Credentials::Basic {
            user: user.to_owned(),
            password: password.into(),
        };
        let all = [
            Credentials::None,
            Credentials::Token("a".into()),
            Credentials::Token("b".into()),
            basic("a", "bc"),
            basic("ab", "c"),
            ssh("a", None),
            ssh("b", None),
            ssh("a", Some("")),
            ssh("a", Some("host")),
        ];
        let prints: std::collections::BTreeSet<_> = all.iter().map(fingerprint).collect();
        assert_eq!(prints.len(), all.len());
    }

    #[test]
    fn a_url_that_hides_where_it_leads_is_refused() {
        for url in [
            r"http://git.example\@evil.example/x.git",
            r"https://git.example\.evil.example/x.git",
            "https://git.example\t@evil.example/x.git",
            r"ssh://git@git.example\@evil.example/x.git",
            "https://git.example/x y.git",
        ] {
            let refused = target(url).unwrap_err().to_string();
            assert!(refused.contains("which a URL cannot have"), "{url}: {refused}");
        }
        assert_eq!(target("https://me:pw@git.example/a@b.git").unwrap().url, "https://git.example/a@b.git");
    }

    #[test]
    fn on_a_cluster_files_loopback_and_metadata_are_refused() {
        let local = Local { prefix: "http://127.0.0.1:8440/git/".into(), root: "/data/git".into() };
        let policy = Policy::cluster(kardinal_reach::Hosts::default());
        let target = |url: &str| {
            Target::new(
                &Remote { url: url.into(), credentials: Credentials::None, ca: None },
                Some(&local),
                &policy,
            )
        };
        for url in [
            "file:///srv/app.git",
            "/srv/app.git",
            "http://127.0.0.1:8441/a.git",
            "http://2130706433/a.git",
            "http://0x7f.1/a.git",
            "http://017700000001/a.git",
            "http://[::1]/a.git",
            "http://[::ffff:127.0.0.1]/a.git",
            "http://169.254.169.254/latest/meta-data",
            "https://user@localhost:8443/a.git",
            "ssh://git@127.0.0.1/a.git",
            "ssh://git@localhost:2222/a.git",
            "git@127.0.0.1:a.git",
        ] {
            assert!(matches!(target(url), Err(Error::Problem { .. })), "{url}: {:?}", target(url));
        }
        for url in
            ["https://github.com/a/b.git", "git@github.com:a/b.git", "http://127.0.0.1:8440/git/team/app.git"]
        {
            target(url).unwrap();
        }
    }

    #[test]
    fn urls_lead_somewhere() {
        let disk = |path: &str| Place::Disk(path.into());
        for (url, place) in [
            ("file:///srv/app.git", disk("/srv/app.git")),
            ("/srv/app.git/", disk("/srv/app.git")),
            ("http://127.0.0.1:8440/git/team/app.git", disk("/data/git/team/app.git")),
            ("http://127.0.0.1:8440/git/team/app", disk("/data/git/team/app.git")),
            ("http://127.0.0.1:8440/gitx/team/app", Place::Http),
            ("https://example.com/a/b.git", Place::Http),
            ("git@example.com:a/b.git", Place::Program),
            ("ssh://git@example.com:22/a.git", Place::Program),
        ] {
            assert_eq!(target(url).unwrap().place, place, "{url}");
        }
    }

    #[test]
    fn bad_urls_are_refused() {
        for url in [
            "",
            "app.git",
            "../app.git",
            "file://app.git",
            "/srv/../etc",
            "ext::sh -c x",
            "-oProxyCommand=x@h:p",
            "ssh://-oProxyCommand=x/y",
            "ssh://u@-oProxyCommand=x/y",
            "http://",
            "https://exa mple.com/x",
            "http://127.0.0.1:8440/git/../../etc/passwd",
            "http://127.0.0.1:8440/git/a/..",
            "ftp://example.com/x",
            "http://127.0.0.1:8440/git//etc/passwd",
            "http://127.0.0.1:8440/git/a\\..\\b",
            "file:///a/../b",
        ] {
            assert!(matches!(target(url), Err(Error::Problem { .. })), "{url}: {:?}", target(url));
        }
    }

    #[test]
    fn credentials_leave_the_url() {
        let basic =
            |user: &str, password: &str| Credentials::Basic { user: user.into(), password: password.into() };
        for (url, credentials) in [
            ("https://alice:p%40ss@example.com/x", basic("alice", "p@ss")),
            ("https://tok3n@example.com/x", Credentials::Token("tok3n".into())),
            ("https://tok3n:@example.com/x", Credentials::Token("tok3n".into())),
            ("https://example.com/x?access_token=tok3n", Credentials::None),
        ] {
            let target = target(url).unwrap();
            assert_eq!((target.url.as_str(), &target.credentials), ("https://example.com/x", &credentials));
            let remote = Remote { url: url.into(), credentials, ca: None };
            let shown = format!("{remote:?} {target:?} {}", Secret::from("tok3n"));
            assert!(
                !shown.contains("p@ss") && !shown.contains("p%40ss") && !shown.contains("tok3n"),
                "{shown}"
            );
        }
        let target = target("ssh://git:s3cr3t@example.com/x").unwrap();
        assert_eq!(target.url, "ssh://git@example.com/x");
    }
}
