//! Tasks of other people: calls over HTTP in the middle of a promotion. Time is real in all worlds here, for the other
//! side's answer takes some.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use axum::{Json, Router};
use kardinal_api::kardinal::{BundlePhase, PromotionState, TaskState};
use kardinal_promotion::bundle::why;
use kardinal_testkit::shop::fixture;
use kardinal_testkit::world::{in_memory_real_time, on_kardinal_up, on_real_kubernetes, promotions};
use kardinal_testkit::{Shop, World};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::words::{approve, has_version, message, pipeline};

/// Makes one test for each world, with real time.
macro_rules! in_real_time {
    ($name:ident) => {
        mod $name {
            #[test]
            fn in_memory() -> anyhow::Result<()> {
                super::in_memory_real_time(super::promotions(), async |world, _| super::$name(world).await)
            }

            #[test]
            fn on_kardinal_up() -> anyhow::Result<()> {
                super::on_kardinal_up(super::promotions(), async |world| super::$name(world).await)
            }

            #[test]
            fn on_real_kubernetes() -> anyhow::Result<()> {
                super::on_real_kubernetes(super::promotions(), async |world| super::$name(world).await)
            }
        }
    };
}

in_real_time!(a_task_decides);
in_real_time!(no_secret_for_strangers);

/// Somebody who is called, with the answers that are still to be given.
#[derive(Clone, Default)]
struct Runner {
    answers: Arc<Mutex<Vec<(u16, Value)>>>,
    calls: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

impl Runner {
    /// Listens and says where.
    async fn listen(&self) -> anyhow::Result<String> {
        let router = Router::new()
            .route("/validate", post(Runner::answer))
            .route("/{*rest}", any(Runner::refuse))
            .with_state(self.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(format!("http://{address}"))
    }

    async fn answer(State(runner): State<Runner>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
        runner.hear(headers, body);
        let mut answers = runner.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, answer) =
            if answers.is_empty() { (500, json!("nobody asked me to")) } else { answers.remove(0) };
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(answer)).into_response()
    }

    /// Wants to know who is there, as repositories do.
    async fn refuse(State(runner): State<Runner>, headers: HeaderMap) -> Response {
        runner.hear(headers, Value::Null);
        (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"git\"")]).into_response()
    }

    fn hear(&self, headers: HeaderMap, body: Value) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((headers, body));
    }

    fn will_answer(&self, answers: &[(u16, Value)]) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers.to_vec();
    }

    fn take(&self) -> Vec<(HeaderMap, Value)> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn secret(shop: &Shop<'_>, name: &str) -> anyhow::Result<()> {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"token": "czNjcmV0"}});
    shop.story.apply(&secret).await?;
    Ok(())
}

/// The steps of section 3.15, called at the runner.
fn with_steps(url: &str) -> anyhow::Result<Value> {
    let mut pipeline = fixture("pipeline-steps-3-15.yaml")?;
    let config =
        pipeline.pointer_mut("/spec/environments/0/steps/2/config").context("run-tests has a config")?;
    config["url"] = json!(format!("{url}/validate"));
    config["secretRef"] = json!({"name": "runner"});
    config["header"] = json!("X-Runner-Token");
    Ok(pipeline)
}

