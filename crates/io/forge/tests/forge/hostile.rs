//! Clients that mean no good, or do not know better.

use std::time::Duration;

use base64::Engine as _;
use kardinal_forge::Settings;

use crate::world::{KARDINAL, PERSON, World, commit, git, good, said};

fn authorization(token: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("x:{token}"));
    format!("Authorization: Basic {encoded}\r\n")
}

fn get(path: &str, extra: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{extra}\r\n").into_bytes()
}

fn post(path: &str, kind: &str, extra: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/x-{kind}-request\r\n\
         Content-Length: {}\r\n{}{extra}\r\n",
        body.len(),
        authorization(PERSON)
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("nothing")
}

#[tokio::test]
async fn no_path_leads_out() {
    let world = World::new().await;
    world.seeded().await;
    std::fs::create_dir_all(world.dir("outside.git")).unwrap();
    std::fs::write(world.dir("outside.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let query = "info/refs?service=git-upload-pack";
    let auth = authorization(PERSON);
    let good = world.raw(&get(&format!("/git/default/app.git/{query}"), &auth)).await;
    assert_eq!(status(&good), "200", "{good}");
    for path in [
        "/git/../outside.git",
        "/git/default/../../outside.git",
        "/git/default/..%2f..%2foutside.git",
        "/git/%2e%2e/outside.git",
        "/git/default/%2e%2e/app.git",
        "/git/..%2foutside/x.git",
        "/git/default/%00app.git",
        "/git/default/app%00.git",
        "/git//etc/passwd",
        "/git/default//app.git",
        "/git/default/%2fetc%2fpasswd.git",
        "/git/default/App.git",
        "/git/DEFAULT/app.git",
        "/git/default/app.git.git",
        "/git/default/app",
        "/git/default/.git",
        "/git/default/app.git%2f",
        "/git/default/%ff.git",
        "/git/default/app.git/objects",
    ] {
        let answer = world.raw(&get(&format!("{path}/{query}"), &auth)).await;
        assert!(["404", "400"].contains(&status(&answer)), "{path}: {answer}");
        let answer = world.raw(&get(&format!("{path}/{query}"), "")).await;
        assert!(["401", "404", "400"].contains(&status(&answer)), "{path}: {answer}");
    }
    for file in ["HEAD", "config", "objects/info/packs", "info/refs", "info/refs?service=git-shell"] {
        let answer = world.raw(&get(&format!("/git/default/app.git/{file}"), &auth)).await;
        assert!(["404", "403"].contains(&status(&answer)), "{file}: {answer}");
    }
}

#[tokio::test]
async fn strangers_learn_nothing() {
    let world = World::new().await;
    let query = "info/refs?service=git-upload-pack";
    let answers = [
        world.raw(&get(&format!("/git/default/app.git/{query}"), "")).await,
        world.raw(&get(&format!("/git/default/none.git/{query}"), "")).await,
        world.raw(&get(&format!("/git/default/none.git/{query}"), &authorization("wrong"))).await,
    ];
    for answer in answers {
        assert_eq!(status(&answer), "401", "{answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: basic"), "{answer}");
    }
}

#[tokio::test]
async fn nonsense_instead_of_a_push() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let path = "/git/default/app.git/git-receive-pack";
    let zero = "0".repeat(40);
    let tip = world.store.tip("default", "app", "main").unwrap().unwrap();
    let command = format!("{zero} {tip} refs/heads/evil\0report-status");
    let truncated = format!("{:04x}{command}0000PACK\0\0\0\x02\0\0", command.len() + 4);
    for (what, body, statuses) in [
        ("garbage", b"\xff\xfe\xfd\xfc".as_slice(), vec!["400"]),
        ("an oversized line", b"ffffaaaa".as_slice(), vec!["400"]),
        ("a broken length", b"00zzaaaa".as_slice(), vec!["400"]),
        ("half a line", b"0064aaaa".as_slice(), vec!["400"]),
        ("nothing", b"".as_slice(), vec!["400"]),
        ("a signed push", b"000epush-cert\n0000".as_slice(), vec!["400"]),
        ("half a pack", truncated.as_bytes(), vec!["200"]),
    ] {
        let answer = world.raw(&post(path, "git-receive-pack", "", body)).await;
        assert!(statuses.contains(&status(&answer)), "{what}: {answer}");
    }
    assert_eq!(world.store.tip("default", "app", "evil").unwrap(), None);
    // A body that breaks off before its announced end moves nothing either.
    let mut short = post(path, "git-receive-pack", "", truncated.as_bytes());
    short.truncate(short.len() - 4);
    world.broken(&short).await;
    assert_eq!(world.store.tip("default", "app", "evil").unwrap(), None);
    let wrong = post(path, "git-upload-pack", "", b"0000");
    assert_eq!(status(&world.raw(&wrong).await), "415");
    for (encoding, body, expected) in
        [("br", b"0000".as_slice(), "415"), ("gzip", b"0000", "400"), ("gzip", b"", "400")]
    {
        let extra = format!("Content-Encoding: {encoding}\r\n");
        let answer = world.raw(&post(path, "git-receive-pack", &extra, body)).await;
        assert_eq!(status(&answer), expected, "{encoding}: {answer}");
    }
    commit(&seed, &[("fine", "still")], "fine").await;
    good(&seed, &["push", "-q", &world.url(PERSON), "main:fine"]).await;
}

