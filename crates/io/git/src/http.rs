//! Smart HTTP: our own small client for git's wire protocol, over pooled connections.

pub(crate) mod fetch;
pub(crate) mod pktline;
pub(crate) mod push;
mod tls;

use std::{
    collections::{BTreeSet, HashMap},
    error::Error as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest::{
    Client, Response, StatusCode,
    dns::Resolve,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER},
};

use kardinal_reach::{Policy, Refused};
use kardinal_vcs::Barrier;

use crate::{
    Credentials, Error,
    error::Failure,
    remote::{Target, header},
    store::guard,
};

/// How we call ourselves.
pub(crate) const AGENT: &str = concat!("kardinal/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(10);
/// Servers close idle connections after a minute or so; a push should not find out the hard way.
const IDLE: Duration = Duration::from_secs(45);
const SILENCE: Duration = Duration::from_secs(60);
const WHOLE: Duration = Duration::from_secs(900);
/// Answers that are not packs are small.
const MAX_TEXT: usize = 8 << 20;
const MAX_REDIRECTS: usize = 4;

/// Connections to all hosts, one pool per set of trusted certificates.
pub(crate) struct Http {
    clients: Mutex<HashMap<Option<Vec<u8>>, Client>>,
    /// Looks up names, where not every address may be connected to.
    resolver: Option<Arc<dyn Resolve>>,
}

impl Http {
    /// No connection yet.
    pub(crate) fn new(resolver: Option<Arc<dyn Resolve>>) -> Http {
        Http { clients: Mutex::default(), resolver }
    }

    /// Who looks up names, where not every address may be connected to.
    pub(crate) fn resolver(&self) -> Option<&Arc<dyn Resolve>> {
        self.resolver.as_ref()
    }

    /// The client that trusts the system's certificates and the given ones.
    pub(crate) fn client(&self, ca: Option<&Vec<u8>>) -> Result<Client, Failure> {
        let key = ca.cloned();
        if let Some(client) = guard(&self.clients).get(&key) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder();
        if let Some(resolver) = &self.resolver {
            builder = builder.dns_resolver(Arc::clone(resolver));
        }
        let client = builder
            .user_agent(format!("git/2.0 ({AGENT})"))
            .tls_backend_preconfigured(tls::config(ca.map(Vec::as_slice))?)
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(IDLE)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .timeout(WHOLE)
            .build()
            .map_err(|error| Failure::fault(format!("setting up HTTP: {}", reason(&error))))?;
        guard(&self.clients).insert(key, client.clone());
        Ok(client)
    }
}

/// What a remote said about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capabilities {
    /// Whether it speaks version 2 of the protocol.
    pub(crate) modern: bool,
    /// Whether it can leave objects out of what it sends.
    pub(crate) filter: bool,
    names: BTreeSet<String>,
}

impl Capabilities {
    fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// The line to one repository. Credentials go with every request: servers that answer 401 first would
/// cost a round trip each time.
pub(crate) struct Line<'a> {
    pub(crate) client: Client,
    pub(crate) target: &'a Target,
    /// Where the repository really is, after redirects.
    pub(crate) base: &'a Mutex<Option<String>>,
    /// Which hosts may be talked to.
    pub(crate) reach: &'a Policy,
}

