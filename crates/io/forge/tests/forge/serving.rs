//! Clone, fetch and push, by whom they are allowed.

use crate::world::{KARDINAL, PERSON, World, commit, git, git_with, good, said};

#[tokio::test]
async fn clone_push_and_fetch_in_every_protocol() {
    let world = World::new().await;
    let seed = world.seeded().await;
    for version in ["0", "1", "2"] {
        let protocol = format!("protocol.version={version}");
        let clone = format!("clone-{version}");
        let url = world.url(PERSON);
        good(world.folder.path(), &["-c", &protocol, "clone", "-q", &url, &clone]).await;
        let work = world.dir(&clone);
        assert_eq!(std::fs::read_to_string(work.join("env/dev.yaml")).unwrap(), "tag: 1\n");
        let branch = format!("feature-{version}");
        good(&work, &["checkout", "-q", "-b", &branch]).await;
        let pushed = commit(&work, &[("new.txt", version)], "second").await;
        good(&work, &["-c", &protocol, "push", "-q", "origin", &branch]).await;
        assert_eq!(world.store.tip("default", "app", &branch).unwrap(), Some(pushed.clone()));
        good(&seed, &["-c", &protocol, "fetch", "-q", &url, &branch]).await;
        assert_eq!(good(&seed, &["rev-parse", "FETCH_HEAD"]).await, pushed);
    }
    good(&world.bare(), &["fsck", "--strict"]).await;
    let pushes = world.owner.pushes.lock().unwrap();
    let names: Vec<&str> = pushes.iter().filter_map(|change| change.branch()).collect();
    assert_eq!(names, ["main", "feature-0", "feature-1", "feature-2"]);
    assert!(pushes.iter().all(|change| change.old.is_none() && change.new.is_some()));
}

#[tokio::test]
async fn an_empty_repository_can_be_cloned() {
    let world = World::new().await;
    good(world.folder.path(), &["clone", "-q", &world.url(PERSON), "empty"]).await;
    assert_eq!(good(&world.dir("empty"), &["symbolic-ref", "HEAD"]).await, "refs/heads/main");
}

#[tokio::test]
async fn shallow_and_partial_clones_and_a_fetch_by_id() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let first = good(&seed, &["rev-parse", "HEAD"]).await;
    commit(&seed, &[("README.md", "four\n")], "second").await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main"]).await;
    let url = world.url(PERSON);
    good(world.folder.path(), &["clone", "-q", "--depth", "1", &url, "shallow"]).await;
    assert_eq!(good(&world.dir("shallow"), &["rev-list", "--count", "HEAD"]).await, "1");
    good(world.folder.path(), &["clone", "-q", "--filter=blob:none", &url, "partial"]).await;
    good(world.folder.path(), &["init", "-q", "by-id"]).await;
    for protocol in ["protocol.version=0", "protocol.version=2"] {
        good(&world.dir("by-id"), &["-c", protocol, "fetch", "-q", "--depth", "1", &url, &first]).await;
    }
}

#[tokio::test]
async fn wrong_tokens_are_refused() {
    let world = World::new().await;
    world.seeded().await;
    let bare = format!("http://{}/git/default/app.git", world.address);
    for url in [world.url("wrong"), bare.clone(), world.url("")] {
        let output = git(world.folder.path(), &["clone", "-q", &url, "nothing"]).await;
        assert!(!output.status.success());
        let said = said(&output);
        assert!(said.contains("Authentication failed") || said.contains("could not read Username"), "{said}");
    }
    let bearer = format!("http.extraHeader=Authorization: Bearer {PERSON}");
    good(world.folder.path(), &["-c", &bearer, "ls-remote", &bare]).await;
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_not_found() {
    let world = World::new().await;
    let url = world.url(PERSON).replace("app.git", "other.git");
    let output = git(world.folder.path(), &["ls-remote", &url]).await;
    assert!(said(&output).contains("not found"), "{}", said(&output));
}

#[tokio::test]
async fn protected_branches_take_only_pull_requests() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let before = world.store.tip("default", "app", "main").unwrap();
    commit(&seed, &[("README.md", "changed\n")], "direct").await;
    for refspec in ["main", "main:env/prod", "main:main", "+main:main"] {
        let output = git(&seed, &["push", &world.url(PERSON), refspec]).await;
        assert!(!output.status.success());
        let said = said(&output);
        assert!(said.contains("[remote rejected]"), "{said}");
        assert!(said.contains("protected branch: open a pull request"), "{said}");
    }
    for token in [PERSON, KARDINAL] {
        let output = git(&seed, &["push", &world.url(token), ":main"]).await;
        assert!(said(&output).contains("protected branch: it cannot be deleted"), "{}", said(&output));
    }
    // The other branch of the same push stays out as well, and says why.
    let output = git(&seed, &["push", &world.url(PERSON), "main", "main:feature"]).await;
    assert!(said(&output).contains("another ref of this push is refused"), "{}", said(&output));
    assert_eq!(world.store.tip("default", "app", "main").unwrap(), before);
    assert_eq!(world.store.tip("default", "app", "feature").unwrap(), None);
    good(&seed, &["push", "-q", &world.url(PERSON), "main:feature"]).await;
    good(&seed, &["push", "-q", &world.url(PERSON), ":feature"]).await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main"]).await;
}

