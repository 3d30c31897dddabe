//! Writes `deploy/crds/*.yaml`, `deploy/install.yaml` and `docs/reference/kinds.md`. Run it from the root of the workspace: `make crds`.

#![expect(
    clippy::disallowed_methods,
    reason = "a generator writes files; the library that it calls only gives the text"
)]

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let deploy = root.join("deploy");
    let crds = deploy.join("crds");
    std::fs::create_dir_all(&crds)?;
    for (name, text) in kardinal_api::crd_yaml()? {
        std::fs::write(crds.join(name), text)?;
    }
    std::fs::write(
        deploy.join("install.yaml"),
        kardinal_api::install_yaml(&[kardinal_api::DEFAULT_POLICY_NAMESPACE.to_owned()])?,
    )?;
    std::fs::write(root.join("docs/reference/kinds.md"), kardinal_api::kinds_markdown())?;
    Ok(())
}
