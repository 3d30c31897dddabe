//! The way to a repository and its forge: which credentials, which provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kardinal_api::kardinal::GitProvider;
use kardinal_promotion::intent::check_name;
use kardinal_reach::{Hosts, Refused, authority, check_plain};
use kardinal_scm::{self as scm, Forge};
use kardinal_vcs::{Barrier, Credentials, Remote, Secret};
use kube::Api;

use crate::Context;
use crate::reconcile::driver::Key;

/// How long credentials are kept before they are read again.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// Why the way is barred.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Somebody must act.
    Problem {
        /// What is wrong and what to do about it.
        message: String,
        /// What stands in the way.
        barrier: Barrier,
    },
    /// The world failed; it may be tried again.
    Fault(String),
}

impl Trouble {
    pub(crate) fn problem(message: impl Into<String>) -> Trouble {
        Trouble::Problem { message: message.into(), barrier: Barrier::Other }
    }

    /// There are no credentials, or none that can be used.
    fn not_let_in(message: impl Into<String>) -> Trouble {
        Trouble::Problem { message: message.into(), barrier: Barrier::NotLetIn }
    }

    /// What happened, in words.
    pub(crate) fn into_message(self) -> String {
        match self {
            Trouble::Problem { message, .. } | Trouble::Fault(message) => message,
        }
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Trouble {
        Trouble::Problem { barrier: refused.barrier(), message: refused.into() }
    }
}

impl From<scm::Error> for Trouble {
    fn from(error: scm::Error) -> Trouble {
        match error {
            scm::Error::Problem { message, barrier } => Trouble::Problem { message, barrier },
            scm::Error::Conflict { message, .. } => Trouble::problem(message),
            scm::Error::Fault { message, .. }
            | scm::Error::Limited { message, .. }
            | scm::Error::Absent(message) => Trouble::Fault(message),
        }
    }
}

/// A repository as an object names it, and what is needed to reach it and its forge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepositoryAccess<'a> {
    /// The namespace of the object, which has the Secret.
    pub(crate) namespace: &'a str,
    /// The URL to clone from.
    pub(crate) url: &'a str,
    /// The forge that hosts it; GitHub if nothing is said.
    pub(crate) provider: Option<GitProvider>,
    /// The Secret with the credentials.
    pub(crate) secret: Option<&'a str>,
}

/// Opens forges. Tests put themselves in between.
pub trait Forges: Send + Sync + 'static {
    /// The forge that hosts a repository.
    fn open(
        &self,
        provider: GitProvider,
        url: &str,
        credentials: &Credentials,
        ca: Option<&[u8]>,
    ) -> Result<Arc<dyn Forge>, scm::Error>;
}

/// The forges of the world, and the local one.
pub struct RealForges {
    /// For the forges of the world.
    pub http: scm::Http,
    /// For the local one, whose pull requests are objects.
    pub client: kube::Client,
}

impl Forges for RealForges {
    fn open(
        &self,
        provider: GitProvider,
        url: &str,
        credentials: &Credentials,
        ca: Option<&[u8]>,
    ) -> Result<Arc<dyn Forge>, scm::Error> {
        match provider {
            GitProvider::Local => Ok(Arc::new(scm::local::Local::new(self.client.clone(), url)?)),
            provider => scm::open(provider, url, credentials, ca, &self.http),
        }
    }
}

/// What a Secret is read for. Only the keys that serve it are taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// The way into a repository and its forge.
    Git,
    /// One value, which somebody named.
    Key(String),
    /// The way to another cluster.
    Cluster,
}

impl Purpose {
    fn takes(&self, key: &str) -> bool {
        match self {
            Purpose::Git => GIT_KEYS.contains(&key),
            Purpose::Key(named) => named == key,
            Purpose::Cluster => CLUSTER_KEYS.contains(&key),
        }
    }

