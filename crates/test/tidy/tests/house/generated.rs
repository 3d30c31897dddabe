//! Files that are generated and checked in say what the code says now.

use std::collections::BTreeMap;

use anyhow::Result;
use kardinal_tidy::sources::files;
use kardinal_tidy::{report, root};

#[test]
fn definitions_are_fresh() -> Result<()> {
    let root = root()?;
    let folder = root.join("deploy/crds");
    let mut expected: BTreeMap<_, _> = kardinal_api::crd_yaml()?.into_iter().collect();
    let mut offences = Vec::new();
    for file in files(&folder)? {
        let name = file.display().to_string();
        match expected.remove(&name) {
            None => offences.push(format!("deploy/crds/{name} belongs to no kind")),
            Some(text) if text != std::fs::read_to_string(folder.join(&file))? => {
                offences.push(format!("deploy/crds/{name} is old"));
            }
            Some(_) => {}
        }
    }
    offences.extend(expected.into_keys().map(|name| format!("deploy/crds/{name} is missing")));
    report("run `make crds`", &offences)
}

#[test]
fn the_installation_is_fresh() -> Result<()> {
    let text = std::fs::read_to_string(root()?.join("deploy/install.yaml"))?;
    let policies = [kardinal_api::DEFAULT_POLICY_NAMESPACE.to_owned()];
    anyhow::ensure!(
        text == kardinal_api::install_yaml(&policies)?,
        "deploy/install.yaml is old: run `make crds`"
    );
    Ok(())
}

#[test]
fn the_reference_is_fresh() -> Result<()> {
    let text = std::fs::read_to_string(root()?.join("docs/reference/kinds.md"))?;
    anyhow::ensure!(
        text == kardinal_api::kinds_markdown(),
        "docs/reference/kinds.md is old: run `make crds`"
    );
    Ok(())
}