async fn a_task_decides(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    let runner = Runner::default();
    let url = runner.listen().await?;
    secret(&shop, "runner").await?;
    shop.pipeline(with_steps(&url)?).await?;
    let yes = (200, json!({"success": true, "message": "all tests pass"}));

    // It says no: nothing is pushed.
    runner.will_answer(&[(200, json!({"success": false, "message": "two tests fail"}))]);
    shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
    shop.phase("my-app-v1-29-0", BundlePhase::Failed).await?;
    let step = shop.state("my-app-v1-29-0", "prod", PromotionState::Failed).await?;
    ensure!(message(&step) == "task `run-tests` said no: two tests fail", "{}", message(&step));
    let failed: Vec<String> = step
        .status
        .unwrap_or_default()
        .steps
        .into_iter()
        .filter(|task| task.state == TaskState::Failed)
        .map(|task| task.name)
        .collect();
    ensure!(failed == ["run-tests"], "{failed:?}");
    ensure!(shop.branches()? == ["main"], "{:?}", shop.branches()?);
    let calls = runner.take();
    ensure!(calls.len() == 1, "{calls:?}");

    // It stumbles once and then says yes; it is told what is going on, and by whom.
    runner.will_answer(&[(500, json!("out of memory")), yes]);
    shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
    approve(&shop, "my-app-v1-30-0", "prod").await?;
    shop.phase("my-app-v1-30-0", BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.30.0").await?;
    let calls = runner.take();
    ensure!(calls.len() == 2, "{calls:?}");
    for (headers, body) in &calls {
        let token = headers.get("X-Runner-Token").and_then(|value| value.to_str().ok());
        ensure!(token == Some("Bearer s3cret"), "{headers:?}");
        ensure!(headers.get("authorization").is_none(), "{headers:?}");
        ensure!(body["pipeline"] == "my-app" && body["environment"] == "prod", "{body}");
        ensure!(
            body["bundle"]["artifacts"]["images"][0]["reference"] == "ghcr.io/myorg/my-app:1.30.0",
            "{body}"
        );
        ensure!(body["context"]["task"] == "run-tests" && body["context"]["commit"].is_null(), "{body}");
        ensure!(body["config"]["timeout"] == "5m", "{body}");
        ensure!(!body.to_string().contains("s3cret"), "{body}");
    }
    ensure!(
        calls[0].1["context"]["id"] == calls[1].1["context"]["id"],
        "a repeated call is the same call: {calls:?}"
    );

    // It is never there: after three calls the promotion gives up, and says what was answered.
    runner.will_answer(&[]);
    shop.release("my-app-v1-31-0", "1.31.0", json!({})).await?;
    let step = shop.state("my-app-v1-31-0", "prod", PromotionState::Failed).await?;
    ensure!(
        message(&step).contains("`run-tests` failed 3 times") && message(&step).contains("500"),
        "{}",
        message(&step)
    );
    ensure!(runner.take().len() == 3);
    shop.close().await
}

/// The credentials of the GitOps repository are for its host only, whatever repository a Bundle names.
async fn no_secret_for_strangers(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev"]).await?;
    let runner = Runner::default();
    let url = runner.listen().await?;
    secret(&shop, "forge").await?;
    let mut manifest = pipeline(json!([{"name": "dev"}]));
    manifest["spec"]["git"] =
        json!({"url": shop.url(&shop.repository), "provider": "local", "secretRef": {"name": "forge"}});
    shop.story.apply(&manifest).await?;
    let mut bundle = fixture("config-bundle-3-16.yaml")?;
    bundle["spec"]["artifacts"]["gitCommit"]["repository"] = json!(format!("{url}/stranger/config.git"));
    bundle["spec"]["artifacts"]["gitCommit"]["sha"] = json!("0123456789012345678901234567890123456789");
    shop.story.apply(&bundle).await?;
    let name = "my-app-config-update-1712567890";
    world
        .eventually("the Bundle waits for the stranger", async || {
            let said = why(&shop.bundle(name).await?).unwrap_or_default().to_owned();
            let waits = said.contains("waits to learn whether") && said.contains("stranger/config.git");
            Ok(if waits { Ok(()) } else { Err(said) })
        })
        .await?;
    let calls = runner.take();
    ensure!(!calls.is_empty(), "the stranger was not even asked");
    ensure!(
        calls.iter().all(|(headers, _)| headers.get("authorization").is_none()),
        "the secret is out: {calls:?}"
    );
    shop.close().await
}

/// What a step says in the end of a task at this URL that has so long to answer. Nothing is pushed.
async fn said_of(world: &World, url: &str, timeout: &str) -> anyhow::Result<String> {
    let shop = Shop::open(world, &["prod"]).await?;
    let mut manifest = with_steps(url)?;
    let config =
        manifest.pointer_mut("/spec/environments/0/steps/2/config").context("run-tests has a config")?;
    config["timeout"] = json!(timeout);
    secret(&shop, "runner").await?;
    shop.pipeline(manifest).await?;
    shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
    let step = shop.state("my-app-v1-29-0", "prod", PromotionState::Failed).await?;
    ensure!(shop.branches()? == ["main"], "{:?}", shop.branches()?);
    has_version(&shop, "prod", "1.28.0").await?;
    shop.close().await?;
    Ok(message(&step))
}

#[test]
fn an_answer_of_a_task_that_is_too_long_is_no_yes() -> anyhow::Result<()> {
    in_memory_real_time(promotions(), async |world, _| {
        let runner = Runner::default();
        let url = runner.listen().await?;
        let long = (200, json!({"success": true, "message": "x".repeat(70 << 10)}));
        runner.will_answer(&[long.clone(), long.clone(), long]);
        let said = said_of(world, &url, "5m").await?;
        let wanted = "calling `run-tests` failed 3 times: the task's answer is longer than 65536 bytes";
        ensure!(said == wanted, "{said}");
        ensure!(runner.take().len() == 3);
        Ok(())
    })
}

/// Somebody who takes every call, says this much of an answer, and then nothing for ever.
async fn falls_silent_after(beginning: &'static str) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            // An answer before the question is none, and whoever has hung up already does not want to hear it.
            let _ = connection.read(&mut [0; 1024]).await;
            let _ = connection.write_all(beginning.as_bytes()).await;
            open.push(connection);
        }
    });
    Ok(url)
}

#[test]
fn a_task_whose_answer_does_not_come_within_its_timeout_does_not_answer() -> anyhow::Result<()> {
    for beginning in ["", "HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n"] {
        in_memory_real_time(promotions(), async |world, _| {
            let url = falls_silent_after(beginning).await?;
            let said = said_of(world, &url, "1s").await?;
            let wanted = "calling `run-tests` failed 3 times: the task does not answer: ";
            ensure!(said.starts_with(wanted), "after {beginning:?}: {said}");
            Ok(())
        })?;
    }
    Ok(())
}
