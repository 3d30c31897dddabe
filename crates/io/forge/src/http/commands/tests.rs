use std::io;

use bytes::Bytes;

use super::super::access::Identity;
use super::super::answer::Refusal;
use super::{Push, RefChange, ZERO, read};

const ONE: &str = "1111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222";

fn pkt(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}

/// The same bytes in pieces of every given size must read the same.
fn parse(bytes: &[u8], size: usize) -> Result<Push, Refusal> {
    let chunks: Vec<io::Result<Bytes>> = bytes.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
    futures::executor::block_on(read(&mut futures::stream::iter(chunks)))
}

fn identity(trusted: bool) -> Identity {
    Identity { name: "alice".to_owned(), trusted }
}

#[test]
fn a_push_is_read_in_any_pieces() {
    let body = [
        pkt(&format!("shallow {ONE}")),
        pkt(&format!("{ONE} {TWO} refs/heads/main\0 report-status side-band-64k agent=git/2\n")),
        pkt(&format!("{TWO} {ZERO} refs/tags/v1")),
        "0000PACKrest".to_owned(),
    ]
    .concat();
    for size in [1, 3, 7, body.len()] {
        let push = parse(body.as_bytes(), size).unwrap();
        assert_eq!(
            push.changes,
            [
                RefChange {
                    name: "refs/heads/main".to_owned(),
                    old: Some(ONE.to_owned()),
                    new: Some(TWO.to_owned())
                },
                RefChange { name: "refs/tags/v1".to_owned(), old: Some(TWO.to_owned()), new: None },
            ]
        );
        assert!(push.can("side-band-64k") && !push.can("atomic"));
        assert!(body.as_bytes().starts_with(&push.raw), "git reads again what was read");
    }
}

#[test]
fn a_probe_has_no_commands() {
    assert!(parse(b"0000", 4).unwrap().changes.is_empty());
}

#[test]
fn nonsense_is_refused() {
    let command = pkt(&format!("{ONE} {TWO} refs/heads/main"));
    for bad in [
        "".to_owned(),
        "00".to_owned(),
        command.clone(),
        format!("{}zzzz", command),
        "0001".to_owned(),
        "0004".to_owned(),
        "fff1".to_owned(),
        "+0a0".to_owned(),
        pkt("push-cert\0 report-status") + "0000",
        pkt("hello") + "0000",
        pkt(&format!("{ONE} {TWO}")) + "0000",
        pkt(&format!("{ONE} {TWO} ")) + "0000",
        pkt(&format!("{ONE} {TWO} refs/heads/a\nb")) + "0000",
        pkt(&format!("{ONE} 22 refs/heads/a")) + "0000",
        pkt("shallow nothing") + "0000",
    ] {
        assert!(parse(bad.as_bytes(), 5).is_err(), "{bad:?}");
    }
    let raw = [b"0010\xff\xfe".as_slice(), &[0xff; 64]].concat();
    assert!(parse(&raw, 5).is_err());
}

#[test]
fn who_may_move_what() {
    let protected = |branch: &str| branch == "main";
    let ask = |trusted: bool, name: &str, new: &str| {
        let body = pkt(&format!("{ONE} {new} {name}")) + "0000";
        let push = parse(body.as_bytes(), 1024).unwrap();
        push.refused(&identity(trusted), protected).first().map(|rejected| rejected.reason)
    };
    assert_eq!(ask(false, "refs/heads/feature", TWO), None);
    assert_eq!(ask(false, "refs/heads/feature", ZERO), None);
    assert_eq!(ask(false, "refs/tags/v1", TWO), None);
    assert_eq!(ask(false, "refs/heads/main", TWO), Some("protected branch: open a pull request"));
    assert_eq!(ask(true, "refs/heads/main", TWO), None);
    for trusted in [false, true] {
        assert_eq!(ask(trusted, "refs/heads/main", ZERO), Some("protected branch: it cannot be deleted"));
        for name in ["HEAD", "refs/pull/1/head", "main", "refs/heads"] {
            assert!(ask(trusted, name, TWO).is_some(), "{name}");
        }
    }
    // What follows a zero byte is not part of the name, so it cannot hide it.
    let hidden = pkt(&format!("{ONE} {TWO} refs/heads/main\0x")) + "0000";
    assert_eq!(parse(hidden.as_bytes(), 9).unwrap().refused(&identity(false), protected).len(), 1);
}

/// Git keeps branches as files: one of these names leaves no room for `kardinal/<namespace>/<bundle>/<environment>`.
#[test]
fn no_branch_takes_the_place_of_those_that_kardinal_makes() {
    let ask = |trusted: bool, name: &str, new: &str| {
        let body = pkt(&format!("{ONE} {new} refs/heads/{name}")) + "0000";
        let push = parse(body.as_bytes(), 1024).unwrap();
        push.refused(&identity(trusted), |_| false).first().map(|rejected| rejected.reason)
    };
    for trusted in [false, true] {
        for name in
            ["kardinal", "Kardinal", "kardinal/team", "kardinal/team/app-1", "kardinal/team/app-1/prod/x"]
        {
            let reason = ask(trusted, name, TWO).unwrap_or_default();
            assert!(reason.contains("kardinal/<namespace>/<bundle>/<environment>"), "{name}: {reason}");
            assert_eq!(ask(trusted, name, ZERO), None, "one that is there can be deleted");
        }
        for name in ["kardinal/team/app-1/prod", "kardinals", "my/kardinal", "kardinal-2/x"] {
            assert_eq!(ask(trusted, name, TWO), None, "{name}");
        }
    }
}

#[test]
fn one_refused_ref_holds_the_whole_push() {
    let body = [
        pkt(&format!("{ONE} {TWO} refs/heads/feature\0 report-status")),
        pkt(&format!("{ONE} {TWO} refs/heads/main")),
        "0000".to_owned(),
    ]
    .concat();
    let push = parse(body.as_bytes(), 1024).unwrap();
    let refused = push.refused(&identity(false), |branch| branch == "main");
    let reasons: Vec<&str> = refused.iter().map(|rejected| rejected.reason).collect();
    assert_eq!(
        reasons,
        ["not pushed: another ref of this push is refused", "protected branch: open a pull request"]
    );
}

#[test]
fn a_push_of_very_many_refs_is_read_and_an_endless_one_is_not() {
    let mut body: String = (0..20_000).map(|n| pkt(&format!("{ZERO} {ONE} refs/heads/b{n}"))).collect();
    let endless = body.repeat(20);
    body.push_str("0000");
    assert_eq!(parse(body.as_bytes(), 8192).unwrap().changes.len(), 20_000);
    assert!(parse(endless.as_bytes(), 1 << 20).is_err());
}
