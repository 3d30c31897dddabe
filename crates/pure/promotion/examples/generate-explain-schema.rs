//! Writes `docs/reference/explain.schema.json`. Run it from the root of the workspace: `make crds`.

#![expect(
    clippy::disallowed_methods,
    reason = "a generator writes files; the library that it calls only gives the text"
)]

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::fs::write(root.join("docs/reference/explain.schema.json"), kardinal_promotion::explain::schema()?)?;
    Ok(())
}
