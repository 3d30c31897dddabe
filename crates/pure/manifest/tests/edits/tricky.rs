//! Single edits with one exact result each.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use kardinal_manifest::{Error, yaml};
use serde_json::{Value, json};

#[track_caller]
fn edit(before: &str, path: &str, value: impl Into<Value>, after: &str) {
    let value = value.into();
    let got =
        yaml::set("values.yaml", before, path, &value).unwrap_or_else(|error| panic!("{error}\n{before}"));
    assert_eq!(got, after, "{path}");
    let again = yaml::set("values.yaml", &got, path, &value).unwrap();
    assert_eq!(again, got, "the second time");
    assert_eq!(yaml::get("values.yaml", &got, path).unwrap(), Some(value));
}

#[track_caller]
fn refused(text: &str, path: &str, value: impl Into<Value>, words: &[&str]) {
    let error = yaml::set("values.yaml", text, path, &value.into()).unwrap_err().to_string();
    for word in words.iter().chain(&["values.yaml"]) {
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn the_tricky_ones() {
    edit("image:\n  tag: v1 # keep\n", ".image.tag", "v2", "image:\n  tag: v2 # keep\n");
    edit("image:\n  tag: \"v1\"\n", ".image.tag", "v2", "image:\n  tag: \"v2\"\n");
    edit("image:\n  tag: 'v1'  # x\n", ".image.tag", "it's", "image:\n  tag: 'it''s'  # x\n");
    edit(
        "image: {repo: a, tag: v1, x: [1, 2]}\n",
        ".image.tag",
        "v2",
        "image: {repo: a, tag: v2, x: [1, 2]}\n",
    );
    edit("image:\r\n  tag: v1\r\nb: 1\r\n", ".image.tag", "v2", "image:\r\n  tag: v2\r\nb: 1\r\n");
    edit(
        "title: grüße — 日本\nimage:\n  tag: v1 # ä\n",
        ".image.tag",
        "v2",
        "title: grüße — 日本\nimage:\n  tag: v2 # ä\n",
    );
    edit("a: &x v1\nimage:\n  tag: v1\nb: *x\n", ".image.tag", "v2", "a: &x v1\nimage:\n  tag: v2\nb: *x\n");
    edit("tag: &x v1\nb: *x\n", ".tag", "v2", "tag: &x v2\nb: *x\n");
    edit("tag: *x\n".replace("tag", "x: &x v1\ntag").as_str(), ".tag", "v2", "x: &x v1\ntag: v2\n");
    edit(
        "d: &d {tag: v1}\np:\n  <<: *d\n  tag: v1\n",
        ".p.tag",
        "v2",
        "d: &d {tag: v1}\np:\n  <<: *d\n  tag: v2\n",
    );
    edit("\"a.b\":\n  'c d': v1\n", ".\"a.b\".c d", "v2", "\"a.b\":\n  'c d': v2\n");
    edit("image:\n  tag:\n  repo: x\n", ".image.tag", "v2", "image:\n  tag: v2\n  repo: x\n");
    edit("image:\n  tag: # none yet\n", ".image.tag", "v2", "image:\n  tag: v2 # none yet\n");
    edit("image:\n  tag: \"\"\n", ".image.tag", "v2", "image:\n  tag: \"v2\"\n");
    edit(
        "---\na: 1\n---\nimage: {tag: v1}\n...\n",
        ".image.tag",
        "v2",
        "---\na: 1\n---\nimage: {tag: v2}\n...\n",
    );
    edit("image:\n  tag:\tv1\t# tab\n", ".image.tag", "v2", "image:\n  tag:\tv2\t# tab\n");
    edit("tag: !!str 1.10\n", ".tag", "1.20", "tag: !!str \"1.20\"\n");
    edit(
        "{\"image\": {\"tag\": \"v1\"}, \"n\": 1}\n",
        ".image.tag",
        "v2",
        "{\"image\": {\"tag\": \"v2\"}, \"n\": 1}\n",
    );
    edit("{\"tag\": 1}", ".tag", "v2", "{\"tag\": \"v2\"}");
    edit(
        "image: {\n  repo: a, # one\n  tag: v1, # two\n}\n",
        ".image.tag",
        "v2",
        "image: {\n  repo: a, # one\n  tag: v2, # two\n}\n",
    );
    edit("tag: |\n  v1\nb: 1\n", ".tag", "v2", "tag: v2\nb: 1\n");
    edit("tag: |+\n  v1\n\n# c\nb: 1\n", ".tag", "v2", "tag: v2\n\n# c\nb: 1\n");
    edit("tag: v1\n  continued\nb: 1\n", ".tag", "v2", "tag: v2\nb: 1\n");
    edit("\u{feff}tag: v1", ".tag", "v2", "\u{feff}tag: v2");
    edit("x: {tag, b: 1}\n", ".x.tag", "v2", "x: {tag: v2, b: 1}\n");
    edit("x: {tag: , b: 1}\n", ".x.tag", "v2", "x: {tag: v2, b: 1}\n");
    edit("tag: &a\nb: *a\n", ".tag", "v2", "tag: &a v2\nb: *a\n");
    edit("tag: !!str\n", ".tag", "v2", "tag: !!str v2\n");
    edit("%YAML 1.2\n---\ntag: v1\n", ".tag", "v2", "%YAML 1.2\n---\ntag: v2\n");
    edit("? tag\n: v1\n", ".tag", "v2", "? tag\n: v2\n");
    edit("a:\n- x: 1\n- x: 2 # two\n", ".a[1].x", 3, "a:\n- x: 1\n- x: 3 # two\n");
    edit("a:\n- x: 1\n- x: 2 # two\n", ".a.1.x", 3, "a:\n- x: 1\n- x: 3 # two\n");
    edit("a: [[1, 2], [3]]\n", "a[0][1]", 9, "a: [[1, 9], [3]]\n");
    edit("1: {0: a}\n", ".1.0", "b", "1: {0: b}\n");
    edit("- v1\n- v1\n", ".[1]", "v2", "- v1\n- v2\n");
    edit("a:\n-\n- # c\n- \n", ".a[1]", "x", "a:\n-\n- x # c\n- \n");
    edit("a:\n-\n- # c\n- \n", ".a[0]", "x", "a:\n- x\n- # c\n- \n");
    edit("a: {\"b c\": 1}\n", "a['b c']", true, "a: {\"b c\": true}\n");
}

/// What some reader of YAML takes for something other than a string.
const TYPED: &[&str] = &[
    "1.10", "1e3", "on", "off", "yes", "No", "y", "N", "null", "Null", "~", "0x12", "0o17", "0b1", "007",
    "0", "-1", "+2", "1_000", "1.", ".5", ".inf", "-.Inf", ".NaN", "true", "FALSE", "12:30", "1:30:00",
    "12e5", "1234e56", "", "<<", "=", "0x_1", "0X1F",
];

/// The same, for dates.
const DATES: &[&str] = &["2024-01-31", "2024-1-1", "2024-01-31T10:00:00Z", "2024-01-31 10:00:00"];

/// What means something to YAML, or is hard to write.
const SPECIAL: &[&str] = &[
    "a: b", "a #b", "- a", "a:", " a", "a ", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "{a}", "[a]",
    "a\nb", "a\tb", "\u{1}", "\"", "\\", "a, b]", "#", "?", "? a", "---", "...", "-", ":", "\u{85}",
    "\u{2028}", "\u{feff}", "é", "日本", "😀", "'", "a'b",
];

#[test]
fn strings_stay_strings() {
    for &text in TYPED.iter().chain(DATES) {
        let want = format!("tag: \"{text}\"\nb: 1\n");
        edit("tag: v1\nb: 1\n", ".tag", text, &want);
        edit(&format!("tag: {text}\nb: 1\n").replace(": <<", ": \"<<\""), ".tag", text, &want);
        edit("tag: 'v1'\nb: 1\n", ".tag", text, &format!("tag: '{text}'\nb: 1\n"));
    }
    for &text in SPECIAL {
        for before in [
            "tag: v1\n",
            "tag: 'v1'\n",
            "tag: \"v1\"\n",
            "{tag: v1}\n",
            "tag: |\n  v1\n",
            "tag:\n",
            "- tag: v1\n",
            "{\"tag\": \"v1\"}",
        ] {
            let path = if before.starts_with('-') { "[0].tag" } else { ".tag" };
            let got = yaml::set("f", before, path, &text.into())
                .unwrap_or_else(|error| panic!("{error}: {text:?} {before:?}"));
            assert_eq!(yaml::get("f", &got, path).unwrap(), Some(text.into()), "{got}");
            assert_eq!(yaml::set("f", &got, path, &text.into()).unwrap(), got);
        }
    }
    for text in [
        "1.2.3",
        "v1.2.3",
        "latest",
        "1.2.3-rc.1",
        "main-3f2a1b",
        "2024-01-31-abc",
        "2024.01.31",
        "sha256:0a1b",
        "1.2.3+x",
    ] {
        edit("tag: v0\n", ".tag", text, &format!("tag: {text}\n"));
    }
}

#[test]
fn other_values() {
    edit("replicas: 1 # n\n", ".replicas", 3, "replicas: 3 # n\n");
    edit("replicas: \"1\"\n", ".replicas", 3, "replicas: 3\n");
    edit("on: no\n", ".on", false, "on: false\n");
    edit("a: b\n", ".a", Value::Null, "a: null\n");
    edit("a: []\n", ".a", json!(["x", 1]), "a: [\"x\",1]\n");
    edit("a:\n- 1\n- 2\nb: 3\n", ".a", json!([1, 3]), "a: [1,3]\nb: 3\n");
    edit("a:\n  c: 1\nb: 3\n", ".a", json!({"c": {"d": null}}), "a: {\"c\":{\"d\":null}}\nb: 3\n");
    edit("a: {c: 1}\nb: 3\n", ".a", "x", "a: x\nb: 3\n");
}

#[test]
fn reading() {
    let text = "d: &d {tag: v1, n: 0x10}\np: {<<: *d, x: 1.5}\nq: {<<: [*d, {z: ~}]}\nl: [*d]\n";
    let get = |path| yaml::get("f", text, path).unwrap();
    assert_eq!(get(".p.tag"), Some(json!("v1")));
    assert_eq!(get(".p"), Some(json!({"tag": "v1", "n": 16, "x": 1.5})));
    assert_eq!(get(".q.z"), Some(Value::Null));
    assert_eq!(get(".l[0].tag"), Some(json!("v1")));
    assert_eq!(get(".nothing.here"), None);
    assert_eq!(get(".l[7]"), None);
    assert_eq!(yaml::get("f", "", ".a").unwrap(), None);
    assert!(matches!(yaml::get("f", "a: 1\n---\na: 2\n", ".a"), Err(Error::Ambiguous { .. })));
}

#[test]
fn refusals_name_file_and_path() {
    refused("a: {b: 1}\n", ".a.c", 1, &["`.a.c`", "no `c`", "`b`"]);
    refused("a: [1]\n", ".a[1]", 1, &["`.a[1]`", "list of 1"]);
    refused("a: 1\n", ".a.b", 1, &["single value"]);
    refused("# nothing\n", ".a", 1, &["`.a`", "empty"]);
    refused("", ".a", 1, &["`.a`", "empty"]);
    refused("a: 1\n---\na: 2\n", ".a", 3, &["`.a`", "ambiguous", "2 of its 2"]);
    refused("a: 1\n---\nb: 2\n", ".c", 3, &["`.c`", "none of its 2"]);
    refused("a: 1\na: 2\n", ".a", 3, &["`.a`", "twice"]);
    refused("x: &x {b: 1}\na: *x\n", ".a.b", 3, &["`.a.b`", "alias"]);
    refused("a: !!int 1\n", ".a", "x", &["`.a`", "tag"]);
    refused("a: | # why\n  x\n", ".a", "y", &["`.a`", "without changing something else"]);
    refused("a:\n  # why\n  b: 1\n", ".a", "y", &["`.a`", "without changing something else"]);
    refused("a: [1\n", ".a", 1, &["not valid YAML", "line"]);
    refused("a:\n\tb: 1\n", ".a.b", 1, &["not valid YAML"]);
    for path in ["", ".", "a..b", "a[", "a[x]", "a[]", "a.\"b", "a[0]b", ".a.", "[\"x\"", "a b[-1]"] {
        assert!(matches!(yaml::set("f", "a: 1\n", path, &1.into()), Err(Error::BadPath { .. })), "{path}");
    }
}

#[test]
fn bombs_are_harmless() {
    let deep = "[".repeat(100_000);
    assert!(matches!(yaml::get("f", &deep, ".a"), Err(Error::NotYaml { .. })));
    let deep: String = (0..5_000).map(|n| format!("{}a:\n", " ".repeat(n.min(1_000)))).collect();
    assert!(yaml::get("f", &deep, ".a").is_err());
    let dashes = "- ".repeat(100_000);
    assert!(matches!(yaml::get("f", &dashes, ".a"), Err(Error::NotYaml { .. })));
    let mut laughs = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..20 {
        let items = vec![format!("*l{}", n - 1); 10].join(", ");
        laughs.push_str(&format!("l{n}: &l{n} [{items}]\n"));
    }
    laughs.push_str("tag: v1\n");
    assert!(matches!(yaml::get("f", &laughs, ".l19"), Err(Error::Unfit { .. })));
    assert_eq!(yaml::get("f", &laughs, ".tag").unwrap(), Some("v1".into()));
    assert!(yaml::set("f", &laughs, ".tag", &"v2".into()).unwrap().ends_with("tag: v2\n"));
    assert!(matches!(yaml::get("f", "a: &a [*a]\n", ".a"), Err(Error::Unfit { .. })));
    assert!(yaml::get("f", "a: &a {<<: *a}\n", ".a.b").unwrap().is_none());
    let large = "#".repeat(kardinal_manifest::MAX_BYTES + 1);
    assert!(matches!(yaml::get("f", &large, ".a"), Err(Error::TooLarge { .. })));
    let long = Value::String("x".repeat(kardinal_manifest::MAX_BYTES));
    assert!(matches!(yaml::set("f", "a: 1\n", ".a", &long), Err(Error::TooLarge { .. })));
    for many in ["x,", "#\n"] {
        let text = many.repeat(260_000);
        let text = if many.ends_with(',') { format!("[{text}]") } else { text };
        let error = yaml::get("f", &text, ".a").unwrap_err().to_string();
        assert!(error.contains("more than 250000"), "{error}");
    }
    let comments = "# line\n".repeat(50_000) + "tag: v1\n";
    assert!(yaml::set("f", &comments, ".tag", &"v2".into()).unwrap().ends_with("tag: v2\n"));
}
