//! Deliveries as forges send them, and as attackers do.

use super::*;

const SECRET: &[u8] = b"It's a Secret to Everybody";
const REPOSITORY: &str = r#""repository": {"clone_url": "https://git.example/acme/app.git",
    "html_url": "https://git.example/acme/app", "ssh_url": "git@git.example:acme/app.git"}"#;

fn sign(body: &[u8], secret: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(body);
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn github(event: &str, body: &str) -> Result<Delivery, Rejected> {
    let signature = format!("sha256={}", sign(body.as_bytes(), SECRET));
    let headers = headers(&[
        ("x-github-event", event),
        ("x-github-delivery", "d-1"),
        ("x-hub-signature-256", &signature),
        ("content-type", "application/json"),
    ]);
    verify(&headers, body.as_bytes(), SECRET)
}

fn gitea(event: &str, body: &str) -> Result<Delivery, Rejected> {
    let signature = sign(body.as_bytes(), SECRET);
    let headers = headers(&[
        ("x-github-event", event),
        ("x-github-delivery", "d-2"),
        ("x-gitea-event", event),
        ("x-gitea-delivery", "d-2"),
        ("x-gitea-signature", &signature),
        ("x-hub-signature-256", &format!("sha256={signature}")),
    ]);
    verify(&headers, body.as_bytes(), SECRET)
}

fn urls() -> Vec<String> {
    let urls =
        ["https://git.example/acme/app.git", "https://git.example/acme/app", "git@git.example:acme/app.git"];
    urls.map(str::to_owned).to_vec()
}

#[test]
fn the_published_example_of_github_is_accepted() {
    // From GitHub's documentation on validating deliveries.
    let headers = headers(&[
        ("x-hub-signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
        ("x-github-event", "ping"),
        ("x-github-delivery", "d"),
    ]);
    // The signature is right; the text is no JSON, which shows only afterwards.
    let rejected = verify(&headers, b"Hello, World!", SECRET).unwrap_err();
    assert!(matches!(rejected, Rejected::Malformed(_)), "{rejected:?}");
    assert_eq!(verify(&headers, b"Hello, World?", SECRET), Err(Rejected::BadSignature));
}

#[test]
fn pull_request_actions_are_understood() {
    let cases = [
        ("opened", false, Action::Opened),
        ("reopened", false, Action::Opened),
        ("synchronize", false, Action::Synchronized),
        ("synchronized", false, Action::Synchronized),
        ("closed", true, Action::Merged),
        ("closed", false, Action::Closed),
        ("edited", false, Action::Edited),
        ("label_updated", false, Action::Edited),
    ];
    for (word, merged, action) in cases {
        let body = format!(
            r#"{{"action": "{word}", "number": 7, "pull_request": {{"number": 7, "merged": {merged}}}, {REPOSITORY}}}"#
        );
        let expected = Event::PullRequest { repository_urls: urls(), number: 7, action };
        let delivery = github("pull_request", &body).unwrap();
        assert_eq!((delivery.id.as_str(), delivery.provider), ("d-1", GitProvider::Github));
        assert_eq!(delivery.event, expected);
        let delivery = gitea("pull_request", &body).unwrap();
        assert_eq!((delivery.id.as_str(), delivery.provider), ("d-2", GitProvider::Gitea));
        assert_eq!(delivery.event, expected);
    }
}

#[test]
fn reviews_are_understood() {
    for (state, verdict) in [
        ("approved", Verdict::Approved),
        ("changes_requested", Verdict::ChangesRequested),
        ("commented", Verdict::Commented),
        ("dismissed", Verdict::Dismissed),
    ] {
        let body = format!(
            r#"{{"action": "submitted", "pull_request": {{"number": 7}},
                "review": {{"state": "{state}", "user": {{"login": "alice"}}}},
                "sender": {{"login": "bot"}}, {REPOSITORY}}}"#
        );
        let author = "alice".to_owned();
        let expected = Event::Review { repository_urls: urls(), number: 7, verdict, author };
        assert_eq!(github("pull_request_review", &body).unwrap().event, expected);
    }
    for (name, verdict) in [
        ("pull_request_approved", Verdict::Approved),
        ("pull_request_rejected", Verdict::ChangesRequested),
        ("pull_request_comment", Verdict::Commented),
    ] {
        let body = format!(
            r#"{{"action": "reviewed", "number": 7, "pull_request": {{"number": 7}},
                "review": {{"type": "pull_request_review", "content": ""}},
                "sender": {{"login": "alice"}}, {REPOSITORY}}}"#
        );
        let author = "alice".to_owned();
        let expected = Event::Review { repository_urls: urls(), number: 7, verdict, author };
        assert_eq!(gitea(name, &body).unwrap().event, expected);
    }
}

