//! `kardinal resume`.

use kardinal_api::kardinal::PolicyGate;
use kardinal_promotion::intent::{self, Resumption};
use kube::api::{DeleteParams, ListParams};
use serde::Serialize;

use crate::args::ResumeArguments;
use crate::output;
use crate::server::{Server, about};

/// What was done.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resumed {
    pipeline: String,
    deleted_gates: Vec<String>,
    unpaused: bool,
}

/// Takes away everything that holds the Pipeline.
pub(crate) fn run(arguments: ResumeArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let pipeline = server.pipeline(&arguments.pipeline).await?;
        let gates: Vec<PolicyGate> = server.list(&ListParams::default()).await?;
        let gates: Vec<&PolicyGate> = gates.iter().collect();
        // Like pausing, resuming twice is harmless.
        let (resumption, was_paused) = match intent::resume(&pipeline, &gates) {
            Ok(resumption) => (resumption, true),
            Err(_) => (Resumption::default(), false),
        };
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
        let name = arguments.pipeline;
        let said = match was_paused {
            true => format!("Pipeline \"{name}\" goes on\n"),
            false => format!("Pipeline \"{name}\" is not paused\n"),
        };
        let resumed =
            Resumed { pipeline: name, unpaused: resumption.patch.is_some(), deleted_gates: resumption.gates };
        output::value(arguments.common.output, &resumed, || said)
    })
}