#[tokio::test]
async fn nonsense_instead_of_a_fetch() {
    let world = World::new().await;
    world.seeded().await;
    let path = "/git/default/app.git/git-upload-pack";
    let bodies = [b"\xff\xfe".as_slice(), b"0032want 1234\n0000", b"ffff", b"", b"0011command=nope\n0000"];
    for body in bodies {
        for protocol in ["", "Git-Protocol: version=2\r\n", "Git-Protocol: version=2;rm -rf\r\n"] {
            let answer = world.raw(&post(path, "git-upload-pack", protocol, body)).await;
            assert!(["200", "400"].contains(&status(&answer)), "{answer}");
        }
    }
}

#[tokio::test]
async fn too_much_is_refused() {
    let settings = Settings { max_body: 64 * 1024, ..Settings::default() };
    let world = World::with(settings).await;
    let seed = world.seeded().await;
    let path = "/git/default/app.git/git-receive-pack";
    let answer = world.raw(&post(path, "git-receive-pack", "", &vec![b'0'; 65 * 1024])).await;
    assert_eq!(status(&answer), "413", "{answer}");
    let noise: String = (0..60_000_u64)
        .map(|n| format!("{:x}\n", n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (n << 13)))
        .collect();
    commit(&seed, &[("noise", &noise)], "large").await;
    let output = git(&seed, &["push", &world.url(PERSON), "main:large"]).await;
    assert!(!output.status.success(), "{}", said(&output));
    assert_eq!(world.store.tip("default", "app", "large").unwrap(), None);
}

/// 64 MiB of zeroes in 64 KiB: the limit counts what comes out.
#[tokio::test]
async fn a_bomb_does_not_go_off() {
    let settings = Settings { max_body: 1024 * 1024, ..Settings::default() };
    let world = World::with(settings).await;
    let folder = world.folder.path();
    std::fs::write(folder.join("zeroes"), vec![b'0'; 64 << 20]).unwrap();
    let packed =
        tokio::process::Command::new("gzip").arg("-c").arg(folder.join("zeroes")).output().await.unwrap();
    assert!(packed.stdout.len() < 1024 * 1024);
    let path = "/git/default/app.git/git-receive-pack";
    let command = post(path, "git-receive-pack", "Content-Encoding: gzip\r\n", &packed.stdout);
    // It begins with a flush, so it reaches git; what follows must not.
    let answer = world.raw(&command).await;
    assert!(!answer.is_empty());
    let path = "/git/default/app.git/git-upload-pack";
    let answer =
        world.raw(&post(path, "git-upload-pack", "Content-Encoding: gzip\r\n", &packed.stdout)).await;
    assert!(!answer.is_empty());
}

