//! `kardinal explain`: why a promotion waits, for what and until when.

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep};
use kube::runtime::watcher::Config;

use crate::args::ExplainArguments;
use crate::output;
use crate::server::{Server, check_environment};
use crate::watching::{Changes, follow};

/// Explains once, or until it is stopped.
pub(crate) fn run(arguments: ExplainArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        if !arguments.watch.watch {
            output::coloured(&explained(&server, &arguments).await?.0);
            return Ok(());
        }
        let changes = of_pipeline(&server, &arguments.pipeline);
        follow(changes, async || explained(&server, &arguments).await).await
    })
}

/// The text, and when it changes by itself.
async fn explained(
    server: &Server,
    arguments: &ExplainArguments,
) -> anyhow::Result<(String, Option<Timestamp>)> {
    let seen = server.seen(&arguments.pipeline, &arguments.policies.policy_namespaces).await?;
    if let Some(environment) = &arguments.env {
        check_environment(&seen.pipeline, environment)?;
    }
    let explanation = seen.explain(arguments.env.as_deref(), Timestamp::now());
    let text =
        output::rendered(arguments.common.output, &explanation, || output::painted(&explanation.render()))?;
    Ok((text, explanation.next_change))
}

/// The changes of everything that belongs to a Pipeline.
pub(super) fn of_pipeline(server: &Server, pipeline: &str) -> Changes {
    let labelled = Config::default().labels(&format!("{PIPELINE_LABEL}={pipeline}"));
    Changes::default()
        .of(server.api::<Pipeline>(), Config::default().fields(&format!("metadata.name={pipeline}")))
        .of(server.api::<Bundle>(), labelled)
        .of(server.api::<PromotionStep>(), Config::default().fields(&format!("spec.pipeline={pipeline}")))
        .of(server.api::<PolicyGate>(), Config::default())
        .of(server.api::<Graph>(), Config::default())
}
