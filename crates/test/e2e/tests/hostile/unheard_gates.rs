//! Whoever does not hear of the organisation's gates changes nothing, whatever the gates said before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::ensure;
use jiff::SignedDuration;
use kardinal_api::kardinal::BundlePhase;
use kardinal_testkit::requests::{Fate, Heard, Requests};
use kardinal_testkit::shop::APP;
use kardinal_testkit::{Shop, World, world};
use serde_json::{Value, json};

const KARDINAL: &str = "kardinal.io/v1alpha1";
const BUNDLE: &str = "my-app-v1-29-0";
const FILE: &str = "environments/prod/kustomization.yaml";
/// Longer than a watch lasts: servers end them from time to time.
const LONG: SignedDuration = SignedDuration::from_mins(10);
/// Long enough for everything that is going to happen.
const WHILE: SignedDuration = SignedDuration::from_mins(2);

/// A change that a step makes.
#[derive(Clone)]
struct Action {
    environment: Value,
    /// Whether this request is the one that does it.
    is: fn(&str) -> bool,
}

/// Who gets through to the server.
#[derive(Default)]
struct Doors {
    gates_are_shut: AtomicBool,
    action_is_let_through: AtomicBool,
}

impl Doors {
    fn judge(&self, action: &Action, heard: &Heard<'_>) -> Fate {
        let lost = match (action.is)(heard.what) {
            true => !self.action_is_let_through.load(Ordering::SeqCst),
            false => is_about_gates(heard.what) && self.gates_are_shut.load(Ordering::SeqCst),
        };
        if lost { Fate::Lost } else { Fate::Pass }
    }
}

/// A list or a watch.
fn is_about_gates(what: &str) -> bool {
    what.starts_with("GET ") && what.contains("/policygates?")
}

#[test]
fn nothing_is_pushed_while_no_gate_is_heard_of() -> anyhow::Result<()> {
    check(Action { environment: json!({"name": "prod"}), is: |what| what.starts_with("GIT commit main") })
}

#[test]
fn no_pull_request_is_opened_while_no_gate_is_heard_of() -> anyhow::Result<()> {
    let is = |what: &str| what.starts_with("POST ") && what.contains("/pullrequests?");
    check(Action { environment: json!({"name": "prod", "pr": true}), is })
}

#[test]
fn nothing_is_merged_while_no_gate_is_heard_of() -> anyhow::Result<()> {
    let is = |what: &str| {
        what.starts_with("PATCH ") && what.contains("/pullrequests/") && !what.contains("/status?")
    };
    check(Action { environment: json!({"name": "prod", "pr": true}), is })
}

fn check(action: Action) -> anyhow::Result<()> {
    world::in_memory_overheard(world::promotions(), async |world, requests| {
        let doors = Arc::new(Doors::default());
        let (judge, judged) = (Arc::clone(&doors), action.clone());
        requests.judged_by(move |heard| judge.judge(&judged, heard));
        a_gate_closes_unheard(world, requests, &doors, &action).await
    })
}

/// The gate is open when the step is about to do it, but the request is lost. Then the watch of the gates ends and does
/// not come back, the organisation closes the gate, and requests arrive again.
async fn a_gate_closes_unheard(
    world: &World,
    requests: &Requests,
    doors: &Doors,
    action: &Action,
) -> anyhow::Result<()> {
    let tried = || requests.take().iter().any(|what| (action.is)(what));
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    shop.org_gate("freeze", "prod", "true", "1m").await?;
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [action.environment]},
    }))
    .await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let what = "nothing but the request keeps the step from it";
    world.eventually(what, async || Ok(tried().then_some(()).ok_or_else(String::new))).await?;

    doors.gates_are_shut.store(true, Ordering::SeqCst);
    world.advance(LONG).await;
    ensure!(requests.take().iter().any(|what| is_about_gates(what)), "the watch has ended");
    shop.org_gate("freeze", "prod", "false", "1m").await?;
    doors.action_is_let_through.store(true, Ordering::SeqCst);
    says(&shop, "nothing is heard of PolicyGates").await?;
    world.advance(WHILE).await;
    ensure!(!tried(), "it was tried though nothing was heard of gates");
    untouched(&shop).await?;

    doors.gates_are_shut.store(false, Ordering::SeqCst);
    says(&shop, "held by gate `freeze`: ").await?;
    world.advance(WHILE).await;
    untouched(&shop).await?;

    // And yet it is only the gate that held it.
    shop.org_gate("freeze", "prod", "true", "1m").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    ensure!(shop.file(FILE).await?.contains("1.29.0"), "it has not arrived");
    shop.close().await
}

async fn says(shop: &Shop<'_>, text: &str) -> anyhow::Result<()> {
    shop.step(BUNDLE, "prod", &format!("says `{text}`"), |step| {
        let said = step.status.as_ref().and_then(|status| status.message.as_deref());
        said.is_some_and(|said| said.contains(text))
    })
    .await?;
    untouched(shop).await
}

async fn untouched(shop: &Shop<'_>) -> anyhow::Result<()> {
    let file = shop.file(FILE).await?;
    ensure!(file.contains("1.28.0"), "it has arrived:\n{file}");
    Ok(())
}
