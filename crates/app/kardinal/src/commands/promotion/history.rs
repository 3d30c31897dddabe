//! `kardinal history`: what was promoted when, by whom and on which evidence.

use jiff::Timestamp;
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::environment_named;
use kardinal_promotion::view::{self, Past};

use crate::args::HistoryArguments;
use crate::failure::Failure;
use crate::output;
use crate::server::Server;

/// Prints the promotions, the latest first.
pub(crate) fn run(arguments: HistoryArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let pipeline = server.pipeline(&arguments.pipeline).await?;
        if let Some(environment) = &arguments.env {
            environment_named(&pipeline, environment).map_err(Failure::from)?;
        }
        let bundles = server.bundles(&arguments.pipeline).await?;
        let limit = usize::try_from(arguments.limit).unwrap_or(usize::MAX);
        let entries = view::history(&bundles, arguments.env.as_deref(), limit);
        output::value(arguments.common.output, &entries, || match entries.is_empty() {
            true => format!("nothing was promoted through `{}` yet\n", arguments.pipeline),
            false => table(&entries),
        })
    })
}

fn table(entries: &[Past]) -> String {
    let time = |at: Option<Timestamp>| at.map(|at| format!("{at:.0}")).unwrap_or_default();
    let rows = entries.iter().map(|entry| {
        let record = &entry.record;
        let evidence = record.evidence.as_ref();
        let version = display_version(&entry.version);
        vec![
            entry.environment.clone(),
            if entry.rollback { format!("{version} (rollback)") } else { version },
            entry.render_outcome(),
            time(record.promoted_at),
            time(record.verified_at),
            evidence
                .and_then(|evidence| evidence.approved_by.as_ref())
                .map(|by| by.join(", "))
                .unwrap_or_default(),
            entry.gates().map(|gates| gates.render()).unwrap_or_default(),
            record.pr_url.clone().unwrap_or_default(),
            entry.bundle.clone(),
        ]
    });
    let header =
        ["ENVIRONMENT", "VERSION", "STATE", "PROMOTED", "VERIFIED", "APPROVED-BY", "GATES", "PR", "BUNDLE"];
    output::table(&header, rows.collect())
}