    /// The field that names the Secret.
    fn field(&self) -> &'static str {
        match self {
            Purpose::Git | Purpose::Key(_) => "secretRef",
            Purpose::Cluster => "health.cluster",
        }
    }

    /// The key that is looked for first.
    fn key(&self) -> &str {
        match self {
            Purpose::Git => "token",
            Purpose::Key(named) => named,
            Purpose::Cluster => "kubeconfig",
        }
    }
}

/// What a Secret for Git may hold.
const GIT_KEYS: [&str; 6] = ["token", "username", "password", "ca.crt", "ssh-privatekey", "known_hosts"];

/// The keys under which a Secret may hold a kubeconfig.
pub(crate) const CLUSTER_KEYS: [&str; 2] = ["kubeconfig", "value"];

/// Secrets that belong to the cluster or to another program: nothing in them was meant for us.
const FOREIGN: [&str; 3] =
    ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"];

/// Where a Secret's values may be sent: hosts with commas in between, `*.example.com` among them.
const HOSTS: &str = "kardinal.io/hosts";

/// What was taken from a Secret.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    name: String,
    entries: BTreeMap<String, Secret>,
    /// Where it may be sent; absent: wherever the objects of its namespace say.
    hosts: Option<String>,
}

impl Taken {
    /// One value.
    pub(crate) fn get(&self, key: &str) -> Option<&Secret> {
        self.entries.get(key)
    }

    /// What gets in over HTTP.
    fn web_credentials(&self) -> Credentials {
        match (self.get("token"), self.get("username"), self.get("password")) {
            (Some(token), _, _) => Credentials::Token(token.clone()),
            (None, Some(user), Some(password)) => {
                Credentials::Basic { user: user.reveal().to_owned(), password: password.clone() }
            }
            _ => Credentials::None,
        }
    }

    /// Whether the owner of the Secret lets its values go to a URL.
    pub(crate) fn check_url(&self, url: &str) -> Result<(), Trouble> {
        check_hosts(&self.name, self.hosts.as_deref(), url)
    }
}

/// Whether the owner of a Secret lets its values go to a URL, by what the annotation says.
fn check_hosts(name: &str, annotation: Option<&str>, url: &str) -> Result<(), Trouble> {
    check_plain(url)?;
    let Some(text) = annotation else { return Ok(()) };
    let hosts = Hosts::parse(text).map_err(|wrong| {
        Trouble::problem(format!("the annotation `{HOSTS}` of the Secret `{name}` cannot be used: {wrong}"))
    })?;
    let (host, port) = authority(url);
    match hosts.matches(&host, port) {
        true => Ok(()),
        false => Err(Trouble::problem(format!(
            "the Secret `{name}` may not be sent to `{host}`: its annotation `{HOSTS}` names {}; add the host \
             there, or name another Secret",
            if hosts.is_empty() { "none".to_owned() } else { format!("`{hosts}`") }
        ))),
    }
}

type Known = BTreeMap<(Key, Purpose), (Timestamp, Arc<Taken>)>;

/// The Secrets that were read a moment ago, as far as they were needed.
#[derive(Default)]
pub(crate) struct Secrets {
    known: Mutex<Known>,
}

impl Secrets {
    /// The next use reads the Secret of a repository again.
    pub(crate) fn forget(&self, access: &RepositoryAccess<'_>) {
        let name = access.secret.unwrap_or_default().to_owned();
        let key = ((access.namespace.to_owned(), name), Purpose::Git);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// One entry of a Secret, to be sent to a URL.
    pub(crate) async fn value_for(
        &self,
        context: &Context,
        namespace: &str,
        (name, key): (&str, &str),
        url: &str,
    ) -> Result<Secret, Trouble> {
        let taken = self.take(context, namespace, name, &Purpose::Key(key.to_owned())).await?;
        taken.check_url(url)?;
        entry(&taken, key)
    }

    /// What a Secret holds for a purpose.
    pub(crate) async fn take(
        &self,
        context: &Context,
        namespace: &str,
        name: &str,
        purpose: &Purpose,
    ) -> Result<Arc<Taken>, Trouble> {
        let key = ((namespace.to_owned(), name.to_owned()), purpose.clone());
        let now = context.clock.now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((read_at, taken)) = known
            && now.duration_since(read_at) < FRESH
        {
            return Ok(taken);
        }
        let taken = Arc::new(read(&context.client, (namespace, name), purpose).await?);
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (read_at, _)| now.duration_since(*read_at) < FRESH);
        all.insert(key, (now, taken.clone()));
        Ok(taken)
    }
}

