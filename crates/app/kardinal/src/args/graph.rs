//! What can be typed about Graphs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{OutputFormat, ServerArguments};

#[derive(Debug, Args)]
pub(crate) struct GraphArguments {
    #[command(subcommand)]
    pub(crate) command: GraphCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Compiles the Graphs in files and points at every mistake; needs no server
    Validate {
        /// Files with manifests; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How to print the result
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Draws a Graph: as a tree, for Graphviz or for Mermaid
    Render {
        #[command(flatten)]
        source: GraphSource,
        /// The kind of drawing
        #[arg(long, value_enum, default_value_t = Drawing::Tree)]
        format: Drawing,
    },
    /// Tells how each node of a Graph stands, what it waits for and until when
    Explain {
        /// The Graph
        name: String,
        #[command(flatten)]
        server: ServerArguments,
        /// How to print it
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
}

/// A Graph in a file or on the server.
#[derive(Debug, Args)]
pub(crate) struct GraphSource {
    /// The Graph on the server
    #[arg(conflicts_with = "file")]
    pub(crate) name: Option<String>,
    /// A file with a Graph; `-` reads standard input
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Drawing {
    Tree,
    Dot,
    Mermaid,
}
