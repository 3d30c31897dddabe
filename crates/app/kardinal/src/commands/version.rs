//! `kardinal version`.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_planner::lease::{CONTROLLER_LEASE, VERSION_ANNOTATION};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::json;

use crate::args::VersionArguments;
use crate::failure::{Failure, Kind};
use crate::{connect, output};

/// Where controllers tell their version: in an annotation of their Lease, or where they need no Lease in a ConfigMap of
/// the same name.
const NAMESPACE: &str = SYSTEM_NAMESPACE;
const NAME: &str = CONTROLLER_LEASE;
const VERSION_KEY: &str = "version";
/// Who writes, in `managedFields`.
const MANAGER: &str = "kardinal-up";

#[derive(Serialize)]
struct Versions {
    client: &'static str,
    /// The controllers' version. Absent: nobody has told it, or nobody was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<String>,
    /// What the API server says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
}

/// Prints this program's version, and those of the controllers and of the API server unless told not to ask or none is
/// known.
pub(crate) fn run(arguments: VersionArguments) -> anyhow::Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    let mut versions = Versions { client, controller: None, kubernetes: None };
    if !arguments.client {
        super::block_on(ask(&arguments, &mut versions))?;
    }
    output::value(arguments.output, &versions, || versions.render())
}

impl Versions {
    fn render(&self) -> String {
        let mut text = format!("kardinal {}\n", self.client);
        let Some(kubernetes) = &self.kubernetes else { return text };
        let controller = self.controller.as_deref().unwrap_or("not known: none has run here");
        text.push_str(&format!("controller {controller}\nkubernetes {kubernetes}\n"));
        text
    }
}

async fn ask(arguments: &VersionArguments, versions: &mut Versions) -> anyhow::Result<()> {
    let client = match connect::client(&arguments.server).await {
        Ok(client) => client,
        // No server being known is normal; one that is known but silent is not.
        Err(error) => match error.downcast_ref::<Failure>().map(|failure| failure.kind) {
            Some(Kind::NotReachable) => return Ok(()),
            _ => return Err(error),
        },
    };
    let silent = |error| {
        Failure::of_server("the server does not answer", error)
            .hint("`--client` prints only this program's version")
    };
    versions.kubernetes = Some(client.apiserver_version().await.map_err(silent)?.git_version);
    versions.controller = controller(&client).await?;
    Ok(())
}

/// The version of the controllers that work, or worked last, on this server.
async fn controller(client: &kube::Client) -> Result<Option<String>, Failure> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = readable(leases.get_opt(NAME).await, "Lease")?;
    let annotations = lease.and_then(|lease| lease.metadata.annotations).unwrap_or_default();
    if let Some(version) = annotations.get(VERSION_ANNOTATION) {
        return Ok(Some(version.clone()));
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = readable(maps.get_opt(NAME).await, "ConfigMap")?;
    Ok(map.and_then(|map| map.data).and_then(|mut data| data.remove(VERSION_KEY)))
}

/// Whoever may not read it is not told; that is no failure of this command.
fn readable<K>(answer: kube::Result<Option<K>>, kind: &str) -> Result<Option<K>, Failure> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_forbidden() => {
            tracing::warn!(
                "the {kind} `{NAME}` in namespace `{NAMESPACE}` may not be read: {}",
                status.message
            );
            Ok(None)
        }
        answer => answer.map_err(|error| {
            Failure::of_server(&format!("{kind} `{NAME}` in namespace `{NAMESPACE}`"), error)
        }),
    }
}

/// Tells everybody the version of the controllers that run in this process, where no Lease does.
pub(super) async fn announce(client: &kube::Client) -> anyhow::Result<()> {
    let params = PatchParams::apply(MANAGER).force();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    namespaces.patch(NAMESPACE, &params, &Patch::Apply(namespace)).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {VERSION_KEY: env!("CARGO_PKG_VERSION")},
    });
    maps.patch(NAME, &params, &Patch::Apply(map)).await?;
    Ok(())
}
