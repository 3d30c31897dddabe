//! Which thing a request path names.
//!
//! Only text is looked at here; whether the group, version or resource exists is the model's knowledge.

/// What a path stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `/`
    Root,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` and `/apis/GROUP/VERSION`
    Resources {
        /// Empty for the core group.
        group: String,
        /// As in the path.
        version: String,
    },
    /// An object, a collection or a subresource.
    Resource(ResourcePath),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiV3,
    /// `/openapi/v3/…`
    OpenApiV3Group {
        /// Empty for the core group.
        group: String,
        /// As in the path.
        version: String,
    },
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz` and their single checks.
    Health {
        /// `healthz`, `livez` or `readyz`.
        endpoint: &'static str,
        /// One named check.
        check: Option<String>,
    },
    /// `/kardinal/backup`
    Backup,
    /// Nothing we know.
    Unknown,
}

/// The parts of a resource path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Reads a path as a client wrote it, percent signs included.
pub(crate) fn parse(path: &str) -> Target {
    let mut segments = Vec::with_capacity(8);
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        match decode(segment, false) {
            Some(text) => segments.push(text),
            None => return Target::Unknown,
        }
    }
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Target::Root,
        ["api"] => Target::CoreVersions,
        ["api", version] => Target::Resources { group: String::new(), version: (*version).to_owned() },
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).to_owned()),
        ["apis", group, version] => {
            Target::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        ["openapi", "v2"] => Target::OpenApiV2,
        ["openapi", "v3"] => Target::OpenApiV3,
        ["openapi", "v3", "api", version] => {
            Target::OpenApiV3Group { group: String::new(), version: (*version).to_owned() }
        }
        ["openapi", "v3", "apis", group, version] => {
            Target::OpenApiV3Group { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["version"] => Target::Version,
        ["kardinal", "backup"] => Target::Backup,
        ["healthz", rest @ ..] => health("healthz", rest),
        ["livez", rest @ ..] => health("livez", rest),
        ["readyz", rest @ ..] => health("readyz", rest),
        _ => Target::Unknown,
    }
}

fn health(endpoint: &'static str, rest: &[&str]) -> Target {
    match rest {
        [] => Target::Health { endpoint, check: None },
        [check] => Target::Health { endpoint, check: Some((*check).to_owned()) },
        _ => Target::Unknown,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Target {
    let (namespace, rest) = match rest {
        // A namespace object and its own subresources are not "things in a namespace".
        ["namespaces", _name] | ["namespaces", _name, "status" | "finalize"] if group.is_empty() => {
            (None, rest)
        }
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let (resource, name, subresource) = match rest {
        [resource] => (resource, None, None),
        [resource, name] => (resource, Some(name), None),
        [resource, name, subresource] => (resource, Some(name), Some(subresource)),
        _ => return Target::Unknown,
    };
    Target::Resource(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        resource: (*resource).to_owned(),
        name: name.map(|name| (*name).to_owned()),
        subresource: subresource.map(|subresource| (*subresource).to_owned()),
    })
}

/// Undoes percent encoding (and `+` for a space in queries); nothing when it is not valid UTF-8 or cut off.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let encoded = text.contains('%') || (plus_is_space && text.contains('+'));
    if !encoded {
        return Some(text.to_owned());
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                decoded.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_space => decoded.push(b' '),
            other => decoded.push(other),
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &[&str; 6]) {
        let [group, version, namespace, resource, name, subresource] = expected.map(str::to_owned);
        let some = |text: String| (!text.is_empty()).then_some(text);
        let expected = ResourcePath {
            group,
            version,
            namespace: some(namespace),
            resource,
            name: some(name),
            subresource: some(subresource),
        };
        assert_eq!(parse(path), Target::Resource(expected), "{path}");
    }

    #[test]
    fn resource_paths() {
        check("/api/v1/pods", &["", "v1", "", "pods", "", ""]);
        check("/api/v1/namespaces", &["", "v1", "", "namespaces", "", ""]);
        check("/api/v1/namespaces/a", &["", "v1", "", "namespaces", "a", ""]);
        check("/api/v1/namespaces/a/status", &["", "v1", "", "namespaces", "a", "status"]);
        check("/api/v1/namespaces/a/finalize", &["", "v1", "", "namespaces", "a", "finalize"]);
        check("/api/v1/namespaces/a/pods", &["", "v1", "a", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/b", &["", "v1", "a", "pods", "b", ""]);
        check("/api/v1/namespaces/a/pods/b/status", &["", "v1", "a", "pods", "b", "status"]);
        check("/apis/apps/v1/deployments", &["apps", "v1", "", "deployments", "", ""]);
        check(
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            &["apps", "v1", "a", "deployments", "b", "scale"],
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aadmin",
            &["rbac.authorization.k8s.io", "v1", "", "clusterroles", "system:admin", ""],
        );
    }

    #[test]
    fn other_paths() {
        let health =
            |endpoint, check: Option<&str>| Target::Health { endpoint, check: check.map(str::to_owned) };
        for (path, expected) in [
            ("/", Target::Root),
            ("/api", Target::CoreVersions),
            ("/api/", Target::CoreVersions),
            ("/api/v1", Target::Resources { group: String::new(), version: "v1".into() }),
            ("/apis", Target::Groups),
            ("/apis/apps", Target::Group("apps".into())),
            ("/apis/apps/v1", Target::Resources { group: "apps".into(), version: "v1".into() }),
            ("/openapi/v2", Target::OpenApiV2),
            ("/openapi/v3", Target::OpenApiV3),
            ("/openapi/v3/api/v1", Target::OpenApiV3Group { group: String::new(), version: "v1".into() }),
            (
                "/openapi/v3/apis/apps/v1",
                Target::OpenApiV3Group { group: "apps".into(), version: "v1".into() },
            ),
            ("/version", Target::Version),
            ("/healthz", health("healthz", None)),
            ("/readyz/ping", health("readyz", Some("ping"))),
            ("/livez/a/b", Target::Unknown),
            ("/metrics", Target::Unknown),
            ("/api/v1/a/b/c/d/e", Target::Unknown),
            ("/api/v1/pods/%zz", Target::Unknown),
            ("/api/v1/pods/%ff", Target::Unknown),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
    }

    #[test]
    fn decoding() {
        for (text, plus, expected) in [
            ("a%20b", false, Some("a b")),
            ("a+b", false, Some("a+b")),
            ("a+b", true, Some("a b")),
            ("%e2%82%ac", true, Some("€")),
            ("%4", true, None),
            ("%", true, None),
            ("%+1", true, None),
        ] {
            assert_eq!(decode(text, plus).as_deref(), expected, "{text}");
        }
    }
}
