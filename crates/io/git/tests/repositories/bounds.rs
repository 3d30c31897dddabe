//! The operator's limits hold for what the git program fetches, too.

use std::{io::Write as _, path::Path, sync::atomic::Ordering};

use gix::zlib::{Compression, stream::deflate};
use kardinal_git::{Error, Git, Limits, Remote, Repositories as _, Settings};

use crate::{bench::*, server::Server, web::cache_of};

const MIB: u64 = 1 << 20;
const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn with(bench: &Bench, limits: Limits) -> Git {
    Git::new(Settings { limits, ..bench.settings() })
}

/// Bytes that cannot be packed.
fn noise(count: u64) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count / 8).flat_map(next).collect()
}

/// How many bytes the files in a folder have.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            data if data.is_dir() => size(&entry.path()),
            data => data.len(),
        })
        .sum()
}

async fn refused(git: &Git, remote: &Remote, commit: &str, words: [&str; 2]) {
    let error = git.read(remote, commit, "README.md").await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if words.iter().all(|word| text.contains(word))),
        "{words:?}: {error:?}"
    );
}

#[tokio::test]
async fn limits_hold_for_servers_of_the_old_protocol() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    server.switches.old.store(true, Ordering::SeqCst);
    let work = bench.clone_as("alice");
    write(&work, "zeros", &vec![0; 2 << 20]);
    let noise = noise(20 * MIB);
    let (one, other) = noise.split_at(noise.len() / 2);
    write(&work, "one", one);
    write(&work, "other", other);
    bench.push_all(&work, "much");
    let tip = bench.ask(&["rev-parse", "main"]);
    let usual = Limits::default();
    for (limits, words) in [
        (Limits { object: MIB, ..usual }, ["bytes, and at most 1048576", "`--git-object-limit`"]),
        (Limits { pack: MIB, ..usual }, ["more than 17825792 bytes at once", "`--git-pack-limit`"]),
    ] {
        refused(&with(&bench, limits), &server.remote(), &tip, words).await;
        assert!(size(&cache_of(&bench)) < MIB, "nothing of it is left");
    }
    let read = with(&bench, usual).read(&server.remote(), &tip, "other").await.unwrap().unwrap();
    assert!(read == other);
}

/// Nothing in a dumb server's files says how many there are, and each of them is small.
#[tokio::test]
async fn a_server_that_turns_dumb_for_the_git_program_brings_nothing() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    server.switches.old.store(true, Ordering::SeqCst);
    let usual = bench.ask(&["rev-parse", "main"]);
    let git = with(&bench, Limits { pack: MIB, ..Limits::default() });
    git.read(&server.remote(), &usual, "README.md").await.unwrap();
    let work = bench.clone_as("alice");
    for (number, part) in noise(60 * MIB).chunks(1 << 20).enumerate() {
        write(&work, &format!("{number}"), part);
    }
    bench.push_all(&work, "much");
    bench.ask(&["update-server-info"]);
    let tip = bench.ask(&["rev-parse", "main"]);
    server.switches.dumb.store(true, Ordering::SeqCst);
    let objects = || server.take_requests().iter().filter(|request| request.contains("/objects/")).count();
    objects();
    for id in [tip.as_str(), &tip[..10]] {
        let error = match git.resolve(&server.remote(), id).await {
            Ok(whole) => git.read(&server.remote(), &whole, "README.md").await.unwrap_err(),
            Err(error) => error,
        };
        assert!(
            matches!(&error, Error::Problem { message: text, .. } if text.contains("smart HTTP")),
            "{error:?}"
        );
        assert_eq!(objects(), 0, "{id}");
        assert!(size(&bench.dir.path().join("cache")) < MIB, "nothing of it is left");
    }
    server.switches.dumb.store(false, Ordering::SeqCst);
    refused(&git, &server.remote(), &tip, ["more than 17825792 bytes at once", "`--git-pack-limit`"]).await;
}

