//! Repositories that somebody else has prepared: a data directory that came with a cloned folder, or from an archive.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use kardinal_forge::{Author, Error, MergeOrder, Merged, Store};

use crate::world::{KARDINAL, PERSON, World, commit, git, good};

/// A program that leaves a trace, under a name that can stand in a configuration.
fn program(world: &World) -> String {
    let (program, trace) = (world.dir("program"), world.dir("trace"));
    executable(&program, &format!("#!/bin/sh\ntouch '{}'\n", trace.display()));
    program.display().to_string()
}

fn executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, before + text).unwrap();
}

/// `main` and `feature` both changed the same file, in ways that fit.
async fn forked() -> World {
    let world = World::new().await;
    let seed = world.seeded().await;
    good(&seed, &["checkout", "-q", "-b", "feature"]).await;
    commit(&seed, &[("README.md", "one\ntwo\nthree\nfour\n")], "feature").await;
    good(&seed, &["checkout", "-q", "main"]).await;
    commit(&seed, &[("README.md", "zero\none\ntwo\nthree\n")], "main").await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main", "feature"]).await;
    world
}

fn order() -> MergeOrder {
    MergeOrder {
        base: "main".to_owned(),
        head: "feature".to_owned(),
        expected_base: None,
        expected_head: None,
        message: "Merge\n".to_owned(),
        author: Author { name: "alice".to_owned(), email: "alice@localhost".to_owned() },
        time: Timestamp::UNIX_EPOCH,
    }
}

/// Everything that a repository is used for, by a program that has not seen it before.
async fn used(world: &World) -> Result<Merged, Error> {
    let merged = Store::new(world.store.root()).merge("default", "app", &order());
    let seed = world.dir("seed");
    git(&seed, &["fetch", &world.url(PERSON), "main"]).await;
    git(&seed, &["push", &world.url(PERSON), "feature:more"]).await;
    git(world.folder.path(), &["clone", &world.url(PERSON), "clone"]).await;
    merged
}

#[tokio::test]
async fn nothing_that_the_configuration_of_a_repository_names_is_run() {
    let driver = "[merge]\n default = evil\n[merge \"evil\"]\n name = x\n driver = PROGRAM\n";
    let hooks =
        ["pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"];
    for (what, config) in [
        ("a merge driver", driver),
        ("a default that is no driver", "[merge]\n default = nobody\n"),
        ("hooks in another folder", "[core]\n hooksPath = HOOKS\n[receive]\n procReceiveRefs = refs\n"),
        ("a monitor of files", "[core]\n fsmonitor = PROGRAM\n fsmonitorHookVersion = 2\n"),
        (
            "commands for other hosts",
            "[core]\n sshCommand = PROGRAM\n gitProxy = PROGRAM\n askPass = PROGRAM\n",
        ),
        (
            "a hook of packs",
            "[uploadpack]\n packObjectsHook = PROGRAM\n[gc]\n recentObjectsHook = PROGRAM\n auto = 1\n",
        ),
        (
            "filters",
            "[filter \"evil\"]\n clean = PROGRAM\n smudge = PROGRAM\n process = PROGRAM\n required = true\n",
        ),
        ("diffs", "[diff]\n external = PROGRAM\n[diff \"evil\"]\n command = PROGRAM\n textconv = PROGRAM\n"),
        ("another file", "[include]\n path = INCLUDED\n[includeIf \"gitdir:**\"]\n path = INCLUDED\n"),
        (
            "a remote",
            "[extensions]\n partialClone = evil\n[remote \"evil\"]\n promisor = true\n url = ext::PROGRAM\n[protocol]\n allow = always\n",
        ),
        ("refs of others", "[core]\n alternateRefsCommand = PROGRAM\n"),
        ("nonsense", "[core\n"),
    ] {
        let world = forked().await;
        let (bare, program) = (world.bare(), program(&world));
        let other = world.dir("hooks");
        for hook in hooks {
            let text = fs::read_to_string(&program).unwrap();
            executable(&other.join(hook), &text);
            executable(&bare.join("hooks").join(hook), &text);
        }
        fs::write(world.dir("included"), driver.replace("PROGRAM", &program)).unwrap();
        let config = config
            .replace("PROGRAM", &program)
            .replace("HOOKS", &other.display().to_string())
            .replace("INCLUDED", &world.dir("included").display().to_string());
        append(&bare.join("config"), &config);
        let merged = used(&world).await;
        assert!(!world.dir("trace").exists(), "{what}");
        assert!(matches!(merged, Ok(Merged::Done { .. })), "{what}: {merged:?}");
        assert_eq!(good(&bare, &["show", "main:README.md"]).await, "zero\none\ntwo\nthree\nfour", "{what}");
        assert!(world.dir("clone/README.md").exists(), "{what}: it is served");
    }
}

