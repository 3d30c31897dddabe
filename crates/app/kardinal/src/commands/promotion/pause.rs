//! `kardinal pause`.

use kardinal_promotion::intent;

use crate::args::PauseArguments;
use crate::server::Server;
use crate::{output, who};

/// Creates the gate that holds everything. Pausing twice is harmless.
pub(crate) fn run(arguments: PauseArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let pipeline = server.pipeline(&arguments.pipeline).await?;
        let (gate, made) = server.ensure(&intent::pause(&pipeline, &who::name(&arguments.who))).await?;
        let name = &arguments.pipeline;
        output::value(arguments.common.output, &gate, || {
            format!("{}\n\nNext:\n  kardinal resume {name}\n", intent::paused(name, made))
        })
    })
}
