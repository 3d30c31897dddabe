//! Repositories that were made to hurt.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use kardinal_git::{
    Budget, Change, ChangeError, Entry, EntryKind, Error, Outcome, Repositories as _, Tree, Write,
};

use crate::bench::*;

/// Makes `main` a commit of exactly this tree, given as lines for `git mktree -z`.
fn commit_tree(bench: &Bench, lines: &[Vec<u8>]) {
    let bare = bench.bare();
    let tree = feed(&bare, &["mktree", "-z", "--missing"], &lines.concat());
    let commit = run(&bare, &["commit-tree", "-m", "hostile", &tree]);
    run(&bare, &["update-ref", "refs/heads/main", &commit]);
}

fn line(mode: &str, kind: &str, id: &str, name: &[u8]) -> Vec<u8> {
    [format!("{mode} {kind} {id}\t").as_bytes(), name, b"\0"].concat()
}

fn blob(bench: &Bench, content: &[u8]) -> String {
    feed(&bench.bare(), &["hash-object", "-w", "--stdin"], content)
}

fn hostile() -> Bench {
    let bench = Bench::new();
    let file = blob(&bench, b"content\r\nwith crlf\r\n");
    let script = blob(&bench, b"#!/bin/sh\n");
    let link = blob(&bench, b"/etc");
    let inner = feed(&bench.bare(), &["mktree"], format!("100644 blob {file}\tdeep.txt\n").as_bytes());
    let submodule = "1234567890123456789012345678901234567890";
    commit_tree(
        &bench,
        &[
            line("100644", "blob", &file, b"crlf.txt"),
            line("100755", "blob", &script, b"run.sh"),
            line("120000", "blob", &link, b"etc"),
            line("120000", "blob", &link, b"values.yaml"),
            line("040000", "tree", &inner, b"dir"),
            line("160000", "commit", submodule, b"module"),
            line("100644", "blob", &file, b"caf\xe9.txt"),
            line("100644", "blob", &file, b"dir.txt"),
        ],
    );
    bench
}

#[tokio::test]
async fn links_and_submodules_are_never_written_through() {
    let bench = hostile();
    let (git, remote) = (bench.git(), bench.remote());
    for (path, named) in [
        ("etc/passwd", "`etc`"),
        ("values.yaml", "`values.yaml`"),
        ("module/x", "`module`"),
        ("module", "`module`"),
        ("dir", "directory"),
        ("crlf.txt/x", "`crlf.txt`"),
        ("../x", "`../x`"),
        (".git/config", ".git"),
        ("dir/.GIT/x", ".git"),
        ("/abs", "/abs"),
        ("a\\b", "backslash"),
        ("", "empty"),
    ] {
        for content in [Some(b"x".to_vec()), None] {
            let write = Write { path: path.into(), content };
            let error = git.commit(&remote, &order("x", Fixed(vec![write]))).await.unwrap_err();
            assert!(
                matches!(&error, Error::Problem { message: text, .. } if text.contains(named)),
                "{path}: {error:?}"
            );
        }
    }
    let tip = git.tip(&remote, "main").await.unwrap().unwrap();
    for path in ["etc/passwd", "values.yaml", "module/x", "dir", "../../etc/passwd"] {
        assert!(matches!(git.read(&remote, &tip, path).await, Err(Error::Problem { .. })), "{path}");
    }
    assert_eq!(git.read(&remote, &tip, "crlf.txt/x").await.unwrap(), None);
    assert_eq!(git.read(&remote, &tip, "no/such").await.unwrap(), None);
    assert_eq!(bench.subjects("main"), ["hostile"]);
}

#[tokio::test]
async fn everything_else_in_the_tree_stays_as_it_is() {
    let bench = hostile();
    let before = raw_entries(&bench);
    let writes =
        vec![put("run.sh", b"#!/bin/sh\nexit 0\n"), put("dir/deep.txt", b"y\r\n"), put("dir/new", b"z")];
    let done = bench.git().commit(&bench.remote(), &order("x", Fixed(writes))).await.unwrap();
    assert_eq!(
        (done.kind, done.files),
        (Outcome::Pushed, ["dir/deep.txt", "dir/new", "run.sh"].map(String::from).to_vec())
    );
    let after = raw_entries(&bench);
    assert_eq!(before.len(), after.len());
    for (old, new) in before.iter().zip(&after) {
        let changed = new.ends_with(b"\trun.sh") || new.ends_with(b"\tdir");
        assert_eq!(old != new, changed, "{}", String::from_utf8_lossy(new));
    }
    assert!(after.iter().any(|line| line.starts_with(b"100755") && line.ends_with(b"\trun.sh")));
    let deep = command(&bench.bare()).args(["cat-file", "-p", "main:dir/deep.txt"]).output().unwrap().stdout;
    assert_eq!(deep, b"y\r\n");
}

