//! `kardinal history`: what was promoted when, by whom and on which evidence.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, EnvironmentStatus, Evidence, GateResult, PromotionState};
use kardinal_planner::bundle::is_rollback;
use kardinal_planner::explain::display_version;
use serde::Serialize;

use crate::args::HistoryArguments;
use crate::output;
use crate::server::{Server, check_environment};

/// One promotion of one Bundle to one environment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    bundle: String,
    version: String,
    environment: String,
    rollback: bool,
    #[serde(flatten)]
    record: EnvironmentStatus,
}

/// Prints the promotions, the latest first.
pub(crate) fn run(arguments: HistoryArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let pipeline = server.pipeline(&arguments.pipeline).await?;
        if let Some(environment) = &arguments.env {
            check_environment(&pipeline, environment)?;
        }
        let bundles = server.bundles(&arguments.pipeline).await?;
        let mut entries: Vec<Entry> = bundles.iter().flat_map(entries).collect();
        entries.retain(|entry| arguments.env.as_ref().is_none_or(|wanted| entry.environment == *wanted));
        // What has not arrived yet is the latest; the order of Bundles decides among those.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.record.verified_at.unwrap_or(Timestamp::MAX)));
        entries.truncate(arguments.limit);
        output::value(arguments.common.output, &entries, || match entries.is_empty() {
            true => format!("nothing was promoted through `{}` yet\n", arguments.pipeline),
            false => table(&entries),
        })
    })
}

fn entries(bundle: &Bundle) -> Vec<Entry> {
    let environments = bundle.status.iter().flat_map(|status| &status.environments);
    environments
        .map(|(name, record)| Entry {
            bundle: bundle.metadata.name.clone().unwrap_or_default(),
            version: kardinal_policy::version(&bundle.spec),
            environment: name.clone(),
            rollback: is_rollback(bundle),
            record: record.clone(),
        })
        .collect()
}

fn table(entries: &[Entry]) -> String {
    let time = |at: Option<Timestamp>| at.map(|at| format!("{at:.0}")).unwrap_or_default();
    let rows = entries.iter().map(|entry| {
        let record = &entry.record;
        let evidence = record.evidence.as_ref();
        let version = display_version(&entry.version);
        vec![
            entry.environment.clone(),
            if entry.rollback { format!("{version} (rollback)") } else { version },
            record.state.map(state).unwrap_or_default(),
            time(record.promoted_at),
            time(record.verified_at),
            evidence
                .and_then(|evidence| evidence.approved_by.as_ref())
                .map(|by| by.join(", "))
                .unwrap_or_default(),
            evidence.map(gates).unwrap_or_default(),
            record.pr_url.clone().unwrap_or_default(),
            entry.bundle.clone(),
        ]
    });
    let header =
        ["ENVIRONMENT", "VERSION", "STATE", "PROMOTED", "VERIFIED", "APPROVED-BY", "GATES", "PR", "BUNDLE"];
    output::table(&header, rows.collect())
}

fn state(state: PromotionState) -> String {
    format!("{state:?}")
}

/// `2/2 passed`.
fn gates(evidence: &Evidence) -> String {
    let asked = evidence.policy_gates.as_deref().unwrap_or_default();
    let passed = asked.iter().filter(|gate| gate.result == GateResult::Pass).count();
    match asked.len() {
        0 => String::new(),
        all => format!("{passed}/{all} passed"),
    }
}
