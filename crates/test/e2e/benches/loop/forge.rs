//! The same three environments on a real Gitea.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use kardinal_testkit::gitea::Gitea;
use serde_json::json;

use crate::place::{Place, kustomization};
use crate::table::Row;
use crate::travel::millis;

const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
/// Pushes that tell how long Gitea itself takes.
const PUSHES: usize = 5;

/// Where there is no Gitea there is no row.
pub(crate) async fn rows() -> anyhow::Result<Vec<Row>> {
    let Some(gitea) = tokio::task::spawn_blocking(Gitea::start).await?? else { return Ok(Vec::new()) };
    let gitea = Arc::new(gitea);
    let files: Vec<(String, String)> = ENVIRONMENTS
        .iter()
        .map(|environment| (format!("app/{environment}/kustomization.yaml"), kustomization("1.0.0")))
        .collect();
    let made = gitea.clone();
    let url = tokio::task::spawn_blocking(move || {
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        made.create_repository("bench", &files)
    })
    .await??;
    let place = Place::start().await?;
    let (through, counted) = count(&gitea.url).await?;
    let url = url.replace(&gitea.url, &through);
    place.healthy_workload("1.1.0").await?;
    place
        .apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gitea", "namespace": "default"},
            "stringData": {"token": gitea.token},
        }))
        .await?;
    let git = json!({"url": url, "branch": "main", "provider": "gitea", "secretRef": {"name": "gitea"}});
    place.pipeline("app", git, &ENVIRONMENTS.map(str::to_owned)).await?;
    // The first Bundle fills the cache; the second one tells.
    place.release("app", "app-1", "1.1.0").await?;
    place.verified(&["app-1".to_owned()]).await?;
    place.healthy_workload("1.2.0").await?;
    place.requests.take();
    counted.store(0, Ordering::Relaxed);
    let started = Instant::now();
    place.release("app", "app-2", "1.2.0").await?;
    place.verified(&["app-2".to_owned()]).await?;
    let took = started.elapsed();
    let asked = counted.load(Ordering::Relaxed) as f64 / 3.0;
    let api = place.requests.take();
    let api =
        api.iter().filter(|request| !request.contains("watch=true") && !request.starts_with("GIT")).count();
    place.stop().await;
    let push = own_push(&through, &gitea.token).await?;
    let above = took.saturating_sub(push * 3) / 3;
    Ok(vec![
        Row::new(
            "3 environments on a real Gitea",
            millis(took),
            format!("Gitea's own push takes {}", millis(push)),
        ),
        Row::new("… above Gitea's own push, per environment", millis(above), "its push takes part of it"),
        Row::new("… requests to the forge, per environment", format!("{asked:.1}"), "one push each"),
        Row::new("… API requests, per environment", format!("{:.1}", api as f64 / 3.0), ""),
    ])
}

/// A proxy that counts requests.
async fn count(target: &str) -> anyhow::Result<(String, Arc<AtomicUsize>)> {
    let counted = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let state = (target.to_owned(), counted.clone(), reqwest::Client::new());
    let router = axum::Router::new().fallback(forward).with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((url, counted))
}

async fn forward(
    State((target, counted, client)): State<(String, Arc<AtomicUsize>, reqwest::Client)>,
    request: Request,
) -> Result<Response, String> {
    counted.fetch_add(1, Ordering::Relaxed);
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|error| error.to_string())?;
    let sent =
        client.request(parts.method, format!("{target}{path}")).headers(parts.headers).body(body).send();
    let answer = sent.await.map_err(|error| error.to_string())?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        headers.extend(answer.headers().clone());
        headers.remove("transfer-encoding");
    }
    let bytes = answer.bytes().await.map_err(|error| error.to_string())?;
    response.body(Body::from(bytes)).map_err(|error| error.to_string())
}

/// How long Gitea takes for the same push without anything of ours round it: the middle one of a few.
async fn own_push(url: &str, token: &str) -> anyhow::Result<std::time::Duration> {
    let folder = tempfile::tempdir()?;
    let address =
        format!("{}/operator/bench.git", url.replace("http://", &format!("http://operator:{token}@")));
    let push = move || {
        let git =
            |folder: &std::path::Path, arguments: &[&str]| kardinal_testkit::shop::git(folder, arguments);
        git(folder.path(), &["clone", "--quiet", &address, "clone"])?;
        let clone = folder.path().join("clone");
        let mut times = Vec::new();
        for round in 0..PUSHES {
            std::fs::write(
                clone.join("app/dev/kustomization.yaml"),
                kustomization(&format!("push-{round}")),
            )?;
            git(&clone, &["commit", "--quiet", "-am", "push"])?;
            let started = Instant::now();
            git(&clone, &["push", "--quiet", "origin", "main"])?;
            times.push(started.elapsed());
        }
        times.sort();
        times.get(PUSHES / 2).copied().context("there were pushes")
    };
    tokio::task::spawn_blocking(push).await?
}
