//! What a pull request changes: the forge's web side has it, the API server has not.

use kardinal_api::forge::PullRequest;

use super::forge::Forge;
use crate::args::ServerArguments;
use crate::server::Server;

/// Asks the web side of the `kardinal up` whose kubeconfig is used.
pub(super) async fn fetch(
    arguments: &ServerArguments,
    server: &Server,
    request: &PullRequest,
    number: u64,
) -> anyhow::Result<String> {
    let forge = Forge::beside(arguments)?;
    let page = forge.page(server, request, number)?;
    forge.get(&format!("{page}/diff")).await
}
