//! Whether the server knows kardinal's kinds as this program does.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kardinal_object::name_of;
use kardinal_planner::doctor::{Finding, Installed, definitions};
use kube::Api;

use crate::failure::Failure;
use crate::server::Server;

pub(super) async fn check(server: &Server) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(server.client.clone());
    let mut kinds = Vec::new();
    for ours in kardinal_api::crds() {
        let theirs = match api.get_opt(name_of(&ours.metadata)).await {
            Ok(Some(theirs)) => Installed::As(Box::new(theirs)),
            Ok(None) => Installed::Nothing,
            Err(error) => Installed::Unknown(Failure::of_server("cannot be read", error).message),
        };
        kinds.push((ours, theirs));
    }
    definitions(&kinds, env!("CARGO_PKG_VERSION"))
}
