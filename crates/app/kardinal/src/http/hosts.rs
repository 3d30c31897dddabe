//! Under which names the web side answers: a page of somebody else's, whose name was made to lead here, is turned away.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::Web;

/// Where every request proves itself by a signature, a token that no browser adds by itself, or tells nothing.
const ANY_HOST: [&str; 5] = ["/api/", "/webhooks", "/git/", "/healthz", "/readyz"];

/// The names in `Host` that are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Whatever a cluster calls it: nothing that is served there trusts a browser.
    Any,
    /// Addresses, which nobody can make to lead elsewhere; `localhost`; and these names.
    Named(Vec<String>),
}

impl Hosts {
    /// The names that were given on the command line; `*` stands for all.
    pub(crate) fn named(names: &[String]) -> Hosts {
        match names.iter().any(|name| name == "*") {
            true => Hosts::Any,
            false => Hosts::Named(names.to_vec()),
        }
    }

    fn admit(&self, host: &str) -> bool {
        let Hosts::Named(names) = self else { return true };
        let name = without_port(host);
        let is_address = name.parse::<IpAddr>().is_ok()
            || name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(is_ipv6);
        let is_local = |name: &str| name == "localhost" || name.ends_with(".localhost");
        is_address
            || is_local(&name.to_ascii_lowercase())
            || names.iter().any(|one| one.eq_ignore_ascii_case(name))
    }
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Turns away requests for a name that is not ours.
pub(super) async fn check(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if ANY_HOST.iter().any(|prefix| path.starts_with(prefix)) {
        return next.run(request).await;
    }
    let in_uri = request.uri().authority().map(|authority| authority.as_str());
    let in_header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    match in_uri.or(in_header).is_some_and(|host| web.hosts.admit(host)) {
        true => next.run(request).await,
        false => {
            let said =
                "this name is not served here: use an address, or add the name to `--http-allowed-hosts`\n";
            (StatusCode::MISDIRECTED_REQUEST, said).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_made_to_lead_here_is_turned_away() {
        let hosts = Hosts::named(&["kardinal.example.com".to_owned()]);
        for ours in [
            "127.0.0.1:8440",
            "127.0.0.1",
            "[::1]:8440",
            "[::1]",
            "10.1.2.3:80",
            "localhost:8440",
            "LOCALHOST",
            "a.localhost:1",
            "kardinal.example.com",
            "Kardinal.Example.com:443",
        ] {
            assert!(hosts.admit(ours), "{ours}");
        }
        for foreign in [
            "",
            "evil.example.com:8440",
            "127.0.0.1.evil.com",
            "localhost.evil.com",
            "notlocalhost",
            "x.kardinal.example.com",
            "[evil]",
            "127.0.0.1:evil",
            "127.0.0.1@evil.com",
        ] {
            assert!(!hosts.admit(foreign), "{foreign}");
        }
        assert!(Hosts::named(&["*".to_owned()]).admit("evil.example.com"));
    }
}
