//! `kardinal promote`.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, PromotionState};
use kardinal_planner::bundle::{Route, is_finished, is_rollback};
use kardinal_planner::explain::{Outcome, display_version};
use kardinal_planner::intent;
use serde::Serialize;

use crate::args::PromoteArguments;
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::{Seen, Server, check_environment, listed, refused};

/// What came of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Promoted {
    /// Whether a Bundle was created for it.
    outcome: Coming,
    bundle: String,
    version: String,
    environment: String,
}

/// How the content comes to the environment.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Coming {
    /// With a new Bundle.
    Created,
    /// With a Bundle that is on its way already.
    OnItsWay,
    /// It is there.
    There,
}

/// Sends what a Bundle carries to an environment, unless it is on its way there already.
pub(crate) fn run(arguments: PromoteArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let seen = server.seen(&arguments.pipeline, &[]).await?;
        check_environment(&seen.pipeline, &arguments.env)?;
        let now = Timestamp::now();
        let source = source(&seen, &arguments)?;
        let (outcome, bundle) = match already(&seen, source, &arguments.env, now) {
            Some((outcome, bundle)) => (outcome, bundle.clone()),
            None => {
                let wanted = intent::promote(&seen.pipeline, &arguments.env, source, now).map_err(refused)?;
                (Coming::Created, server.create(&wanted, false).await?)
            }
        };
        let promoted = Promoted {
            outcome,
            bundle: bundle.metadata.name.clone().unwrap_or_default(),
            version: kardinal_policy::version(&bundle.spec),
            environment: arguments.env.clone(),
        };
        output::value(arguments.common.output, &promoted, || promoted.told(&arguments.pipeline))
    })
}

impl Promoted {
    fn told(&self, pipeline: &str) -> String {
        let Promoted { bundle, environment, .. } = self;
        let version = display_version(&self.version);
        let said = match self.outcome {
            Coming::Created => format!("Bundle \"{bundle}\" created: {version} goes to {environment}"),
            Coming::OnItsWay => {
                format!("{version} is on its way to {environment} already, with Bundle \"{bundle}\"")
            }
            Coming::There => {
                format!("{version} is verified in {environment} already, with Bundle \"{bundle}\"")
            }
        };
        format!("{said}\n\nNext:\n  kardinal explain {pipeline} --env {environment}\n")
    }
}

/// The Bundle whose content is promoted: the one named, else the newest that is verified right before the environment.
fn source<'a>(seen: &'a Seen, arguments: &PromoteArguments) -> Result<&'a Bundle, Failure> {
    if let Some(name) = &arguments.bundle {
        return seen.bundle(name);
    }
    let route = Route::whole(&seen.pipeline.spec).map_err(refused)?;
    let upstreams: Vec<&str> =
        route.stop(&arguments.env).map(|stop| stop.upstreams.clone()).unwrap_or_default();
    let ready = |bundle: &&Bundle| {
        let state = |name: &str| bundle.status.as_ref()?.environments.get(name)?.state;
        upstreams.iter().all(|name| state(name) == Some(PromotionState::Verified)) && !is_rollback(bundle)
    };
    seen.bundles.iter().find(ready).ok_or_else(|| {
        let env = &arguments.env;
        let before = if upstreams.is_empty() {
            String::new()
        } else {
            format!(" that is verified in {}", listed(upstreams.clone()))
        };
        Failure::new(Kind::NotFound, format!("there is no Bundle{before} to promote to `{env}`"))
            .hint("name one with `--bundle`, or create one with `kardinal create bundle`")
    })
}

/// The Bundle that brings the same content to the environment already, or has brought it.
fn already<'a>(
    seen: &'a Seen,
    source: &Bundle,
    environment: &str,
    now: Timestamp,
) -> Option<(Coming, &'a Bundle)> {
    let explanation = seen.explain(Some(environment), now);
    let promotion = explanation.environments.first()?;
    let bundle = seen.bundle(promotion.bundle.as_deref()?).ok()?;
    if bundle.spec.artifacts != source.spec.artifacts {
        return None;
    }
    let finished = bundle.status.as_ref().and_then(|status| status.phase).is_some_and(is_finished);
    match promotion.outcome {
        Outcome::Verified => Some((Coming::There, bundle)),
        _ if finished => None,
        _ => Some((Coming::OnItsWay, bundle)),
    }
}
