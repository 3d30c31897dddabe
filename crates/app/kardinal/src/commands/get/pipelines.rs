//! Pipelines with the version of each environment.

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep};
use kardinal_planner::bundle::{Route, label_value};
use kardinal_planner::explain::{Outcome, Promotion, WaitOn, display_version};
use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher::Config;
use serde::Serialize;

use crate::args::Common;
use crate::output;
use crate::server::{Ours, Seen, Server, list};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    incoming: Option<Incoming>,
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

pub(super) async fn run(all_namespaces: bool, watch: bool, common: &Common) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let place = Place { server, all: all_namespaces };
    if !watch {
        output::text(&shown(&place, common).await?.0);
        return Ok(());
    }
    let changes = Changes::default()
        .of(place.api::<Pipeline>(), Config::default())
        .of(place.api::<Bundle>(), Config::default())
        .of(place.api::<PromotionStep>(), Config::default())
        .of(place.api::<PolicyGate>(), Config::default());
    follow(changes, async || shown(&place, common).await).await
}

/// One namespace, or all of them.
struct Place {
    server: Server,
    all: bool,
}

impl Place {
    fn api<K: Ours>(&self) -> Api<K> {
        match self.all {
            true => Api::all(self.server.client.clone()),
            false => self.server.api(),
        }
    }
}

async fn shown(place: &Place, common: &Common) -> anyhow::Result<(String, Option<Timestamp>)> {
    let everything = ListParams::default();
    let (pipelines, bundles, steps, gates, graphs) = (
        place.api::<Pipeline>(),
        place.api::<Bundle>(),
        place.api::<PromotionStep>(),
        place.api::<PolicyGate>(),
        place.api::<Graph>(),
    );
    let (pipelines, bundles, steps, gates, graphs) = futures::try_join!(
        list(&pipelines, &everything),
        list(&bundles, &everything),
        list(&steps, &everything),
        list(&gates, &everything),
        list(&graphs, &everything),
    )?;
    let now = Timestamp::now();
    let mut rows = Vec::new();
    let mut next: Option<Timestamp> = None;
    for pipeline in pipelines {
        let seen = part(pipeline, &bundles, &steps, &gates, &graphs);
        let explanation = seen.explain(None, now);
        next = [next, explanation.next_change].into_iter().flatten().min();
        rows.push(row(&seen, &explanation.environments));
    }
    let text = output::rendered(common.output, &rows, || match rows.is_empty() {
        true => "there are no Pipelines; `kardinal init` makes one\n".to_owned(),
        false => table(&rows, place.all, now),
    })?;
    Ok((text, next))
}

/// What belongs to one Pipeline.
fn part(
    pipeline: Pipeline,
    bundles: &[Bundle],
    steps: &[PromotionStep],
    gates: &[PolicyGate],
    graphs: &[Graph],
) -> Seen {
    let namespace = pipeline.metadata.namespace.clone();
    let name = pipeline.metadata.name.clone().unwrap_or_default();
    let labelled = |labels: &Option<std::collections::BTreeMap<String, String>>, value: &str| {
        labels.as_ref().and_then(|labels| labels.get(PIPELINE_LABEL)).is_some_and(|label| label == value)
    };
    let short = label_value(&name);
    let bundles = bundles
        .iter()
        .filter(|one| one.metadata.namespace == namespace && labelled(&one.metadata.labels, &name));
    let steps = steps.iter().filter(|one| one.metadata.namespace == namespace && one.spec.pipeline == name);
    let gates = gates
        .iter()
        .filter(|one| one.metadata.namespace == namespace && labelled(&one.metadata.labels, &short));
    // Graphs that people wrote have no label, and may promote anything.
    let graphs = graphs.iter().filter(|one| {
        let labels = one.metadata.labels.as_ref();
        let of = labels.and_then(|labels| labels.get(PIPELINE_LABEL));
        one.metadata.namespace == namespace && of.is_none_or(|of| *of == short)
    });
    Seen {
        bundles: bundles.cloned().collect(),
        steps: steps.cloned().collect(),
        gates: gates.cloned().collect(),
        graphs: graphs.cloned().collect(),
        pipeline,
    }
}

fn row(seen: &Seen, promotions: &[Promotion]) -> Row {
    let frozen = seen.gates.iter().any(kardinal_policy::is_freeze);
    let metadata = &seen.pipeline.metadata;
    Row {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        paused: frozen || seen.pipeline.spec.paused(),
        error: Route::whole(&seen.pipeline.spec).err().map(|problem| problem.to_string()),
        environments: promotions.iter().map(|promotion| cell(seen, promotion)).collect(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
    }
}

fn cell(seen: &Seen, promotion: &Promotion) -> Cell {
    let verified =
        |bundle: &&Bundle| bundle.status.as_ref()?.environments.get(&promotion.environment)?.verified_at;
    let current = seen.bundles.iter().filter(|bundle| verified(bundle).is_some()).max_by_key(verified);
    let waits_elsewhere = promotion.waits.iter().any(|wait| wait.on == WaitOn::Upstream);
    let comes = !matches!(promotion.outcome, Outcome::Verified | Outcome::Idle) && !waits_elsewhere;
    Cell {
        environment: promotion.environment.clone(),
        version: current.map(|bundle| kardinal_policy::version(&bundle.spec)),
        bundle: current.and_then(|bundle| bundle.metadata.name.clone()),
        verified_at: current.as_ref().and_then(verified),
        incoming: comes.then(|| Incoming {
            version: promotion.version.clone().unwrap_or_default(),
            bundle: promotion.bundle.clone().unwrap_or_default(),
            outcome: promotion.outcome,
            result: promotion.result.clone(),
        }),
    }
}

fn table(rows: &[Row], with_namespace: bool, now: Timestamp) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for cell in rows.iter().flat_map(|row| &row.environments) {
        if !columns.contains(&cell.environment.as_str()) {
            columns.push(&cell.environment);
        }
    }
    let upper: Vec<String> = columns.iter().map(|name| name.to_uppercase()).collect();
    let mut header: Vec<&str> = if with_namespace { vec!["NAMESPACE", "PIPELINE"] } else { vec!["PIPELINE"] };
    header.extend(upper.iter().map(String::as_str));
    header.push("AGE");
    let lines = rows.iter().map(|row| {
        let mut line = if with_namespace { vec![row.namespace.clone()] } else { Vec::new() };
        line.push(if row.paused { format!("{} [PAUSED]", row.name) } else { row.name.clone() });
        line.extend(columns.iter().map(|name| {
            let cell = row.environments.iter().find(|cell| cell.environment == *name);
            cell.map(shown_cell).unwrap_or_default()
        }));
        line.push(output::age(row.created, now));
        line
    });
    let mut text = output::table(&header, lines.collect());
    for row in rows {
        if let Some(error) = &row.error {
            text.push_str(&format!("\nERROR {}: {error}\n", row.name));
        }
    }
    text
}

/// `v1.28.0 → v1.29.0 BLOCKED`.
fn shown_cell(cell: &Cell) -> String {
    let current = cell.version.as_deref().map_or_else(|| "-".to_owned(), display_version);
    match &cell.incoming {
        None => current,
        Some(incoming) => {
            let word = incoming.result.split([' ', ':']).next().unwrap_or_default();
            format!("{current} → {} {word}", display_version(&incoming.version))
        }
    }
}
