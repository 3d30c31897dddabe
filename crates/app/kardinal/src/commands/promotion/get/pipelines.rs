//! Pipelines with the version of each environment.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, Pipeline, PolicyGate, PromotionStep};
use kardinal_promotion::explain::{Outcome, Present, Promotion, WaitOn, display_version};
use kardinal_promotion::intent::{History, bundle_named, meet};
use kardinal_promotion::pipeline::check;
use kube::runtime::watcher::Config;
use serde::Serialize;

use super::super::explain::with_policies;
use crate::args::Common;
use crate::output;
use crate::server::{Place, Seen, Server};
use crate::watching::{Changes, follow};

/// One Pipeline.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    namespace: String,
    paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    environments: Vec<Cell>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
}

/// What an environment has, and what comes next.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cell {
    environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified_at: Option<Timestamp>,
    /// Why nothing proves that the version runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_proven: Option<String>,
    /// What it has of other kinds: beside the configuration its image, and the other way round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Also>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incoming: Option<Incoming>,
}

/// Something else that an environment has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Also {
    version: String,
    bundle: String,
}

/// A version at the door of an environment.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    version: String,
    bundle: String,
    outcome: Outcome,
    result: String,
}

pub(super) async fn run(
    all_namespaces: bool,
    watch: bool,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let place = Place { server, all: all_namespaces };
    if !watch {
        output::text(&shown(&place, policy_namespaces, common).await?.0);
        return Ok(());
    }
    let changes = Changes::default()
        .of(place.api::<Pipeline>(), Config::default())
        .of(place.api::<Bundle>(), Config::default())
        .of(place.api::<PromotionStep>(), Config::default())
        .of(place.api::<PolicyGate>(), Config::default());
    let changes = if place.all { changes } else { with_policies(changes, &place.server, policy_namespaces) };
    follow(changes, async || shown(&place, policy_namespaces, common).await).await
}