/// What would make git or the store look elsewhere, or run what the configuration of another place names.
#[tokio::test]
async fn a_repository_that_leads_elsewhere_is_refused() {
    for (what, file, content) in [
        ("objects of another place", "objects/info/alternates", "ELSEWHERE/objects\n"),
        ("objects of another host", "objects/info/http-alternates", "http://127.0.0.1:1/objects\n"),
        ("another repository", "commondir", "ELSEWHERE\n"),
        ("attributes", "info/attributes", "* merge=evil filter=evil diff=evil\n"),
        ("another history", "info/grafts", ""),
        ("a second configuration", "config.worktree", "[core]\n alternateRefsCommand = PROGRAM\n"),
    ] {
        let world = forked().await;
        let (bare, program) = (world.bare(), program(&world));
        let elsewhere = world.dir("elsewhere");
        good(world.folder.path(), &["clone", "-q", "--bare", &world.url(PERSON), "elsewhere"]).await;
        let config = format!(
            "[core]\n alternateRefsCommand = {program}\n[merge]\n default = evil\n[merge \"evil\"]\n driver = {program}\n\
             [extensions]\n worktreeConfig = true\n"
        );
        append(&elsewhere.join("config"), &config);
        append(&bare.join("config"), &config);
        let content =
            content.replace("ELSEWHERE", &elsewhere.display().to_string()).replace("PROGRAM", &program);
        append(&bare.join(file), &content);
        let merged = used(&world).await;
        assert!(!world.dir("trace").exists(), "{what}");
        assert!(
            matches!(&merged, Err(Error::Problem(message)) if message.contains(file)),
            "{what}: {merged:?}"
        );
        assert!(!world.dir("clone").exists(), "{what}: it is not served");
        // Whoever has looked at it and removes it has a repository again.
        fs::remove_file(bare.join(file)).unwrap();
        assert!(matches!(used(&world).await, Ok(Merged::Done { .. })), "{what}");
    }
}

#[tokio::test]
async fn a_link_in_a_repository_leads_nowhere() {
    for what in ["objects", "refs/heads", "packed-refs", "objects/pack"] {
        let world = forked().await;
        let (part, moved) = (world.bare().join(what), world.dir("moved"));
        if part.exists() {
            fs::rename(&part, &moved).unwrap();
        }
        std::os::unix::fs::symlink(&moved, &part).unwrap();
        let merged = Store::new(world.store.root()).merge("default", "app", &order());
        assert!(
            matches!(&merged, Err(Error::Problem(message)) if message.contains(what)),
            "{what}: {merged:?}"
        );
    }
    // The repository itself, and the folder of its namespace.
    for up in [0, 1] {
        let world = forked().await;
        let bare = world.bare();
        let (part, moved) = (bare.ancestors().nth(up).unwrap(), world.dir("moved"));
        fs::rename(part, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, part).unwrap();
        let merged = Store::new(world.store.root()).merge("default", "app", &order());
        assert!(matches!(merged, Err(Error::Problem(_))), "{merged:?}");
    }
    // A configuration that is a link is replaced, and what it points at stays as it is.
    let world = forked().await;
    let program = program(&world);
    let driver = format!("[merge]\n default = evil\n[merge \"evil\"]\n driver = {program}\n");
    fs::write(world.dir("theirs"), &driver).unwrap();
    fs::remove_file(world.bare().join("config")).unwrap();
    std::os::unix::fs::symlink(world.dir("theirs"), world.bare().join("config")).unwrap();
    assert!(matches!(used(&world).await, Ok(Merged::Done { .. })));
    assert!(!world.dir("trace").exists());
    assert_eq!(fs::read_to_string(world.dir("theirs")).unwrap(), driver);
}
