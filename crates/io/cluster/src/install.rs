//! Makes sure that the server serves our kinds.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};

/// The field manager of our definitions.
const MANAGER: &str = "kardinal-install";

/// Applies the definitions and waits until all of them are served.
pub async fn ensure_definitions(
    client: &kube::Client,
    definitions: &[CustomResourceDefinition],
) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply(MANAGER).force();
    for definition in definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let applied = api.patch(name, &params, &Patch::Apply(definition)).await;
        applied.map_err(|source| Error::Apply { name: name.to_owned(), source })?;
    }
    for definition in definitions {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        let established = await_condition(api.clone(), name, conditions::is_crd_established()).await;
        established.map_err(|source| Error::Wait { name: name.to_owned(), source })?;
    }
    Ok(())
}

/// Creates the namespace unless it is there. One that may not be created is told, and missed later where it is needed.
pub async fn ensure_namespace(client: &kube::Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => tracing::info!(namespace = name, "the namespace was created"),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        // Whoever may not create namespaces may well use one that is there.
        Err(error) => tracing::debug!(namespace = name, %error, "the namespace was not created"),
    }
}

/// Why our kinds could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not take a definition.
    #[error("the definition `{name}` could not be applied")]
    Apply {
        /// The definition.
        name: String,
        /// What the server said.
        #[source]
        source: kube::Error,
    },
    /// The server took it but does not serve it.
    #[error("the definition `{name}` was applied but is not served")]
    Wait {
        /// The definition.
        name: String,
        /// What went wrong while waiting.
        #[source]
        source: kube::runtime::wait::Error,
    },
}
