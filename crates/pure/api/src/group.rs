//! What an API group brings along: its kinds, and who may do what with them. An installation and the definitions are made of
//! these, so a group is named here once.

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::GROUPS;

/// The kinds that belong together.
pub(crate) struct ApiGroup {
    /// Its name.
    pub(crate) name: &'static str,
    /// The definitions of its kinds, as the derives give them.
    pub(crate) crds: fn() -> Vec<CustomResourceDefinition>,
    /// Who may do what.
    pub(crate) rights: &'static [Right],
}

/// What somebody may do with resources of a group.
pub(crate) struct Right {
    /// Who.
    pub(crate) who: Holder,
    /// With which resources, or subresources of them.
    pub(crate) resources: &'static [&'static str],
    /// What.
    pub(crate) verbs: &'static [&'static str],
}

/// Who has a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The controllers, but for what Graphs make.
    Controllers,
    /// The controller of Graphs, for whoever writes one.
    Graphs,
    /// People who may look at a namespace.
    Viewers,
    /// People who may change a namespace, besides what viewers may.
    Editors,
    /// People who own a namespace, besides what editors may.
    Admins,
}

/// To look at objects.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];
/// To do everything with them, one by one.
pub(crate) const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
/// To say how they stand.
pub(crate) const REPORT: &[&str] = &["get", "update", "patch"];
/// What people do to the objects that they own, besides reading them.
pub(crate) const CHANGE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// The rights of a holder in all groups.
pub(crate) fn rights_of(who: Holder) -> Vec<PolicyRule> {
    let of_group = |group: &ApiGroup| {
        let name = group.name;
        let own = group.rights.iter().filter(move |right| right.who == who);
        own.map(move |right| rule(name, right.resources, right.verbs))
    };
    GROUPS.iter().flat_map(of_group).collect()
}

/// A rule about resources of a group.
pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
