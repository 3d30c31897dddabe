//! The Bundle that somebody means, by its name or by what it carries.

use kardinal_api::kardinal::Bundle;
use kardinal_planner::problem::{Problem, listed};

use super::Error;
use super::history::is_verified;
use super::known::bundle_named;

/// The Bundle of this name, or one of this version, which may be written with or without a `v`: one that was verified in the
/// environment, if there is one. Where Bundles of one version carry different things nobody knows which one is meant: the
/// answer names them. `bundles` are sorted, the newest first.
pub fn chosen<'a>(bundles: &'a [Bundle], wanted: &str, environment: &str) -> Result<&'a Bundle, Error> {
    let unknown = match bundle_named(bundles, wanted) {
        Ok(named) => return Ok(named),
        Err(unknown) => unknown,
    };
    let given = wanted;
    let wanted = plain(wanted);
    let has_it = |bundle: &&Bundle| {
        bundle.metadata.deletion_timestamp.is_none()
            && plain(&crate::gate_context::version(&bundle.spec)) == wanted
    };
    let found: Vec<&Bundle> = bundles.iter().filter(has_it).collect();
    match found.as_slice() {
        // Every promotion and rollback makes another Bundle of what an earlier one has brought.
        [first, others @ ..] if others.iter().all(|one| one.spec.artifacts == first.spec.artifacts) => {
            Ok(found.iter().copied().find(|one| is_verified(one, environment)).unwrap_or(first))
        }
        [] => Err(unknown),
        several => {
            let names = several.iter().filter_map(|bundle| bundle.metadata.name.as_deref());
            let problem = Problem::new("bundle", format!("several Bundles carry `{given}`"));
            Err(Error::Unclear(problem.hint(format!("name one of {}", listed(names)))))
        }
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
    fn a_bundle_is_found_by_its_name_or_by_a_version_that_says_what_it_carries() {
        let all = [
            bundle("one", "1.3.0"),
            bundle("two", "v1.4.0"),
            bundle("three", "1.5.0"),
            bundle("v1.3.0", "1.5.0"),
            bundle("one-again", "1.3.0"),
        ];
        let mut all = all.to_vec();
        all[2].spec.artifacts.images[0].digest = Some(format!("sha256:{}", "c".repeat(64)));
        let name = |wanted: &str| {
            chosen(&all, wanted, "prod").map(|bundle| bundle.metadata.name.as_deref().unwrap_or_default())
        };
        assert_eq!(name("one"), Ok("one"));
        assert_eq!(name("1.3.0"), Ok("one"));
        assert_eq!(name("v1.3.0"), Ok("v1.3.0"), "a name comes first");
        for wanted in ["1.4.0", "v1.4.0"] {
            assert_eq!(name(wanted), Ok("two"));
        }
        let Err(Error::Unclear(problem)) = name("v1.5.0") else { panic!("two carry different things") };
        let message = "bundle: several Bundles carry `v1.5.0` (name one of `three` and `v1.3.0`)";
        assert_eq!(problem.to_string(), message);
        for nobody in ["", "v", "9.9.9", "vone", "1.3"] {
            let Err(Error::NotFound(problem)) = name(nobody) else { panic!("`{nobody}` is found") };
            assert_eq!(problem.message, format!("there is no Bundle `{nobody}`"));
        }
        let verified = json!({"environments": {"prod": {"verifiedAt": "2026-04-09T10:00:00Z"}}});
        let mut all = all.clone();
        all[4].status = serde_json::from_value(verified).unwrap();
        let found = |environment| chosen(&all, "1.3.0", environment).unwrap().metadata.name.clone();
        assert_eq!(found("prod").as_deref(), Some("one-again"), "a rollback goes to what was verified there");
        assert_eq!(found("dev").as_deref(), Some("one"));
    }
}
