//! Repository URLs: which host, which repository, and where its API is.

use reqwest::Url;

use crate::error::Error;

/// A repository's place, read from a clone URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// `http` or `https`: what the API is asked with.
    pub(crate) scheme: String,
    /// In lower case, without port.
    pub(crate) host: String,
    /// Only where the URL names one that is not the scheme's own.
    pub(crate) port: Option<u16>,
    /// What stands before owner and name, as for a forge under a sub-path.
    pub(crate) prefix: Vec<String>,
    /// User or organisation.
    pub(crate) owner: String,
    /// The repository, without `.git`.
    pub(crate) name: String,
    /// An SSH address: its port and its missing prefix say nothing about the web server.
    pub(crate) over_ssh: bool,
}

impl Address {
    /// Reads `https://host/owner/name.git`, `ssh://git@host/owner/name.git` or `git@host:owner/name.git`.
    pub(crate) fn parse(text: &str) -> Result<Address, Error> {
        Address::read(text).ok_or_else(|| {
            let shown = without_userinfo(text);
            Error::problem(format!(
                "`spec.git.url` is `{shown}`, which names no repository; write it as `https://HOST/OWNER/NAME.git`"
            ))
        })
    }

    fn read(text: &str) -> Option<Address> {
        let text = text.trim();
        let url = if text.contains("://") {
            Url::parse(text).ok()?
        } else {
            let (host, path) = text.split_once(':')?;
            Url::parse(&format!("ssh://{host}/{}", path.trim_start_matches('/'))).ok()?
        };
        let over_ssh = match url.scheme() {
            "http" | "https" => false,
            "ssh" | "git" | "git+ssh" => true,
            _ => return None,
        };
        let mut segments: Vec<String> =
            url.path_segments()?.filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        let name = segments.pop()?;
        let owner = segments.pop()?;
        let name = name.strip_suffix(".git").unwrap_or(&name).to_owned();
        if name.is_empty() {
            return None;
        }
        Some(Address {
            scheme: if url.scheme() == "http" { "http" } else { "https" }.to_owned(),
            host: url.host_str()?.to_lowercase(),
            port: if over_ssh { None } else { url.port() },
            prefix: segments,
            owner,
            name,
            over_ssh,
        })
    }

    /// The root of the API below the web root, for example `/api/v1`.
    pub(crate) fn api_root(&self, below: &[&str]) -> Result<Url, Error> {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut root = Url::parse(&format!("{}://{}{port}/", self.scheme, self.host)).map_err(|error| {
            Error::problem(format!(
                "`spec.git.url` names the host `{}`, which is no host name: {error}",
                self.host
            ))
        })?;
        if let Ok(mut path) = root.path_segments_mut() {
            path.pop_if_empty().extend(&self.prefix).extend(below);
        }
        Ok(root)
    }

    /// `owner/name`, for messages.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

/// Cuts a user name and password out of a URL, for messages.
fn without_userinfo(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}{host}{path}")
}

/// Whether two URLs name the same repository, however they are written: cloned over HTTP or SSH, the page for
/// people, with or without `.git`, with or without a user. Upper and lower case do not matter, as on every supported
/// forge. `localhost` and `127.0.0.1` are different hosts.
pub fn same_repository(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (Address::read(a), Address::read(b)) else { return false };
    let same_name = a.host == b.host
        && a.owner.to_lowercase() == b.owner.to_lowercase()
        && a.name.to_lowercase() == b.name.to_lowercase();
    let same_place = a.over_ssh || b.over_ssh || (a.port == b.port && a.prefix == b.prefix);
    same_name && same_place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_repository_is_recognised() {
        let same = [
            ("https://github.com/acme/app", "https://github.com/acme/app.git"),
            ("https://github.com/acme/app.git", "git@github.com:acme/app.git"),
            ("https://github.com/acme/app/", "ssh://git@github.com/acme/app.git"),
            ("https://GitHub.com/Acme/App", "https://github.com/acme/app"),
            ("https://alice:pw@git.example/acme/app.git", "https://git.example/acme/app"),
            ("https://git.example:443/acme/app.git", "https://git.example/acme/app"),
            ("http://127.0.0.1:3000/acme/app.git", "http://127.0.0.1:3000/acme/app"),
            ("http://git.example:3000/acme/app.git", "ssh://git@git.example:2222/acme/app.git"),
            ("https://example.org/git/acme/app", "git@example.org:acme/app.git"),
            ("git://git.example/acme/app.git", "https://git.example/acme/app"),
        ];
        for (a, b) in same {
            assert!(same_repository(a, b), "{a} and {b}");
            assert!(same_repository(b, a), "{b} and {a}");
        }
    }

    #[test]
    fn different_repositories_are_told_apart() {
        let different = [
            ("https://github.com/acme/app", "https://github.com/acme/app2"),
            ("https://github.com/acme/app", "https://github.com/other/app"),
            ("https://github.com/acme/app", "https://gitlab.com/acme/app"),
            ("http://localhost:3000/acme/app", "http://127.0.0.1:3000/acme/app"),
            ("http://127.0.0.1:3000/acme/app", "http://127.0.0.1:3001/acme/app"),
            ("https://example.org/git/acme/app", "https://example.org/acme/app"),
            ("https://github.com/acme/app.git.git", "https://github.com/acme/app"),
            ("https://github.com.evil.example/acme/app", "https://github.com/acme/app"),
            ("https://evil.example/@github.com/acme/app", "https://github.com/acme/app"),
            ("", ""),
            ("app", "app"),
            ("file:///acme/app", "file:///acme/app"),
        ];
        for (a, b) in different {
            assert!(!same_repository(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn an_address_says_where_the_api_is() {
        let cases = [
            ("https://git.example/acme/app.git", "https://git.example/api/v1"),
            ("http://127.0.0.1:3000/acme/app", "http://127.0.0.1:3000/api/v1"),
            ("https://example.org/git/acme/app", "https://example.org/git/api/v1"),
            ("git@git.example:acme/app.git", "https://git.example/api/v1"),
            ("ssh://git@git.example:2222/acme/app.git", "https://git.example/api/v1"),
            ("https://[::1]:3000/acme/app", "https://[::1]:3000/api/v1"),
        ];
        for (url, root) in cases {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.api_root(&["api", "v1"]).unwrap().as_str(), root);
            assert_eq!(address.full_name(), "acme/app");
        }
    }

    #[test]
    fn what_names_no_repository_is_refused_without_its_password() {
        for url in [
            "https://alice:s3cret@git.example/",
            "https://alice:s3cret@git.example/app",
            "alice:s3cret@x",
            "",
        ] {
            let message = Address::parse(url).unwrap_err().to_string();
            assert!(message.contains("spec.git.url"), "{message}");
            assert!(!message.contains("s3cret"), "{message}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_without_panic(a in ".*", b in ".*") {
            let _ = same_repository(&a, &b);
            proptest::prop_assert_eq!(same_repository(&a, &b), same_repository(&b, &a));
        }
    }
}
