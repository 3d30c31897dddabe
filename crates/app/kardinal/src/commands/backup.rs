//! `kardinal backup`: everything that `kardinal up` keeps, in one file.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures::AsyncReadExt as _;
use kardinal_apiserver::{Error, backup};

use crate::archive::Writer;
use crate::args::BackupArguments;
use crate::failure::{Failure, Kind};
use crate::{connect, output};

/// The objects, inside the archive.
pub(super) const OBJECTS: &str = "objects.jsonl";
/// Files of a data directory that go into a backup beside the objects; the others are made anew or can be fetched again.
pub(super) const FILES: [&str; 8] = [
    "token",
    "api-token",
    "api-token.previous",
    "api-signing-key",
    "api-signing-key.previous",
    "git-token",
    "webhook-secret",
    "http-port",
];
/// Folders of a data directory that go into a backup.
pub(super) const FOLDERS: [&str; 2] = ["pki", REPOSITORIES];
/// The one of them with the local forge's repositories: `repositories/<namespace>/<name>.git`.
pub(super) const REPOSITORIES: &str = "repositories";
/// How many names lead to a repository.
pub(super) const REPOSITORY: usize = 3;
/// Where a repository has its packs, below its objects.
const PACKS: &str = "pack";
/// So often objects are listed while git packs them.
const LOOKS: usize = 20;

type Archive = Writer<std::fs::File>;

/// Writes a backup of a data directory, whether its server runs or not, or of the objects of a server far away.
pub(crate) fn run(arguments: BackupArguments) -> anyhow::Result<()> {
    let target = std::path::absolute(&arguments.file)?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    let cannot = || format!("cannot write `{}`", arguments.file.display());
    // Secrets are in there: the file is its owner's alone, and appears when it is whole.
    let half = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    let mut archive = Writer::new(half.reopen().with_context(cannot)?);
    let far = arguments.server.kubeconfig.is_some();
    let dir = &arguments.data_dir;
    let objects = match far {
        true => of_server(&mut archive, &arguments)?,
        false => match archive.add(OBJECTS, |mut out| Ok(backup::of_directory(dir, &mut out)))? {
            Ok(summary) => summary.objects,
            // Its server runs: that one knows the objects.
            Err(Error::Locked { .. }) => {
                archive = Writer::new(truncated(&half).with_context(cannot)?);
                of_server(&mut archive, &arguments)?
            }
            Err(error) => return Err(error.into()),
        },
    };
    let files = if far { 0 } else { add_files(&mut archive, dir)? };
    archive.finish()?.sync_all().with_context(cannot)?;
    half.persist(&target).with_context(cannot)?;
    let rest = match far {
        true => {
            "keys and repositories are in the data directory of the server and not in this file".to_owned()
        }
        false => format!("with {files} files of keys and repositories"),
    };
    output::text(&format!(
        "{objects} objects are in `{}`, {rest}.\nWhoever can read it has every Secret and key in it.\n",
        arguments.file.display()
    ));
    Ok(())
}

fn truncated(half: &tempfile::NamedTempFile) -> std::io::Result<std::fs::File> {
    let file = half.reopen()?;
    file.set_len(0)?;
    Ok(file)
}

/// Asks a running server for its objects: all of them at one moment.
fn of_server(archive: &mut Archive, arguments: &BackupArguments) -> anyhow::Result<u64> {
    let mut server = arguments.server.clone();
    let kubeconfig = arguments.data_dir.join("kubeconfig");
    server.kubeconfig.get_or_insert(kubeconfig);
    let mut copy = tempfile::tempfile().context("no temporary file")?;
    super::block_on(fetch(&server, &mut copy))?;
    copy.rewind()?;
    let summary = backup::check(std::io::BufReader::new(&copy))?;
    copy.rewind()?;
    archive.add(OBJECTS, |out| Ok(std::io::copy(&mut copy, out)?))?;
    Ok(summary.objects)
}

async fn fetch(server: &crate::args::ServerArguments, out: &mut std::fs::File) -> anyhow::Result<()> {
    let client = connect::client(server).await?;
    let request = http::Request::get("/kardinal/backup").body(Vec::new())?;
    let mut body = client.request_stream(request).await.map_err(|error| {
        let failure = Failure::of_server("the server gives no backup", error);
        match failure.kind {
            Kind::NotFound => failure.hint("only `kardinal up` does; a cluster is backed up with its etcd"),
            _ => failure,
        }
    })?;
    let mut piece = vec![0; 64 * 1024];
    loop {
        match body.read(&mut piece).await.context("the server broke off")? {
            0 => return Ok(()),
            length => out.write_all(piece.get(..length).unwrap_or_default())?,
        }
    }
}

/// Adds keys and repositories; says how many files there were.
fn add_files<W: Write + Seek>(archive: &mut Writer<W>, dir: &Path) -> anyhow::Result<usize> {
    let mut copying = Copying { archive, dir, done: BTreeSet::new() };
    for name in FILES {
        copying.add(Path::new(name))?;
    }
    let mut found = Found::default();
    for folder in FOLDERS {
        found.walk(dir, Path::new(folder))?;
    }
    // Pushes may arrive all the time. Each brings its objects before it moves a branch, so everything that a branch
    // names is there when the objects are looked for after the branches were read.
    found.files.sort_by_cached_key(|name| (!is_branch(name), name.clone()));
    for name in &found.files {
        copying.add(name)?;
    }
    for folder in &found.objects {
        // A branch that was gone is among the packed ones, if it was not deleted. They may be new.
        copying.add(&folder.with_file_name("packed-refs"))?;
        copying.add_objects(folder)?;
    }
    Ok(copying.done.len())
}

