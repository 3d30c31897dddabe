//! Our edits of kustomizations against `kustomize edit set image` itself, and against what `kustomize build` makes of them.

#![expect(clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use kardinal_manifest::{Image, kustomize};
use kardinal_testkit::kustomize::program;
use serde_json::{Map, Value};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OLD_DIGEST: &str = "sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).current_dir(folder).args(arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kustomize {arguments:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// What an image finds in the file.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// An entry named like the repository.
    Name,
    /// The same, renamed to something else.
    Renamed,
    /// An entry with the repository as its new name.
    NewName,
    /// An entry named like the image in the Bundle.
    BundleName,
    /// Nothing.
    Absent,
}

const KINDS: [Kind; 5] = [Kind::Name, Kind::Renamed, Kind::NewName, Kind::BundleName, Kind::Absent];

/// What an entry says about its version, in the ways people and kustomize write it.
const VERSIONS: [&[(&str, &str)]; 7] = [
    &[("newTag", "v1")],
    &[("newTag", "\"1.9\"")],
    &[("newTag", "'1.9'")],
    &[("digest", OLD_DIGEST)],
    &[("newTag", "v1"), ("digest", OLD_DIGEST)],
    &[],
    &[("newTag", "")],
];

/// What the Bundle says.
const CHANGES: [&str; 8] =
    [":v2", ":1.10", ":1e3", ":2024-01-31", ":on", ":0x12", "@DIGEST", ":1.2.3@DIGEST"];

/// What surrounds the list. `IMAGES` stands for it, alone on its line.
const FILES: [&str; 9] = [
    "IMAGES\n",
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\n# what runs\nresources:\n- deployment.yaml\n# - old.yaml\nIMAGES\n# the end\n",
    "# head\nresources:\n  - deployment.yaml # the app\nIMAGES\n\nnamespace: prod\n# tail",
    "namePrefix: prod-\nIMAGES\npatches:\n- patch: |-\n    - op: replace\n      path: /spec/replicas\n      # inside a string\n      value: 3\n  target:\n    kind: Deployment\n",
    "commonAnnotations:\n  note: \"1.10\" # quoted\n  other: 'on'\nreplicas:\n- name: web\n  count: 3\nIMAGES\n",
    "configMapGenerator:\n- name: settings\n  literals:\n  - A=b # c\n  - \"C=d: e\"\nIMAGES\ngeneratorOptions:\n  disableNameSuffixHash: true",
    "---\n# after the marker\nkind: Kustomization\nIMAGES\n",
    "labels:\n- pairs: {app: web}\n  includeSelectors: true\nIMAGES\nbuildMetadata: [originAnnotations]\n",
    "resources: [deployment.yaml]\nIMAGES\nnameSuffix: -x # é 日本\n",
];

/// How the list itself is written.
#[derive(Debug, Clone, Copy)]
enum Layout {
    Block,
    Indented,
    VersionFirst,
    Flow,
    FlowEntries,
}

const LAYOUTS: [Layout; 5] =
    [Layout::Block, Layout::Indented, Layout::VersionFirst, Layout::Flow, Layout::FlowEntries];

fn entry(fields: &[(&str, &str)], layout: Layout) -> String {
    let indent = if matches!(layout, Layout::Indented) { "  " } else { "" };
    match layout {
        Layout::Flow | Layout::FlowEntries => {
            let fields: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| format!("{key}: {value}"))
                .collect();
            let dash = if matches!(layout, Layout::Flow) { "" } else { "- " };
            format!("{dash}{{{}}}", fields.join(", "))
        }
        Layout::Block | Layout::Indented | Layout::VersionFirst => {
            let mut fields = fields.to_vec();
            if matches!(layout, Layout::VersionFirst) {
                fields.reverse();
            }
            let mut lines = vec![format!("{indent}# about an image")];
            for (number, (key, value)) in fields.iter().enumerate() {
                let dash = if number == 0 { "- " } else { "  " };
                let comment = if number == 1 { " # beside" } else { "" };
                lines.push(format!("{indent}{dash}{}{comment}", format!("{key}: {value}").trim_end()));
            }
            lines.join("\n")
        }
    }
}

