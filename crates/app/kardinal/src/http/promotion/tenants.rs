//! The CI tokens of namespaces and Pipelines: each lets in where it stands, and nowhere else.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::signed::CiKey;

/// The Secret whose keys are for all Pipelines of its namespace; with a dash and a name behind it, for that Pipeline.
const SECRET: &str = "kardinal-ci";
/// Only a Secret with this label is read: its owner says that it is meant for this.
const LABEL: &str = "kardinal.io/ci-token";
/// What can be guessed is no token.
const SHORTEST: usize = 16;
/// How long what was read holds; a token that is taken away ends within it.
const FRESH: Duration = Duration::from_secs(5);
/// So many Secrets are remembered, whether they exist or not.
const REMEMBERED: usize = 10_000;

/// The keys of one Secret, and when it was read.
type Read = (Instant, Vec<CiKey>);

/// Reads the Secrets of teams.
pub(crate) struct Tenants {
    client: kube::Client,
    /// By namespace and name.
    known: Mutex<BTreeMap<(String, String), Read>>,
}

impl Tenants {
    pub(in crate::http) fn new(client: kube::Client) -> Tenants {
        Tenants { client, known: Mutex::default() }
    }

    /// The keys that let in to a Pipeline. Both names have been checked.
    pub(in crate::http) async fn keys(
        &self,
        namespace: &str,
        pipeline: &str,
    ) -> Result<Vec<CiKey>, kube::Error> {
        let mut keys = self.of(namespace, SECRET).await?;
        keys.extend(self.of(namespace, &format!("{SECRET}-{pipeline}")).await?);
        Ok(keys)
    }

    async fn of(&self, namespace: &str, name: &str) -> Result<Vec<CiKey>, kube::Error> {
        let place = (namespace.to_owned(), name.to_owned());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        if let Some((at, keys)) = known
            && at.elapsed() < FRESH
        {
            return Ok(keys);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let keys = api.get_opt(name).await?.map(|secret| keys_of(&secret)).unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        if known.len() < REMEMBERED {
            known.insert(place, (Instant::now(), keys.clone()));
        }
        Ok(keys)
    }
}

/// The current pair and the one before it.
fn keys_of(secret: &Secret) -> Vec<CiKey> {
    let labelled = secret.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL));
    if labelled.map(String::as_str) != Some("true") {
        return Vec::new();
    }
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        let text = std::str::from_utf8(&bytes.0).ok()?.trim();
        (text.len() >= SHORTEST).then(|| text.to_owned())
    };
    let current = CiKey::pair(text("token"), text("signing-key"));
    let previous = CiKey::pair(text("previous-token"), text("previous-signing-key"));
    [current, previous].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(label: &str, data: &[(&str, &str)]) -> Secret {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": SECRET, "labels": {LABEL: label}},
            "data": data.iter().map(|(key, text)| (*key, k8s_openapi::ByteString(text.as_bytes().to_vec())))
                .collect::<BTreeMap<_, _>>(),
        }))
        .unwrap()
    }

    #[test]
    fn both_pairs_of_a_rotation_hold() {
        let (new, old) = ("n".repeat(16), "o".repeat(16));
        let all = [
            ("token", new.as_str()),
            ("signing-key", &new),
            ("previous-token", &old),
            ("previous-signing-key", &old),
        ];
        let found = keys_of(&secret("true", &all));
        assert!(found.iter().map(|key| &key.token).eq([&new, &old]));
        assert_eq!(keys_of(&secret("true", &all[..2])).len(), 1);
        assert!(keys_of(&secret("false", &all)).is_empty(), "not meant for this");
        assert!(keys_of(&secret("true", &all[..1])).is_empty(), "a token without its key");
        let short = [("token", "short"), ("signing-key", new.as_str())];
        assert!(keys_of(&secret("true", &short)).is_empty(), "it can be guessed");
    }
}
