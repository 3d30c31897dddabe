//! How far a Graph reaches.
//!
//! The controller may do much more than whoever writes a Graph, so a Graph is not taken at its word: it acts in its own
//! namespace, and beyond it only where the operator or the rights of a ServiceAccount say so. That holds for reading,
//! too: what a Graph reads it can write into a ConfigMap. This module decides; it asks nobody.

use std::fmt;

use kardinal_object::{Gvk, ObjectId, text_at};
use serde_json::Value;

use crate::identity::Owner;

/// The group of Roles and RoleBindings: whoever writes them gives rights away.
const RIGHTS: &str = "rbac.authorization.k8s.io";
/// The API server fills a Secret of this type with the token of an account.
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";

/// What lets a Graph pass.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Fence {
    /// Nothing: it stays in its own namespace.
    #[default]
    Namespace,
    /// The operator: it may do whatever the controller may.
    Cluster,
    /// The account of this name in the Graph's namespace: it may do what the account may, and the API server decides.
    Account(String),
}

/// Whether a Graph may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It may.
    Open,
    /// The API server has to be asked whether the account may.
    Ask(Permit),
    /// It may not; the message says what would help.
    Refused(String),
}

/// Something that an account may or may not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permit {
    /// Which kind.
    pub gvk: Gvk,
    /// Where; `None` is everywhere, or a kind without namespaces.
    pub namespace: Option<String>,
    /// Which object; `None` is a list of them.
    pub name: Option<String>,
}

/// What is known about a [`Permit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Nobody has asked yet, or there was no answer.
    Unknown,
    /// The account may.
    Granted,
    /// It may not.
    Denied(String),
}

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(f, "{} {namespace}/{name}", self.gvk.kind),
            (None, Some(name)) => write!(f, "{} {name}", self.gvk.kind),
            (Some(namespace), None) => write!(f, "every {} of namespace `{namespace}`", self.gvk.kind),
            (None, None) => write!(f, "every {} of the cluster", self.gvk.kind),
        }
    }
}

impl Fence {
    /// Whether the object may be read.
    pub fn read(&self, owner: &Owner, id: &ObjectId) -> Passage {
        self.look(
            owner,
            Permit { gvk: id.gvk.clone(), namespace: id.namespace.clone(), name: Some(id.name.clone()) },
        )
    }

    /// Whether all objects of the kind may be read, in one namespace or in all of them.
    pub fn list(&self, owner: &Owner, gvk: &Gvk, namespace: Option<&str>) -> Passage {
        self.look(owner, Permit { gvk: gvk.clone(), namespace: namespace.map(str::to_owned), name: None })
    }

    fn look(&self, owner: &Owner, permit: Permit) -> Passage {
        match self {
            Fence::Cluster => Passage::Open,
            Fence::Account(_) => Passage::Ask(permit),
            Fence::Namespace if permit.namespace.as_deref() == Some(owner.namespace.as_str()) => {
                Passage::Open
            }
            Fence::Namespace => {
                let mut message = format!("{permit} is {}", outside(owner));
                if permit.name.is_none() && permit.namespace.is_none() {
                    let own = &owner.namespace;
                    message
                        .push_str(&format!("; or look at this namespace only: `metadata.namespace: {own}`"));
                }
                Passage::Refused(message)
            }
        }
    }

    /// Whether an object may be written or removed. An account's writes are made in its name, so nobody needs to ask first.
    pub fn write(&self, owner: &Owner, id: &ObjectId) -> Result<(), String> {
        let within = id.namespace.as_deref() == Some(owner.namespace.as_str());
        match self {
            Fence::Cluster | Fence::Account(_) => Ok(()),
            Fence::Namespace if !within => Err(format!("{id} is {}", outside(owner))),
            Fence::Namespace if id.gvk.group == RIGHTS => Err(gives_rights(&id.to_string())),
            Fence::Namespace => Ok(()),
        }
    }

    /// Whether the object may have this content: some content gives rights, whatever the kind.
    pub(crate) fn content(&self, id: &ObjectId, body: &Value) -> Result<(), String> {
        let token = id.gvk.group.is_empty()
            && id.gvk.kind == "Secret"
            && text_at(body, &["type"]) == Some(TOKEN_SECRET);
        if token && *self == Fence::Namespace {
            return Err(gives_rights(&format!("{id} of the type `{TOKEN_SECRET}`")));
        }
        Ok(())
    }

    /// Whether an object of the Graph `<namespace>/<name>` may be taken over by force. Whoever may write in a namespace
    /// decides between the Graphs of that namespace, and about no others.
    pub(crate) fn takes_from(&self, owner: &Owner, other: &str) -> bool {
        let neighbour = other.split_once('/').is_some_and(|(namespace, _)| namespace == owner.namespace);
        *self == Fence::Cluster || neighbour
    }
}

