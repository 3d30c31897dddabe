//! Single writes, and their answers sorted by what a controller does next.

use std::sync::Arc;

use http::HeaderValue;
use kardinal_graph::Permit;
use kardinal_object::ObjectId;
use kube::core::Request;
use kube::core::params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::kinds::{Kinds, Resolved};

/// How the server answered a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<T = Value> {
    /// Done; the object as it is now.
    Done(T),
    /// There is no such object (any more), or no such namespace.
    Gone(String),
    /// Somebody else owns a field, or the object is another one by now.
    Conflict(String),
    /// The server will not do this as it stands.
    Refused(String),
    /// The world failed; the same request may succeed later.
    Fault(String),
}

impl<T> Answer<T> {
    /// The same answer, with something else made of the object.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Done(object) => Answer::Done(make(object)),
            Answer::Gone(message) => Answer::Gone(message),
            Answer::Conflict(message) => Answer::Conflict(message),
            Answer::Refused(message) => Answer::Refused(message),
            Answer::Fault(message) => Answer::Fault(message),
        }
    }
}

/// Writes objects of any kind.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    kinds: Arc<Kinds>,
    /// Whom requests are made as; `None` is the client itself.
    user: Option<HeaderValue>,
}

impl Writer {
    /// A writer through this client.
    pub fn new(client: kube::Client, kinds: Arc<Kinds>) -> Writer {
        Writer { client, kinds, user: None }
    }

    /// The same, with the rights of a ServiceAccount: the API server decides. `None` for a name that cannot be one.
    pub fn acting_as(&self, namespace: &str, account: &str) -> Option<Writer> {
        let user = HeaderValue::from_str(&format!("system:serviceaccount:{namespace}:{account}")).ok()?;
        Some(Writer { user: Some(user), ..self.clone() })
    }

