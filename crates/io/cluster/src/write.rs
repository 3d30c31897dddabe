//! Single writes, and their answers sorted by what a controller does next.

use std::sync::Arc;

use kardinal_graph::{Gvk, ObjectId};
use kube::core::Request;
use kube::core::params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;

use crate::kinds::{Kinds, Resolved};

/// How the server answered a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Done; the object as it is now.
    Done(Value),
    /// There is no such object (any more), or no such namespace.
    Gone(String),
    /// Somebody else owns a field, or the object is another one by now.
    Conflict(String),
    /// The server will not do this as it stands.
    Refused(String),
    /// The world failed; the same request may succeed later.
    Fault(String),
}

/// Writes objects of any kind.
#[derive(Clone)]
pub struct Writer {
    client: kube::Client,
    kinds: Arc<Kinds>,
}

impl Writer {
    /// A writer through this client.
    pub fn new(client: kube::Client, kinds: Arc<Kinds>) -> Writer {
        Writer { client, kinds }
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
        self.send(&id.gvk, request).await
    }

    /// Reads one object from the server.
    pub async fn get(&self, id: &ObjectId) -> Answer {
        let request = async |kind: Resolved| {
            Request::new(kind.path(id.namespace.as_deref())).get(&id.name, &GetParams::default())
        };
        self.send(&id.gvk, request).await
    }

    /// A JSON merge patch.
    pub async fn merge(&self, id: &ObjectId, patch: &Value, manager: &str) -> Answer {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let request = async |kind: Resolved| {
            let request = Request::new(kind.path(id.namespace.as_deref()));
            request.patch(&id.name, &params, &Patch::Merge(patch))
        };
        self.send(&id.gvk, request).await
    }

    /// Creates the object; one that exists already is a [`Answer::Conflict`].
    pub async fn create(&self, id: &ObjectId, object: &Value, manager: &str) -> Answer {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let request = async |kind: Resolved| {
            let body = serde_json::to_vec(object).map_err(kube::core::request::Error::SerializeBody)?;
            Request::new(kind.path(id.namespace.as_deref())).create(&params, body)
        };
        self.send(&id.gvk, request).await
    }

    /// Deletes exactly the object with this uid; its dependents go in the background.
    pub async fn delete(&self, id: &ObjectId, uid: &str) -> Answer {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let params = DeleteParams::background().preconditions(preconditions);
        let request =
            async |kind: Resolved| Request::new(kind.path(id.namespace.as_deref())).delete(&id.name, &params);
        match self.send(&id.gvk, request).await {
            // Another object has taken the name: ours is gone.
            Answer::Conflict(message) => Answer::Gone(message),
            answer => answer,
        }
    }

    async fn send(
        &self,
        gvk: &Gvk,
        request: impl AsyncFnOnce(Resolved) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Answer {
        let kind = match self.kinds.resolve(gvk).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return Answer::Refused(format!("the server does not serve `{gvk}`")),
            Err(error) => return sort(error),
        };
        let request = match request(kind).await {
            Ok(request) => request,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        match self.client.request::<Value>(request).await {
            Ok(object) => Answer::Done(object),
            Err(error) => sort(error),
        }
    }
}

/// Sorts an error by what can be done about it.
fn sort(error: kube::Error) -> Answer {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => Answer::Gone(status.message.clone()),
            409 => Answer::Conflict(status.message.clone()),
            // Too many requests, and time-outs of the server, are the world's fault.
            408 | 429 => Answer::Fault(status.message.clone()),
            code if (400..500).contains(&code) => Answer::Refused(status.message.clone()),
            _ => Answer::Fault(status.message.clone()),
        },
        other => Answer::Fault(other.to_string()),
    }
}
