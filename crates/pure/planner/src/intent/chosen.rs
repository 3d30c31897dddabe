//! The Bundle that somebody means, by its name or by what it carries.

use kardinal_api::kardinal::Bundle;

/// The Bundle of this name, or the only one of this version, which may be written with or without a `v`. Otherwise the names
/// of those that have the version.
pub fn chosen<'a>(bundles: &'a [Bundle], wanted: &str) -> Result<&'a Bundle, Vec<&'a str>> {
    if let Some(named) = bundles.iter().find(|bundle| bundle.metadata.name.as_deref() == Some(wanted)) {
        return Ok(named);
    }
    let wanted = plain(wanted);
    let has_it = |bundle: &&Bundle| {
        bundle.metadata.deletion_timestamp.is_none()
            && plain(&kardinal_policy::version(&bundle.spec)) == wanted
    };
    let found: Vec<&Bundle> = bundles.iter().filter(has_it).collect();
    match found.as_slice() {
        [only] => Ok(only),
        _ => Err(found.into_iter().filter_map(|bundle| bundle.metadata.name.as_deref()).collect()),
    }
}

/// A version without the `v` that people put in front of numbers.
fn plain(version: &str) -> &str {
    version.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(name: &str, tag: &str) -> Bundle {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"artifacts": {"images": [{"name": "a", "reference": format!("r/a:{tag}")}]}},
        }))
        .unwrap()
    }

    #[test]
    fn a_bundle_is_found_by_its_name_or_by_a_version_that_only_it_has() {
        let all = [
            bundle("one", "1.3.0"),
            bundle("two", "v1.4.0"),
            bundle("three", "1.5.0"),
            bundle("v1.3.0", "1.5.0"),
        ];
        let name = |wanted: &str| {
            chosen(&all, wanted).map(|bundle| bundle.metadata.name.as_deref().unwrap_or_default())
        };
        assert_eq!(name("one"), Ok("one"));
        assert_eq!(name("1.3.0"), Ok("one"));
        assert_eq!(name("v1.3.0"), Ok("v1.3.0"), "a name comes first");
        for wanted in ["1.4.0", "v1.4.0"] {
            assert_eq!(name(wanted), Ok("two"));
        }
        assert_eq!(name("v1.5.0"), Err(vec!["three", "v1.3.0"]));
        for nobody in ["", "v", "9.9.9", "vone", "1.3"] {
            assert_eq!(name(nobody), Err(Vec::new()), "{nobody}");
        }
    }
}
