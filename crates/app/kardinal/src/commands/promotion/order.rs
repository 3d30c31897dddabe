//! What `promote` and `rollback` have in common: a person orders a version for an environment.

use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;
use kardinal_object::name_of;
use kardinal_planner::problem::Problem;
use kardinal_promotion::intent::{self, Answer, Coming, Ordered, Outlook, Wish, environment_named};

use crate::args::{OrderArguments, OutputFormat};
use crate::failure::Failure;
use crate::output;
use crate::server::{Seen, Server, refused};

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

impl Order<'_> {
    /// Asks `decide` how the wish comes true, and does what is left to do.
    pub(super) fn run(
        &self,
        decide: impl for<'w> Fn(&Wish<'w>, Timestamp) -> Result<Answer<'w>, Problem>,
    ) -> anyhow::Result<()> {
        super::block_on(async {
            let server = Server::connect(&self.how.common.server).await?;
            let seen = server.seen(self.pipeline, &self.how.policies.policy_namespaces).await?;
            environment_named(&seen.pipeline, self.environment).map_err(Failure::from)?;
            let current = seen.up_to_date();
            let chosen = |wanted| intent::chosen(&current, wanted, self.environment);
            let bundles: Vec<&Bundle> = current.iter().collect();
            let wish = Wish {
                pipeline: &seen.pipeline,
                environment: self.environment,
                bundle: self.bundle.map(chosen).transpose().map_err(Failure::from)?,
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
            output::value(self.how.common.output, &ordered, || {
                let next = format!("kardinal explain {} --env {}", self.pipeline, self.environment);
                format!("{}\n\nNext:\n  {next}\n", ordered.render())
            })
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
        let name = name_of(&wanted.metadata);
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
