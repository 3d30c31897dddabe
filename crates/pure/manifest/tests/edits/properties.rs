//! What holds for every file: no panic, nothing but the target changes, comments survive, twice is once.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use kardinal_manifest::{Image, helm, kustomize, replace, yaml};
use proptest::prelude::*;
use serde_json::Value;

/// Text made of pieces that mean something to YAML, so that it is often valid and always nasty.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "images",
        "name",
        "newTag",
        "digest",
        "tag",
        "image",
        ":",
        ": ",
        ":\n",
        "\n",
        "\r\n",
        "  ",
        "    ",
        "- ",
        "-\n",
        "? ",
        "{",
        "}",
        "[",
        "]",
        ",",
        ", ",
        "#",
        " # c",
        "&x ",
        "*x",
        "!!str ",
        "!",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "---\n",
        "...\n",
        "<<: ",
        "~",
        "1.10",
        "\t",
        "\u{feff}",
        "é",
        "%",
        "\\",
        "r/app",
        "images:\n- name: r/app\n",
        "image:\n  tag: v1\n",
        "\r",
        "\u{85}",
        "null",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn images() -> Vec<Image> {
    vec![Image::parse("app", "r/app:1.10", None).unwrap(), Image::parse("a", "r/b:v2", None).unwrap()]
}

/// Comment texts, sorted: what follows a `#` that starts a line or follows a blank, in files whose strings have no `#`.
fn comments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = text
        .lines()
        .filter_map(|line| {
            line.find('#')
                .filter(|at| *at == 0 || line[..*at].ends_with([' ', '\t']))
                .map(|at| line[at..].to_owned())
        })
        .collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(text in prop_oneof![nasty(), any::<String>()], path in "[.a-z0-9\\[\\]\"']{0,8}", value in any::<String>()) {
        let _ = yaml::get("f", &text, &path);
        let _ = yaml::set("f", &text, &path, &Value::String(value.clone()));
        let _ = replace::replace("f", &text, &path, &value);
        let _ = Image::parse("a", &text, Some(&value));
    }

    #[test]
    fn kustomize_twice_is_once(text in nasty()) {
        if let Ok(once) = kustomize::set_images("f", &text, &images()) {
            prop_assert_eq!(&kustomize::set_images("f", &once, &images()).unwrap(), &once);
            let read = kustomize::images("f", &once).unwrap();
            for image in images() {
                prop_assert!(read.iter().any(|entry| entry.repository == image.repository && entry.tag == image.tag && entry.digest == image.digest));
            }
        }
    }

    #[test]
    fn set_is_read_back(text in nasty(), value in prop_oneof![any::<String>(), "[0-9.:eExX_+-]{0,6}", "[a-zA-Z~]{1,4}"]) {
        for path in [".a", ".image.tag", ".images[0].name", "[0]"] {
            if let Ok(once) = yaml::set("f", &text, path, &Value::String(value.clone())) {
                prop_assert_eq!(yaml::get("f", &once, path).unwrap(), Some(Value::String(value.clone())));
                prop_assert_eq!(&yaml::set("f", &once, path, &Value::String(value.clone())).unwrap(), &once);
            }
        }
    }
}

/// A whole, well-formed file: its text, and the dotted paths of its single values.
#[derive(Debug, Clone)]
struct File {
    text: String,
    paths: Vec<String>,
}

#[derive(Debug, Clone)]
enum Tree {
    Leaf(String),
    Map(Vec<(String, Tree)>),
    List(Vec<Tree>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        "[a-z]{1,5}",
        "'[a-z ]{0,5}'",
        "\"[a-z ]{0,5}\"",
        Just(String::new()),
        "[0-9]{1,3}",
        "é日[a-z]"
    ]
    .prop_map(Tree::Leaf);
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            3 => prop::collection::btree_map("[a-z]{1,6}", inner.clone(), 1..4).prop_map(|map| Tree::Map(map.into_iter().collect())),
            1 => prop::collection::vec(inner, 1..3).prop_map(Tree::List),
        ]
    })
}

