//! What `promote` and `rollback` have in common: a person orders a version for an environment.

use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;
use kardinal_planner::problem::{Problem, listed};
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::{self, Answer, Outlook, Wish};
use serde::Serialize;

use crate::args::{OrderArguments, OutputFormat};
use crate::failure::{Failure, Kind};
use crate::output;
use crate::server::{Seen, Server, bundle_named, check_environment, refused};

/// What a person asks for. What it will do is said before it is done.
pub(super) struct Order<'a> {
    /// What is done, in words.
    pub(super) what: String,
    pub(super) pipeline: &'a str,
    pub(super) environment: &'a str,
    /// The name, or the version, of the Bundle that is wanted.
    pub(super) bundle: Option<&'a str>,
    pub(super) force: bool,
    /// Where it is asked for, and whether it is only said and checked.
    pub(super) how: &'a OrderArguments,
}

/// What came of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ordered {
    /// Whether a Bundle was created for it.
    outcome: Coming,
    bundle: String,
    version: String,
    environment: String,
    /// The version that it takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    takes_back: Option<String>,
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

impl Order<'_> {
    /// Asks `decide` how the wish comes true, and does what is left to do.
    pub(super) fn run(
        &self,
        decide: impl for<'w> Fn(&Wish<'w>, Timestamp) -> Result<Answer<'w>, Problem>,
    ) -> anyhow::Result<()> {
        super::block_on(async {
            let server = Server::connect(&self.how.common.server).await?;
            let seen = server.seen(self.pipeline, &self.how.policies.policy_namespaces).await?;
            check_environment(&seen.pipeline, self.environment)?;
            let current = seen.up_to_date();
            let bundles: Vec<&Bundle> = current.iter().collect();
            let wish = Wish {
                pipeline: &seen.pipeline,
                environment: self.environment,
                bundle: self.bundle.map(|wanted| meant(&current, wanted, self.environment)).transpose()?,
                bundles: &bundles,
                force: self.force,
            };
            let (outcome, bundle) = match decide(&wish, Timestamp::now()).map_err(refused)? {
                Answer::OnItsWay(bundle) => (Coming::OnItsWay, bundle.clone()),
                Answer::There(bundle) => (Coming::There, bundle.clone()),
                Answer::New(wanted) => {
                    let Some(made) = self.carry_out(&server, (&seen, &bundles), &wanted).await? else {
                        return Ok(());
                    };
                    (Coming::Created, made)
                }
            };
            let ordered = Ordered::new(outcome, &bundle, self.environment, &seen.bundles);
            output::value(self.how.common.output, &ordered, || ordered.told(self.pipeline))
        })
    }

    /// Says what will happen, and creates the Bundle. In a dry run the server only checks it; the object is printed for
    /// scripts, and nothing is given back.
    async fn carry_out(
        &self,
        server: &Server,
        (seen, bundles): (&Seen, &[&Bundle]),
        wanted: &Bundle,
    ) -> anyhow::Result<Option<Bundle>> {
        let would = if self.how.dry_run { "would" } else { "will" };
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let outlook = self.outlook(seen, bundles, wanted)?.render();
        let plan = format!("{}: Bundle \"{name}\" {would} bring\n{outlook}", self.what);
        match self.how.common.output {
            OutputFormat::Table => output::text(&format!("{plan}\n")),
            OutputFormat::Json | OutputFormat::Yaml => output::remark(plan.trim_end()),
        }
        let made = server.create(wanted, self.how.dry_run).await?;
        if !self.how.dry_run {
            return Ok(Some(made));
        }
        output::value(self.how.common.output, &made, || "nothing was created (--dry-run)\n".to_owned())?;
        Ok(None)
    }

    fn outlook(&self, seen: &Seen, bundles: &[&Bundle], wanted: &Bundle) -> Result<Outlook, Failure> {
        let gates: Vec<_> = seen.gates.iter().collect();
        let namespaces = &self.how.policies.policy_namespaces;
        intent::outlook(&seen.pipeline, wanted, bundles, &gates, namespaces).map_err(refused)
    }
}

/// The Bundle of this name or version.
fn meant<'a>(bundles: &'a [Bundle], wanted: &str, environment: &str) -> Result<&'a Bundle, Failure> {
    intent::chosen(bundles, wanted, environment).or_else(|names| match names.is_empty() {
        true => bundle_named(bundles, wanted),
        false => Err(Failure::new(Kind::Usage, format!("several Bundles carry `{wanted}`"))
            .hint(format!("name one of {}", listed(names)))),
    })
}

impl Ordered {
    fn new(outcome: Coming, bundle: &Bundle, environment: &str, bundles: &[Bundle]) -> Ordered {
        let older = bundle.spec.provenance.as_ref().and_then(|provenance| provenance.rollback_of.as_deref());
        let older = older.and_then(|name| bundle_named(bundles, name).ok());
        Ordered {
            outcome,
            bundle: bundle.metadata.name.clone().unwrap_or_default(),
            version: kardinal_policy::version(&bundle.spec),
            environment: environment.to_owned(),
            takes_back: older.map(|bundle| kardinal_policy::version(&bundle.spec)),
        }
    }

    fn told(&self, pipeline: &str) -> String {
        let Ordered { bundle, environment, .. } = self;
        let version = display_version(&self.version);
        let said = match (self.outcome, self.takes_back.as_deref().map(display_version)) {
            (Coming::Created, Some(from)) => format!(
                "Bundle \"{bundle}\" created: {environment} goes back from {from} to {version}, through the same gates"
            ),
            (Coming::Created, None) => {
                format!("Bundle \"{bundle}\" created: {version} goes to {environment}")
            }
            (Coming::OnItsWay, _) => {
                format!("{version} is on its way to {environment} already, with Bundle \"{bundle}\"")
            }
            (Coming::There, _) => {
                format!("{version} is verified in {environment} already, with Bundle \"{bundle}\"")
            }
        };
        format!("{said}\n\nNext:\n  kardinal explain {pipeline} --env {environment}\n")
    }
}