fn raw_entries(bench: &Bench) -> Vec<Vec<u8>> {
    let output = command(&bench.bare()).args(["ls-tree", "-z", "main"]).output().unwrap().stdout;
    output.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// Looks at the tree with all it offers.
struct Look(Mutex<Vec<Entry>>, std::path::PathBuf);

impl Change for Look {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            *self.0.lock().unwrap() = tree.list("").unwrap();
            assert_eq!(tree.list("dir").unwrap(), tree.list("./dir/").unwrap());
            assert_eq!(tree.list("dir").unwrap().first().unwrap().path, "dir/deep.txt");
            assert!(tree.list("etc").is_err() && tree.list("..").is_err());
            assert!(tree.list("nowhere").unwrap().is_empty());
            tree.export("", &self.1).unwrap();
            Ok(vec![])
        })
    }
}

#[tokio::test]
async fn trees_are_listed_and_exported_without_links() {
    let bench = hostile();
    let out = bench.dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let look = Arc::new(Look(Mutex::default(), out.clone()));
    let order = kardinal_git::Order { change: Arc::<Look>::clone(&look), ..order("x", Broken) };
    bench.git().commit(&bench.remote(), &order).await.unwrap();
    let seen = look.0.lock().unwrap();
    let kinds: Vec<_> = seen.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("caf\u{fffd}.txt", EntryKind::File),
            ("crlf.txt", EntryKind::File),
            ("dir", EntryKind::Directory),
            ("dir.txt", EntryKind::File),
            ("etc", EntryKind::Symlink),
            ("module", EntryKind::Submodule),
            ("run.sh", EntryKind::Executable),
            ("values.yaml", EntryKind::Symlink),
        ]
    );
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["caf\u{fffd}.txt", "crlf.txt", "dir", "dir.txt", "run.sh"]);
    assert_eq!(std::fs::read(out.join("crlf.txt")).unwrap(), b"content\r\nwith crlf\r\n");
}

#[tokio::test]
async fn huge_files_are_refused() {
    let bench = Bench::new();
    let huge = blob(&bench, &vec![b'x'; (16 << 20) + 1]);
    commit_tree(&bench, &[line("100644", "blob", &huge, b"huge")]);
    let (git, remote) = (bench.git(), bench.remote());
    let tip = git.tip(&remote, "main").await.unwrap().unwrap();
    let error = git.read(&remote, &tip, "huge").await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if text.contains("`huge`") && text.contains("16 MiB")),
        "{error}"
    );
    let write = put("new", &vec![b'x'; (16 << 20) + 1]);
    let error = git.commit(&remote, &order("x", Fixed(vec![write]))).await.unwrap_err();
    assert!(matches!(&error, Error::Problem { message: text, .. } if text.contains("`new`")), "{error}");
    // A huge neighbour does not matter.
    git.commit(&remote, &order("y", Fixed(vec![put("small", b"x")]))).await.unwrap();
}

#[tokio::test]
async fn names_that_no_work_tree_may_hold_are_not_exported() {
    struct Export(std::path::PathBuf);
    impl Change for Export {
        fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
            Box::pin(async move {
                tree.export("", &self.0).map(|()| vec![]).map_err(|error| failed(&error.to_string()))
            })
        }
    }
    for name in [&b".git"[..], b".GIT", b".."] {
        let bench = Bench::new();
        let file = blob(&bench, b"x");
        let inner = feed(&bench.bare(), &["mktree"], format!("100644 blob {file}\tconfig\n").as_bytes());
        // mktree takes such names only in raw form.
        let raw = [b"40000 ", name, b"\0"].concat();
        let id: Vec<u8> =
            (0..20).map(|at| u8::from_str_radix(&inner[at * 2..at * 2 + 2], 16).unwrap()).collect();
        let args = ["hash-object", "-w", "--literally", "-t", "tree", "--stdin"];
        let tree = feed(&bench.bare(), &args, &[raw, id].concat());
        let commit = run(&bench.bare(), &["commit-tree", "-m", "hostile", &tree]);
        run(&bench.bare(), &["update-ref", "refs/heads/main", &commit]);
        let out = bench.dir.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let error = bench.git().commit(&bench.remote(), &order("x", Export(out.clone()))).await.unwrap_err();
        assert!(matches!(error, Error::Change(_)), "{error}");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
        assert!(!bench.dir.path().join("config").exists());
    }
}

