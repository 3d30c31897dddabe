//! From a Bundle's creation to its verified arrival everywhere.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use crate::place::{Place, cpu, kustomization, memory};
use crate::table::Row;

fn files(pipelines: &[String], environments: &[String]) -> Vec<(String, String)> {
    let all = pipelines.iter().flat_map(|pipeline| {
        environments.iter().map(move |environment| {
            (format!("{pipeline}/{environment}/kustomization.yaml"), kustomization("1.0.0"))
        })
    });
    all.collect()
}

fn local(place: &Place, repository: &str) -> anyhow::Result<(Value, std::path::PathBuf)> {
    let path = place.workshop.forge.store.create("default", repository, "main")?;
    let url = place.workshop.remote("default", repository).url;
    Ok((json!({"url": url, "branch": "main", "provider": "local"}), path))
}

/// One Pipeline, so many environments in a chain.
pub(crate) async fn chain(length: usize) -> anyhow::Result<Vec<Row>> {
    let place = Place::start().await?;
    let environments: Vec<String> = (0..length).map(|at| format!("env-{at:03}")).collect();
    let (git, path) = local(&place, "chain")?;
    kardinal_testkit::shop::push_first(&path, &files(&["chain".to_owned()], &environments))?;
    place.healthy_workload("1.1.0").await?;
    place.pipeline("chain", git, &environments).await?;
    place.requests.take();
    let (busy, started) = (cpu()?, Instant::now());
    place.release("chain", "chain-1", "1.1.0").await?;
    place.verified(&["chain-1".to_owned()]).await?;
    let took = started.elapsed();
    let busy = cpu()? - busy;
    let heard = place.requests.take();
    let asked =
        heard.iter().filter(|request| !request.contains("watch=true") && !request.starts_with("GIT")).count();
    let pushes = heard.iter().filter(|request| request.starts_with("GIT commit")).count();
    ensure!(pushes >= length, "{pushes} pushes for {length} environments");
    let each = |total: f64| total / length as f64;
    let name = format!("chain of {length} environments");
    let rows = vec![
        Row::new(
            format!("{name}: Bundle → all verified"),
            millis(took),
            format!("{:.1} ms per environment", each(took.as_secs_f64() * 1e3)),
        ),
        Row::new(
            format!("{name}: API requests"),
            asked.to_string(),
            format!("{:.1} per environment", each(asked as f64)),
        ),
        Row::new(
            format!("{name}: pushes"),
            pushes.to_string(),
            format!("{:.2} per environment", each(pushes as f64)),
        ),
        Row::new(
            format!("{name}: CPU"),
            format!("{busy:.2} s"),
            format!("{:.1} ms per environment", each(busy * 1e3)),
        ),
    ];
    place.stop().await;
    Ok(rows)
}

/// So many Pipelines of three environments each, all given a Bundle at once; then nothing happens for a while.
pub(crate) async fn many(pipelines: usize) -> anyhow::Result<Vec<Row>> {
    let place = Place::start().await?;
    let names: Vec<String> = (0..pipelines).map(|at| format!("app-{at:03}")).collect();
    let environments = ["dev", "staging", "prod"].map(str::to_owned);
    let (git, path) = local(&place, "many")?;
    kardinal_testkit::shop::push_first(&path, &files(&names, &environments))?;
    place.healthy_workload("1.1.0").await?;
    for name in &names {
        place.pipeline(name, git.clone(), &environments).await?;
    }
    place.requests.take();
    let (busy, started) = (cpu()?, Instant::now());
    for name in &names {
        place.release(name, &format!("{name}-1"), "1.1.0").await?;
    }
    place.verified(&names.iter().map(|name| format!("{name}-1")).collect::<Vec<_>>()).await?;
    let took = started.elapsed();
    let busy = cpu()? - busy;
    let asked = place.requests.take().iter().filter(|request| !request.contains("watch=true")).count();
    let resident = memory()?;
    place.quiet().await;
    let (idle, pause) = (cpu()?, Duration::from_secs(5));
    tokio::time::sleep(pause).await;
    let idle = (cpu()? - idle) / pause.as_secs_f64() * 100.0;
    let writes = place.requests.take().len();
    let name = format!("{pipelines} pipelines × 3 environments at once");
    let steps = (pipelines * 3) as f64;
    let rows = vec![
        Row::new(
            format!("{name}: → all verified"),
            millis(took),
            format!("{:.1} ms per environment", took.as_secs_f64() * 1e3 / steps),
        ),
        Row::new(
            format!("{name}: requests"),
            asked.to_string(),
            format!("{:.1} per environment", asked as f64 / steps),
        ),
        Row::new(
            format!("{name}: CPU"),
            format!("{busy:.2} s"),
            format!("{:.1} ms per environment", busy * 1e3 / steps),
        ),
        Row::new(
            format!("{name}: memory"),
            format!("{resident:.0} MiB"),
            "the whole process, this program included",
        ),
        Row::new(
            format!("{name}: idle CPU"),
            format!("{idle:.2} %"),
            format!("{writes} requests in {} s", pause.as_secs()),
        ),
    ];
    place.stop().await;
    Ok(rows)
}

pub(crate) fn millis(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1e3)
}