impl Line<'_> {
    /// Asks what the remote can do.
    pub(crate) async fn capabilities(&self) -> Result<Capabilities, Failure> {
        let service = "git-upload-pack";
        let response = self.send(&format!("/info/refs?service={service}"), None).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if kind != format!("application/x-{service}-advertisement") {
            return Err(Failure::problem(format!(
                "`{}` is not a git repository: it answers with `{}`",
                self.target.url,
                kind.escape_debug()
            )));
        }
        let body = text(response).await?;
        let mut reader = body.as_slice();
        let mut found = Capabilities::default();
        while let Some(packet) = pktline::read(&mut reader).map_err(|error| self.garbled(&error))? {
            let pktline::Packet::Line(line) = packet else { continue };
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            match line.as_str() {
                "version 2" => found.modern = true,
                "object-format=sha256" => {
                    return Err(Failure::problem(format!(
                        "`{}` names its objects by SHA-256, which is not supported: use a repository with SHA-1",
                        self.target.url
                    )));
                }
                line => {
                    let features = line.strip_prefix("fetch=").unwrap_or_default();
                    found.filter |= features.split(' ').any(|feature| feature == "filter");
                    found.names.insert(line.split('=').next().unwrap_or_default().to_owned());
                }
            }
        }
        Ok(found)
    }

    /// Sends a request, following redirects that stay on the host.
    async fn send(&self, suffix: &str, body: Option<(&str, bytes::Bytes)>) -> Result<Response, Failure> {
        for _ in 0..MAX_REDIRECTS {
            let base = guard(self.base).clone().unwrap_or_else(|| self.target.url.clone());
            let url = format!("{base}{suffix}");
            let mut request = match &body {
                None => self.client.get(&url),
                Some((service, body)) => self
                    .client
                    .post(&url)
                    .header(CONTENT_TYPE, format!("application/x-{service}-request"))
                    .header(ACCEPT, format!("application/x-{service}-result"))
                    .body(body.clone()),
            };
            if suffix.contains("upload-pack") {
                request = request.header("Git-Protocol", "version=2");
            }
            if let Some(secret) = header(&self.target.credentials) {
                let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| {
                    Failure::not_let_in("the credentials contain characters that HTTP does not allow")
                })?;
                value.set_sensitive(true);
                request = request.header(AUTHORIZATION, value);
            }
            let response = request.send().await.map_err(|error| self.unreachable(&error))?;
            if !response.status().is_redirection() {
                return self.accept(response);
            }
            let moved = self.follow(&base, suffix, &response)?;
            *guard(self.base) = Some(moved);
        }
        Err(Failure::problem(format!("`{}` redirects in circles", self.target.url)))
    }

    /// Where a redirect leads. Another host would get our credentials, so it must be named by the user.
    fn follow(&self, base: &str, suffix: &str, response: &Response) -> Result<String, Failure> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("");
        let old = reqwest::Url::parse(base).map_err(|_| self.not_a_url())?;
        let new = old.join(location).map_err(|_| self.not_a_url())?;
        let same_host = new.host_str() == old.host_str();
        let same_port = new.port_or_known_default() == old.port_or_known_default();
        let upgrade =
            old.scheme() == "http" && new.scheme() == "https" && new.port().is_none() && old.port().is_none();
        let path = suffix.split('?').next().unwrap_or(suffix);
        let mut clean = new.clone();
        clean.set_query(None);
        clean.set_fragment(None);
        match clean.as_str().strip_suffix(path) {
            Some(moved) if same_host && (upgrade || (same_port && new.scheme() == old.scheme())) => {
                self.reach.check_url(new.as_str())?;
                Ok(moved.to_owned())
            }
            _ => Err(Failure::problem(format!(
                "the repository `{}` has moved to another place on `{}`: correct the URL",
                self.target.url,
                new.host_str().unwrap_or("an unknown host")
            ))),
        }
    }

    fn not_a_url(&self) -> Failure {
        Failure::problem(format!("`{}` is not a valid URL", self.target.url))
    }

    /// Sorts answers that are no success by who has to act.
    fn accept(&self, response: Response) -> Result<Response, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.trim().parse().ok())
            .map(Duration::from_secs);
        let (host, url) = (self.target.host(), &self.target.url);
        let anonymous = self.target.credentials == Credentials::None;
        let what = match status {
            StatusCode::UNAUTHORIZED if anonymous => {
                format!("{host} asks for credentials for `{url}`: name a Secret with a token")
            }
            StatusCode::UNAUTHORIZED => format!("the token was refused by {host}: check the Secret"),
            StatusCode::FORBIDDEN if retry_after.is_none() => format!(
                "the token was refused by {host} for `{url}`: check the Secret and that it may write to the repository"
            ),
            StatusCode::NOT_FOUND => {
                format!(
                    "there is no repository `{url}`, or the token may not see it: check the URL and the Secret"
                )
            }
            StatusCode::PAYLOAD_TOO_LARGE => format!("{host} refuses a push of this size (413)"),
            status if status.is_client_error() && !is_passing(status) => {
                format!("{host} refuses requests for `{url}` with status {}", status.as_u16())
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => {
                let message = format!("{host} limits how often it may be asked ({})", status.as_u16());
                return Err(Error::Limited { message, retry_after }.into());
            }
            status => {
                let message = format!("{host} answers with status {}", status.as_u16());
                return Err(Error::Fault { message, retry_after }.into());
            }
        };
        let barrier = match status {
            // Whoever may not see a repository is told that there is none.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Barrier::NotLetIn,
            _ => Barrier::Other,
        };
        Err(Error::Problem { message: what, barrier }.into())
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if let Some(refused) = Refused::within(error) {
            return refused.clone().into();
        }
        let why = reason(error);
        if why.contains("invalid peer certificate") {
            return Failure::problem(format!(
                "the certificate of {} is not trusted ({why}): give the CA that signed it",
                self.target.host()
            ));
        }
        Failure::fault(format!("{} cannot be reached: {}", self.target.host(), why))
    }

    /// The server says why it does not go on.
    fn answered(&self, error: &str) -> Failure {
        Failure::fault(format!("{} answers: {}", self.target.host(), one_line(error)))
    }

    fn garbled(&self, error: &std::io::Error) -> Failure {
        Failure::fault(format!("{} sent an answer that cannot be understood: {error}", self.target.host()))
    }
}

/// So much of what a server says is repeated to people.
const SAID_LIMIT: usize = 500;

/// What a server says, in one short line: it may be as long as a packet and hold anything.
fn one_line(said: &str) -> String {
    let mut line: String =
        said.chars().take(SAID_LIMIT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if said.chars().nth(SAID_LIMIT).is_some() {
        line.push('…');
    }
    line.trim().to_owned()
}

/// Client errors that go away by themselves.
fn is_passing(status: StatusCode) -> bool {
    matches!(status, StatusCode::FORBIDDEN | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        || status.as_u16() == 425
}

/// A body of moderate size.
async fn text(mut response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_TEXT => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(Failure::fault("the answer is longer than 8 MiB")),
            Ok(None) => return Ok(body),
            Err(error) => {
                return Err(Failure::fault(format!("the answer was cut short: {}", reason(&error))));
            }
        }
    }
}

/// The innermost reason of an error, without the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    match error.source() {
        None if error.is_timeout() => "it took too long".to_owned(),
        None => "the request failed".to_owned(),
        Some(_) if error.is_timeout() => format!("it took too long ({inner})"),
        Some(_) => inner.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_one_short_line() {
        assert_eq!(one_line("access denied\n"), "access denied");
        assert_eq!(one_line("\u{1b}[2Jgone\r\nRESULT: VERIFIED"), "[2Jgone  RESULT: VERIFIED");
        let endless = one_line(&"x".repeat(60_000));
        assert_eq!((endless.chars().count(), endless.ends_with("x…")), (SAID_LIMIT + 1, true));
    }
}
