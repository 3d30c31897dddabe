//! The one HTTP client of all forges: a budget for each host, limits on time and size, few quick retries.

mod answer;
mod budget;
mod limit;
mod tls;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::http::header::{AUTHORIZATION, LOCATION};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use kardinal_reach::{Hosts, Policy, Refused};
use kardinal_vcs::Credentials;
use reqwest::dns::Resolve;
use reqwest::{Client, Url};
use serde_json::Value;
use tokio::sync::Semaphore;

use self::budget::{Budget, Ruling};
use crate::credentials::{account, plain, secret};
use crate::error::Error;

pub(crate) use self::answer::Answer;

/// How many times a redirect within the same host is followed.
const REDIRECTS: usize = 3;
/// How many hosts and certificate authorities are remembered.
const REMEMBERED: usize = 256;

/// Limits of [`Http`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long one request may take, from connecting to the last byte.
    pub timeout: Duration,
    /// How large an answer may be.
    pub body_limit: usize,
    /// How many requests may run at once on one host.
    pub concurrency: usize,
    /// How many requests one host gets at once after a rest.
    pub burst: u32,
    /// How many requests one host gets in a second.
    pub per_second: u32,
    /// How often a request is repeated that can be repeated without harm.
    pub retries: u32,
    /// The pause before the first repetition; it doubles.
    pub first_pause: Duration,
    /// How long a call waits for its turn before it gives up and leaves the waiting to the caller.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timeout: Duration::from_secs(10),
            body_limit: 8 * 1024 * 1024,
            concurrency: 8,
            burst: 60,
            per_second: 20,
            retries: 2,
            first_pause: Duration::from_millis(200),
            patience: Duration::from_secs(2),
        }
    }
}

/// Is told about every request, for metrics.
pub trait Observer: Send + Sync {
    /// A request ended. The endpoint is a fixed word such as `create_pull_request`; the status is 0 when there was
    /// no answer.
    fn request(&self, endpoint: &'static str, status: u16, elapsed: Duration);
}

/// The HTTP client that all forges share. Clones share everything.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    observer: Option<Arc<dyn Observer>>,
    reach: Policy,
    resolver: Option<Arc<dyn Resolve>>,
    clients: Mutex<HashMap<Option<Vec<u8>>, Client>>,
    hosts: Mutex<HashMap<(String, u64), Arc<Host>>>,
}

struct Host {
    permits: Semaphore,
    budget: Mutex<Budget>,
}

impl Http {
    /// A client with these limits, which tells the observer about every request. It serves the one who started the
    /// program and reaches whatever that person may reach.
    pub fn new(settings: Settings, observer: Option<Arc<dyn Observer>>) -> Http {
        Http::reaching(settings, observer, Policy::machine(Hosts::default()), None)
    }

    /// The same, for hosts that the policy allows. Names are looked up by the resolver, which refuses forbidden
    /// addresses.
    pub fn reaching(
        settings: Settings,
        observer: Option<Arc<dyn Observer>>,
        reach: Policy,
        resolver: Option<Arc<dyn Resolve>>,
    ) -> Http {
        let (clients, hosts) = (Mutex::default(), Mutex::default());
        Http { inner: Arc::new(Inner { settings, observer, reach, resolver, clients, hosts }) }
    }

