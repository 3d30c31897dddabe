//! Edits of kustomizations with one exact result each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use kardinal_manifest::{Error, Image, kustomize};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn image(name: &str, reference: &str) -> Image {
    Image::parse(name, reference, None).unwrap()
}

#[track_caller]
fn edit(before: &str, references: &[&str], after: &str) {
    let images: Vec<Image> = references.iter().map(|reference| image("app", reference)).collect();
    let after = after.replace("DIGEST", DIGEST);
    let got = kustomize::set_images("kustomization.yaml", &before.replace("DIGEST", DIGEST), &images)
        .unwrap_or_else(|error| panic!("{error}\n{before}"));
    assert_eq!(got, after);
    assert_eq!(kustomize::set_images("kustomization.yaml", &got, &images).unwrap(), got, "the second time");
}

fn with_digest(reference: &str) -> String {
    format!("{reference}@{DIGEST}")
}

#[test]
fn entries_that_are_there() {
    edit(
        "images:\n- name: a/app\n  newTag: v1 # old\n",
        &["a/app:v2"],
        "images:\n- name: a/app\n  newTag: v2 # old\n",
    );
    edit(
        "images:\n  - newTag: \"v1\"\n    name: a/app\n",
        &["a/app:1.10"],
        "images:\n  - newTag: \"1.10\"\n    name: a/app\n",
    );
    edit("images:\n- name: a/app\n", &["a/app:1.10"], "images:\n- name: a/app\n  newTag: \"1.10\"\n");
    edit("images:\n- name: a/app", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2");
    edit(
        "images:\r\n- name: a/app # c\r\nx: 1\r\n",
        &[&with_digest("a/app:v2")],
        "images:\r\n- name: a/app # c\r\n  newTag: v2\r\n  digest: DIGEST\r\nx: 1\r\n",
    );
    // By newName.
    edit(
        "images:\n- name: web\n  newName: a/app\n  newTag: v1\n",
        &["a/app:v2"],
        "images:\n- name: web\n  newName: a/app\n  newTag: v2\n",
    );
    // By the name in the Bundle.
    edit(
        "images:\n- name: app\n  newTag: v1\n",
        &["a/app:v2"],
        "images:\n- name: app\n  newName: a/app\n  newTag: v2\n",
    );
    edit(
        "images:\n- name: app\n  newName: old/app\n  newTag: v1\n",
        &["a/app:v2"],
        "images:\n- name: app\n  newName: a/app\n  newTag: v2\n",
    );
    // The repository again under its own name: newName goes, as kustomize does it.
    edit(
        "images:\n- name: a/app\n  newName: b/app\n  newTag: v1\n",
        &["a/app:v2"],
        "images:\n- name: a/app\n  newTag: v2\n",
    );
    // What already runs the repository comes first.
    edit(
        "images:\n- name: a/app\n  newName: b/app\n- name: x\n  newName: a/app\n",
        &["a/app:v2"],
        "images:\n- name: a/app\n  newName: b/app\n- name: x\n  newName: a/app\n  newTag: v2\n",
    );
    // Two entries that run the same repository.
    edit(
        "images:\n- name: x\n  newName: a/app\n  newTag: v1\n- name: a/app\n  newTag: v1\n",
        &["a/app:v2"],
        "images:\n- name: x\n  newName: a/app\n  newTag: v2\n- name: a/app\n  newTag: v2\n",
    );
    edit("images: [{name: a/app, newTag: v1}]\n", &["a/app:v2"], "images: [{name: a/app, newTag: v2}]\n");
    edit("images: [{name: a/app}]\n", &["a/app:v2"], "images: [{name: a/app, newTag: v2}]\n");
    edit("images:\n- {name: app}\n", &["a/app:v2"], "images:\n- {name: app, newName: a/app, newTag: v2}\n");
    edit("images:\n- name: a/app\n  newTag:\n", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2\n");
    edit(
        "images:\n- name: a/app\n  newTag: 1.10\n",
        &["a/app:1.10"],
        "images:\n- name: a/app\n  newTag: \"1.10\"\n",
    );
    edit("images:\n-\n  name: a/app\n", &["a/app:v2"], "images:\n-\n  name: a/app\n  newTag: v2\n");
}

#[test]
fn what_no_longer_holds_goes() {
    edit(
        "images:\n- digest: DIGEST\n  name: a/app\nx: 1\n",
        &["a/app:v2"],
        "images:\n- name: a/app\n  newTag: v2\nx: 1\n",
    );
    edit(
        "images:\n- digest: DIGEST # one\n  # two\n  name: a/app\n",
        &["a/app:v2"],
        "images:\n- # one\n  # two\n  name: a/app\n  newTag: v2\n",
    );
    edit("images:\n- name: a/app\n  digest: DIGEST", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2");
    edit(
        "images:\r\n- name: a/app\r\n  digest: DIGEST # why\r\n  newTag: v1\r\n",
        &["a/app:v2"],
        "images:\r\n- name: a/app\r\n  # why\r\n  newTag: v2\r\n",
    );
    edit(
        "images:\n- name: a/app\n  newTag: v1\n  tagSuffix: -x\n",
        &[&with_digest("a/app")],
        "images:\n- name: a/app\n  digest: DIGEST\n",
    );
    edit(
        "images: [{digest: DIGEST, name: a/app}, {name: b, digest: x}]\n",
        &["a/app:v2"],
        "images: [{name: a/app, newTag: v2}, {name: b, digest: x}]\n",
    );
    edit(
        "images: [{name: a/app, newTag: v1, digest: DIGEST}]\n",
        &["a/app:v2"],
        "images: [{name: a/app, newTag: v2}]\n",
    );
    edit(
        "{\n  \"images\": [\n    {\n      \"name\": \"a/app\",\n      \"digest\": \"DIGEST\",\n      \"newTag\": \"v1\"\n    }\n  ]\n}\n",
        &["a/app:v2"],
        "{\n  \"images\": [\n    {\n      \"name\": \"a/app\",\n      \"newTag\": \"v2\"\n    }\n  ]\n}\n",
    );
    edit(
        "{\n  \"images\": [\n    {\n      \"name\": \"a/app\",\n      \"digest\": \"DIGEST\"\n    }\n  ]\n}\n",
        &["a/app:v2"],
        "{\n  \"images\": [\n    {\n      \"name\": \"a/app\",\n      \"newTag\": \"v2\"\n    }\n  ]\n}\n",
    );
    edit(
        "images: [{\n  name: a/app, # one\n  digest: DIGEST # two\n  , # three\n  newTag: v1 # four\n}]\n",
        &["a/app:v2"],
        "images: [{\n  name: a/app, # one\n   # two\n   # three\n  newTag: v2 # four\n}]\n",
    );
}

#[test]
fn new_entries() {
    edit("", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2\n");
    edit("\u{feff}", &["a/app:v2"], "\u{feff}images:\n- name: a/app\n  newTag: v2\n");
    edit("# only this\n", &["a/app:v2"], "# only this\nimages:\n- name: a/app\n  newTag: v2\n");
    edit("# only this", &["a/app:v2"], "# only this\nimages:\n- name: a/app\n  newTag: v2");
    edit("---\n# nothing\n", &["a/app:v2"], "---\n# nothing\nimages:\n- name: a/app\n  newTag: v2\n");
    edit("---\n", &["a/app:v2"], "---\nimages:\n- name: a/app\n  newTag: v2\n");
    edit(
        "kind: Kustomization\n",
        &["a/app:v2"],
        "kind: Kustomization\nimages:\n- name: a/app\n  newTag: v2\n",
    );
    edit("kind: Kustomization", &["a/app:v2"], "kind: Kustomization\nimages:\n- name: a/app\n  newTag: v2");
    edit(
        "resources:\n  - a.yaml\n  # - b.yaml\n",
        &["a/app:v2", "b/x:v3"],
        "resources:\n  - a.yaml\n  # - b.yaml\nimages:\n  - name: a/app\n    newTag: v2\n  - name: b/x\n    newTag: v3\n",
    );
    edit(
        "resources:\n- a.yaml\n...\n# end\n",
        &["a/app:v2"],
        "resources:\n- a.yaml\nimages:\n- name: a/app\n  newTag: v2\n...\n# end\n",
    );
    edit(
        "images:\n- name: b\n  newTag: v1 # b\n# after\nx: 1\n",
        &["a/app:v2"],
        "images:\n- name: b\n  newTag: v1 # b\n- name: a/app\n  newTag: v2\n# after\nx: 1\n",
    );
    edit("images:\n  - name: b", &["a/app:v2"], "images:\n  - name: b\n  - name: a/app\n    newTag: v2");
    edit("images:\nx: 1\n", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2\nx: 1\n");
    edit("images: [] # none\nx: 1\n", &["a/app:v2"], "images: # none\n- name: a/app\n  newTag: v2\nx: 1\n");
    edit("images: null", &["a/app:v2"], "images:\n- name: a/app\n  newTag: v2");
    edit("images: [{name: b}]\n", &["a/app:v2"], "images: [{name: b}, {name: a/app, newTag: v2}]\n");
    edit("{}\n", &["a/app:v2"], "{\"images\": [{\"name\": \"a/app\", \"newTag\": \"v2\"}]}\n");
    edit("{kind: x}\n", &["a/app:v2"], "{kind: x, images: [{name: a/app, newTag: v2}]}\n");
    edit("{kind: x, images: []}\n", &["a/app:v2"], "{kind: x, images: [{name: a/app, newTag: v2}]}\n");
    edit(
        "{\"a\": {}}",
        &["a/app:v2"],
        "{\"a\": {}, \"images\": [{\"name\": \"a/app\", \"newTag\": \"v2\"}]}",
    );
    edit("a: |+\n  text\n\n", &["a/app:v2"], "a: |+\n  text\n\nimages:\n- name: a/app\n  newTag: v2\n");
    edit("a: 1\n", &[&with_digest("a/app")], "a: 1\nimages:\n- name: a/app\n  digest: DIGEST\n");
    edit("a: 1\n---\nimages: []\n", &["a/app:v2"], "a: 1\n---\nimages:\n- name: a/app\n  newTag: v2\n");
    edit("a: 1\n", &["host:5000/app:1"], "a: 1\nimages:\n- name: host:5000/app\n  newTag: \"1\"\n");
}

#[test]
fn several_images() {
    let images = [image("web", "r/web:2"), image("db", "r/db:3"), image("new", "r/new:4")];
    let text =
        "images:\n# the front\n- name: web\n  newName: r/web\n  newTag: \"1\"\n# the back\n- name: db\n";
    let got = kustomize::set_images("k", text, &images).unwrap();
    assert_eq!(
        got,
        "images:\n# the front\n- name: web\n  newName: r/web\n  newTag: \"2\"\n# the back\n- name: db\n  newName: r/db\n  newTag: \"3\"\n- name: r/new\n  newTag: \"4\"\n"
    );
    assert_eq!(kustomize::set_images("k", &got, &images).unwrap(), got);
    let read = kustomize::images("k", &got).unwrap();
    let repositories: Vec<_> = read
        .iter()
        .map(|image| (image.name.as_str(), image.repository.as_str(), image.tag.as_deref()))
        .collect();
    assert_eq!(
        repositories,
        [("web", "r/web", Some("2")), ("db", "r/db", Some("3")), ("r/new", "r/new", Some("4"))]
    );
}

#[test]
fn refusals() {
    let set = |text: &str, images: &[Image]| {
        kustomize::set_images("dir/kustomization.yaml", text, images).unwrap_err()
    };
    let app = image("app", "a/app:v2");
    assert!(matches!(set("[]", std::slice::from_ref(&app)), Error::Unfit { .. }));
    assert!(matches!(set("images: {a: 1}", std::slice::from_ref(&app)), Error::Unfit { .. }));
    assert!(matches!(set("images: [x]", std::slice::from_ref(&app)), Error::Unfit { .. }));
    assert!(matches!(set("images: []\nimages: []", std::slice::from_ref(&app)), Error::Unfit { .. }));
    assert!(matches!(set("a: 1\n---\nb: 1\n", std::slice::from_ref(&app)), Error::Ambiguous { .. }));
    assert!(matches!(
        set("images: []\n---\nimages: []\n", std::slice::from_ref(&app)),
        Error::Ambiguous { .. }
    ));
    assert!(matches!(set("", &[image("app", "a/app")]), Error::BadImage { .. }));
    assert!(matches!(set("", &[app.clone(), image("b", "a/app:v3")]), Error::Ambiguous { .. }));
    assert!(matches!(
        set("images: [{name: a}]", &[image("a", "x:1"), image("a", "y:1")]),
        Error::Ambiguous { .. }
    ));
    assert!(set("[]", &[app]).to_string().contains("dir/kustomization.yaml"));
}

#[test]
fn references() {
    let parts = |reference: &str, digest: Option<&str>| {
        let image = Image::parse("app", reference, digest).unwrap();
        (image.repository, image.tag, image.digest)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(parts("app", None), ("app".to_owned(), None, None));
    assert_eq!(parts("app:1", None), ("app".to_owned(), some("1"), None));
    assert_eq!(parts("host:5000/app", None), ("host:5000/app".to_owned(), None, None));
    assert_eq!(
        parts("host:5000/a/b:v1", Some(DIGEST)),
        ("host:5000/a/b".to_owned(), some("v1"), some(DIGEST))
    );
    assert_eq!(parts(&with_digest("h/a:v1"), None), ("h/a".to_owned(), some("v1"), some(DIGEST)));
    assert_eq!(parts(&with_digest("h/a"), None), ("h/a".to_owned(), None, some(DIGEST)));
    assert_eq!(parts("h/a:v1@sha256:abc", None), ("h/a".to_owned(), some("v1"), None));
    assert_eq!(parts("h/a:v1", Some("sha256:abc123")), ("h/a".to_owned(), some("v1"), None));
    let upper = DIGEST.to_uppercase();
    assert_eq!(parts("h/a:v1", Some(&upper)), ("h/a".to_owned(), some("v1"), None));
    for reference in ["", ":v1", "a b:v1", "a:", "a:v 1", "a/:v1", "a@sha256:abc", "a:v1\nb", "a:-x", "häh:1"]
    {
        let error = Image::parse("app", reference, None).unwrap_err();
        assert!(error.to_string().contains("`app`"), "{error}");
    }
    assert!(Image::parse("app", &format!("a:{}", "x".repeat(129)), None).is_err());
}
