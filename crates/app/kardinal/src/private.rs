//! Folders and files that are nobody else's business.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;

use crate::failure::{Failure, Kind};

/// The rights of others.
const OTHERS: u32 = 0o077;

/// Makes a folder that only its owner enters; one that was there before is closed to others.
pub(crate) fn folder(path: &Path) -> anyhow::Result<()> {
    create(path)?;
    tighten(path, 0o700)
}

/// The data directory. A new or empty one is made private. One that has something in it may have come with a cloned
/// repository or be shared with others, and whoever put keys, tokens or objects into it would be obeyed: it is used only if
/// it belongs to the `caller` and others cannot enter it.
pub(crate) fn data_folder(path: &Path, caller: u32) -> anyhow::Result<()> {
    create(path)?;
    let unread = || format!("cannot read `{}`", path.display());
    let metadata = std::fs::metadata(path).with_context(unread)?;
    let is_empty = std::fs::read_dir(path).with_context(unread)?.next().is_none();
    let shown = path.display();
    let refused = |reason: String, hint: String| {
        Failure::new(Kind::Refused, format!("the data directory `{shown}` is not trusted: {reason}"))
            .hint(format!("{hint}; or name another directory with `--data-dir`"))
    };
    if metadata.uid() != caller {
        let reason = format!("it belongs to the user {}, not to you ({caller})", metadata.uid());
        return Err(refused(reason, "run this program as that user".to_owned()).into());
    }
    if is_empty {
        return tighten(path, 0o700);
    }
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS != 0 {
        let reason = format!(
            "it is not empty, and others may enter it (its mode is {mode:04o}, not 0700), as if it came with a copied folder"
        );
        let hint = format!("if everything in it is yours, close it to others: `chmod 700 {shown}`");
        return Err(refused(reason, hint).into());
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

    /// Whoever runs the tests owns what they make.
    fn caller(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().uid()
    }

    #[test]
    fn a_new_or_empty_data_directory_is_made_private() {
        let root = tempfile::tempdir().unwrap();
        let (new, empty) = (root.path().join("new"), root.path().join("empty"));
        std::fs::create_dir(&empty).unwrap();
        std::fs::set_permissions(&empty, Permissions::from_mode(0o755)).unwrap();
        for folder in [&new, &empty] {
            data_folder(folder, caller(root.path())).unwrap();
            assert_eq!(mode(folder), 0o700);
            std::fs::write(folder.join("lock"), "").unwrap();
            data_folder(folder, caller(root.path())).unwrap();
        }
    }

    #[test]
    fn a_data_directory_that_somebody_else_may_have_filled_is_refused_until_its_owner_closes_it() {
        let root = tempfile::tempdir().unwrap();
        for (file, open) in [("lock", 0o755), ("token", 0o750), ("letter", 0o701), ("pki", 0o777)] {
            let folder = root.path().join(file);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
            std::fs::set_permissions(&folder, Permissions::from_mode(open)).unwrap();
            let refused = data_folder(&folder, caller(root.path())).unwrap_err();
            let failure: &Failure = refused.downcast_ref().unwrap();
            assert_eq!(failure.kind, Kind::Refused);
            assert!(failure.message.contains(&format!("mode is {open:04o}")), "{}", failure.message);
            let hint = failure.hint.as_deref().unwrap();
            assert!(hint.contains(&format!("chmod 700 {}", folder.display())), "{hint}");
            assert_eq!(mode(&folder), open, "nobody has said that it is fine");
            std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
            data_folder(&folder, caller(root.path())).unwrap();
        }
    }

    #[test]
    fn a_data_directory_of_another_user_is_refused_even_if_it_is_empty() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("theirs");
        std::fs::create_dir(&folder).unwrap();
        let refused = data_folder(&folder, caller(root.path()) + 1).unwrap_err();
        assert!(refused.to_string().contains("belongs to the user"), "{refused}");
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