    /// The connections that trust this certificate authority besides the system's own.
    pub(crate) fn client(&self, ca: Option<&[u8]>) -> Result<Client, Error> {
        let key = ca.map(<[u8]>::to_vec);
        let mut clients = lock(&self.inner.clients);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder();
        if let Some(resolver) = &self.inner.resolver {
            builder = builder.dns_resolver(Arc::clone(resolver));
        }
        let client = builder
            .user_agent(concat!("kardinal/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls::config(ca)?)
            .timeout(self.inner.settings.timeout)
            .connect_timeout(self.inner.settings.timeout)
            // Redirects are followed by hand: never to another host, and never by turning a POST into a GET.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Error::fault(format!("cannot set up HTTP: {}", chain(&error))))?;
        if clients.len() >= REMEMBERED {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// What one account may ask of a host: nobody uses up what others may ask.
    fn host(&self, url: &Url, account: u64) -> Arc<Host> {
        let name = (authority(url), account);
        let mut hosts = lock(&self.inner.hosts);
        if hosts.len() >= REMEMBERED {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let settings = &self.inner.settings;
        let fresh = || {
            let budget = Budget::new(settings.burst, settings.per_second, Instant::now());
            Arc::new(Host {
                permits: Semaphore::new(settings.concurrency.max(1)),
                budget: Mutex::new(budget),
            })
        };
        Arc::clone(hosts.entry(name).or_insert_with(fresh))
    }
}

/// One request to make.
pub(crate) struct Request {
    /// Its name in metrics.
    pub(crate) endpoint: &'static str,
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<Value>,
}

impl Request {
    /// Whether doing it twice is as good as doing it once.
    fn repeatable(&self) -> bool {
        self.method != Method::POST
    }
}

/// Requests of one account.
pub(crate) struct Session {
    http: Http,
    client: Client,
    headers: HeaderMap,
    account: u64,
    credentials: Credentials,
}

/// A request without a usable answer.
struct Failure {
    error: Error,
    /// It may be tried again at once: it is repeatable, or it certainly never arrived.
    again: bool,
}

impl Session {
    /// A session with these headers on each request, and the credentials as the forge wants them.
    pub(crate) fn new(
        http: &Http,
        ca: Option<&[u8]>,
        credentials: &Credentials,
        token_scheme: &str,
        mut headers: HeaderMap,
    ) -> Result<Session, Error> {
        if let Some(value) = authorization(credentials, token_scheme)? {
            headers.insert(AUTHORIZATION, value);
        }
        let (client, account) = (http.client(ca)?, account(credentials));
        Ok(Session { http: http.clone(), client, headers, account, credentials: credentials.clone() })
    }

    /// Whether nobody knows who asks.
    pub(crate) fn is_anonymous(&self) -> bool {
        !matches!(self.credentials, Credentials::Token(_) | Credentials::Basic { .. })
    }

    /// What the forge says about a refusal, without our secret, should it repeat it.
    pub(crate) fn said(&self, answer: &Answer) -> String {
        let message = answer.message();
        match secret(&self.credentials) {
            Some(secret) => message.replace(secret, "***"),
            None => message,
        }
    }

    /// Makes the request. Every answer below 500 that is no rate limit is returned, whatever it says.
    pub(crate) async fn send(&self, request: &Request) -> Result<Answer, Error> {
        let settings = &self.http.inner.settings;
        let host = self.http.host(&request.url, self.account);
        let Ok(permit) = tokio::time::timeout(settings.patience, host.permits.acquire()).await else {
            return Err(Error::Fault {
                message: format!("too many requests to `{}` at once", authority(&request.url)),
                retry_after: Some(settings.patience),
            });
        };
        let mut pause = settings.first_pause;
        let mut left = settings.retries;
        loop {
            self.wait_for_turn(&host, &request.url).await?;
            let failure = match self.once(&host, request).await {
                Ok(answer) => {
                    drop(permit);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if !failure.again || left == 0 {
                return Err(failure.error);
            }
            left -= 1;
            tracing::debug!(endpoint = request.endpoint, error = %failure.error, "asking the forge again");
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn wait_for_turn(&self, host: &Host, url: &Url) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let ruling = lock(&host.budget).take(self.account, Instant::now());
            let Ruling::Wait(wait) = ruling else { return Ok(()) };
            if started.elapsed() + wait > self.http.inner.settings.patience {
                let host = authority(url);
                let message = format!("the request budget of `{host}` is used up; it asked for a pause");
                return Err(Error::Limited { message, retry_after: wait });
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn once(&self, host: &Host, request: &Request) -> Result<Answer, Failure> {
        let started = Instant::now();
        let outcome = self.follow(request).await;
        let status = outcome.as_ref().map_or(0, |answer| answer.status.as_u16());
        if let Some(observer) = &self.http.inner.observer {
            observer.request(request.endpoint, status, started.elapsed());
        }
        let answer = outcome?;
        let message = if answer.status.is_success() { String::new() } else { self.said(&answer) };
        let asked = limit::pause(answer.status, &answer.headers, &message, self.account, Timestamp::now());
        let mut retry_after = None;
        if let Some(pause) = asked {
            let mut budget = lock(&host.budget);
            let wait = pause.wait.unwrap_or_else(|| budget.limited(self.account));
            budget.pause(pause.whom, wait, Instant::now());
            retry_after = pause.refused.then_some(wait);
        }
        let temporary = matches!(answer.status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY)
            || answer.status.is_server_error();
        if retry_after.is_none() && !temporary {
            lock(&host.budget).answered(self.account);
            return Ok(answer);
        }
        let (name, status) = (authority(&request.url), answer.status.as_u16());
        let error = match retry_after {
            Some(retry_after) if !temporary => Error::Limited {
                message: format!(
                    "`{name}` limits how often it may be asked ({status}: {message}); it is asked again in {} s",
                    retry_after.as_secs().max(1)
                ),
                retry_after,
            },
            _ => {
                let message = format!("`{name}` cannot answer at the moment ({status}: {message})");
                Error::Fault { message, retry_after }
            }
        };
        Err(Failure { error, again: retry_after.is_none() && request.repeatable() })
    }

    /// One request and its redirects within the host.
    async fn follow(&self, request: &Request) -> Result<Answer, Failure> {
        let mut url = request.url.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.exchange(request, &url).await?;
            let keeps_method =
                matches!(answer.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if !answer.status.is_redirection() || !(keeps_method || request.method == Method::GET) {
                return Ok(answer);
            }
            let next = answer.headers.get(LOCATION).and_then(|to| url.join(to.to_str().ok()?).ok());
            match next {
                Some(next) if next.origin() == url.origin() => url = next,
                _ => return Ok(answer),
            }
        }
        let message = format!("`{}` redirects in circles", authority(&url));
        Err(Failure { error: Error::fault(message), again: false })
    }

    async fn exchange(&self, request: &Request, url: &Url) -> Result<Answer, Failure> {
        // Here and not before, so that a redirect is judged, too.
        let refused = |refused: Refused| Failure { error: refused.into(), again: false };
        self.http.inner.reach.check_url(url.as_str()).map_err(refused)?;
        let failed = |error: reqwest::Error| {
            if let Some(found) = Refused::within(&error) {
                return refused(found.clone());
            }
            let again = error.is_connect() || (request.repeatable() && !error.is_timeout());
            let message = format!("`{}` cannot be reached: {}", authority(url), chain(&error.without_url()));
            Failure { error: Error::fault(message), again }
        };
        let mut builder =
            self.client.request(request.method.clone(), url.clone()).headers(self.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.json(body);
        }
        let mut response = builder.send().await.map_err(failed)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > self.http.inner.settings.body_limit {
                let limit = self.http.inner.settings.body_limit;
                let message = format!("the answer of `{}` is larger than {limit} bytes", authority(url));
                return Err(Failure { error: Error::fault(message), again: false });
            }
            body.extend_from_slice(&chunk);
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(Answer { status: response.status(), headers, body: Bytes::from(body) })
    }
}

/// The `Authorization` header; its `Debug` output is hidden.
fn authorization(credentials: &Credentials, token_scheme: &str) -> Result<Option<HeaderValue>, Error> {
    let text = match credentials {
        Credentials::None | Credentials::Ssh { .. } => return Ok(None),
        Credentials::Token(token) => format!("{token_scheme} {}", plain(token)),
        Credentials::Basic { user, password } => {
            let pair = format!("{user}:{}", plain(password));
            format!("Basic {}", BASE64.encode(pair))
        }
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Error::not_let_in(
            "the token has characters that no token has (a line break in the middle, or others that cannot be \
             printed); put the token alone into the Secret that `spec.git.secretRef` names",
        )
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// `host:port` as it stands in the URL.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// An error with its causes, which carry the part that helps.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