/// Reads a Secret as far as it serves a purpose.
pub(crate) async fn read(
    client: &kube::Client,
    (namespace, name): (&str, &str),
    purpose: &Purpose,
) -> Result<Taken, Trouble> {
    check_name(purpose.field(), name).map_err(|problem| Trouble::problem(problem.to_string()))?;
    let api: Api<KubernetesSecret> = Api::namespaced(client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(secret)) => taken(name, secret, purpose),
        Ok(None) => Err(Trouble::not_let_in(format!(
            "the Secret `{name}` of `{}` is not in namespace `{namespace}`: create it with the key `{}`",
            purpose.field(),
            purpose.key()
        ))),
        Err(error) => Err(Trouble::Fault(format!("the Secret `{name}` cannot be read: {error}"))),
    }
}

fn entry(taken: &Taken, key: &str) -> Result<Secret, Trouble> {
    taken.get(key).cloned().ok_or_else(|| {
        let name = &taken.name;
        Trouble::not_let_in(format!("the Secret `{name}` has no key `{key}`: add it, or name another key"))
    })
}

/// Refuses a Secret that belongs to the cluster or to another program.
fn check_kind(name: &str, secret: &KubernetesSecret) -> Result<(), Trouble> {
    let kind = secret.type_.as_deref().unwrap_or("Opaque");
    match FOREIGN.contains(&kind) {
        false => Ok(()),
        true => Err(Trouble::not_let_in(format!(
            "the Secret `{name}` is of the type `{kind}`, which is not used here: put the value into a Secret of its own"
        ))),
    }
}

/// Takes what serves the purpose out of a Secret, unless it belongs to somebody else.
fn taken(name: &str, secret: KubernetesSecret, purpose: &Purpose) -> Result<Taken, Trouble> {
    check_kind(name, &secret)?;
    let data = secret.data.unwrap_or_default().into_iter().filter(|(key, _)| purpose.takes(key));
    let entries: BTreeMap<String, Secret> = data
        .filter_map(|(key, value)| {
            String::from_utf8(value.0).ok().map(|text| (key, Secret::new(text.trim_end().to_owned())))
        })
        .collect();
    if entries.is_empty() && *purpose == Purpose::Git {
        return Err(Trouble::not_let_in(format!(
            "the Secret `{name}` has none of the keys that are used for Git: add `token`, or `username` and `password`, \
             or `ssh-privatekey` and `known_hosts`, or `ca.crt`"
        )));
    }
    let hosts = secret.metadata.annotations.and_then(|mut annotations| annotations.remove(HOSTS));
    Ok(Taken { name: name.to_owned(), entries, hosts })
}

impl Context {
    /// Whether a repository of the local forge belongs to the namespace of the step that names it. There are no
    /// credentials for the local forge, so nothing else keeps a step out of the repositories of others.
    pub(crate) fn check_home(
        &self,
        namespace: &str,
        provider: Option<GitProvider>,
        url: &str,
    ) -> Result<(), Trouble> {
        let served = self.local_forge.as_deref().and_then(|prefix| scm::local::home_below(prefix, url));
        let named = (provider == Some(GitProvider::Local)).then(|| scm::local::home(url)).flatten();
        match served.or(named) {
            Some(home) if home != namespace => Err(Trouble::problem(format!(
                "the repository is in namespace `{home}` of the local forge, and a step in namespace `{namespace}` uses \
                 only repositories of its own: create the Repository in `{namespace}`, or the Pipeline in `{home}`"
            ))),
            _ => Ok(()),
        }
    }

