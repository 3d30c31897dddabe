//! One test per case file: the embedded server and kube-apiserver give the same answers.

use std::collections::BTreeSet;
use std::path::Path;

use kardinal_conformance::case::{self, Case};
use kardinal_conformance::compare::{self, Differences};

/// The suite may grow; it must not shrink unnoticed.
const STEPS_AT_LEAST: usize = 380;

macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() -> anyhow::Result<()> {
            let name = stringify!($name);
            compare::run(&name.replace('_', "-"), &read(name)?, &known()?)
        })*
    };
}

cases! { apply crds crud definitions deletion lists namespaces ours patches tables watches }

fn read(name: &str) -> anyhow::Result<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(format!("{name}.http"));
    case::parse(&std::fs::read_to_string(path)?)
}

fn known() -> anyhow::Result<Differences> {
    compare::parse_differences(include_str!("differences.txt"))
}

#[test]
fn every_case_file_is_played_and_every_difference_is_used() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        files.insert(entry?.file_name().to_string_lossy().trim_end_matches(".http").to_owned());
    }
    assert_eq!(files, CASES.iter().map(|name| (*name).to_owned()).collect());
    let cases = CASES.iter().map(|name| read(name)).collect::<anyhow::Result<Vec<Case>>>()?;
    let steps: Vec<_> = cases.iter().flat_map(|case| &case.steps).collect();
    assert!(steps.len() >= STEPS_AT_LEAST, "only {} steps are left", steps.len());
    let intended =
        steps.iter().flat_map(|step| &step.intended).chain(cases.iter().flat_map(|case| &case.intended));
    let used: BTreeSet<_> = intended.map(|(id, _)| id.clone()).collect();
    assert_eq!(used, known()?.into_keys().collect(), "the list of differences and its uses");
    Ok(())
}
