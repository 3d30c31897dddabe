//! What the names of objects must look like, in the words of Kubernetes.

/// The rule that a kind's names follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds and all custom resources.
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that can stand in a URL path: RBAC kinds.
    PathSegment,
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// What is wrong with a name, if anything. A prefix (`generateName`) may end in a dash.
pub fn name_problem(rule: NameRule, name: &str, prefix: bool) -> Option<String> {
    // The part that the server appends to a prefix makes a trailing dash harmless.
    let name =
        if prefix && rule != NameRule::PathSegment { name.strip_suffix('-').unwrap_or(name) } else { name };
    let (max, shape, message) = match rule {
        NameRule::Subdomain => (253, name.split('.').all(is_label), SUBDOMAIN),
        NameRule::Label => (63, is_label(name), LABEL),
        NameRule::Label1035 => {
            (63, is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()), LABEL_1035)
        }
        NameRule::PathSegment => return path_segment_problem(name),
    };
    if name.len() > max {
        return Some(format!("must be no more than {max} bytes"));
    }
    (!shape).then(|| message.to_owned())
}

fn is_label(part: &str) -> bool {
    let ends = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends(part.bytes().next())
        && ends(part.bytes().last())
        && part.bytes().all(|c| c == b'-' || c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn path_segment_problem(name: &str) -> Option<String> {
    if name == "." || name == ".." {
        return Some(format!("may not be '{name}'"));
    }
    ['/', '%'].into_iter().find(|c| name.contains(*c)).map(|c| format!("may not contain '{c}'"))
}
