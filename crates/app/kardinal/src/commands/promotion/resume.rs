//! `kardinal resume`.

use kardinal_api::kardinal::PolicyGate;
use kardinal_object::name_of;
use kardinal_promotion::intent;
use kube::api::{DeleteParams, ListParams};

use crate::args::ResumeArguments;
use crate::output;
use crate::server::{Server, about};

/// Takes away everything that holds the Pipeline.
pub(crate) fn run(arguments: ResumeArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let pipeline = server.pipeline(&arguments.pipeline).await?;
        let gates: Vec<PolicyGate> = server.list(&ListParams::default()).await?;
        let gates: Vec<&PolicyGate> = gates.iter().collect();
        let resumption = intent::resume(&pipeline, &gates);
        for name in &resumption.gates {
            match server.api::<PolicyGate>().delete(name, &DeleteParams::default()).await {
                Ok(_) => {}
                // Somebody else was faster.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(about::<PolicyGate>(name, error).into()),
            }
        }
        if let Some(patch) = &resumption.patch {
            server.patch(&pipeline, patch).await?;
        }
        let resumed = resumption.carried_out(name_of(&pipeline.metadata));
        output::value(arguments.common.output, &resumed, || format!("{}\n", resumed.render()))
    })
}