async fn shown(
    place: &Place,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<(String, Option<Timestamp>)> {
    let all = place.seen(policy_namespaces).await?;
    let now = Timestamp::now();
    let mut rows = Vec::new();
    let mut next: Option<Timestamp> = None;
    for seen in &all {
        let explanation = seen.explain(None, now);
        next = [next, explanation.next_change].into_iter().flatten().min();
        rows.push(row(seen, &explanation.environments));
    }
    let text = output::rendered(common.output, &rows, || match rows.is_empty() {
        true => "there are no Pipelines; `kardinal init` makes one\n".to_owned(),
        false => table(&rows, place.all, now),
    })?;
    Ok((text, next))
}

fn row(seen: &Seen, promotions: &[Promotion]) -> Row {
    let frozen = seen.gates.iter().any(kardinal_policy::is_freeze);
    let metadata = &seen.pipeline.metadata;
    Row {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        paused: frozen || seen.pipeline.spec.paused(),
        error: check(&seen.pipeline).err().map(|problem| problem.to_string()),
        environments: promotions.iter().map(|promotion| cell(seen, promotion)).collect(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
    }
}

fn cell(seen: &Seen, promotion: &Promotion) -> Cell {
    let waits_elsewhere = promotion.waits.iter().any(|wait| wait.on == WaitOn::Upstream);
    let comes = !matches!(promotion.outcome, Outcome::Verified | Outcome::Idle) && !waits_elsewhere;
    let incoming =
        promotion.bundle.as_deref().filter(|_| comes).and_then(|name| bundle_named(&seen.bundles, name).ok());
    // What has failed and is in all the same.
    let failed = promotion
        .has
        .iter()
        .find(|one| promotion.outcome == Outcome::Failed && promotion.bundle.as_ref() == Some(&one.bundle));
    let current = match incoming {
        _ if failed.is_some() => failed.cloned(),
        Some(bundle) => beside(seen, promotion, bundle),
        None => promotion.has.first().cloned(),
    };
    let kind = incoming.map(|bundle| bundle.spec.kind()).or(current.as_ref().map(|one| one.kind));
    let others = promotion.has.iter().filter(|one| kind.is_some_and(|kind| !meet(one.kind, kind)));
    Cell {
        environment: promotion.environment.clone(),
        also: others.map(|one| Also { version: one.version.clone(), bundle: one.bundle.clone() }).collect(),
        version: current.as_ref().map(|one| one.version.clone()),
        bundle: current.as_ref().map(|one| one.bundle.clone()),
        verified_at: current.as_ref().and_then(|one| one.verified_at),
        not_proven: current.and_then(|one| one.not_proven),
        incoming: comes.then(|| Incoming {
            version: promotion.version.clone().unwrap_or_default(),
            bundle: promotion.bundle.clone().unwrap_or_default(),
            outcome: promotion.outcome,
            result: promotion.result.clone(),
        }),
    }
}

/// What is told beside a Bundle that comes: what the environment has of the same kind. A version that has come and is not
/// verified is told as one that comes, so what was there before stands beside it.
fn beside(seen: &Seen, promotion: &Promotion, coming: &Bundle) -> Option<Present> {
    let kind = coming.spec.kind();
    let here = promotion.has.iter().find(|one| one.kind == kind || one.kind == BundleType::Mixed);
    if here.is_none_or(|one| Some(&one.bundle) != coming.metadata.name.as_ref()) {
        return here.cloned();
    }
    let bundles: Vec<&Bundle> = seen.bundles.iter().collect();
    let before = History::of(&bundles, &promotion.environment, kind).before(coming)?;
    let entry = before.status.as_ref().and_then(|status| status.environments.get(&promotion.environment));
    Some(Present {
        kind,
        version: kardinal_policy::version(&before.spec),
        bundle: before.metadata.name.clone().unwrap_or_default(),
        deleted: false,
        verified_at: entry.and_then(|entry| entry.verified_at),
        not_proven: entry.and_then(|entry| entry.evidence.as_ref()?.not_proven.clone()),
    })
}

/// One table for all Pipelines with the same environments: a column that is empty in most lines helps nobody.
fn table(rows: &[Row], with_namespace: bool, now: Timestamp) -> String {
    let environments =
        |row: &Row| row.environments.iter().map(|cell| cell.environment.clone()).collect::<Vec<String>>();
    let mut groups: Vec<(Vec<String>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let columns = environments(row);
        match groups.iter_mut().find(|(known, _)| *known == columns) {
            Some((_, group)) => group.push(row),
            None => groups.push((columns, vec![row])),
        }
    }
    let tables = groups.iter().map(|(columns, group)| group_table(columns, group, with_namespace, now));
    let mut text = tables.collect::<Vec<String>>().join("\n");
    for row in rows {
        if let Some(error) = &row.error {
            text.push_str(&format!("\nERROR {}: {error}\n", row.name));
        }
    }
    text
}

fn group_table(columns: &[String], rows: &[&Row], with_namespace: bool, now: Timestamp) -> String {
    let upper: Vec<String> = columns.iter().map(|name| name.to_uppercase()).collect();
    let mut header: Vec<&str> = if with_namespace { vec!["NAMESPACE", "PIPELINE"] } else { vec!["PIPELINE"] };
    header.extend(upper.iter().map(String::as_str));
    header.push("AGE");
    let lines = rows.iter().map(|row| {
        let mut line = if with_namespace { vec![row.namespace.clone()] } else { Vec::new() };
        line.push(if row.paused { format!("{} [PAUSED]", row.name) } else { row.name.clone() });
        line.extend(row.environments.iter().map(shown_cell));
        line.push(output::age(row.created, now));
        line
    });
    output::table(&header, lines.collect())
}

/// `v1.28.0 → v1.29.0 BLOCKED`, and what the environment has of other kinds after a `·`.
fn shown_cell(cell: &Cell) -> String {
    let also = cell.also.iter().map(|one| format!(" · {}", display_version(&one.version)));
    format!("{}{}", shown_version(cell), also.collect::<String>())
}

fn shown_version(cell: &Cell) -> String {
    let current = cell.version.as_deref().map_or_else(|| "-".to_owned(), display_version);
    match &cell.incoming {
        None if cell.not_proven.is_some() => format!("{current} (not proven)"),
        None => current,
        Some(incoming) => {
            let word = incoming.result.split([' ', ':']).next().unwrap_or_default();
            match cell.bundle.as_ref() == Some(&incoming.bundle) {
                true => format!("{current} {word}"),
                false => format!("{current} → {} {word}", display_version(&incoming.version)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row_of(name: &str, environments: &[&str]) -> Row {
        let cell = |environment: &&str| Cell {
            environment: (*environment).to_owned(),
            version: Some("1.28.0".to_owned()),
            bundle: None,
            verified_at: None,
            not_proven: None,
            also: Vec::new(),
            incoming: None,
        };
        Row {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            paused: false,
            error: None,
            environments: environments.iter().map(cell).collect(),
            created: None,
        }
    }

    #[test]
    fn pipelines_of_different_environments_stay_readable() {
        let rows = [
            row_of("shop", &["dev", "prod"]),
            row_of("fleet", &["canary", "eu", "us"]),
            row_of("blog", &["dev", "prod"]),
        ];
        let text = table(&rows, false, Timestamp::UNIX_EPOCH);
        let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("PIPELINE")).collect();
        assert_eq!(heads.len(), 2, "{text}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        assert_eq!(words(heads[0]), ["PIPELINE", "DEV", "PROD", "AGE"]);
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert!(
            blocks[0].contains("shop") && blocks[0].contains("blog") && !blocks[0].contains("CANARY"),
            "{text}"
        );
        assert_eq!(words(blocks[1].lines().nth(1).unwrap()), ["fleet", "v1.28.0", "v1.28.0", "v1.28.0"]);
    }

    #[test]
    fn a_rollback_shows_the_version_that_it_takes_back() {
        let bundle = |name: &str, tag: &str, created: &str, status: serde_json::Value| -> Bundle {
            serde_json::from_value(json!({
                "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
                "metadata": {"name": name, "namespace": "default", "creationTimestamp": created,
                    "labels": {"kardinal.io/pipeline": "my-app"}},
                "spec": {"artifacts": {"images": [{"name": "a", "reference": format!("r/a:{tag}")}]}},
                "status": status,
            }))
            .unwrap()
        };
        let good = json!({"state": "Verified", "promotedAt": "2026-04-09T10:00:10Z", "verifiedAt": "2026-04-09T10:00:20Z"});
        let bad = json!({"state": "Failed", "promotedAt": "2026-04-09T10:01:10Z"});
        let mut seen = Seen {
            pipeline: serde_json::from_value(json!({
                "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
                "metadata": {"name": "my-app", "namespace": "default"},
                "spec": {"git": {"url": "u"}, "environments": [{"name": "prod"}]},
            }))
            .unwrap(),
            bundles: vec![
                bundle(
                    "old",
                    "10.0",
                    "2026-04-09T10:00:00Z",
                    json!({"phase": "Verified", "environments": {"prod": good}}),
                ),
                bundle(
                    "new",
                    "11.0",
                    "2026-04-09T10:01:00Z",
                    json!({"phase": "Failed", "environments": {"prod": bad}}),
                ),
            ],
            steps: Vec::new(),
            gates: Vec::new(),
            graphs: Vec::new(),
            agents: Vec::new(),
            policy_namespaces: Vec::new(),
        };
        let shown = |seen: &Seen| {
            let now = "2026-04-09T10:05:00Z".parse().unwrap();
            let explanation = seen.explain(None, now);
            shown_cell(&cell(seen, &explanation.environments[0]))
        };
        assert_eq!(shown(&seen), "v11.0 FAILED", "it is in");
        let entry = |seen: &mut Seen, promoted: Option<&str>| {
            let status = seen.bundles[1].status.as_mut().unwrap();
            let entry = status.environments.get_mut("prod").unwrap();
            std::mem::replace(&mut entry.promoted_at, promoted.map(|at| at.parse().unwrap()))
        };
        entry(&mut seen, None);
        assert_eq!(shown(&seen), "v10.0 → v11.0 FAILED", "it never came in");
        entry(&mut seen, Some("2026-04-09T10:01:10Z"));
        for entry in
            [json!({}), json!({"prod": {"state": "HealthChecking", "promotedAt": "2026-04-09T10:02:10Z"}})]
        {
            let mut back = bundle(
                "back",
                "10.0",
                "2026-04-09T10:02:00Z",
                json!({"phase": "Promoting", "environments": entry}),
            );
            back.spec.provenance = serde_json::from_value(json!({"rollbackOf": "new"})).unwrap();
            seen.bundles.truncate(2);
            seen.bundles.push(back);
            let text = shown(&seen);
            assert!(text.starts_with("v11.0 → v10.0 "), "{text}");
        }
    }

    #[test]
    fn while_configuration_comes_the_image_is_still_told() {
        let mut row = row_of("shop", &["prod"]);
        let cell = &mut row.environments[0];
        cell.version = None;
        cell.also = vec![Also { version: "1.28.0".to_owned(), bundle: "shop-1".to_owned() }];
        cell.incoming = Some(Incoming {
            version: "4f1c2ab".to_owned(),
            bundle: "shop-config".to_owned(),
            outcome: Outcome::Waiting,
            result: "WAITING: for PR #3".to_owned(),
        });
        assert_eq!(shown_cell(&row.environments[0]), "- → 4f1c2ab WAITING · v1.28.0");
    }
}
