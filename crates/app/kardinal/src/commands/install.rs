//! `kardinal install`: our kinds, on a cluster or on paper.

use kardinal_cluster::install;

use crate::args::InstallArguments;
use crate::{connect, output};

/// Prints everything, or applies the definitions.
pub(crate) fn run(arguments: InstallArguments) -> anyhow::Result<()> {
    if arguments.export {
        output::text(&kardinal_api::install_yaml(&arguments.policies.policy_namespaces)?);
        return Ok(());
    }
    super::block_on(async {
        let client = connect::client(&arguments.server).await?;
        let definitions = kardinal_api::crds();
        install::ensure_definitions(&client, &definitions).await?;
        for definition in &definitions {
            let name = definition.metadata.name.as_deref().unwrap_or_default();
            output::text(&format!("{name} installed\n"));
        }
        Ok(())
    })
}
