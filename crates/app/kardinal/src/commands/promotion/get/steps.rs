//! Steps and gates with where they stand.

use jiff::Timestamp;
use kardinal_promotion::view::{self, StepRow};

use super::super::explain::of_pipeline;
use crate::args::Common;
use crate::failure::Failure;
use crate::output;
use crate::server::{Seen, Server};
use crate::watching::follow;

pub(super) async fn run(
    pipeline: Option<&str>,
    bundle: Option<&str>,
    watch: bool,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let pipeline = &server.this_or_the_only(pipeline).await?;
    let look = async || {
        let seen = server.seen(pipeline, policy_namespaces).await?;
        shown(&seen, pipeline, bundle, common)
    };
    if !watch {
        output::text(&look().await?.0);
        return Ok(());
    }
    follow(of_pipeline(&server, pipeline, policy_namespaces), look).await
}

fn shown(
    seen: &Seen,
    pipeline: &str,
    bundle: Option<&str>,
    common: &Common,
) -> anyhow::Result<(String, Option<Timestamp>)> {
    let now = Timestamp::now();
    let steps = view::steps(&seen.world(now), bundle).map_err(Failure::from)?;
    let text = output::rendered(common.output, &steps.objects, || match steps.rows.is_empty() {
        true => format!("nothing is on its way through `{pipeline}`\n"),
        false => table(&steps.rows, now),
    })?;
    Ok((text, steps.next_change))
}

fn table(rows: &[StepRow], now: Timestamp) -> String {
    let rows = rows.iter().map(|row| {
        let StepRow { environment, kind, name, state, created, message } = row;
        let (name, state) = (name.as_deref().unwrap_or("-"), state.unwrap_or("-"));
        let age = output::age(*created, now);
        [environment, kind.as_str(), name, state, &age, message].map(str::to_owned).to_vec()
    });
    output::table(&["ENVIRONMENT", "KIND", "NAME", "STATE", "AGE", "MESSAGE"], rows.collect())
}
