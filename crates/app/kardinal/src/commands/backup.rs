//! `kardinal backup`: everything that `kardinal up` keeps, in one file.

use std::io::Write;
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
pub(super) const FOLDERS: [&str; 2] = ["pki", "repositories"];

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
    std::io::Seek::rewind(&mut copy)?;
    let summary = backup::check(std::io::BufReader::new(&copy))?;
    std::io::Seek::rewind(&mut copy)?;
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
fn add_files(archive: &mut Archive, dir: &Path) -> anyhow::Result<usize> {
    let mut names: Vec<PathBuf> =
        FILES.iter().map(PathBuf::from).filter(|name| dir.join(name).is_file()).collect();
    for folder in FOLDERS {
        walk(dir, Path::new(folder), &mut names)?;
    }
    // While pushes arrive: a branch that was read before the objects has all of its objects.
    names.sort_by_key(|name| (order(name), name.clone()));
    for name in &names {
        let Some(text) = name.to_str() else {
            anyhow::bail!("the file name `{}` is not UTF-8", name.display());
        };
        let path = dir.join(name);
        let read = || format!("cannot read `{}`; if it has just changed, try again", path.display());
        let mut file = std::fs::File::open(&path).with_context(read)?;
        archive.add(text, |out| std::io::copy(&mut file, out).with_context(read))?;
    }
    Ok(names.len())
}

/// Loose branches first, then packed ones, objects last.
fn order(name: &Path) -> u8 {
    let part = |part: &str| name.components().any(|component| component.as_os_str() == part);
    match (part("refs"), part("objects")) {
        (true, false) => 0,
        (false, true) => 2,
        _ => 1,
    }
}

fn walk(dir: &Path, folder: &Path, names: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let path = dir.join(folder);
    let entries = match std::fs::read_dir(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read `{}`", path.display()))?,
    };
    for entry in entries {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        // What git is still writing is not there yet.
        let passing = name.extension().is_some_and(|end| end == "lock" || end == "tmp")
            || entry.file_name().as_encoded_bytes().starts_with(b"tmp_");
        if kind.is_dir() {
            walk(dir, &name, names)?;
        } else if kind.is_file() && !passing {
            names.push(name);
        }
    }
    Ok(())
}
