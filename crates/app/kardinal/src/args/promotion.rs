//! What can be typed about promotions.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use kardinal_api::kardinal::BundleType;

use super::{Common, OutputFormat, PolicyNamespaces, Who};

const INIT_HELP: &str = "\
The configuration:
  app: my-app
  image: ghcr.io/myorg/my-app
  git:
    url: https://github.com/myorg/gitops-repo
    secret: github-token
  environments: [dev, staging, prod]
  prodApproval: pr-review

Examples:
  kardinal init -f kardinal.yaml
  kardinal init -f kardinal.yaml --dry-run > pipeline.yaml
  kardinal init --mode graph --from my-app > graph.yaml";

#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub(crate) struct InitArguments {
    /// The configuration; `-` reads standard input
    #[arg(long, short, value_name = "FILE", default_value = "kardinal.yaml")]
    pub(crate) file: PathBuf,
    /// What to make: a Pipeline, or the Graph of a Pipeline to go on by hand
    #[arg(long, value_enum, default_value_t = InitMode::Pipeline)]
    pub(crate) mode: InitMode,
    /// The Pipeline whose Graph is printed
    #[arg(long, value_name = "PIPELINE", required_if_eq("mode", "graph"))]
    pub(crate) from: Option<String>,
    /// The Bundle that the printed Graph promotes
    #[arg(long, value_name = "NAME", requires = "from")]
    pub(crate) bundle: Option<String>,
    /// Prints the Pipeline and creates nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitMode {
    Pipeline,
    Graph,
}

#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    #[command(subcommand)]
    pub(crate) command: GetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetCommand {
    /// Lists Pipelines with the version of each environment
    #[command(visible_alias = "pipeline")]
    Pipelines {
        /// Those of all namespaces
        #[arg(long, short = 'A')]
        all_namespaces: bool,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Shows the steps and gates of the Bundles on their way
    Steps {
        /// The Pipeline; may be left out where there is only one
        pipeline: Option<String>,
        /// Only those of this Bundle
        #[arg(long, value_name = "NAME")]
        bundle: Option<String>,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Lists Bundles with where they come from
    #[command(visible_alias = "bundle")]
    Bundles {
        /// The Pipeline; may be left out where there is only one
        pipeline: Option<String>,
        /// Only those on their way
        #[arg(long)]
        active: bool,
        #[command(flatten)]
        watch: Watch,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Watch {
    /// Prints again whenever something changes, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    #[command(subcommand)]
    pub(crate) command: CreateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    /// Creates a Bundle: something to promote
    Bundle(CreateBundleArguments),
}

const CREATE_BUNDLE_HELP: &str = "\
Examples:
  kardinal create bundle my-app --image ghcr.io/myorg/my-app:1.29.0
  kardinal create bundle my-app --image ghcr.io/myorg/my-app:1.29.0@sha256:… --commit-sha $SHA --ci-run $URL
  kardinal create bundle my-app --image web=ghcr.io/myorg/web:2.0 --image api=ghcr.io/myorg/api:2.0 --wait
  kardinal create bundle my-app --git-commit https://github.com/myorg/app-config@abc123def456 --target staging";

#[derive(Debug, Args)]
#[command(after_help = CREATE_BUNDLE_HELP)]
#[command(group = ArgGroup::new("content").required(true).multiple(true).args(["image", "git_commit"]))]
pub(crate) struct CreateBundleArguments {
    /// The Pipeline to go through
    pub(crate) pipeline: String,
    /// An image as `[name=]repository:tag[@digest]`; may be given several times
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Vec<String>,
    /// A commit of a configuration repository as `url@sha`
    #[arg(long, value_name = "REPOSITORY@SHA")]
    pub(crate) git_commit: Option<String>,
    /// What the Bundle carries; follows from the above, so it is only checked
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    pub(crate) kind: Option<TypeChoice>,
    /// The commit that was built
    #[arg(long, value_name = "SHA")]
    pub(crate) commit_sha: Option<String>,
    /// The run that built it
    #[arg(long, value_name = "URL")]
    pub(crate) ci_run: Option<String>,
    /// Who made the change
    #[arg(long, value_name = "NAME")]
    pub(crate) author: Option<String>,
    /// The last environment to promote to
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) target: Option<String>,
    /// An environment to leave out; may be given several times
    #[arg(long, value_name = "ENVIRONMENT", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// A label for gates to look at; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) label: Vec<(String, String)>,
    /// Checks it on the server, prints it and creates nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Waits until the Bundle has arrived or failed
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypeChoice {
    Image,
    Config,
    Mixed,
}

impl TypeChoice {
    /// The same in the words of the API.
    pub(crate) fn kind(self) -> BundleType {
        match self {
            TypeChoice::Image => BundleType::Image,
            TypeChoice::Config => BundleType::Config,
            TypeChoice::Mixed => BundleType::Mixed,
        }
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as `key=value`")?;
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kardinal promote my-app --env prod\n  kardinal promote my-app --env prod --dry-run"
)]
pub(crate) struct PromoteArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The environment to promote to
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The Bundle whose content is promoted, by its name or by its version; otherwise what the environments
    /// right before have now
    #[arg(long, value_name = "NAME")]
    pub(crate) bundle: Option<String>,
    /// Also when the version was taken back or has failed there
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) how: OrderArguments,
}

/// What `promote` and `rollback` take alike.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    /// Says what would happen, checks it on the server and creates nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  kardinal explain my-app --env prod\n  kardinal explain my-app --watch")]
pub(crate) struct ExplainArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// Only this environment
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kardinal rollback my-app --env prod\n  kardinal rollback my-app --env prod --dry-run\n  kardinal rollback my-app --env prod --emergency"
)]
pub(crate) struct RollbackArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The environment to bring back
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The Bundle to go back to, by its name or by its version; otherwise the newest verified there before
    /// that was neither taken back nor has failed
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
    /// Marks it for people as urgent
    #[arg(long)]
    pub(crate) emergency: bool,
    /// Also to a version that was taken back or has failed there, and further back while a rollback is under way
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) how: OrderArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// Only this environment
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    /// How many promotions to show at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The Bundle to compare
    #[arg(value_name = "BUNDLE-A")]
    pub(crate) from: String,
    /// The Bundle to compare it with
    #[arg(value_name = "BUNDLE-B")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

