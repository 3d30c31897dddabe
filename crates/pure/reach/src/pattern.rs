//! Hosts by name or by pattern, as an operator's flag or a Secret's annotation lists them.

use std::fmt;

use super::plain;

/// One host, or all hosts below a domain; with a port, only that one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// In lower case, without brackets; of a domain without `*.`.
    name: String,
    below: bool,
    port: Option<u16>,
}

impl Pattern {
    /// Reads `host`, `host:port`, `*.domain`, `*.domain:port` or `[::1]:port`.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "`{}` is not a host: write `github.com`, `git.example.com:3000` or `*.example.com`, without a scheme \
                 and a path",
                text.escape_debug()
            )
        };
        let (host, port) = split(text);
        let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
        let (name, below) = match host.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (host, false),
        };
        let name = plain(name);
        let fine = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        match !name.is_empty() && !name.starts_with('.') && name.chars().all(fine) {
            true => Ok(Pattern { name, below, port }),
            false => Err(wrong()),
        }
    }

    fn means(&self, host: &str) -> bool {
        match self.below {
            true => host.strip_suffix(&self.name).is_some_and(|rest| rest.ends_with('.')),
            false => host == self.name,
        }
    }

    fn matches(&self, host: &str, port: Option<u16>) -> bool {
        self.means(host) && (self.port.is_none() || self.port == port)
    }
}

/// Host and port; the colons of an address of IPv6 without brackets are its own.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.below { "*." } else { "" };
        match (self.name.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.name),
            (false, Some(port)) => write!(f, "{below}{}:{port}", self.name),
            (_, None) => write!(f, "{below}{}", self.name),
        }
    }
}

/// A list of hosts. An empty one names none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

impl Hosts {
    /// Reads a list with commas in between.
    pub fn parse(text: &str) -> Result<Hosts, String> {
        let patterns = text.split(',').filter(|part| !part.trim().is_empty()).map(Pattern::parse);
        Ok(Hosts(patterns.collect::<Result<_, _>>()?))
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a host is among them. `host` is a name or an address, as a parsed URL has it.
    pub fn matches(&self, host: &str, port: Option<u16>) -> bool {
        let host = plain(host);
        self.0.iter().any(|pattern| pattern.matches(&host, port))
    }

    /// Whether a host is among them by its own name and not by a pattern, whatever the port.
    pub(super) fn names(&self, host: &str) -> bool {
        self.0.iter().any(|pattern| !pattern.below && pattern.means(host))
    }
}

impl From<Vec<Pattern>> for Hosts {
    fn from(patterns: Vec<Pattern>) -> Hosts {
        Hosts(patterns)
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Pattern::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_and_written() {
        for text in [
            "github.com",
            "git.example.com:3000",
            "*.example.com",
            "*.example.com:443",
            "[::1]:80",
            "::1",
            "10.0.0.1",
        ] {
            assert_eq!(Pattern::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "https://github.com",
            "github.com/acme",
            "a b",
            "*",
            "*.",
            "host:port",
            "host:99999",
            "*.*.com",
            "u@h",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
        assert_eq!(Hosts::parse(" a.example, ,*.b.example ").unwrap().to_string(), "a.example, *.b.example");
    }
}
