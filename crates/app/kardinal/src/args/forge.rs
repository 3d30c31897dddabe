//! What can be typed about the local forge.

use clap::{Args, Subcommand};

use super::{Common, ServerArguments, Who};

#[derive(Debug, Args)]
pub(crate) struct PrArguments {
    #[command(subcommand)]
    pub(crate) command: PrCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrCommand {
    /// Lists pull requests
    List {
        /// Only those of this repository
        #[arg(long, value_name = "NAME")]
        repo: Option<String>,
        /// Merged and closed ones, too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Shows one pull request with its description
    Show {
        #[command(flatten)]
        which: PrReference,
        #[command(flatten)]
        common: Common,
    },
    /// Prints what one pull request changes
    Diff {
        #[command(flatten)]
        which: PrReference,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Opens the page of one pull request in a browser, and signs the browser in
    Open {
        #[command(flatten)]
        which: PrReference,
        /// Prints the address instead; it works once, within a minute
        #[arg(long)]
        print: bool,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Approves one pull request
    Approve {
        #[command(flatten)]
        which: PrReference,
        /// Why
        #[arg(long, value_name = "TEXT")]
        comment: Option<String>,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        common: Common,
    },
    /// Merges one pull request, as it is now
    Merge {
        #[command(flatten)]
        which: PrReference,
        /// Also when a check has not passed, as during a pause
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        common: Common,
    },
    /// Gives one pull request up
    Close {
        #[command(flatten)]
        which: PrReference,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        common: Common,
    },
}

/// One pull request.
#[derive(Debug, Args)]
pub(crate) struct PrReference {
    /// Its number
    pub(crate) number: u64,
    /// Its repository, where several have that number
    #[arg(long, value_name = "NAME")]
    pub(crate) repo: Option<String>,
}
