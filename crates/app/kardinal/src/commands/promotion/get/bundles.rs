//! Bundles with where they come from.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL};
use kardinal_promotion::explain::display_version;
use kardinal_promotion::view;
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
    let all = server.bundles(pipeline).await?;
    let bundles = view::bundles(&all, active);
    output::rendered(common.output, &bundles, || match bundles.is_empty() {
        true => format!(
            "there are no Bundles of `{pipeline}`; `kardinal create bundle {pipeline} --image …` makes one\n"
        ),
        false => table(&bundles, Timestamp::now()),
    })
}

fn table(bundles: &[&Bundle], now: Timestamp) -> String {
    let rows = bundles.iter().map(|bundle| {
        let row = view::bundle_row(bundle);
        vec![
            row.name,
            display_version(&row.version),
            row.kind.as_str().to_owned(),
            row.phase.map(|phase| phase.as_str().to_owned()).unwrap_or_default(),
            row.target.unwrap_or_default(),
            row.commit.unwrap_or_default(),
            row.author.unwrap_or_default(),
            row.ci_run.unwrap_or_default(),
            output::age(row.created, now),
        ]
    });
    let header = ["BUNDLE", "VERSION", "TYPE", "PHASE", "TARGET", "COMMIT", "AUTHOR", "CI-RUN", "AGE"];
    output::table(&header, rows.collect())
}
