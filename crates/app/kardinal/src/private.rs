//! Folders and files that are nobody else's business.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;

/// The rights of others.
const OTHERS: u32 = 0o077;

/// Makes a folder that only its owner enters; one that was there before is closed to others.
pub(crate) fn folder(path: &Path) -> anyhow::Result<()> {
    create(path)?;
    tighten(path, 0o700)
}

/// The data directory. One that was there before is closed to others if it is ours: a folder that holds other things, such
/// as `/tmp`, keeps its rights, and what is put into it is private by itself.
pub(crate) fn data_folder(path: &Path) -> anyhow::Result<()> {
    create(path)?;
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let is_ours = path.join("lock").exists() || entries.count() == 0;
    if is_ours {
        return tighten(path, 0o700);
    }
    if is_open(path)? {
        tracing::warn!("`{}` holds other things, too, and others may list it", path.display());
    }
    Ok(())
}

/// Closes a file to others.
pub(crate) fn tighten_file(path: &Path) -> anyhow::Result<()> {
    tighten(path, 0o600)
}

/// Writes a file that only its owner reads, from its first moment on.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file: File =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

fn create(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create `{}`", path.display()))
}

fn is_open(path: &Path) -> anyhow::Result<bool> {
    let metadata = std::fs::metadata(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(metadata.permissions().mode() & OTHERS != 0)
}

fn tighten(path: &Path, mode: u32) -> anyhow::Result<()> {
    if !is_open(path)? {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot close `{}` to others", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_are_made_private_and_old_ones_are_closed() {
        let root = tempfile::tempdir().unwrap();
        let new = root.path().join("a/b");
        folder(&new).unwrap();
        assert_eq!((mode(&new), mode(&root.path().join("a"))), (0o700, 0o700));
        std::fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        folder(&new).unwrap();
        assert_eq!(mode(&new), 0o700);
    }

    #[test]
    fn a_data_directory_is_closed_and_a_foreign_folder_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (ours, foreign) = (root.path().join("ours"), root.path().join("foreign"));
        for (folder, file) in [(&ours, "lock"), (&foreign, "letter")] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
            std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
            data_folder(folder).unwrap();
        }
        assert_eq!((mode(&ours), mode(&foreign)), (0o700, 0o755));
    }

    #[test]
    fn files_are_private_whatever_they_were() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("token");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        write_file(&file, "new").unwrap();
        assert_eq!((mode(&file), std::fs::read_to_string(&file).unwrap()), (0o600, "new".to_owned()));
    }
}
