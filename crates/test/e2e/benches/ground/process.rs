//! Processes by the folder that they work in, and their memory.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The folders under `/proc` of the processes whose name starts so and that have `folder` in their command line.
fn find(name: &str, folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let process = entry?.path();
        let comm = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        if comm.starts_with(name) && String::from_utf8_lossy(&command).contains(folder) {
            found.push(process);
        }
    }
    Ok(found)
}

/// Resident memory in bytes of all processes with these names that work in `folder`.
pub(crate) fn resident(names: &[&str], folder: &Path) -> anyhow::Result<u64> {
    let folder = folder.display().to_string();
    let mut sum = 0;
    for name in names {
        let processes = find(name, &folder)?;
        anyhow::ensure!(!processes.is_empty(), "no process `{name}` works in {folder}");
        for process in processes {
            let status = std::fs::read_to_string(process.join("status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
            sum += line.split_whitespace().next().context("no number")?.parse::<u64>()? << 10;
        }
    }
    Ok(sum)
}