fn outside(owner: &Owner) -> String {
    format!(
        "outside of the namespace `{}` of this Graph: name a ServiceAccount with the rights for it in \
         `spec.serviceAccountName`, or start the controller with `--graph-scope=cluster`",
        owner.namespace
    )
}

fn gives_rights(what: &str) -> String {
    format!(
        "{what} gives rights away: name a ServiceAccount that may do so in `spec.serviceAccountName`, or start the \
         controller with `--graph-scope=cluster`"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner() -> Owner {
        Owner {
            name: "g".to_owned(),
            namespace: "team-a".to_owned(),
            uid: "u".to_owned(),
            parents: Vec::new(),
        }
    }

    fn id(api_version: &str, kind: &str, namespace: Option<&str>) -> ObjectId {
        let gvk = Gvk::parse(api_version, kind).unwrap();
        ObjectId { gvk, namespace: namespace.map(str::to_owned), name: "x".to_owned() }
    }

    #[test]
    fn a_graph_acts_inside_its_own_namespace_and_elsewhere_where_it_is_allowed() {
        let account = Fence::Account("deployer".to_owned());
        let rights = "rbac.authorization.k8s.io/v1";
        // (object, namespace, may read, may write)
        for (api_version, kind, namespace, read, write) in [
            ("v1", "ConfigMap", Some("team-a"), true, true),
            ("v1", "Secret", Some("team-a"), true, true),
            ("v1", "ConfigMap", Some("team-b"), false, false),
            ("v1", "Secret", Some("team-b"), false, false),
            ("kardinal.io/v1alpha1", "PolicyGate", Some("platform-policies"), false, false),
            ("v1", "Namespace", None, false, false),
            (rights, "ClusterRoleBinding", None, false, false),
            (rights, "RoleBinding", Some("team-a"), true, false),
            (rights, "Role", Some("team-a"), true, false),
        ] {
            let id = id(api_version, kind, namespace);
            assert_eq!(Fence::Namespace.read(&owner(), &id) == Passage::Open, read, "{id}");
            assert_eq!(Fence::Namespace.write(&owner(), &id).is_ok(), write, "{id}");
            assert_eq!(Fence::Cluster.read(&owner(), &id), Passage::Open, "{id}");
            assert_eq!(Fence::Cluster.write(&owner(), &id), Ok(()), "{id}");
            assert!(matches!(account.read(&owner(), &id), Passage::Ask(_)), "{id}: the API server decides");
            assert_eq!(account.write(&owner(), &id), Ok(()), "{id}: the API server decides");
        }
    }

    #[test]
    fn a_list_of_all_namespaces_is_outside_of_every_one() {
        let gvk = Gvk::parse("v1", "Secret").unwrap();
        assert_eq!(Fence::Namespace.list(&owner(), &gvk, Some("team-a")), Passage::Open);
        for namespace in [Some("team-b"), None] {
            let passage = Fence::Namespace.list(&owner(), &gvk, namespace);
            let Passage::Refused(message) = passage else { panic!("{passage:?}") };
            for word in ["Secret", "`team-a`", "`spec.serviceAccountName`", "`--graph-scope=cluster`"] {
                assert!(message.contains(word), "{message}");
            }
            assert_eq!(message.contains("`metadata.namespace: team-a`"), namespace.is_none(), "{message}");
        }
    }

    #[test]
    fn a_secret_that_the_server_fills_with_a_token_gives_rights_away() {
        let secret = id("v1", "Secret", Some("team-a"));
        let token = json!({ "type": "kubernetes.io/service-account-token" });
        assert!(Fence::Namespace.content(&secret, &token).is_err());
        assert!(Fence::Namespace.content(&secret, &json!({ "type": "Opaque" })).is_ok());
        assert!(Fence::Cluster.content(&secret, &token).is_ok());
        assert!(Fence::Account("a".to_owned()).content(&secret, &token).is_ok());
    }

    #[test]
    fn force_takes_nothing_from_the_graph_of_another_namespace() {
        let account = Fence::Account("a".to_owned());
        for (fence, other, takes) in [
            (&Fence::Namespace, "team-a/other", true),
            (&Fence::Namespace, "team-b/other", false),
            (&Fence::Namespace, "0b1c-uid", false),
            (&account, "team-b/other", false),
            (&Fence::Cluster, "team-b/other", true),
        ] {
            assert_eq!(fence.takes_from(&owner(), other), takes, "{fence:?} {other}");
        }
    }
}