#[tokio::test]
async fn a_stale_push_is_refused_by_git_itself() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let url = world.url(KARDINAL);
    good(world.folder.path(), &["clone", "-q", &url, "other"]).await;
    commit(&seed, &[("a", "1")], "mine").await;
    good(&seed, &["push", "-q", &url, "main"]).await;
    commit(&world.dir("other"), &[("b", "1")], "theirs").await;
    let output = git(&world.dir("other"), &["push", "origin", "main"]).await;
    assert!(said(&output).contains("[rejected]"), "{}", said(&output));
}

#[tokio::test]
async fn large_requests_are_compressed_and_unpacked() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let branches: Vec<String> = (0..120).map(|n| format!("feature/{n}")).collect();
    for branch in &branches {
        good(&seed, &["commit", "-q", "--allow-empty", "-m", branch]).await;
        good(&seed, &["branch", branch]).await;
    }
    good(&seed, &["push", "-q", &world.url(PERSON), "refs/heads/feature/*:refs/heads/feature/*"]).await;
    for version in ["0", "2"] {
        let target = format!("many-{version}");
        let protocol = format!("protocol.version={version}");
        let args = ["-c", &protocol, "clone", "-q", &world.url(PERSON), &target];
        let output = git_with(world.folder.path(), &args, &[("GIT_TRACE_CURL", "1")]).await;
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.to_lowercase().contains("content-encoding: gzip"), "the client did not compress");
        let count = good(&world.dir(&target), &["branch", "-r"]).await.lines().count();
        assert_eq!(count, branches.len() + 2);
    }
}

/// More than git sends in one piece: it probes first, and then sends in chunks.
#[tokio::test]
async fn a_large_push_is_streamed() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let mut state = 1_u64;
    let noise: Vec<u8> = (0..12 << 20)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    std::fs::write(seed.join("noise.bin"), &noise).unwrap();
    let pushed = commit(&seed, &[], "large").await;
    let output = git_with(
        &seed,
        &["push", &world.url(PERSON), "main:large"],
        &[("GIT_TRACE_CURL", "1"), ("GIT_TRACE_CURL_NO_DATA", "1")],
    )
    .await;
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.to_lowercase().contains("transfer-encoding: chunked"), "the client did not stream");
    assert_eq!(world.store.tip("default", "app", "large").unwrap(), Some(pushed));
    let diff = world.store.diff("default", "app", "main", "large").unwrap();
    assert_eq!((diff[0].path.as_str(), diff[0].binary), ("noise.bin", true));
    // Refused, it is refused just as politely.
    let output = git(&seed, &["push", &world.url(PERSON), "main"]).await;
    assert!(said_protected(&output), "{:?}", output);
}

fn said_protected(output: &std::process::Output) -> bool {
    said(output).contains("protected branch: open a pull request")
}

#[tokio::test]
async fn many_at_once() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let url = world.url(PERSON);
    let clones = (0..20).map(|n| {
        let (url, seed, folder) = (url.clone(), seed.clone(), world.folder.path().to_owned());
        async move {
            good(&folder, &["clone", "-q", &url, &format!("clone-{n}")]).await;
            good(&seed, &["push", "-q", &url, &format!("main:parallel-{n}")]).await;
        }
    });
    futures::future::join_all(clones).await;
    let branches = world.store.branches("default", "app").unwrap();
    assert_eq!(branches.len(), 21);
    good(&world.bare(), &["fsck", "--strict"]).await;
}
