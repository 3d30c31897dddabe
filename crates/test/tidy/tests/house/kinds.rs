//! Every kind speaks the same sentence, in files of the same names.

use std::path::PathBuf;

use anyhow::Result;
use kardinal_tidy::kinds::{file_name, folders};
use kardinal_tidy::packages::{PLANNER, is_dialect, packages};
use kardinal_tidy::sources::files;
use kardinal_tidy::{report, root};

#[test]
fn every_kind_has_check_plan_and_report() -> Result<()> {
    let root = root()?;
    let kinds: Vec<String> = kardinal_api::crds().iter().map(|one| file_name(&one.spec.names.kind)).collect();
    let (mut seen, mut offences) = (Vec::new(), Vec::new());
    for package in packages(&root)?.iter().filter(|package| package.name == PLANNER || is_dialect(package)) {
        let sources = package.folder.join("src");
        for (folder, lacking) in folders(&files(&root.join(&sources))?, &kinds) {
            offences
                .extend(lacking.iter().map(|word| sources.join(&folder).join(word).display().to_string()));
            seen.push(folder);
        }
    }
    for known in ["bundle", "graph", "pipeline", "policy_gate", "promotion_step"] {
        anyhow::ensure!(
            seen.contains(&PathBuf::from(known)),
            "`{known}` is not found: the check sees too little"
        );
    }
    report("a kind lacks a file of the sentence", &offences)
}

/// The tests themselves fail for a row that nobody has tried.
#[test]
fn every_table_of_what_is_heard_is_tried() -> Result<()> {
    let folder = root()?.join("crates/app/controllers/src");
    let tests = std::fs::read_to_string(folder.join("reconcile/routes/tests.rs"))?;
    let is_table = |file: &PathBuf| file.ends_with("routes.rs") && !file.starts_with("reconcile");
    let kinds = files(&folder)?.into_iter().filter(is_table).filter_map(|file| {
        let kind = file.parent()?.file_name()?.to_str()?.to_owned();
        Some((file, kind))
    });
    let kinds: Vec<(PathBuf, String)> = kinds.collect();
    anyhow::ensure!(kinds.len() >= 7, "only {} tables are found", kinds.len());
    let untried = kinds.iter().filter(|(_, kind)| !tests.contains(&format!("{kind}::Kind")));
    let offences: Vec<String> = untried.map(|(file, _)| file.display().to_string()).collect();
    report("no test goes through a table of what a kind hears", &offences)
}
