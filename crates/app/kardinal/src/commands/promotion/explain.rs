//! `kardinal explain`: why a promotion waits, for what and until when.

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep};
use kardinal_promotion::intent::environment_named;
use kube::Api;
use kube::runtime::watcher::Config;

use crate::args::ExplainArguments;
use crate::failure::Failure;
use crate::output;
use crate::server::Server;
use crate::watching::{Changes, follow};

/// Explains once, or until it is stopped.
pub(crate) fn run(arguments: ExplainArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        if !arguments.watch.watch {
            output::coloured(&explained(&server, &arguments).await?.0);
            return Ok(());
        }
        let changes = of_pipeline(&server, &arguments.pipeline, &arguments.policies.policy_namespaces);
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
        environment_named(&seen.pipeline, environment).map_err(Failure::from)?;
    }
    let explanation = seen.explain(arguments.env.as_deref(), Timestamp::now());
    let text =
        output::rendered(arguments.common.output, &explanation, || output::painted(&explanation.render()))?;
    Ok((text, explanation.next_change))
}

/// The changes of everything that belongs to a Pipeline.
pub(super) fn of_pipeline(server: &Server, pipeline: &str, policy_namespaces: &[String]) -> Changes {
    let labelled = Config::default().labels(&format!("{PIPELINE_LABEL}={pipeline}"));
    let changes = Changes::default()
        .of(server.api::<Pipeline>(), Config::default().fields(&format!("metadata.name={pipeline}")))
        .of(server.api::<Bundle>(), labelled)
        .of(server.api::<PromotionStep>(), Config::default().fields(&format!("spec.pipeline={pipeline}")))
        .of(server.api::<PolicyGate>(), Config::default())
        .of(server.api::<Graph>(), Config::default());
    with_policies(changes, server, policy_namespaces)
}

/// Those of the organisation's gates, too. Where they may not be read nothing is heard of them.
pub(super) fn with_policies(changes: Changes, server: &Server, policy_namespaces: &[String]) -> Changes {
    let elsewhere = policy_namespaces.iter().filter(|namespace| **namespace != server.namespace);
    elsewhere.fold(changes, |changes, namespace| {
        let api: Api<PolicyGate> = Api::namespaced(server.client.clone(), namespace);
        changes.of(api, Config::default())
    })
}
