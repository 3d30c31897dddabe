//! Helm values and regular expressions.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use kardinal_manifest::{Error, Image, helm, replace};

fn image(name: &str, reference: &str) -> Image {
    Image::parse(name, reference, None).unwrap()
}

#[test]
fn the_first_image_or_each_one() {
    let images = [image("web", "r/web:2.0"), image("a.b", "r/x:v3")];
    let text = "image:\n  repository: r/web # repo\n  tag: \"1.0\" # tag\n";
    let got = helm::set_images(helm::VALUES, text, helm::PATH, &images).unwrap();
    assert_eq!(got, text.replace("1.0", "2.0"));
    let text = "web: {tag: 1.0}\na.b: {tag: v2}\n";
    let got = helm::set_images(helm::VALUES, text, ".{name}.tag", &images).unwrap();
    assert_eq!(got, "web: {tag: \"2.0\"}\na.b: {tag: v3}\n");
    assert_eq!(helm::set_images(helm::VALUES, &got, ".{name}.tag", &images).unwrap(), got);
}

#[test]
fn a_digest_stands_in_for_a_missing_tag() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let got =
        helm::set_images("v", "image:\n  tag: v1\n", helm::PATH, &[image("web", &format!("r/web@{digest}"))])
            .unwrap();
    assert_eq!(got, format!("image:\n  tag: {digest}\n"));
}

#[test]
fn helm_refusals() {
    let web = [image("web", "r/web:v2")];
    let error = helm::set_images("chart/values.yaml", "image: {}\n", helm::PATH, &web).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }));
    assert!(
        error.to_string().contains("chart/values.yaml") && error.to_string().contains(".image.tag"),
        "{error}"
    );
    assert!(matches!(helm::set_images("v", "image: {tag: 1}", helm::PATH, &[]), Err(Error::NoImage { .. })));
    assert!(matches!(
        helm::set_images("v", "image: {tag: 1}", helm::PATH, &[image("web", "r/web")]),
        Err(Error::BadImage { .. })
    ));
    // One of two is missing: nothing is returned.
    let two = [image("web", "r/web:v2"), image("db", "r/db:v2")];
    assert!(matches!(
        helm::set_images("v", "web: {tag: v1}\n", ".{name}.tag", &two),
        Err(Error::Missing { .. })
    ));
}

#[test]
fn replacing() {
    let text = "FROM r/web:v1\r\nRUN x\r\nFROM r/web:v0\r\n";
    let got = replace::replace("Dockerfile", text, "^FROM (r/web):.*$", "FROM ${1}:v2").unwrap();
    assert_eq!(got, "FROM r/web:v2\r\nRUN x\r\nFROM r/web:v2\r\n");
    assert_eq!(replace::replace("Dockerfile", &got, "^FROM (r/web):.*$", "FROM ${1}:v2").unwrap(), got);
    assert_eq!(replace::replace("f", "cost: 1", "cost: .*", "cost: $$2").unwrap(), "cost: $2");
}

#[test]
fn replace_refusals() {
    assert!(matches!(replace::replace("f", "a", "b", "c"), Err(Error::NoMatch { .. })));
    assert!(matches!(replace::replace("f", "", "b", "c"), Err(Error::NoMatch { .. })));
    assert!(matches!(replace::replace("f", "a", "(", "c"), Err(Error::BadPattern { .. })));
    assert!(matches!(
        replace::replace("f", "a", "((a{1000}){1000}){1000}", "c"),
        Err(Error::BadPattern { .. })
    ));
    assert!(matches!(replace::replace("f", "a", &"(".repeat(10_000), "c"), Err(Error::BadPattern { .. })));
    // Growing with each run.
    assert!(matches!(replace::replace("f", "v1", "v", "vv"), Err(Error::BadPattern { .. })));
    assert!(matches!(replace::replace("f", "v1", "", "x"), Err(Error::BadPattern { .. })));
    let long = "a".repeat(1 << 20);
    assert!(matches!(replace::replace("f", &long, "a", &"b".repeat(100)), Err(Error::BadPattern { .. })));
    let error = replace::replace("dir/f", "a", "tag: .*", "c").unwrap_err().to_string();
    assert!(error.contains("dir/f") && error.contains("tag: .*"), "{error}");
}
