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
