//! Bundles with where they come from.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL};
use kardinal_promotion::bundle::is_finished;
use kardinal_promotion::explain::display_version;
use kube::runtime::watcher::Config;

use crate::args::Common;
use crate::output;
use crate::server::Server;
use crate::watching::{Changes, follow};

pub(super) async fn run(
    pipeline: Option<&str>,
    active: bool,
    watch: bool,
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let pipeline = &server.this_or_the_only(pipeline).await?;
    if !watch {
        output::text(&listed(&server, pipeline, active, common).await?);
        return Ok(());
    }
    let of_pipeline = Config::default().labels(&format!("{PIPELINE_LABEL}={pipeline}"));
    let changes = Changes::default().of(server.api::<Bundle>(), of_pipeline);
    follow(changes, async || Ok((listed(&server, pipeline, active, common).await?, None))).await
}

async fn listed(server: &Server, pipeline: &str, active: bool, common: &Common) -> anyhow::Result<String> {
    server.pipeline(pipeline).await?;
    let mut bundles = server.bundles(pipeline).await?;
    bundles.retain(|bundle| !active || !phase(bundle).is_some_and(is_finished));
    output::rendered(common.output, &bundles, || match bundles.is_empty() {
        true => format!(
            "there are no Bundles of `{pipeline}`; `kardinal create bundle {pipeline} --image …` makes one\n"
        ),
        false => table(&bundles, Timestamp::now()),
    })
}

fn phase(bundle: &Bundle) -> Option<kardinal_api::kardinal::BundlePhase> {
    bundle.status.as_ref()?.phase
}

fn table(bundles: &[Bundle], now: Timestamp) -> String {
    let rows = bundles.iter().map(|bundle| {
        let origin = bundle.spec.provenance.clone().unwrap_or_default();
        let target = bundle.spec.intent.as_ref().and_then(|intent| intent.target.clone());
        vec![
            bundle.metadata.name.clone().unwrap_or_default(),
            display_version(&kardinal_policy::version(&bundle.spec)),
            format!("{:?}", bundle.spec.kind()).to_lowercase(),
            phase(bundle).map(|phase| format!("{phase:?}")).unwrap_or_default(),
            target.unwrap_or_default(),
            origin.commit_sha.map(|sha| sha.chars().take(8).collect()).unwrap_or_default(),
            origin.author.unwrap_or_default(),
            origin.ci_run_url.unwrap_or_default(),
            output::age(bundle.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
        ]
    });
    let header = ["BUNDLE", "VERSION", "TYPE", "PHASE", "TARGET", "COMMIT", "AUTHOR", "CI-RUN", "AGE"];
    output::table(&header, rows.collect())
}
