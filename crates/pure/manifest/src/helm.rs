//! Image tags in Helm values.

use serde_json::Value;

use crate::draft::Draft;
use crate::scalar;
use crate::{Error, Image};

/// The file that is edited unless the pipeline names another.
pub const VALUES: &str = "values.yaml";
/// The field that is set unless the pipeline names another.
pub const PATH: &str = ".image.tag";

/// Writes the tag of the image (the digest where there is no tag) to the path. With `{name}` in the path every image
/// has its own field; without it the first image is meant.
pub fn set_images(file: &str, text: &str, path_template: &str, images: &[Image]) -> Result<String, Error> {
    let mut draft = Draft::open(file, text)?;
    let per_image = path_template.contains("{name}");
    if images.is_empty() {
        return Err(Error::NoImage { file: file.to_owned(), path: path_template.to_owned() });
    }
    let count = if per_image { images.len() } else { 1 };
    for image in images.iter().take(count) {
        let path = path_template.replace("{name}", &path_key(&image.name));
        let version = image.version().ok_or_else(|| Error::BadImage {
            name: image.name.clone(),
            reference: image.repository.clone(),
            message: "it has neither a tag nor a digest".to_owned(),
        })?;
        let place = draft.locate(&path)?;
        draft.set(&place, &path, &Value::String(version.to_owned()))?;
    }
    Ok(draft.into_text())
}

/// A name as a step of a path.
fn path_key(name: &str) -> String {
    if name.contains(['.', '[', '"', '\'']) { scalar::double_quoted(name) } else { name.to_owned() }
}