/// Files of a data directory on their way into an archive.
struct Copying<'a, W> {
    archive: &'a mut Writer<W>,
    dir: &'a Path,
    /// What is in the archive.
    done: BTreeSet<PathBuf>,
}

impl<W: Write + Seek> Copying<'_, W> {
    /// Adds a file; says whether it was there.
    fn add(&mut self, name: &Path) -> anyhow::Result<bool> {
        if self.done.contains(name) {
            return Ok(true);
        }
        let Some(text) = name.to_str() else {
            anyhow::bail!("the file name `{}` is not UTF-8", name.display());
        };
        let path = self.dir.join(name);
        let read = || format!("cannot read `{}`", path.display());
        let mut file = match std::fs::File::open(&path) {
            Err(error) if is_gone(&error) => return Ok(false),
            file => file.with_context(read)?,
        };
        if !file.metadata().with_context(read)?.is_file() {
            return Ok(false);
        }
        self.archive.add(text, |out| std::io::copy(&mut file, out).with_context(read))?;
        self.done.insert(name.to_owned());
        Ok(true)
    }

    /// Adds all objects of a repository. Git packs them without asking: what was loose when it was listed is in a pack
    /// by the time it is read, and several packs become one. So they are listed again until all that was listed is read.
    fn add_objects(&mut self, folder: &Path) -> anyhow::Result<()> {
        let path = self.dir.join(folder);
        let mut last = Vec::new();
        for _ in 0..LOOKS {
            anyhow::ensure!(path.is_dir(), "`{}` was removed meanwhile: try again", path.display());
            // Git makes a pack before it removes what is in it, so packs are listed last.
            let mut listed = Found::default();
            listed.walk(self.dir, folder)?;
            listed.walk(self.dir, &folder.join(PACKS))?;
            // An index without its pack would be believed.
            listed.files.sort_by_cached_key(|name| (is_index(name), name.clone()));
            let mut whole = true;
            for name in &listed.files {
                let ready = !is_index(name) || self.done.contains(&name.with_extension("pack"));
                whole &= ready && self.add(name)?;
            }
            // An index that lost its pack long ago is of no use.
            if whole || listed.files == last {
                return Ok(());
            }
            last = listed.files;
        }
        anyhow::bail!("`{}` is packed over and over: try again when git has finished", path.display())
    }
}

/// What is in a folder of a data directory.
#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    /// Folders of objects, which are listed when the branches have been read.
    objects: Vec<PathBuf>,
}

impl Found {
    /// Lists a folder; the packs in a folder of objects are not listed with it.
    fn walk(&mut self, dir: &Path, folder: &Path) -> anyhow::Result<()> {
        let path = dir.join(folder);
        let read = || format!("cannot read `{}`", path.display());
        let entries = match std::fs::read_dir(&path) {
            Err(error) if is_gone(&error) => return Ok(()),
            entries => entries.with_context(read)?,
        };
        for entry in entries {
            let entry = match entry {
                Err(error) if is_gone(&error) => return Ok(()),
                entry => entry.with_context(read)?,
            };
            let name = folder.join(entry.file_name());
            let kind = match entry.file_type() {
                Err(error) if is_gone(&error) => continue,
                kind => kind.with_context(read)?,
            };
            if is_passing(&name) || is_packs(&name) {
                continue;
            } else if is_objects(&name) {
                self.objects.push(name);
            } else if kind.is_dir() {
                self.walk(dir, &name)?;
            } else if kind.is_file() {
                self.files.push(name);
            }
        }
        Ok(())
    }
}

/// The folder or file of a repository that a path is or lies in.
fn part_of_repository(name: &Path) -> Option<&str> {
    let part = name.components().nth(REPOSITORY).filter(|_| name.starts_with(REPOSITORIES))?;
    part.as_os_str().to_str()
}

fn is_branch(name: &Path) -> bool {
    part_of_repository(name) == Some("refs")
}

/// Whether it is the folder of all objects of a repository.
fn is_objects(name: &Path) -> bool {
    part_of_repository(name) == Some("objects") && name.components().count() == REPOSITORY + 1
}

fn is_packs(name: &Path) -> bool {
    name.ends_with(PACKS) && name.parent().is_some_and(is_objects)
}

fn is_index(name: &Path) -> bool {
    part_of_repository(name) == Some("objects") && name.extension().is_some_and(|end| end == "idx")
}

/// Whether it is still being written: it is not there yet. No name of ours or of git's begins with a dot.
fn is_passing(name: &Path) -> bool {
    let begins = |with: &[u8]| name.file_name().is_some_and(|own| own.as_encoded_bytes().starts_with(with));
    let ends = |with: &str| name.extension().is_some_and(|end| end == with);
    // A branch may have almost any name, but not these.
    begins(b".") || ends("lock") || (!is_branch(name) && (begins(b"tmp_") || ends("tmp")))
}

/// Whether something was removed between a listing and a look at it.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
