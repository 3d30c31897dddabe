//! `kardinal diff`: what two Bundles carry, side by side.

use std::collections::BTreeSet;

use kardinal_api::kardinal::Bundle;
use kardinal_promotion::intent::bundle_named;
use serde::Serialize;

use crate::args::DiffArguments;
use crate::failure::Failure;
use crate::output;
use crate::server::Server;

/// One thing that the two may differ in.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    changed: bool,
}

/// Prints the differences.
pub(crate) fn run(arguments: DiffArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let bundles: Vec<Bundle> = server.list(&kube::api::ListParams::default()).await?;
        let from = bundle_named(&bundles, &arguments.from).map_err(Failure::from)?;
        let to = bundle_named(&bundles, &arguments.to).map_err(Failure::from)?;
        let lines = compare(from, to);
        output::value(arguments.common.output, &lines, || {
            let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let rows = lines.iter().map(|line| {
                let mark = if line.changed { "*" } else { "" };
                vec![mark.to_owned(), line.what.clone(), cell(&line.from), cell(&line.to)]
            });
            let table = output::table(&["", "WHAT", &arguments.from, &arguments.to], rows.collect());
            match lines.iter().filter(|line| line.changed).count() {
                0 => format!("{table}\nboth carry the same\n"),
                count => format!("{table}\n{count} differ (*)\n"),
            }
        })
    })
}

fn compare(from: &Bundle, to: &Bundle) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: String, from: Option<String>, to: Option<String>| {
        if from.is_some() || to.is_some() {
            let changed = from != to;
            lines.push(Line { what, from, to, changed });
        }
    };
    line("type".to_owned(), Some(kind(from)), Some(kind(to)));
    let names: BTreeSet<&str> = [from, to]
        .iter()
        .flat_map(|one| &one.spec.artifacts.images)
        .map(|image| image.name.as_str())
        .collect();
    for name in names {
        line(
            format!("image {name}"),
            image(from, name, |one| Some(one.reference.clone())),
            image(to, name, |one| Some(one.reference.clone())),
        );
        line(
            format!("digest {name}"),
            image(from, name, |one| one.digest.clone()),
            image(to, name, |one| one.digest.clone()),
        );
    }
    let commit = |one: &Bundle| {
        one.spec.artifacts.git_commit.as_ref().map(|commit| format!("{}@{}", commit.repository, commit.sha))
    };
    line("git commit".to_owned(), commit(from), commit(to));
    let origin = |one: &Bundle| one.spec.provenance.clone().unwrap_or_default();
    let (a, b) = (origin(from), origin(to));
    line("source commit".to_owned(), a.commit_sha, b.commit_sha);
    line("CI run".to_owned(), a.ci_run_url, b.ci_run_url);
    line("author".to_owned(), a.author, b.author);
    let built = |at: Option<jiff::Timestamp>| at.map(|at| at.to_string());
    line("built".to_owned(), built(a.build_timestamp), built(b.build_timestamp));
    line("takes back".to_owned(), a.rollback_of, b.rollback_of);
    lines
}

fn kind(bundle: &Bundle) -> String {
    format!("{:?}", bundle.spec.kind()).to_lowercase()
}

fn image(
    bundle: &Bundle,
    name: &str,
    part: impl Fn(&kardinal_api::kardinal::ImageArtifact) -> Option<String>,
) -> Option<String> {
    bundle.spec.artifacts.images.iter().find(|image| image.name == name).and_then(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(images: &[(&str, &str)], author: Option<&str>) -> Bundle {
        let images: Vec<_> = images
            .iter()
            .map(|(name, reference)| serde_json::json!({"name": name, "reference": reference}))
            .collect();
        let spec = serde_json::json!({"artifacts": {"images": images}, "provenance": {"author": author}});
        Bundle::new("b", serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn what_only_one_carries_is_a_difference() {
        let lines = compare(
            &bundle(&[("api", "r/api:1"), ("web", "r/web:1")], None),
            &bundle(&[("web", "r/web:2")], Some("alice")),
        );
        let changed: Vec<&str> =
            lines.iter().filter(|line| line.changed).map(|line| line.what.as_str()).collect();
        assert_eq!(changed, ["image api", "image web", "author"]);
        let same = bundle(&[("api", "r/api:1")], None);
        assert!(compare(&same, &same).iter().all(|line| !line.changed));
    }
}