fn write(
    tree: &Tree,
    indent: usize,
    path: &str,
    decoration: &mut impl FnMut() -> (&'static str, &'static str),
    file: &mut File,
) {
    let pad = " ".repeat(indent);
    let mut child = |head: String, path: String, tree: &Tree, file: &mut File| {
        let (above, right) = decoration();
        if !above.is_empty() {
            file.text.push_str(&format!("{pad}{above}\n"));
        }
        file.text.push_str(&format!("{pad}{head}"));
        if let Tree::Leaf(text) = tree {
            file.text.push_str(format!(" {text}").trim_end());
            file.paths.push(path.clone());
        }
        file.text.push_str(&format!("{right}\n"));
        if !matches!(tree, Tree::Leaf(_)) {
            write(tree, indent + 2, &path, decoration, file);
        }
    };
    match tree {
        Tree::Leaf(_) => {}
        Tree::Map(pairs) => {
            pairs.iter().for_each(|(key, tree)| child(format!("{key}:"), format!("{path}.{key}"), tree, file))
        }
        Tree::List(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, tree)| child("-".to_owned(), format!("{path}[{n}]"), tree, file)),
    }
}

fn file() -> impl Strategy<Value = File> {
    let top = prop::collection::btree_map("[a-z]{1,6}", tree(), 1..5)
        .prop_map(|map| Tree::Map(map.into_iter().collect()));
    let decorations = prop::collection::vec(
        (
            prop::sample::select(vec!["", "", "# above", "# \"é\": ["]),
            prop::sample::select(vec!["", " # right", "   # more: x"]),
        ),
        7,
    );
    (top, decorations, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(top, decorations, crlf, bom, ended)| {
            let mut file = File { text: String::new(), paths: Vec::new() };
            let mut cycle = decorations.into_iter().cycle();
            write(&top, 0, "", &mut || cycle.next().unwrap(), &mut file);
            if !ended {
                file.text.pop();
            }
            if crlf {
                file.text = file.text.replace('\n', "\r\n");
            }
            if bom {
                file.text.insert(0, '\u{feff}');
            }
            file
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_target_changes(file in file(), value in prop_oneof!["[a-z0-9.]{0,6}", any::<String>()], which in any::<prop::sample::Index>()) {
        prop_assume!(!file.paths.is_empty());
        let path = which.get(&file.paths);
        let set = yaml::set("f", &file.text, path, &Value::String(value.clone())).unwrap();
        for other in &file.paths {
            let want = if other == path { Some(Value::String(value.clone())) } else { yaml::get("f", &file.text, other).unwrap() };
            prop_assert_eq!(yaml::get("f", &set, other).unwrap(), want);
        }
        // Only one line differs, and the line ends, the mark at the start and the end of the file are as before.
        let (before, after): (Vec<_>, Vec<_>) = (file.text.split('\n').collect(), set.split('\n').collect());
        prop_assert_eq!(before.len(), after.len());
        prop_assert!(before.iter().zip(&after).filter(|(before, after)| before != after).count() <= 1);
        prop_assert!(before.iter().zip(&after).all(|(before, after)| before.ends_with('\r') == after.ends_with('\r')));
        prop_assert_eq!(file.text.starts_with('\u{feff}'), set.starts_with('\u{feff}'));
        if !value.contains('#') {
            prop_assert_eq!(comments(&file.text), comments(&set));
        }
        let image = Image { name: "app".to_owned(), repository: "r".to_owned(), tag: Some(value), digest: None };
        prop_assert_eq!(helm::set_images("f", &file.text, path, &[image]).unwrap(), set);
    }

    #[test]
    fn an_added_list_leaves_the_rest(file in file()) {
        prop_assume!(!file.text.contains("images"));
        let set = kustomize::set_images("f", &file.text, &images()).unwrap();
        prop_assert!(set.starts_with(&file.text), "{set}");
        for path in &file.paths {
            prop_assert_eq!(yaml::get("f", &set, path).unwrap(), yaml::get("f", &file.text, path).unwrap());
        }
        prop_assert_eq!(set.ends_with('\n'), file.text.ends_with('\n'));
        if file.text.contains('\r') {
            prop_assert_eq!(set.matches('\n').count(), set.matches("\r\n").count());
        }
    }
}
