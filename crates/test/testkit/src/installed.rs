//! A cluster after `kardinal install --export | kubectl apply --server-side -f -`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kardinal_cluster::install::ensure_definitions;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use serde_json::Value;

/// The account of the controllers.
pub const ACCOUNT: &str = "kardinal-controller";
/// How long the server may take until it knows new rights.
const PATIENCE: Duration = Duration::from_secs(60);

/// Applies the installation as the admin; returns a client with the rights of the controllers' account.
pub async fn install(
    admin: &kube::Client,
    kubeconfig: &Path,
    policy_namespaces: &[String],
) -> anyhow::Result<kube::Client> {
    ensure_definitions(admin, &kardinal_api::crds()).await?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&kardinal_api::install_yaml(policy_namespaces)?)?;
    for document in documents.iter().filter(|document| text(document, "/kind") != "CustomResourceDefinition")
    {
        apply(admin, document).await?;
    }
    let client = client_as(admin, kubeconfig, kardinal_api::SYSTEM_NAMESPACE, ACCOUNT).await?;
    // Rights are gathered from several roles, which takes a moment.
    let began = Instant::now();
    while !may_list_graphs(&client).await? {
        if began.elapsed() > PATIENCE {
            bail!("the controllers' account may not list Graphs after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(client)
}

/// A client with the rights of a ServiceAccount.
pub async fn client_as(
    admin: &kube::Client,
    kubeconfig: &Path,
    namespace: &str,
    account: &str,
) -> anyhow::Result<kube::Client> {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let spec = TokenRequestSpec {
        audiences: Some(vec!["https://kubernetes.default.svc".to_owned()]),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    let token = answer.status.and_then(|status| status.token).context("the server gives a token")?;
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.token = Some(token.into());
    Ok(kube::Client::try_from(config)?)
}

/// Applies one document where it says.
pub async fn apply(client: &kube::Client, document: &Value) -> anyhow::Result<()> {
    let (api_version, kind) = (text(document, "/apiVersion"), text(document, "/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match text(document, "/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let name = text(document, "/metadata/name");
    let params = PatchParams::apply("installer").force();
    api.patch(name, &params, &Patch::Apply(document))
        .await
        .with_context(|| format!("applying {kind} `{name}`"))?;
    Ok(())
}

async fn may_list_graphs(client: &kube::Client) -> anyhow::Result<bool> {
    let graphs: Api<kardinal_api::graph::Graph> = Api::all(client.clone());
    match graphs.list(&kube::api::ListParams::default().limit(1)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