/// A few kilobytes of deltas can stand for gigabytes.
#[tokio::test]
async fn git_has_no_more_memory_and_time_than_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (program, told) = (folder.path().join("git"), folder.path().join("told"));
    let script = format!(
        "#!/bin/sh\n{{ ulimit -d; ulimit -t; ulimit -c; }} > '{}'\nexec git \"$@\"\n",
        told.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let total = Duration::from_secs(120);
    let world = World::with(Settings { git: program, total, ..Settings::default() }).await;
    world.seeded().await;
    assert_eq!(std::fs::read_to_string(&told).unwrap(), "524288\n120\n0\n");
}

#[tokio::test]
async fn very_many_refs_in_one_push() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let tip = world.store.tip("default", "app", "main").unwrap().unwrap();
    let list: String = (0..400).map(|n| format!("create refs/heads/many/{n} {tip}\n")).collect();
    let file = world.dir("refs");
    std::fs::write(&file, list).unwrap();
    let script = format!("git -c core.fsync=none update-ref --stdin < '{}'", file.display());
    let done =
        tokio::process::Command::new("sh").current_dir(&seed).arg("-c").arg(script).status().await.unwrap();
    assert!(done.success());
    good(&seed, &["push", "-q", &world.url(PERSON), "refs/heads/many/*:refs/heads/many/*"]).await;
    assert_eq!(world.store.branches("default", "app").unwrap().len(), 401);
    // With one protected branch among them nothing moves.
    commit(&seed, &[("x", "y")], "more").await;
    let output =
        git(&seed, &["push", "-q", &world.url(PERSON), "main", "refs/heads/many/*:refs/heads/again/*"]).await;
    assert!(said(&output).contains("protected branch: open a pull request"));
    assert_eq!(world.store.branches("default", "app").unwrap().len(), 401);
}

#[tokio::test]
async fn a_silent_client_is_left() {
    let settings = Settings { idle: Duration::from_millis(200), ..Settings::default() };
    let world = World::with(settings).await;
    let head = format!(
        "POST /git/default/app.git/git-receive-pack HTTP/1.1\r\nHost: x\r\n\
         Content-Type: application/x-git-receive-pack-request\r\nContent-Length: 100\r\n{}\r\n0",
        authorization(KARDINAL)
    );
    let mut socket = tokio::net::TcpStream::connect(world.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(status(&answer), "408", "{answer}");
}

/// A client that hangs up in the middle of a push frees its place: with one place only, the next one is served.
#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let settings = Settings { processes: 1, ..Settings::default() };
    let world = World::with(settings).await;
    let seed = world.seeded().await;
    let tip = world.store.tip("default", "app", "main").unwrap().unwrap();
    let command = format!("{} {tip} refs/heads/evil\0report-status", "0".repeat(40));
    let body = format!("{:04x}{command}0000PACK\0\0\0\x02\0\0\0\x01", command.len() + 4);
    let path = "/git/default/app.git/git-receive-pack";
    let mut request = post(path, "git-receive-pack", "", &[body.as_bytes(), &[0; 1000]].concat());
    request.truncate(request.len() - 1000);
    for _ in 0..3 {
        world.broken(&request).await;
    }
    good(&seed, &["push", "-q", &world.url(PERSON), "main:fine"]).await;
    assert_eq!(world.store.tip("default", "app", "evil").unwrap(), None);
    let objects = std::fs::read_dir(world.bare().join("objects")).unwrap();
    let left = objects
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_objdir"));
    assert_eq!(left.count(), 0, "half a push is tidied up");
}