    /// Whether whoever this acts as may read something: `get` of one object, or `list` of them all.
    pub async fn may_read(&self, permit: &Permit) -> Answer {
        let kind = match self.kinds.resolve(&permit.gvk).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return Answer::Gone(format!("the server does not serve `{}`", permit.gvk)),
            Err(error) => return sort(error),
        };
        let attributes = json!({
            "verb": if permit.name.is_some() { "get" } else { "list" },
            "group": permit.gvk.group,
            "version": permit.gvk.version,
            "resource": kind.resource.plural,
            "namespace": permit.namespace.clone().unwrap_or_default(),
            "name": permit.name.clone().unwrap_or_default(),
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let request = Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .create(&PostParams::default(), review.to_string().into_bytes());
        match request {
            Ok(request) => self.request(request).await,
            Err(error) => Answer::Refused(error.to_string()),
        }
    }

    /// Server-side apply of the object, or of its status when `subresource` is `status`.
    pub async fn apply(
        &self,
        id: &ObjectId,
        subresource: Option<&str>,
        object: &Value,
        manager: &str,
        force: bool,
    ) -> Answer {
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        let request = async |kind: Resolved| {
            let request = Request::new(kind.path(id.namespace.as_deref()));
            match subresource {
                Some(name) => request.patch_subresource(name, &id.name, &params, &Patch::Apply(object)),
                None => request.patch(&id.name, &params, &Patch::Apply(object)),
            }
        };
        self.send(id, request).await
    }

    /// Reads one object from the server.
    pub async fn get(&self, id: &ObjectId) -> Answer {
        let request = async |kind: Resolved| {
            Request::new(kind.path(id.namespace.as_deref())).get(&id.name, &GetParams::default())
        };
        self.send(id, request).await
    }

    /// A JSON merge patch of the object, or of its status when `subresource` is `status`.
    pub async fn merge(
        &self,
        id: &ObjectId,
        subresource: Option<&str>,
        patch: &Value,
        manager: &str,
    ) -> Answer {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let request = async |kind: Resolved| {
            let request = Request::new(kind.path(id.namespace.as_deref()));
            match subresource {
                Some(name) => request.patch_subresource(name, &id.name, &params, &Patch::Merge(patch)),
                None => request.patch(&id.name, &params, &Patch::Merge(patch)),
            }
        };
        self.send(id, request).await
    }

    /// Creates the object; one that exists already is a [`Answer::Conflict`].
    pub async fn create(&self, id: &ObjectId, object: &Value, manager: &str) -> Answer {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let request = async |kind: Resolved| {
            let body = serde_json::to_vec(object).map_err(kube::core::request::Error::SerializeBody)?;
            Request::new(kind.path(id.namespace.as_deref())).create(&params, body)
        };
        self.send(id, request).await
    }

    /// Deletes exactly the object with this uid; its dependents go in the background.
    pub async fn delete(&self, id: &ObjectId, uid: &str) -> Answer {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let params = DeleteParams::background().preconditions(preconditions);
        let request =
            async |kind: Resolved| Request::new(kind.path(id.namespace.as_deref())).delete(&id.name, &params);
        match self.send(id, request).await {
            // Another object has taken the name: ours is gone.
            Answer::Conflict(message) => Answer::Gone(message),
            answer => answer,
        }
    }

    async fn send(
        &self,
        id: &ObjectId,
        request: impl AsyncFnOnce(Resolved) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Answer {
        if let Some(part) = id.namespace.iter().chain([&id.name]).find(|part| !is_name(part)) {
            return Answer::Refused(format!("`{}` cannot be the name of an object", part.escape_default()));
        }
        let kind = match self.kinds.resolve(&id.gvk).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return Answer::Refused(format!("the server does not serve `{}`", id.gvk)),
            Err(error) => return sort(error),
        };
        let request = match request(kind).await {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        self.request(request).await
    }
}

impl Writer {
    async fn request(&self, mut request: http::Request<Vec<u8>>) -> Answer {
        if let Some(user) = &self.user {
            // The server adds the groups of the account by itself, so it need not be allowed to name groups.
            request.headers_mut().insert("impersonate-user", user.clone());
        }
        match self.client.request::<Value>(request).await {
            Ok(object) => Answer::Done(object),
            Err(error) => sort(error),
        }
    }
}

/// Whether a text stays in its place in a path. Names of some kinds have capitals, colons or an `@`; none has what ends a
/// path, leads out of it or begins a query.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:@+=~".contains(c);
    !matches!(text, "." | "..") && text.chars().all(plain)
}

/// Sorts an error by what can be done about it.
fn sort(error: kube::Error) -> Answer {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => Answer::Gone(status.message.clone()),
            409 => Answer::Conflict(status.message.clone()),
            // Too many requests, time-outs of the server, and credentials that it does not take just now, are the world's
            // fault and say nothing about the object.
            401 | 408 | 429 => Answer::Fault(status.message.clone()),
            code if (400..500).contains(&code) => Answer::Refused(status.message.clone()),
            500 if is_too_large(&status.message) => Answer::Refused(status.message.clone()),
            _ => Answer::Fault(status.message.clone()),
        },
        other => Answer::Fault(other.to_string()),
    }
}

/// Whether the store behind a server took an object for too large. kube-apiserver passes on what etcd says as an error of
/// its own, as if the same request could succeed later.
fn is_too_large(message: &str) -> bool {
    ["etcdserver: request is too large", "trying to send message larger than max"]
        .iter()
        .any(|said| message.contains(said))
}

#[cfg(test)]
mod tests {
    use super::{Answer, is_name, sort};

    #[test]
    fn what_is_too_large_is_refused_and_not_tried_for_ever() {
        let answer = |code: u16, message: &str| {
            let status = kube::core::Status { code, ..kube::core::Status::failure(message, "") };
            sort(kube::Error::Api(Box::new(status)))
        };
        let limit = "limit is 3145728";
        let etcd = "etcdserver: request is too large";
        let grpc =
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)";
        for (code, message) in [(413, limit), (500, etcd), (500, grpc)] {
            assert_eq!(answer(code, message), Answer::Refused(message.to_owned()), "{code}");
        }
        for (code, message) in [(500, "etcdserver: leader changed"), (503, etcd), (429, limit)] {
            assert_eq!(answer(code, message), Answer::Fault(message.to_owned()), "{code}");
        }
    }

    #[test]
    fn what_leads_out_of_a_path_is_no_name() {
        for good in ["a", "my-app.v2", "system:kube-scheduler", "Admin", "a@b.c", ""] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["x?watch=true", "..", ".", "a/b", "../secrets/x", "a%2fb", "a#b", "a b", "a\nb", "é"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
