//! The words of `backup` and `restore`.

use std::path::PathBuf;

use clap::Args;

use super::ServerArguments;

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The file to write; one that is there is replaced when the new one is whole
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The directory of `kardinal up`; with `--kubeconfig` only the objects of that server are saved
    #[arg(long, value_name = "DIR", default_value = ".kardinal", env = "KARDINAL_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// What `kardinal backup` wrote
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The directory to make
    #[arg(long, value_name = "DIR", default_value = ".kardinal", env = "KARDINAL_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// Puts a directory that is not empty aside
    #[arg(long)]
    pub(crate) force: bool,
}
