//! Other clusters, whose workloads are looked at through a kubeconfig in a Secret.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kardinal_cluster::{Change, Kinds, Watches};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::driver::Key;
use crate::forges::Trouble;

/// The keys under which a Secret may hold a kubeconfig.
const KEYS: [&str; 2] = ["kubeconfig", "value"];

/// The clusters that are watched, by the Secret that leads to them.
pub(crate) struct Clusters {
    known: Mutex<BTreeMap<Key, Arc<Watches>>>,
    /// Where their changes go.
    changes: UnboundedSender<Change>,
    stop: CancellationToken,
}

impl Clusters {
    /// None yet.
    pub(crate) fn new(changes: UnboundedSender<Change>, stop: CancellationToken) -> Clusters {
        Clusters { known: Mutex::default(), changes, stop }
    }

    /// The watches of the cluster that a Secret leads to; why not, otherwise.
    pub(crate) async fn watches(
        &self,
        context: &Context,
        namespace: &str,
        secret: &str,
    ) -> Result<Arc<Watches>, String> {
        let key = (namespace.to_owned(), secret.to_owned());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(watches) = known {
            return Ok(watches);
        }
        let client = connect(context, namespace, secret).await?;
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (watches, mut received) = Watches::new(client, kinds, |_, _| Vec::new(), self.stop.clone());
        let changes = self.changes.clone();
        // Ends when the watches end, which `stop` makes them do.
        tokio::spawn(async move {
            while let Some(change) = received.recv().await {
                if changes.send(change).is_err() {
                    return;
                }
            }
        });
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(key).or_insert(watches).clone())
    }
}

async fn connect(context: &Context, namespace: &str, secret: &str) -> Result<kube::Client, String> {
    let mut last = String::new();
    for key in KEYS {
        let text = match context.credentials.value(context, namespace, secret, key).await {
            Ok(text) => text,
            Err(Trouble::Problem(message) | Trouble::Fault(message)) => {
                last = message;
                continue;
            }
        };
        // Parse errors may quote the text, which is a secret.
        let bad = || format!("the kubeconfig in the Secret `{secret}` cannot be used");
        let config = Kubeconfig::from_yaml(text.reveal()).map_err(|_| bad())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        return kube::Client::try_from(config.map_err(|_| bad())?).map_err(|_| bad());
    }
    Err(last)
}
