//! Which hosts the program may talk to. URLs come from objects that many people may write, and what stands behind
//! them may be the machine itself, or the service that hands out its credentials.
//!
//! [`Policy::check_host`] judges what a URL names and [`Policy::check_address`] what that name turned out to be; a
//! connection needs both, so a name that resolves to a forbidden address is as forbidden as the address itself.

mod address;
mod pattern;
mod refused;

use std::net::{IpAddr, SocketAddr};

use url::Url;

pub use address::Sort;
pub use pattern::{Hosts, Pattern};
pub use refused::Refused;

/// Host and port that a URL leads to, `user@host:path` included.
pub fn authority(url: &str) -> (String, Option<u16>) {
    match Url::parse(url) {
        Ok(parsed) if url.contains("://") => {
            let port = parsed.port_or_known_default().or((parsed.scheme() == "ssh").then_some(22));
            (parsed.host_str().unwrap_or_default().to_owned(), port)
        }
        _ => {
            let host = url.split(':').next().unwrap_or_default();
            (host.rsplit('@').next().unwrap_or(host).to_owned(), Some(22))
        }
    }
}

/// Whether a URL means the same to everybody who reads it. Some take `\` for the end of the host, some drop white space:
/// what one judges must be where another one goes.
pub fn check_plain(url: &str) -> Result<(), Refused> {
    match url.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
        None => Ok(()),
        Some(strange) => Err(Refused::url(format!(
            "the URL `{}` has {strange:?} in it, which a URL cannot have: remove it",
            url.escape_debug()
        ))),
    }
}

/// Names that lead to a machine's metadata service, whatever they resolve to.
const METADATA: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];

/// What may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    hosts: Hosts,
    machine: bool,
}

impl Policy {
    /// For a controller that serves many people: no loopback, link-local or metadata address, no files and no keys of
    /// the machine. If `hosts` names any, only those are reached.
    pub fn cluster(hosts: Hosts) -> Policy {
        Policy { hosts, machine: false }
    }

    /// For a program that serves the one who started it: loopback, files and that person's SSH keys are fine, too.
    pub fn machine(hosts: Hosts) -> Policy {
        Policy { hosts, machine: true }
    }

    /// Whether files of this machine are repositories, and its SSH keys and agent are used.
    pub fn uses_machine(&self) -> bool {
        self.machine
    }

    /// Whether the host of a URL may be talked to.
    pub fn check_url(&self, url: &str) -> Result<(), Refused> {
        check_plain(url)?;
        let (host, port) = authority(url);
        self.check_host(&host, port)
    }

    /// Whether the host that a URL names may be talked to. `host` is a name or an address, with or without the
    /// brackets of IPv6, as a parsed URL has it; the reason says what to do when it may not.
    pub fn check_host(&self, host: &str, port: Option<u16>) -> Result<(), Refused> {
        let host = plain(host);
        if !self.hosts.is_empty() && !self.hosts.matches(&host, port) {
            return Err(Refused::host(format!(
                "`{host}` is not among the hosts that may be reached: the operator names them with `--allowed-hosts`"
            )));
        }
        if let Ok(address) = host.parse() {
            return self.check_address(&host, address);
        }
        let local = host == "localhost" || host.ends_with(".localhost");
        let metadata = METADATA.contains(&host.as_str());
        match (local && !self.machine) || metadata {
            true if !self.hosts.names(&host) => {
                Err(refusal(&host, if metadata { Sort::Metadata } else { Sort::Loopback }))
            }
            _ => Ok(()),
        }
    }

    /// Whether an address that a host turned out to have may be connected to. Only a host that the operator named by
    /// itself, not by a pattern, may be at any address; which of its ports is for [`Policy::check_host`] to say.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let host = plain(host);
        let sort = Sort::of(address);
        let fine = match sort {
            Sort::Ordinary => true,
            Sort::Loopback => self.machine,
            Sort::Metadata | Sort::LinkLocal | Sort::Nowhere => false,
        };
        match fine || self.hosts.names(&host) {
            true => Ok(()),
            false => Err(refusal(&host, sort)),
        }
    }

    /// The addresses of a host that may be connected to. Whoever connects must use one of these and not look the name
    /// up again: it may lead elsewhere by then.
    pub fn among(
        &self,
        host: &str,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refused> {
        let (mut allowed, mut refused) = (Vec::new(), None);
        for address in addresses {
            match self.check_address(host, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = Some(reason),
            }
        }
        match refused {
            Some(reason) if allowed.is_empty() => Err(reason),
            _ => Ok(allowed),
        }
    }
}

fn refusal(host: &str, sort: Sort) -> Refused {
    Refused::host(format!(
        "`{host}` may not be reached: it is {sort}; if that is wanted, the operator names it with `--allowed-hosts {host}`"
    ))
}

