//! `kardinal restore`: a data directory from a backup.

use std::io::{BufReader, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kardinal_apiserver::backup;

use super::backup::{FILES, FOLDERS, OBJECTS, REPOSITORIES, REPOSITORY};
use crate::args::RestoreArguments;
use crate::failure::{Failure, Kind};
use crate::{archive, output};

/// Makes the directory anew beside the old one, checks all of it, and only then puts it in its place.
pub(crate) fn run(arguments: RestoreArguments) -> anyhow::Result<()> {
    let dir = std::path::absolute(&arguments.data_dir)?;
    let occupied = is_occupied(&dir)?;
    if occupied && !arguments.force {
        let message = format!("`{}` is not empty", arguments.data_dir.display());
        let hint = "`--force` puts what is in it aside; or name another directory with `--data-dir`";
        return Err(Failure::new(Kind::Refused, message).hint(hint).into());
    }
    let file = std::fs::File::open(&arguments.file)
        .with_context(|| format!("cannot read `{}`", arguments.file.display()))?;
    // A server that runs would go on with what is put aside.
    let held = if occupied { Some(backup::hold(&dir)?) } else { None };
    let parent = dir.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create `{}`", parent.display()))?;
    let new = tempfile::Builder::new()
        .prefix(".kardinal-restore-")
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a directory in `{}`", parent.display()))?;
    let summary = unpack(file, new.path())
        .with_context(|| format!("the backup `{}` cannot be restored", arguments.file.display()))?;
    let aside = put_in_place(new, &dir, occupied)?;
    drop(held);
    let mut text = format!(
        "{} objects are in `{}`, as they were at resource version {}.\n",
        summary.objects,
        arguments.data_dir.display(),
        summary.resource_version
    );
    if let Some(aside) = aside {
        text.push_str(&format!("What was there before is in `{}`.\n", aside.display()));
    }
    output::text(&text);
    Ok(())
}

fn is_occupied(dir: &Path) -> anyhow::Result<bool> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", dir.display())),
    }
}

fn unpack(file: std::fs::File, dir: &Path) -> anyhow::Result<backup::Summary> {
    let mut summary = None;
    archive::read(BufReader::new(file), |name, content| {
        if name == OBJECTS {
            summary = Some(backup::restore(BufReader::new(content), dir)?);
            return Ok(());
        }
        put(dir, name, content)
    })?;
    summary.context("it holds no objects")
}

/// Puts a file of a data directory into its place.
pub(super) fn put(dir: &Path, name: &str, content: &mut dyn Read) -> anyhow::Result<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let folder = parts.first().copied().unwrap_or_default();
    let is_below = FOLDERS.contains(&folder) && parts.len() > 1;
    if !FILES.contains(&name) && !is_below {
        anyhow::bail!("it holds `{}`, which belongs to no data directory", name.escape_default());
    }
    let path = dir.join(name);
    let is_head = folder == REPOSITORIES && parts.len() == REPOSITORY + 1 && parts.last() == Some(&"HEAD");
    if is_head {
        // Nobody takes it for a repository without these, and an archive has no empty folders.
        for part in ["objects", "refs"] {
            make(&path.with_file_name(part))?;
        }
    }
    write(&path, content)
}

fn make(folder: &Path) -> anyhow::Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot create `{}`", folder.display()))
}

fn write(path: &Path, content: &mut dyn Read) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    if let Some(folder) = path.parent() {
        make(folder)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(cannot)?;
    std::io::copy(content, &mut file).with_context(cannot)?;
    file.sync_all().with_context(cannot)
}

/// Gives the new directory its name; says where the old one went.
fn put_in_place(new: tempfile::TempDir, dir: &Path, occupied: bool) -> anyhow::Result<Option<PathBuf>> {
    let cannot = || format!("cannot replace `{}`", dir.display());
    let aside = if occupied {
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let mut name = dir.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".before-restore-{now}"));
        let aside = dir.with_file_name(name);
        std::fs::rename(dir, &aside).with_context(cannot)?;
        Some(aside)
    } else {
        None
    };
    // An empty directory gives way by itself.
    std::fs::rename(new.path(), dir).with_context(cannot)?;
    // It has another name now: there is nothing left to remove.
    let _ = new.keep();
    Ok(aside)
}
