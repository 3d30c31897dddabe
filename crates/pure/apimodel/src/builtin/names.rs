//! What the names of a kind's objects must look like; `meta` checks them.

/// The rule that a kind's names follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds and all custom resources.
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that can stand in a URL path: RBAC kinds and Events.
    PathSegment,
}