fn list(entries: &[Vec<(&str, &str)>], layout: Layout) -> String {
    let entries: Vec<String> = entries.iter().map(|fields| entry(fields, layout)).collect();
    match layout {
        _ if entries.is_empty() => "# no images".to_owned(),
        Layout::Flow => format!("images: [{}] # all", entries.join(", ")),
        _ => format!("images: # all\n{}", entries.join("\n")),
    }
}

/// A file, the images to set, and how kustomize is told the same.
struct Case {
    text: String,
    images: Vec<Image>,
    arguments: Vec<String>,
}

/// One of each combination that can matter, by counting through all lists at different speeds.
fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for number in 0..FILES.len() * LAYOUTS.len() * 6 {
        let pick = |speed: usize, len: usize| (number / speed + number) % len;
        let layout = LAYOUTS[number % LAYOUTS.len()];
        let mut entries = vec![vec![("name", "quay.io/side/car"), ("newTag", "keep")]];
        let (mut images, mut arguments) = (Vec::new(), Vec::new());
        for (place, name) in ["web", "db", "cache"].into_iter().enumerate().take(1 + number % 3) {
            let kind = KINDS[(pick(3, KINDS.len()) + place) % KINDS.len()];
            let repository = ["ghcr.io/team/web", "host:5000/db", "cache-server"][place];
            let version = VERSIONS[(pick(7, VERSIONS.len()) + 2 * place) % VERSIONS.len()];
            let change =
                CHANGES[(pick(5, CHANGES.len()) + 3 * place) % CHANGES.len()].replace("DIGEST", DIGEST);
            let names: &[(&str, &str)] = match kind {
                Kind::Name => &[("name", repository)],
                Kind::Renamed => &[("name", repository), ("newName", "mirror/other")],
                Kind::NewName => &[("name", "old-name"), ("newName", repository)],
                Kind::BundleName => &[("name", name)],
                Kind::Absent => &[],
            };
            let mut argument = format!("{repository}{change}");
            if let Some((_, entry)) = names.first() {
                // Two entries of the same name would be one to kustomize.
                if entries.iter().flatten().any(|(_, value)| value == entry) {
                    continue;
                }
                if *entry != repository {
                    argument = format!("{entry}={argument}");
                }
                entries.push([names, version].concat());
            }
            arguments.push(argument);
            images.push(Image::parse(name, &format!("{repository}{change}"), None)?);
        }
        if number % 11 == 0 && entries.len() == 1 {
            entries.clear();
        }
        let mut text = FILES[number % FILES.len()].replace("IMAGES", &list(&entries, layout));
        if number % 4 == 3 {
            text = text.replace('\n', "\r\n");
        }
        cases.push(Case { text, images, arguments });
    }
    Ok(cases)
}

fn parse(text: &str) -> Result<Map<String, Value>> {
    let value: Value = serde_saphyr::from_str(text).with_context(|| text.to_owned())?;
    match value {
        Value::Object(map) => Ok(map),
        other => bail!("not a mapping: {other}"),
    }
}

/// The entries by name, without fields that say nothing.
fn entries(kustomization: &mut Map<String, Value>) -> Result<BTreeMap<String, Value>> {
    let list = match kustomization.remove("images") {
        Some(Value::Array(list)) => list,
        other => bail!("no list of images: {other:?}"),
    };
    let mut entries = BTreeMap::new();
    for mut entry in list {
        let fields = entry.as_object_mut().context("an entry is a mapping")?;
        fields.retain(|_, value| !value.is_null() && value != "");
        let name = fields.get("name").and_then(Value::as_str).context("an entry has a name")?.to_owned();
        ensure!(entries.insert(name, entry).is_none(), "an entry is there twice");
    }
    Ok(entries)
}

/// Every comment with its `#`, sorted. The strings in these files have none, but for one that is the same on both sides.
fn comments(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> =
        text.lines().filter_map(|line| line.find('#').and_then(|at| line.get(at..))).collect();
    all.sort_unstable();
    all
}

