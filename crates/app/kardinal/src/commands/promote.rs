//! `kardinal promote`.

use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;
use kardinal_planner::explain::display_version;
use kardinal_planner::intent::{self, Outlook, Promote, Promotion};
use serde::Serialize;

use crate::args::{Common, OutputFormat, PolicyNamespaces, PromoteArguments};
use crate::failure::Failure;
use crate::output;
use crate::server::{Seen, Server, check_environment, refused};

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

/// Sends what the environments before have now, or what a Bundle carries, to an environment, unless it is on its way
/// there already.
pub(crate) fn run(arguments: PromoteArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let seen = server.seen(&arguments.pipeline, &arguments.policies.policy_namespaces).await?;
        check_environment(&seen.pipeline, &arguments.env)?;
        let bundles: Vec<&Bundle> = seen.bundles.iter().collect();
        let wish = Promote {
            pipeline: &seen.pipeline,
            environment: &arguments.env,
            source: arguments.bundle.as_deref().map(|name| seen.bundle(name)).transpose()?,
            bundles: &bundles,
            force: arguments.force,
        };
        let (outcome, bundle) = match intent::promote(&wish, Timestamp::now()).map_err(refused)? {
            Promotion::OnItsWay(bundle) => (Coming::OnItsWay, bundle.clone()),
            Promotion::There(bundle) => (Coming::There, bundle.clone()),
            Promotion::New(wanted) => {
                let what = format!("promote to {}", arguments.env);
                let order = Order {
                    what: &what,
                    server: &server,
                    seen: &seen,
                    policies: &arguments.policies,
                    common: &arguments.common,
                    dry_run: arguments.dry_run,
                };
                let Some(made) = order.carry_out(&wanted).await? else { return Ok(()) };
                (Coming::Created, made)
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

/// A Bundle that a person ordered: what it will do is said before it is done.
pub(super) struct Order<'a> {
    /// What is done, in words.
    pub(super) what: &'a str,
    pub(super) server: &'a Server,
    pub(super) seen: &'a Seen,
    pub(super) policies: &'a PolicyNamespaces,
    pub(super) common: &'a Common,
    /// Whether it is only said and checked.
    pub(super) dry_run: bool,
}

impl Order<'_> {
    /// Says what will happen, and creates the Bundle. In a dry run the server only checks it; the object is printed for
    /// scripts, and nothing is given back.
    pub(super) async fn carry_out(&self, wanted: &Bundle) -> anyhow::Result<Option<Bundle>> {
        let would = if self.dry_run { "would" } else { "will" };
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let plan =
            format!("{}: Bundle \"{name}\" {would} bring\n{}", self.what, self.outlook(wanted)?.render());
        match self.common.output {
            OutputFormat::Table => output::text(&format!("{plan}\n")),
            OutputFormat::Json | OutputFormat::Yaml => output::remark(plan.trim_end()),
        }
        let made = self.server.create(wanted, self.dry_run).await?;
        if !self.dry_run {
            return Ok(Some(made));
        }
        output::value(self.common.output, &made, || "nothing was created (--dry-run)\n".to_owned())?;
        Ok(None)
    }

    fn outlook(&self, wanted: &Bundle) -> Result<Outlook, Failure> {
        let bundles: Vec<&Bundle> = self.seen.bundles.iter().collect();
        let gates: Vec<_> = self.seen.gates.iter().collect();
        let namespaces = &self.policies.policy_namespaces;
        intent::outlook(&self.seen.pipeline, wanted, &bundles, &gates, namespaces).map_err(refused)
    }
}