#[test]
fn pushes_are_understood() {
    let sha = "a".repeat(40);
    let zero = "0".repeat(40);
    let push = |reference: &str, after: &str| {
        let body = format!(r#"{{"ref": "{reference}", "after": "{after}", {REPOSITORY}}}"#);
        github("push", &body).unwrap().event
    };
    let moved = |branch: &str, commit: Option<&String>| Event::Push {
        repository_urls: urls(),
        branch: branch.to_owned(),
        commit: commit.cloned(),
    };
    assert_eq!(push("refs/heads/main", &sha), moved("main", Some(&sha)));
    assert_eq!(push("refs/heads/kardinal/b/prod", &sha), moved("kardinal/b/prod", Some(&sha)));
    assert_eq!(push("refs/heads/main", &zero), moved("main", None));
    assert_eq!(push("refs/tags/v1", &sha), Event::Other);
}

#[test]
fn forgejo_is_told_from_gitea() {
    let body = "{}";
    let signature = sign(body.as_bytes(), SECRET);
    let headers = headers(&[
        ("x-gitea-event", "ping"),
        ("x-gitea-delivery", "d"),
        ("x-gitea-signature", &signature),
        ("x-forgejo-event", "ping"),
        ("x-forgejo-delivery", "d"),
        ("x-forgejo-signature", &signature),
    ]);
    let delivery = verify(&headers, body.as_bytes(), SECRET).unwrap();
    assert_eq!((delivery.provider, delivery.event), (GitProvider::Forgejo, Event::Other));
}

#[test]
fn what_is_not_signed_with_our_secret_is_refused() {
    let body = format!(r#"{{"ref": "refs/heads/main", "after": "a", {REPOSITORY}}}"#);
    let right = sign(body.as_bytes(), SECRET);
    let wrong = sign(body.as_bytes(), b"guess");
    let ask = |signature: &[(&'static str, &str)], secret: &[u8]| {
        let mut all = vec![("x-gitea-event", "push"), ("x-gitea-delivery", "d")];
        all.extend_from_slice(signature);
        verify(&headers(&all), body.as_bytes(), secret).map(|_| ())
    };
    let prefixed = format!("sha256={right}");
    assert_eq!(ask(&[("x-gitea-signature", &right)], SECRET), Ok(()));
    assert_eq!(ask(&[("x-hub-signature-256", &prefixed)], SECRET), Ok(()));
    let refused: [(&[(&'static str, &str)], Rejected); 10] = [
        (&[], Rejected::Unsigned),
        (&[("x-gitea-signature", "")], Rejected::Unsigned),
        (&[("x-hub-signature-256", "sha256=")], Rejected::Unsigned),
        (&[("x-hub-signature", &prefixed)], Rejected::Unsigned),
        (&[("x-gitea-signature", &wrong)], Rejected::BadSignature),
        (&[("x-gitea-signature", &right[..62])], Rejected::BadSignature),
        (&[("x-gitea-signature", "zz")], Rejected::BadSignature),
        (&[("x-gitea-signature", "é")], Rejected::BadSignature),
        (&[("x-hub-signature-256", &right)], Rejected::BadSignature),
        (&[("x-gitea-signature", &wrong), ("x-hub-signature-256", &prefixed)], Rejected::BadSignature),
    ];
    for (signature, rejected) in refused {
        assert_eq!(ask(signature, SECRET), Err(rejected), "{signature:?}");
    }
    let empty = sign(body.as_bytes(), b"");
    assert_eq!(ask(&[("x-gitea-signature", &empty)], b""), Err(Rejected::NoSecret));
}

#[test]
fn signed_nonsense_is_malformed_and_unsigned_nonsense_is_not_even_read() {
    let deep = "[".repeat(100_000);
    let no_number = format!(r#"{{"action": "opened", {REPOSITORY}}}"#);
    let nameless = r#"{"action": "opened", "number": 1, "repository": {}}"#;
    for body in ["", "nonsense", "[]", "null", "{\"number\": -1}", "{}", &deep, &no_number, nameless] {
        let rejected = github("pull_request", body).unwrap_err();
        assert!(matches!(rejected, Rejected::Malformed(_)), "{rejected:?}");
        let unsigned = headers(&[("x-github-event", "pull_request"), ("x-github-delivery", "d")]);
        assert_eq!(verify(&unsigned, body.as_bytes(), SECRET), Err(Rejected::Unsigned));
    }
}

#[test]
fn a_form_is_refused_with_the_remedy() {
    let body = "payload=%7B%7D";
    let signature = format!("sha256={}", sign(body.as_bytes(), SECRET));
    let headers = headers(&[
        ("x-github-event", "push"),
        ("x-github-delivery", "d"),
        ("x-hub-signature-256", &signature),
        ("content-type", "application/x-www-form-urlencoded"),
    ]);
    let message = verify(&headers, body.as_bytes(), SECRET).unwrap_err().to_string();
    assert!(message.contains("application/json"), "{message}");
}

#[test]
fn a_delivery_that_is_too_large_is_refused_before_it_is_hashed() {
    let body = vec![b' '; MAX_BODY + 1];
    let signed = headers(&[("x-gitea-event", "push"), ("x-gitea-signature", "00")]);
    assert_eq!(verify(&signed, &body, SECRET), Err(Rejected::TooLarge));
}

proptest::proptest! {
    #[test]
    fn no_body_or_signature_panics(body: Vec<u8>, signature in "[0-9a-f=sh]{0,80}") {
        let headers = headers(&[("x-gitea-event", "push"), ("x-gitea-delivery", "d"), ("x-gitea-signature", &signature)]);
        proptest::prop_assert!(verify(&headers, &body, SECRET).is_err());
        let _ = event::read("pull_request", &body);
        let _ = event::read("push", &body);
    }
}
