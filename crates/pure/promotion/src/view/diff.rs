//! What two Bundles carry, side by side.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, ImageArtifact, Provenance};
use serde::Serialize;

use crate::intent::{Error, bundle_named};

/// One thing that two Bundles may differ in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// What it is, such as `image api`.
    pub what: String,
    /// What the first one has. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What the second one has. Absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether the two differ in it.
    pub changed: bool,
}

/// What two Bundles of some carry, by their names.
pub fn diff(bundles: &[Bundle], from: &str, to: &str) -> Result<Vec<Difference>, Error> {
    Ok(compare(bundle_named(bundles, from)?, bundle_named(bundles, to)?))
}

/// Everything that at least one of two Bundles has.
pub fn compare(from: &Bundle, to: &Bundle) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut add = |what: String, from: Option<String>, to: Option<String>| {
        if from.is_some() || to.is_some() {
            let changed = from != to;
            differences.push(Difference { what, from, to, changed });
        }
    };
    let kind = |bundle: &Bundle| Some(bundle.spec.kind().as_str().to_owned());
    add("type".to_owned(), kind(from), kind(to));
    let both = [from, to];
    let images = both.iter().flat_map(|one| &one.spec.artifacts.images);
    for name in images.map(|image| image.name.as_str()).collect::<BTreeSet<&str>>() {
        let (a, b) = (image(from, name), image(to, name));
        let reference = |image: Option<&ImageArtifact>| Some(image?.reference.clone());
        add(format!("image {name}"), reference(a), reference(b));
        let digest = |image: Option<&ImageArtifact>| image?.digest.clone();
        add(format!("digest {name}"), digest(a), digest(b));
    }
    add("git commit".to_owned(), commit(from), commit(to));
    let origin = |one: &Bundle| -> Provenance { one.spec.provenance.clone().unwrap_or_default() };
    let (a, b) = (origin(from), origin(to));
    add("source commit".to_owned(), a.commit_sha, b.commit_sha);
    add("CI run".to_owned(), a.ci_run_url, b.ci_run_url);
    add("author".to_owned(), a.author, b.author);
    let built = |at: Option<Timestamp>| at.map(|at| at.to_string());
    add("built".to_owned(), built(a.build_timestamp), built(b.build_timestamp));
    add("takes back".to_owned(), a.rollback_of, b.rollback_of);
    differences
}

fn image<'a>(bundle: &'a Bundle, name: &str) -> Option<&'a ImageArtifact> {
    bundle.spec.artifacts.images.iter().find(|image| image.name == name)
}

fn commit(bundle: &Bundle) -> Option<String> {
    let commit = bundle.spec.artifacts.git_commit.as_ref()?;
    Some(format!("{}@{}", commit.repository, commit.sha))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(name: &str, spec: Value) -> Bundle {
        Bundle::new(name, serde_json::from_value(spec).unwrap())
    }

    fn images(images: &[(&str, &str)]) -> Value {
        images.iter().map(|(name, reference)| json!({"name": name, "reference": reference})).collect()
    }

    fn changed(from: Value, to: Value) -> Vec<String> {
        let differences = compare(&bundle("from", from), &bundle("to", to));
        differences.into_iter().filter(|one| one.changed).map(|one| one.what).collect()
    }

    #[test]
    fn what_only_one_carries_is_a_difference() {
        let one = json!({"artifacts": {"images": images(&[("api", "r/api:1"), ("web", "r/web:1")])}});
        let other = json!({
            "artifacts": {"images": images(&[("web", "r/web:2")])}, "provenance": {"author": "alice"},
        });
        assert_eq!(changed(one.clone(), other), ["image api", "image web", "author"]);
        assert!(changed(one.clone(), one).is_empty());
    }

    #[test]
    fn everything_that_a_bundle_carries_is_compared() {
        let sha = |digit: &str| format!("sha256:{}", digit.repeat(64));
        let one = |digit: &str| {
            json!({
                "artifacts": {
                    "images": [{"name": "api", "reference": format!("r/api:{digit}"), "digest": sha(digit)}],
                    "gitCommit": {"repository": "u", "sha": digit.repeat(7)},
                },
                "provenance": {
                    "commitSHA": digit, "ciRunURL": format!("https://ci/{digit}"), "author": digit,
                    "buildTimestamp": format!("2026-04-09T10:00:0{digit}Z"), "rollbackOf": digit,
                },
            })
        };
        let all = [
            "image api",
            "digest api",
            "git commit",
            "source commit",
            "CI run",
            "author",
            "built",
            "takes back",
        ];
        assert_eq!(changed(one("1"), one("2")), all);
        let nothing = json!({"artifacts": {}});
        let answer = compare(&bundle("from", nothing.clone()), &bundle("to", nothing));
        let kind = Some("image".to_owned());
        let only = Difference { what: "type".to_owned(), from: kind.clone(), to: kind, changed: false };
        assert_eq!(answer, [only]);
    }

    #[test]
    fn who_names_no_bundle_is_told_those_that_exist() {
        let all = [bundle("one", json!({"artifacts": {}})), bundle("two", json!({"artifacts": {}}))];
        assert_eq!(diff(&all, "one", "two").unwrap().len(), 1);
        for (from, to) in [("one", "x"), ("x", "one")] {
            let Err(Error::NotFound(problem)) = diff(&all, from, to) else { panic!("`x` is found") };
            let message = "bundle: there is no Bundle `x` (the newest are `one` and `two`)";
            assert_eq!(problem.to_string(), message);
        }
    }
}
