//! The controller's key: a Secret in its own namespace, made at the first start. An agent only reads it: a key of its
//! own would prove nothing to anybody else.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_promotion::seal::Key;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::OnceCell;

use super::context::PromotionContext;
use crate::Shards;

/// The name of the Secret.
const NAME: &str = "kardinal-seal-key";
/// The entry that holds the key.
const ENTRY: &str = "key";

/// The key, once it was read.
#[derive(Default)]
pub(crate) struct Sealing {
    key: OnceCell<Key>,
}

impl PromotionContext {
    /// The key that verifications are sealed with; else why it cannot be had now.
    pub(crate) async fn key(&self) -> Result<&Key, String> {
        let is_agent = matches!(self.shards, Shards::Only(_));
        let read = self.sealing.key.get_or_try_init(|| read_or_make(&self.client, is_agent)).await;
        read.map_err(|error| {
            format!("the Secret `{NAME}` in namespace `{SYSTEM_NAMESPACE}` cannot be had: {error}")
        })
    }
}

async fn read_or_make(client: &kube::Client, is_agent: bool) -> Result<Key, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let message = |error: kube::Error| error.to_string();
    if let Some(found) = secrets.get_opt(NAME).await.map_err(message)? {
        return read(&found);
    }
    if is_agent {
        return Err("it is not there yet: the controller of the control plane makes it".to_owned());
    }
    let mut made = secrets.create(&PostParams::default(), &new()).await;
    if answers(&made, 404) {
        let space = Namespace { metadata: named(SYSTEM_NAMESPACE), ..Namespace::default() };
        let spaces: Api<Namespace> = Api::all(client.clone());
        let created = spaces.create(&PostParams::default(), &space).await;
        if !answers(&created, 409) {
            created.map_err(message)?;
        }
        made = secrets.create(&PostParams::default(), &new()).await;
    }
    // Another process was faster.
    if answers(&made, 409) {
        made = secrets.get(NAME).await;
    }
    read(&made.map_err(message)?)
}

fn answers<T>(result: &Result<T, kube::Error>, code: u16) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == code)
}

fn new() -> Secret {
    // Each has 122 bits of chance, so four are more than a key needs.
    let bytes: Vec<u8> = (0..4).flat_map(|_| uuid::Uuid::new_v4().into_bytes()).collect();
    Secret {
        metadata: named(NAME),
        data: Some(BTreeMap::from([(ENTRY.to_owned(), ByteString(bytes))])),
        immutable: Some(true),
        ..Secret::default()
    }
}

fn named(name: &str) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([("app.kubernetes.io/part-of".to_owned(), "kardinal".to_owned())].into()),
        ..Default::default()
    }
}

fn read(secret: &Secret) -> Result<Key, String> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(ENTRY));
    let key = bytes.and_then(|bytes| Key::new(&bytes.0));
    key.ok_or_else(|| {
        format!("it has no entry `{ENTRY}` of at least 32 bytes: delete it to have a new one made")
    })
}
