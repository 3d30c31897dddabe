//! The way to a step's repository and forge: which credentials, which provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kardinal_api::kardinal::{GitProvider, PromotionStep};
use kardinal_git::{Remote, Secret};
use kardinal_scm::{self as scm, Forge};
use kube::Api;

use crate::Context;
use crate::driver::Key;

/// How long credentials are kept before they are read again.
const FRESH: SignedDuration = SignedDuration::from_secs(60);

/// Why the way is barred.
pub(crate) enum Trouble {
    /// Somebody must act.
    Problem(String),
    /// The world failed; it may be tried again.
    Fault(String),
}

/// Opens forges. Tests put themselves in between.
pub trait Forges: Send + Sync + 'static {
    /// The forge that hosts a repository.
    fn open(
        &self,
        provider: GitProvider,
        url: &str,
        credentials: &scm::Credentials,
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
        credentials: &scm::Credentials,
        ca: Option<&[u8]>,
    ) -> Result<Arc<dyn Forge>, scm::Error> {
        match provider {
            GitProvider::Local => Ok(Arc::new(scm::local::Local::new(self.client.clone(), url)?)),
            provider => scm::open(provider, url, credentials, ca, &self.http),
        }
    }
}

/// What a Secret holds, by key.
type Entries = BTreeMap<String, Secret>;

/// The Secrets that were read a moment ago.
#[derive(Default)]
pub(crate) struct Credentials {
    known: Mutex<BTreeMap<Key, (Timestamp, Arc<Entries>)>>,
}

impl Credentials {
    /// The next use reads the step's Secret again.
    pub(crate) fn forget(&self, namespace: &str, step: &PromotionStep) {
        let name = step.spec.git.as_ref().and_then(|git| git.secret_ref.clone()).unwrap_or_default();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&(namespace.to_owned(), name));
    }

    /// One entry of a Secret.
    pub(crate) async fn value(
        &self,
        context: &Context,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Secret, Trouble> {
        let entries = self.read(context, namespace, name).await?;
        entries.get(key).cloned().ok_or_else(|| {
            Trouble::Problem(format!("the Secret `{name}` has no key `{key}`: add it, or name another key"))
        })
    }

    async fn read(&self, context: &Context, namespace: &str, name: &str) -> Result<Arc<Entries>, Trouble> {
        let key = (namespace.to_owned(), name.to_owned());
        let now = context.clock.now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some((read_at, entries)) = known
            && now.duration_since(read_at) < FRESH
        {
            return Ok(entries);
        }
        let api: Api<KubernetesSecret> = Api::namespaced(context.client.clone(), namespace);
        let secret = match api.get_opt(name).await {
            Ok(Some(secret)) => secret,
            Ok(None) => {
                return Err(Trouble::Problem(format!(
                    "the Secret `{name}` is not in namespace `{namespace}`: create it with the key `token`"
                )));
            }
            Err(error) => return Err(Trouble::Fault(format!("the Secret `{name}` cannot be read: {error}"))),
        };
        let data = secret.data.unwrap_or_default().into_iter();
        let entries = data.filter_map(|(key, value)| {
            String::from_utf8(value.0).ok().map(|text| (key, Secret::new(text.trim_end().to_owned())))
        });
        let entries = Arc::new(entries.collect::<Entries>());
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (now, entries.clone()));
        Ok(entries)
    }
}

impl Context {
    async fn entries(&self, namespace: &str, step: &PromotionStep) -> Result<Arc<Entries>, Trouble> {
        match step.spec.git.as_ref().and_then(|git| git.secret_ref.as_deref()) {
            None => Ok(Arc::default()),
            Some(name) => self.credentials.read(self, namespace, name).await,
        }
    }

    /// The repository of a step, with the credentials for it.
    pub(crate) async fn remote(&self, namespace: &str, step: &PromotionStep) -> Result<Remote, Trouble> {
        let entries = self.entries(namespace, step).await?;
        let Some(git) = &step.spec.git else {
            return Err(Trouble::Problem("the step has no `spec.git`: name the repository there".to_owned()));
        };
        let ca = entries.get("ca.crt").map(|ca| ca.reveal().as_bytes().to_vec());
        let credentials = match (entries.get("token"), entries.get("username"), entries.get("password")) {
            (Some(token), _, _) => kardinal_git::Credentials::Token(token.clone()),
            (None, Some(user), Some(password)) => kardinal_git::Credentials::Basic {
                user: user.reveal().to_owned(),
                password: password.clone(),
            },
            _ => kardinal_git::Credentials::None,
        };
        Ok(Remote { url: git.url.clone(), credentials, ca })
    }

    /// The forge of a step.
    pub(crate) async fn forge(
        &self,
        namespace: &str,
        step: &PromotionStep,
    ) -> Result<Arc<dyn Forge>, Trouble> {
        let remote = self.remote(namespace, step).await?;
        let provider = step.spec.git.as_ref().and_then(|git| git.provider).unwrap_or(GitProvider::Github);
        let credentials = match &remote.credentials {
            kardinal_git::Credentials::None => scm::Credentials::None,
            kardinal_git::Credentials::Token(token) => {
                scm::Credentials::Token(scm::Secret::new(token.reveal()))
            }
            kardinal_git::Credentials::Basic { user, password } => {
                scm::Credentials::Basic { user: user.clone(), password: scm::Secret::new(password.reveal()) }
            }
        };
        let opened = self.forges.open(provider, &remote.url, &credentials, remote.ca.as_deref());
        opened.map_err(|error| match error {
            scm::Error::Problem(message) => Trouble::Problem(message),
            scm::Error::Fault { message, .. } => Trouble::Fault(message),
        })
    }
}
