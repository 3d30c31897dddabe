//! Pipelines with the version of each environment.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_promotion::explain::{World, display_version};
use kardinal_promotion::view::{self, EnvironmentCell, PipelineRow, Pipelines};
use kube::runtime::watcher::Config;

use super::super::explain::with_policies;
use crate::args::Common;
use crate::output;
use crate::server::{Place, Server};
use crate::watching::{Changes, follow};

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
    let worlds: Vec<World<'_>> = all.iter().map(|seen| seen.world(now)).collect();
    let Pipelines { rows, next_change } = view::pipelines(&worlds);
    let text = output::rendered(common.output, &rows, || match rows.is_empty() {
        true => "there are no Pipelines; `kardinal init` makes one\n".to_owned(),
        false => table(&rows, place.all, now),
    })?;
    Ok((text, next_change))
}

/// One table for all Pipelines with the same environments: a column that is empty in most lines helps nobody.
fn table(rows: &[PipelineRow], with_namespace: bool, now: Timestamp) -> String {
    let environments = |row: &PipelineRow| {
        row.environments.iter().map(|cell| cell.environment.clone()).collect::<Vec<String>>()
    };
    let mut groups: Vec<(Vec<String>, Vec<&PipelineRow>)> = Vec::new();
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

fn group_table(columns: &[String], rows: &[&PipelineRow], with_namespace: bool, now: Timestamp) -> String {
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
fn shown_cell(cell: &EnvironmentCell) -> String {
    let also = cell.also.iter().map(|one| format!(" · {}", display_version(&one.version)));
    format!("{}{}", shown_version(cell), also.collect::<String>())
}

fn shown_version(cell: &EnvironmentCell) -> String {
    let current = cell.version.as_deref().map_or_else(|| "-".to_owned(), display_version);
    match &cell.incoming {
        None if cell.not_proven.is_some() => format!("{current} (not proven)"),
        None => current,
        Some(incoming) => {
            let word = incoming.outcome.as_str();
            match cell.bundle.as_ref() == Some(&incoming.bundle) {
                true => format!("{current} {word}"),
                false => format!("{current} → {} {word}", display_version(&incoming.version)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kardinal_promotion::explain::Outcome;
    use kardinal_promotion::view::{Also, Incoming};

    use super::*;

    fn row_of(name: &str, environments: &[&str]) -> PipelineRow {
        let cell = |environment: &&str| EnvironmentCell {
            environment: (*environment).to_owned(),
            version: Some("1.28.0".to_owned()),
            ..EnvironmentCell::default()
        };
        PipelineRow {
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
