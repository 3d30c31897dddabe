//! `kardinal history`: what was promoted when, by whom and on which evidence.

use jiff::Timestamp;
use kardinal_api::kardinal::{EnvironmentStatus, GateResult};
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::{Past, PastOutcome, environment_named, past};

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
        let mut entries = past(&bundles);
        entries.retain(|entry| arguments.env.as_ref().is_none_or(|wanted| entry.environment == *wanted));
        entries.truncate(usize::try_from(arguments.limit).unwrap_or(usize::MAX));
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
            state(entry),
            time(record.promoted_at),
            time(record.verified_at),
            evidence
                .and_then(|evidence| evidence.approved_by.as_ref())
                .map(|by| by.join(", "))
                .unwrap_or_default(),
            gates(record),
            record.pr_url.clone().unwrap_or_default(),
            entry.bundle.clone(),
        ]
    });
    let header =
        ["ENVIRONMENT", "VERSION", "STATE", "PROMOTED", "VERIFIED", "APPROVED-BY", "GATES", "PR", "BUNDLE"];
    output::table(&header, rows.collect())
}

/// `Verified`, or `Rejected by bob at 2026-04-14T14:05:00Z`, perhaps `, merged all the same`.
fn state(entry: &Past) -> String {
    let word = entry.outcome.as_str();
    let overruled = entry.outcome == PastOutcome::Failed && entry.record.rejected_at.is_some();
    if entry.outcome == PastOutcome::Rejected || overruled {
        let word = PastOutcome::Rejected.as_str();
        let end = if overruled { ", merged all the same" } else { "" };
        let by = entry.record.rejected_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let at = entry.record.rejected_at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
        return format!("{word}{by}{at}{end}");
    }
    if entry.not_proven.is_some() { format!("{word} (not proven)") } else { word.to_owned() }
}

/// `2/2 passed`, `1/2 passed, forced by bob`, or `1/2 passed, check was green` where a gate had only just closed.
/// What they said before a change came in is no evidence for it: they may say something else by then.
fn gates(record: &EnvironmentStatus) -> String {
    let has_come = record.promoted_at.or(record.verified_at).is_some();
    let asked = record.evidence.as_ref().filter(|_| has_come).and_then(|one| one.policy_gates.as_deref());
    let asked = asked.unwrap_or_default();
    let passed = asked.iter().filter(|gate| gate.result == GateResult::Pass).count();
    let forced = asked.iter().find_map(|gate| gate.forced_by.as_deref());
    match (asked.len(), forced) {
        (0, _) => String::new(),
        (all, None) if asked.iter().any(|gate| gate.check_was_green == Some(true)) => {
            format!("{passed}/{all} passed, check was green")
        }
        (all, None) => format!("{passed}/{all} passed"),
        (all, Some(by)) => format!("{passed}/{all} passed, forced by {by}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gates_are_told_of_what_has_come_in_and_not_of_what_waits() {
        let evidence = json!({"policyGates": [
            {"name": "a", "result": "pass", "evaluatedAt": "2026-04-09T10:00:00Z"},
            {"name": "b", "result": "fail", "evaluatedAt": "2026-04-09T10:00:00Z", "forcedBy": "mallory"},
        ]});
        let told = |promoted: Option<&str>| {
            let record = json!({"promotedAt": promoted, "evidence": evidence});
            gates(&serde_json::from_value(record).expect("a record"))
        };
        assert_eq!(told(Some("2026-04-09T10:01:00Z")), "1/2 passed, forced by mallory");
        assert_eq!(told(None), "", "they may have closed since");
    }
}