fn compare(program: &Path, number: usize, case: &Case) -> Result<()> {
    let file = kustomize::FILES[number % kustomize::FILES.len()];
    let ours = kustomize::set_images(file, &case.text, &case.images)?;
    assert_eq!(kustomize::set_images(file, &ours, &case.images)?, ours, "twice is once");
    assert_eq!(comments(&ours), comments(&case.text), "comments");
    assert_eq!(
        ours.matches('\n').count() == ours.matches("\r\n").count(),
        case.text.contains('\r'),
        "line ends\n{ours:?}"
    );

    let folder = tempfile::tempdir()?;
    let edit = |text: &str| -> Result<Map<String, Value>> {
        std::fs::write(folder.path().join(file), text)?;
        let arguments: Vec<&str> =
            ["edit", "set", "image"].into_iter().chain(case.arguments.iter().map(String::as_str)).collect();
        run(program, folder.path(), &arguments)?;
        parse(&std::fs::read_to_string(folder.path().join(file))?)
    };
    let mut theirs = edit(&case.text)?;
    let mut theirs_of_ours = edit(&ours)?;
    let mut ours_parsed = parse(&ours)?;
    // kustomize adds these two.
    for name in ["apiVersion", "kind"] {
        for map in [&mut theirs, &mut theirs_of_ours, &mut ours_parsed] {
            map.remove(name);
        }
    }
    let our_entries = entries(&mut ours_parsed)?;
    assert_eq!(our_entries, entries(&mut theirs)?, "images");
    assert_eq!(our_entries, entries(&mut theirs_of_ours)?, "kustomize finds nothing left to change");
    assert_eq!(ours_parsed, theirs, "other fields");
    assert_eq!(ours_parsed, theirs_of_ours, "other fields, edited by both");
    Ok(())
}

#[test]
fn the_same_images_as_kustomize() -> Result<()> {
    let Some(program) = program()? else { return Ok(()) };
    let cases = cases()?;
    assert!(cases.len() >= 100, "only {} cases are left", cases.len());
    for (number, case) in cases.iter().enumerate() {
        let outcome = std::panic::catch_unwind(|| compare(&program, number, case));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("case {number} {:?}: {error:#}\n{}", case.arguments, case.text),
            Err(_) => panic!("case {number} {:?} in\n{}", case.arguments, case.text),
        }
    }
    Ok(())
}

/// What runs in the end is what the Bundle says.
#[test]
fn kustomize_builds_what_we_set() -> Result<()> {
    let Some(program) = program()? else { return Ok(()) };
    let deployment = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers:\n  - {{name: web, image: {image}}}\n"
        )
    };
    let texts = [
        ("ghcr.io/team/web", "resources: [pod.yaml]\n"),
        ("ghcr.io/team/web:v0", "resources: [pod.yaml]\nimages: [{name: ghcr.io/team/web, newTag: v1}]\n"),
        ("web", "resources: [pod.yaml]\nimages:\n- digest: OLD\n  name: web\n  newName: ghcr.io/team/web\n"),
        (
            "web:v0",
            "resources: [pod.yaml]\nimages:\n- name: web\n  newName: mirror/web\n  newTag: v1\n  tagSuffix: -x\n",
        ),
        (
            "ghcr.io/team/web",
            "resources: [pod.yaml]\nimages:\n- name: ghcr.io/team/web\n  newName: mirror/web\n",
        ),
    ];
    for (container, text) in texts {
        for change in CHANGES {
            let reference = format!("ghcr.io/team/web{}", change.replace("DIGEST", DIGEST));
            let image = Image::parse("web", &reference, None)?;
            let ours =
                kustomize::set_images("kustomization.yaml", &text.replace("OLD", OLD_DIGEST), &[image])?;
            let folder = tempfile::tempdir()?;
            std::fs::write(folder.path().join("kustomization.yaml"), &ours)?;
            std::fs::write(folder.path().join("pod.yaml"), deployment(container))?;
            let built = parse(&run(&program, folder.path(), &["build", "."])?)?;
            let built = Value::Object(built);
            assert_eq!(
                built.pointer("/spec/containers/0/image").and_then(Value::as_str),
                Some(reference.as_str()),
                "{ours}"
            );
        }
    }
    Ok(())
}
