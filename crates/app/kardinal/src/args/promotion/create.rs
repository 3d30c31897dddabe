//! `kardinal create`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use kardinal_api::kardinal::BundleType;

use super::super::Common;

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
