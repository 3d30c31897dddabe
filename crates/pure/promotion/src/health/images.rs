//! Which version a pod template runs.

use kardinal_manifest::Image;
use serde_json::Value;

use super::label;

/// Why an object does not run the promoted images yet; `None` when it does.
pub(super) fn missing(object: &Value, images: &[Image]) -> Option<String> {
    if images.is_empty() {
        return None;
    }
    let running = running(object);
    let mut found = false;
    for image in images {
        for other in of_repository(&running, image) {
            found = true;
            if !same_version(image, other) {
                return Some(format!(
                    "{} still runs {} of {}",
                    label(object),
                    version(other),
                    other.repository
                ));
            }
        }
    }
    if found {
        return None;
    }
    let wanted: Vec<&str> = images.iter().map(|image| image.repository.as_str()).collect();
    Some(format!("no container of {} uses {}", label(object), wanted.join(" or ")))
}

/// Why the listed references do not contain the promoted images; `None` when they do.
pub(super) fn missing_in<'a>(references: impl Iterator<Item = &'a str>, images: &[Image]) -> Option<String> {
    let running: Vec<Image> =
        references.filter_map(|reference| Image::parse("", reference, None).ok()).collect();
    let mut found = false;
    for image in images {
        let mut others = of_repository(&running, image).peekable();
        if let Some(first) = others.peek() {
            found = true;
            let old = format!("still runs {} of {}", version(first), first.repository);
            if !others.any(|other| same_version(image, other)) {
                return Some(old);
            }
        }
    }
    (!found).then(|| "none of the promoted images runs".to_owned())
}

/// The version of an image, as people call it.
pub(super) fn version(image: &Image) -> &str {
    image.tag.as_deref().or(image.digest.as_deref()).unwrap_or("latest")
}

fn running(object: &Value) -> Vec<Image> {
    ["/spec/template/spec/containers", "/spec/template/spec/initContainers"]
        .into_iter()
        .filter_map(|pointer| object.pointer(pointer).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("image").and_then(Value::as_str))
        .filter_map(|reference| Image::parse("", reference, None).ok())
        .collect()
}

/// The images of the promoted repository; where there are none, those of a mirror of it: same last part.
fn of_repository<'a>(running: &'a [Image], image: &'a Image) -> impl Iterator<Item = &'a Image> {
    let exact = running.iter().any(|other| canonical(&other.repository) == canonical(&image.repository));
    running.iter().filter(move |other| {
        if exact {
            canonical(&other.repository) == canonical(&image.repository)
        } else {
            last_part(&other.repository) == last_part(&image.repository)
        }
    })
}

fn same_version(promoted: &Image, other: &Image) -> bool {
    match (&promoted.digest, &other.digest) {
        (Some(promoted), Some(other)) => promoted == other,
        (None, Some(_)) => promoted.tag.is_some() && promoted.tag == other.tag,
        (_, None) => promoted.tag == other.tag,
    }
}

/// `nginx`, `library/nginx` and `docker.io/library/nginx` are one repository.
fn canonical(repository: &str) -> &str {
    let rest = repository.strip_prefix("docker.io/").unwrap_or(repository);
    rest.strip_prefix("library/").unwrap_or(rest)
}

fn last_part(repository: &str) -> &str {
    repository.rsplit('/').next().unwrap_or(repository)
}