/// In lower case, without brackets and without the dot that ends an absolute name; an address in its usual form.
fn plain(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => bare.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use kardinal_vcs::Barrier;

    use super::*;

    fn hosts(text: &str) -> Hosts {
        Hosts::parse(text).unwrap()
    }

    #[test]
    fn a_cluster_does_not_reach_loopback_link_local_or_metadata() {
        let policy = Policy::cluster(Hosts::default());
        for host in [
            "127.0.0.1",
            "127.8.9.1",
            "localhost",
            "LOCALHOST.",
            "x.localhost",
            "[::1]",
            "::1",
            "0.0.0.0",
            "[::]",
            "169.254.169.254",
            "169.254.1.1",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "[::ffff:127.0.0.1]",
            "[::ffff:169.254.169.254]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "metadata.google.internal",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            let told = policy.check_host(host, None).unwrap_err().to_string();
            assert!(told.contains("--allowed-hosts"), "{host}: {told}");
        }
        for host in [
            "github.com",
            "10.0.0.7",
            "192.168.1.1",
            "172.16.0.1",
            "gitea.tools.svc",
            "1.1.1.1",
            "[2001:db8::1]",
        ] {
            policy.check_host(host, Some(3000)).unwrap();
        }
    }

    #[test]
    fn a_name_is_judged_by_what_it_turns_out_to_be() {
        let policy = Policy::cluster(Hosts::default());
        policy.check_host("rebinding.example", Some(80)).unwrap();
        for address in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"] {
            let judged = policy.check_address("rebinding.example", address.parse().unwrap());
            assert_eq!(judged.is_err(), address != "::ffff:10.0.0.1", "{address}");
        }
    }

    #[test]
    fn only_the_allowed_addresses_of_a_name_are_left_and_none_is_a_refusal() {
        let policy = Policy::cluster(Hosts::default());
        let [own, metadata, fine] =
            ["127.0.0.1:22", "169.254.169.254:22", "10.0.0.1:22"].map(|a| a.parse().unwrap());
        assert_eq!(policy.among("x.example", [own, fine, metadata]), Ok(vec![fine]));
        assert_eq!(policy.among("x.example", []), Ok(vec![]));
        let refused = policy.among("x.example", [own, metadata]).unwrap_err();
        let inside = std::io::Error::other(std::io::Error::other(refused.clone()));
        assert_eq!(Refused::within(&inside), Some(&refused));
        assert_eq!(Refused::within(&std::io::Error::other("--allowed-hosts")), None);
    }

    #[test]
    fn every_form_of_an_address_has_its_authority() {
        for (url, host, port) in [
            ("https://github.com/a/b", "github.com", Some(443)),
            ("http://2130706433:80/x", "127.0.0.1", Some(80)),
            ("ssh://git@git.example:2222/a.git", "git.example", Some(2222)),
            ("ssh://git@git.example/a.git", "git.example", Some(22)),
            ("git@git.example:a/b.git", "git.example", Some(22)),
            ("https://github.com@evil.example/", "evil.example", Some(443)),
            ("git@evil:github.com", "evil", Some(22)),
        ] {
            assert_eq!(authority(url), (host.to_owned(), port), "{url}");
        }
    }

    #[test]
    fn a_url_that_two_readers_could_read_in_two_ways_is_refused() {
        for url in
            ["https://good\\@evil/x", "https://good /x", "https://go\tod/x", "git@good:a\\b", "https://a\n/"]
        {
            assert!(check_plain(url).is_err(), "{url:?}");
            assert!(Policy::machine(Hosts::default()).check_url(url).is_err(), "{url:?}");
        }
        check_plain("https://user:p%20w@host:3000/a/b.git?x#y").unwrap();
    }

    #[test]
    fn a_host_is_the_operators_matter_and_a_wrong_url_is_not() {
        let only = Policy::cluster(hosts("github.com"));
        for (url, expected) in [
            ("https://git.example/a", Barrier::HostNotAllowed),
            ("https://127.0.0.1/token", Barrier::HostNotAllowed),
            ("https://git.example\\@github.com/--allowed-hosts", Barrier::Other),
        ] {
            assert_eq!(only.check_url(url).unwrap_err().barrier(), expected, "{url}");
        }
        let metadata = Policy::cluster(Hosts::default()).check_address("x", [169, 254, 169, 254].into());
        assert_eq!(metadata.unwrap_err().barrier(), Barrier::HostNotAllowed);
    }

    #[test]
    fn one_machine_reaches_itself_but_no_metadata() {
        let policy = Policy::machine(Hosts::default());
        assert!(policy.uses_machine());
        for host in ["127.0.0.1", "localhost", "[::1]", "github.com"] {
            policy.check_host(host, None).unwrap();
        }
        for host in ["169.254.169.254", "metadata.google.internal", "[fe80::1]", "0.0.0.0"] {
            policy.check_host(host, None).unwrap_err();
        }
    }

    #[test]
    fn an_allow_list_is_the_only_way() {
        let policy = Policy::cluster(hosts("github.com, *.example.com, 127.0.0.1:3000, [::1]:8080"));
        for (host, port) in [
            ("github.com", None),
            ("GitHub.com", Some(443)),
            ("a.b.example.com", None),
            ("127.0.0.1", Some(3000)),
            ("[::1]", Some(8080)),
        ] {
            policy.check_host(host, port).unwrap();
        }
        for (host, port) in [
            ("gitlab.com", None),
            ("example.com", None),
            ("evilexample.com", None),
            ("github.com.evil.example", None),
            ("127.0.0.1", Some(3001)),
            ("127.0.0.1", None),
            ("10.0.0.1", None),
        ] {
            policy.check_host(host, port).unwrap_err();
        }
        // A pattern lets nobody in who has a name below it point it at this machine.
        let loopback = "127.0.0.1".parse().unwrap();
        policy.check_address("github.com", loopback).unwrap();
        policy.check_address("a.example.com", loopback).unwrap_err();
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(host in ".*", list in ".*") {
            let policy = Policy::cluster(Hosts::parse(&list).unwrap_or_default());
            let _ = policy.check_host(&host, Some(1));
        }

        #[test]
        fn every_loopback_address_is_refused_however_it_is_written(low in 0u32..=0x00ff_ffff) {
            let policy = Policy::cluster(Hosts::default());
            let four = std::net::Ipv4Addr::from(0x7f00_0000 | low);
            proptest::prop_assert!(policy.check_host(&four.to_string(), None).is_err());
            proptest::prop_assert!(policy.check_host(&four.to_ipv6_mapped().to_string(), None).is_err());
        }
    }
}
