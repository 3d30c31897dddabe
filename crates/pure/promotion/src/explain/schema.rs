//! The shape of an explanation for programs.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::Explanation;

/// The JSON schema of what `kardinal explain -o json` prints, as text.
pub fn schema() -> Result<String, serde_json::Error> {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let text = serde_json::to_string_pretty(&generator.into_root_schema_for::<Explanation>())?;
    Ok(text + "\n")
}

/// An instant in RFC 3339 form, with as many digits as it needs.
pub(super) fn timestamp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}