const OVERRIDE_HELP: &str = "\
The override counts for the Bundles that are on their way now, is kept on record with its reason, and ends by itself.

Example:
  kardinal override my-app --gate no-weekend-deploys --reason \"hotfix for the outage\" --expires-in 30m";

#[derive(Debug, Args)]
#[command(after_help = OVERRIDE_HELP)]
pub(crate) struct OverrideArguments {
    /// The Pipeline
    pub(crate) pipeline: String,
    /// The gate, by the name that `kardinal explain` shows
    #[arg(long, value_name = "NAME")]
    pub(crate) gate: String,
    /// Why the gate may be passed
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only for this environment
    #[arg(long, visible_alias = "stage", value_name = "ENVIRONMENT")]
    pub(crate) env: Option<String>,
    /// How long it holds, such as `30m` or `2h`
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub(crate) expires_in: String,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Lists the gate templates
    List {
        /// Shows what each Bundle's own gates say, too
        #[arg(long)]
        instances: bool,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Compiles the expressions of the PolicyGates in files; needs no server
    Test {
        /// Files with PolicyGates, or with one bare expression; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How to print the result
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Asks the gates of an environment about another time or another soak
    Simulate(SimulateArguments),
}

const SIMULATE_HELP: &str = "\
Examples:
  kardinal policy simulate --env prod --time \"Saturday 3pm\"
  kardinal policy simulate --pipeline my-app --env prod --soak-minutes 45";

#[derive(Debug, Args)]
#[command(after_help = SIMULATE_HELP)]
pub(crate) struct SimulateArguments {
    /// The Pipeline; otherwise all that have the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    /// The environment whose gates are asked
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The time: `Saturday 3pm`, `2026-04-11 15:00`, `2026-04-11T15:00:00Z`
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub(crate) time: String,
    /// The time zone of `--time`
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) time_zone: String,
    /// Pretends that the Bundle has been verified before the environment for so long
    #[arg(long, value_name = "N")]
    pub(crate) soak_minutes: Option<u32>,
    /// The Bundle; otherwise the one that is on its way there
    #[arg(long, value_name = "NAME", requires = "pipeline")]
    pub(crate) bundle: Option<String>,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}