    /// Another repository that a step takes something from, with the same credentials if it is on the same host. A Bundle
    /// may name any repository, and strangers must not be told a secret.
    pub(crate) fn source(&self, namespace: &str, remote: &Remote, url: &str) -> Result<Remote, Trouble> {
        self.check_home(namespace, None, url)?;
        check_plain(url)?;
        let origin = |url: &str| {
            reqwest::Url::parse(url).ok().map(|url| url.origin()).filter(|origin| origin.is_tuple())
        };
        let near = origin(url).is_some() && origin(url) == origin(&remote.url);
        let credentials = if near { remote.credentials.clone() } else { Credentials::None };
        Ok(Remote { url: url.to_owned(), credentials, ca: remote.ca.clone() })
    }

    /// What the Secret of a repository holds for Git; nothing when none is named.
    async fn taken(&self, access: &RepositoryAccess<'_>) -> Result<Arc<Taken>, Trouble> {
        self.check_home(access.namespace, access.provider, access.url)?;
        let Some(name) = access.secret else { return Ok(Arc::default()) };
        let taken = self.credentials.take(self, access.namespace, name, &Purpose::Git).await?;
        taken.check_url(access.url)?;
        Ok(taken)
    }

    /// A repository, with the credentials for it.
    pub(crate) async fn remote(&self, access: &RepositoryAccess<'_>) -> Result<Remote, Trouble> {
        let taken = self.taken(access).await?;
        let url = access.url.to_owned();
        let ca = taken.get("ca.crt").map(|ca| ca.reveal().as_bytes().to_vec());
        let over_http = url.starts_with("http://") || url.starts_with("https://");
        let credentials = match taken.get("ssh-privatekey") {
            Some(key) if !over_http => Credentials::Ssh {
                key: key.clone(),
                known_hosts: taken.get("known_hosts").map(|hosts| hosts.reveal().to_owned()),
            },
            _ => taken.web_credentials(),
        };
        Ok(Remote { url, credentials, ca })
    }