#[tokio::test]
async fn what_a_dead_process_was_fetching_is_removed() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let tip = bench.ask(&["rev-parse", "main"]);
    bench.git().read(&server.remote(), &tip, "README.md").await.unwrap();
    let left = cache_of(&bench).join("incoming-x");
    write(&left, "objects/pack/tmp_pack_x", b"half a pack");
    bench.git().read(&server.remote(), &tip, "README.md").await.unwrap();
    assert!(!left.exists());
}

/// Type and size of an object in a pack.
fn head(kind: u8, mut size: u64) -> Vec<u8> {
    let mut out = vec![(kind << 4) | (size & 0x0f) as u8];
    size >>= 4;
    while size > 0 {
        *out.last_mut().unwrap() |= 0x80;
        out.push((size & 0x7f) as u8);
        size >>= 7;
    }
    out
}

fn zeros(mib: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = deflate::Write::new(&mut out, Compression::BEST_SPEED);
    (0..mib).for_each(|_| stream.write_all(&[0; 1 << 20]).unwrap());
    stream.flush().unwrap();
    out
}

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

/// What a server sends that has one commit: its branches, then a pack, whatever it is asked.
fn lay_out(folder: &Path) {
    let branches = [
        line(&format!("{COMMIT} HEAD\0shallow ofs-delta\n")),
        line(&format!("{COMMIT} refs/heads/main\n")),
        "0000".to_owned(),
    ];
    std::fs::write(folder.join("branches"), branches.concat()).unwrap();
    let answer = |count: [u8; 4], rest: Vec<u8>| {
        [format!("0000{}", line("NAK\n")).into_bytes(), b"PACK\0\0\0\x02".to_vec(), count.to_vec(), rest]
            .concat()
    };
    let one = [0, 0, 0, 1];
    // A blob of a TiB in blocks that are not packed at all: the same one over and over, until 200 MiB are sent, so that
    // a test that fails does not fill the disk.
    let begin = [head(3, 1 << 40), vec![0x78, 0x01]].concat();
    std::fs::write(folder.join("endless"), answer(one, begin)).unwrap();
    let block =
        [vec![0x00, 0xff, 0xff, 0x00, 0x00], noise(65_536).into_iter().take(65_535).collect()].concat();
    std::fs::write(folder.join("block"), block.repeat(64)).unwrap();
    // A directory, which nobody reads piece by piece.
    let tree = [head(2, 900 * MIB), zeros(900)].concat();
    std::fs::write(folder.join("tree"), answer(one, tree)).unwrap();
    // The program would make a table for them first.
    std::fs::write(folder.join("many"), answer([0x40, 0, 0, 0], Vec::new())).unwrap();
}

#[test]
fn packs_without_end_or_measure_behind_ssh() {
    let bench = Bench::new();
    let folder = bench.dir.path();
    lay_out(folder);
    // "ssh … git-upload-pack '/name'"
    let text = format!(
        "[ \"$1\" = -G ] && exit 1\nfor last; do :; done\nname=${{last##*/}}\nname=${{name%\\'}}\n\
         cd {}\nexec 3<&0\ncat <&3 > /dev/null &\ncat branches $name\n\
         [ $name = endless ] && for _ in $(seq 50); do cat block || break; done\nwait\n",
        folder.display()
    );
    let script = bench.script("ssh", &text);
    bench.inside("bounds::inside", &[("GIT_SSH_COMMAND", script.as_os_str())]);
    assert!(size(&folder.join("cache")) < MIB, "nothing of it is left");
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside() {
    let limits = Limits { pack: 48 * MIB, ..Limits::default() };
    let git = Git::new(Settings { limits, ..settings(&directory()) });
    for (name, words) in [
        ("endless", ["more than 67108864 bytes at once", "`--git-pack-limit`"]),
        ("tree", ["an object of 943718400 bytes, and at most 67108864", "`--git-object-limit`"]),
        ("many", ["536870912 bytes of memory", "`--git-object-limit`"]),
    ] {
        refused(&git, &remote(&format!("git@forge.example:/{name}")), COMMIT, words).await;
    }
}