#[tokio::test]
async fn bad_branch_names_are_refused() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    for branch in
        ["", "..", "a..b", "-f", "a b", "a\nb", "a~1", "x.lock", "refs/heads/main", "a//b", "/a", "a\0b"]
    {
        let order = branched("x", branch, Fixed(vec![put("x", b"1")]));
        assert!(matches!(git.commit(&remote, &order).await, Err(Error::Problem { .. })), "{branch:?}");
        assert!(matches!(git.tip(&remote, branch).await, Err(Error::Problem { .. })), "{branch:?}");
    }
}

/// Reads every one of these files and keeps it, or writes them.
struct Heap {
    files: Vec<String>,
    writes: bool,
}

impl Change for Heap {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            if self.writes {
                return Ok(self.files.iter().map(|path| put(&format!("new/{path}"), &HEAVY)).collect());
            }
            let read = |path: &String| tree.read(path).map_err(|error| failed(&error.to_string()));
            self.files.iter().map(read).collect::<Result<Vec<_>, _>>().map(|_| vec![])
        })
    }
}

/// Four MiB that take no room in a repository.
static HEAVY: [u8; 4 << 20] = [b'x'; 4 << 20];

#[tokio::test]
async fn a_change_reads_and_writes_only_so_many_bytes_however_small_they_are_packed() {
    let bench = Bench::new();
    let heavy = blob(&bench, &HEAVY);
    let names: Vec<String> = (0..40).map(|at| format!("f{at:02}")).collect();
    let lines: Vec<_> = names.iter().map(|name| line("100644", "blob", &heavy, name.as_bytes())).collect();
    commit_tree(&bench, &lines);
    let (git, remote) = (bench.git(), bench.remote());
    let tip = git.tip(&remote, "main").await.unwrap().unwrap();
    let told = |error: Error| match error {
        Error::Change(error) => error.message,
        other => panic!("{other:?}"),
    };
    let diff = told(git.diff(&remote, None, &tip, &Budget::default()).await.unwrap_err());
    let heap = |writes: bool| order("heap", Heap { files: names.clone(), writes });
    let read = told(git.commit(&remote, &heap(false)).await.unwrap_err());
    let written = told(git.commit(&remote, &heap(true)).await.unwrap_err());
    for told in [diff, read, written] {
        assert!(told.contains("67108864 bytes") && told.contains("smaller changes"), "{told}");
    }
}

#[tokio::test]
async fn directories_without_end_are_not_walked_to_their_end() {
    struct Walk(std::path::PathBuf);
    impl Change for Walk {
        fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
            Box::pin(async move {
                let mut folders = vec![String::new()];
                while let Some(folder) = folders.pop() {
                    let found = tree.list(&folder).map_err(|error| failed(&error.to_string()))?;
                    folders.extend(found.into_iter().map(|entry| entry.path));
                }
                tree.export("", &self.0).map(|()| vec![]).map_err(|error| failed(&error.to_string()))
            })
        }
    }
    let bench = Bench::new();
    let mut tree = feed(&bench.bare(), &["mktree"], b"");
    for _ in 0..12 {
        let lines: Vec<_> =
            (b'a'..=b'j').map(|name| line("040000", "tree", &tree, std::slice::from_ref(&name))).collect();
        tree = feed(&bench.bare(), &["mktree", "-z"], &lines.concat());
    }
    let commit = run(&bench.bare(), &["commit-tree", "-m", "hostile", &tree]);
    run(&bench.bare(), &["update-ref", "refs/heads/main", &commit]);
    let (git, remote) = (bench.git(), bench.remote());
    let diff = git.diff(&remote, None, &commit, &Budget::default()).await.unwrap_err();
    let walk = Walk(bench.dir.path().join("out"));
    let listed = git.commit(&remote, &order("walk", walk)).await.unwrap_err();
    for error in [diff, listed] {
        assert!(matches!(&error, Error::Change(told) if told.message.contains("20000 files")), "{error}");
    }
}