    /// The forge of a repository.
    pub(crate) async fn forge(&self, access: &RepositoryAccess<'_>) -> Result<Arc<dyn Forge>, Trouble> {
        let taken = self.taken(access).await?;
        let provider = access.provider.unwrap_or(GitProvider::Github);
        let credentials = taken.web_credentials();
        let ca = taken.get("ca.crt").map(|ca| ca.reveal().as_bytes().to_vec());
        Ok(self.forges.open(provider, access.url, &credentials, ca.as_deref())?)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(kind: Option<&str>, keys: &[&str], hosts: Option<&str>) -> KubernetesSecret {
        let mut secret = KubernetesSecret { type_: kind.map(str::to_owned), ..KubernetesSecret::default() };
        secret.data =
            Some(keys.iter().map(|&key| (key.to_owned(), ByteString(b"s3cret\n".to_vec()))).collect());
        secret.metadata.annotations = hosts.map(|hosts| [(HOSTS.to_owned(), hosts.to_owned())].into());
        secret
    }

    fn problem<T: std::fmt::Debug>(result: Result<T, Trouble>) -> String {
        match result {
            Err(Trouble::Problem { message, .. }) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_secret_is_read_only_for_its_purpose() {
        let all = ["token", "username", "password", "ca.crt", "ssh-privatekey", "aws", "kubeconfig"];
        let git = taken("s", secret(None, &all, None), &Purpose::Git).unwrap();
        assert!(git.get("token").is_some() && git.get("aws").is_none() && git.get("kubeconfig").is_none());
        assert_eq!(git.get("token").unwrap().reveal(), "s3cret");
        let one = taken("s", secret(None, &all, None), &Purpose::Key("aws".into())).unwrap();
        assert!(one.get("aws").is_some() && one.get("token").is_none());
        let told = problem(taken("s", secret(None, &["aws"], None), &Purpose::Git));
        assert!(told.contains("`s`") && told.contains("`token`"), "{told}");
    }

    #[test]
    fn what_is_missing_in_a_secret_lets_us_in_nowhere_and_a_wrong_url_is_another_matter() {
        let barrier = |trouble: Trouble| match trouble {
            Trouble::Problem { barrier, .. } => barrier,
            Trouble::Fault(why) => panic!("{why}"),
        };
        let key = Purpose::Key("token".into());
        // The names of the Secrets decide nothing.
        for name in ["s", "token-service", "forbidden"] {
            let made = |kind, keys: &[&str], hosts| secret(kind, keys, hosts);
            let missing = taken(name, made(None, &["other"], None), &key).unwrap();
            let token = taken(name, made(None, &["token"], Some("github.com")), &Purpose::Git).unwrap();
            let bad_hosts = taken(name, made(None, &["token"], Some("https://x")), &Purpose::Git).unwrap();
            for (case, trouble, expected) in [
                ("no key", entry(&missing, "token").unwrap_err(), Barrier::NotLetIn),
                (
                    "nothing for Git",
                    taken(name, made(None, &["aws"], None), &Purpose::Git).unwrap_err(),
                    Barrier::NotLetIn,
                ),
                (
                    "foreign",
                    taken(name, made(Some(FOREIGN[2]), &["token"], None), &key).unwrap_err(),
                    Barrier::NotLetIn,
                ),
                ("elsewhere", token.check_url("https://evil.example/token").unwrap_err(), Barrier::Other),
                ("strange", token.check_url("https://a\\b/permission").unwrap_err(), Barrier::Other),
                ("annotation", bad_hosts.check_url("https://github.com/a").unwrap_err(), Barrier::Other),
            ] {
                assert_eq!(barrier(trouble), expected, "{name}: {case}");
            }
        }
    }

    #[test]
    fn what_a_forge_says_stays_what_it_is() {
        let message = || "words".to_owned();
        for barrier in [Barrier::NotLetIn, Barrier::HostNotAllowed, Barrier::Other] {
            let told = Trouble::from(scm::Error::Problem { message: message(), barrier });
            assert!(matches!(&told, Trouble::Problem { barrier: kept, .. } if *kept == barrier), "{told:?}");
        }
        let fault = scm::Error::Fault { message: message(), retry_after: None };
        assert!(matches!(Trouble::from(fault), Trouble::Fault(_)));
        let only = kardinal_reach::Policy::cluster(Hosts::parse("github.com").unwrap());
        for (url, expected) in
            [("https://a.example/token", Barrier::HostNotAllowed), ("https://a\\b/", Barrier::Other)]
        {
            let told = Trouble::from(only.check_url(url).unwrap_err());
            assert!(matches!(&told, Trouble::Problem { barrier, .. } if *barrier == expected), "{told:?}");
        }
    }

    #[test]
    fn a_secret_of_the_cluster_or_of_helm_is_never_used() {
        for kind in FOREIGN {
            let told = problem(taken("s", secret(Some(kind), &["token"], None), &Purpose::Git));
            assert!(told.contains(kind), "{told}");
            problem(taken("s", secret(Some(kind), &["token"], None), &Purpose::Key("token".into())));
        }
        taken("s", secret(Some("kubernetes.io/basic-auth"), &["username"], None), &Purpose::Git).unwrap();
    }

    #[test]
    fn a_secret_goes_only_where_its_annotation_says() {
        let to = |hosts: Option<&str>, url: &str| {
            taken("s", secret(None, &["token"], hosts), &Purpose::Git).unwrap().check_url(url)
        };
        let hosts = Some("github.com,*.example.com:8443");
        for url in ["https://github.com/a/b", "git@github.com:a/b.git", "https://x.example.com:8443/"] {
            to(hosts, url).unwrap();
            to(None, url).unwrap();
        }
        for url in [
            "https://evil.example/a",
            "https://x.example.com/",
            "https://github.com@evil.example/",
            "git@evil:github.com",
        ] {
            let told = problem(to(hosts, url));
            assert!(told.contains("`s`") && told.contains(HOSTS) && told.contains("github.com"), "{told}");
        }
        assert!(problem(to(Some(""), "https://github.com/a")).contains("none"));
        assert!(problem(to(Some("https://github.com"), "https://github.com/a")).contains("without a scheme"));
    }
}
