//! What a promotion costs, counted in requests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::ensure;
use kardinal_api::kardinal::BundlePhase;
use kardinal_testkit::requests::Requests;
use kardinal_testkit::{World, world};
use serde_json::{Value, json};

use super::proxy::Proxy;
use super::site::{at_gitea, gitea};

/// To the forge, for an environment that is written directly: the push, and one to spare.
const FORGE: usize = 2;
/// To the API server, for a Bundle with one environment: its Graph comes with it.
const FIRST: usize = 26;
/// To the API server, for one more environment.
const SERVER: usize = 13;

/// So many looks without a request, one after the other, mean that nothing follows.
const SILENCE: usize = 30;

/// What one Bundle cost.
struct Cost {
    forge: Vec<String>,
    server: Vec<String>,
}

/// What one more environment costs that is written directly, in a repository that was used before.
#[test]
fn a_warm_environment_is_cheap() -> anyhow::Result<()> {
    let (one, three) = (cost(&["dev"])?, cost(&["dev", "staging", "prod"])?);
    let (Some(one), Some(three)) = (one, three) else { return Ok(()) };
    told(&format!(
        "requests to Gitea: {} with one environment, {} with three\n\
         requests to the API server: {} with one environment, {} with three: {:#?}",
        one.forge.len(),
        three.forge.len(),
        one.server.len(),
        three.server.len(),
        summary(&three.server),
    ));
    for (cost, environments) in [(&one, 1), (&three, 3)] {
        ensure!(cost.forge.len() <= FORGE * environments, "{:#?}", cost.forge);
        let pushes = cost.forge.iter().filter(|request| request.ends_with("/git-receive-pack")).count();
        ensure!(pushes == environments, "{:#?}", cost.forge);
        let limit = FIRST + SERVER * (environments - 1);
        ensure!(cost.server.len() <= limit, "more than {limit}: {:#?}", summary(&cost.server));
    }
    Ok(())
}

fn cost(environments: &[&str]) -> anyhow::Result<Option<Cost>> {
    let mut cost = None;
    world::in_memory_real_time(world::promotions(), async |world, requests| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        let upstream = gitea.read().map(|gitea| gitea.url.clone()).unwrap_or_default();
        let proxy = Proxy::start(&upstream).await?;
        at_gitea(world, gitea, environments, Some(&proxy), async |site| {
            let names = environments.iter().map(|name| json!({"name": name})).collect::<Vec<Value>>();
            site.pipeline(names.into()).await?;
            for (bundle, version) in [("my-app-v1-29-0", "1.29.0"), ("my-app-v1-30-0", "1.30.0")] {
                // It runs already: how often a rollout tells of its progress is not what is counted here.
                for environment in environments {
                    site.shop.deploy(environment, version).await?;
                }
                quiet(world, requests).await?;
                proxy.take();
                site.shop.release(bundle, version, json!({})).await?;
                site.shop.phase(bundle, BundlePhase::Verified).await?;
                cost = Some(Cost { server: quiet(world, requests).await?, forge: proxy.take() });
            }
            site.has_version("dev", "1.30.0")
        })
        .await
    })?;
    Ok(cost)
}

/// Waits until the controllers have nothing left to say; returns what they have asked the API server.
async fn quiet(world: &World, requests: &Requests) -> anyhow::Result<Vec<String>> {
    let heard = RefCell::new((requests.take(), 0));
    world
        .eventually("the controllers are quiet", async || {
            let mut heard = heard.borrow_mut();
            let more = requests.take();
            heard.1 = if more.is_empty() { heard.1 + 1 } else { 0 };
            heard.0.extend(more);
            Ok(if heard.1 > SILENCE { Ok(()) } else { Err(format!("{:?}", heard.0.last())) })
        })
        .await?;
    let (mut heard, _) = heard.into_inner();
    heard.retain(|request| !request.starts_with("GIT "));
    Ok(heard)
}

/// How often each kind of request was made.
fn summary(requests: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let (path, query) = request.split_once('?').unwrap_or((request, ""));
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
        let kind = parts.next().unwrap_or(path).to_owned();
        let status = if path.ends_with("/status") { "/status" } else { "" };
        let who = query.rsplit("fieldManager=").next().unwrap_or_default();
        let who = if who.ends_with("internal.kro.run") { "a Graph" } else { who };
        let method = path.split(' ').next().unwrap_or_default();
        *counts.entry(format!("{method} {kind}{status} by {who}")).or_default() += 1;
    }
    counts
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests may want to see the numbers")]
fn told(text: &str) {
    eprintln!("{text}");
}
