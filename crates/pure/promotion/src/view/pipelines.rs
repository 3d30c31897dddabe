//! Pipelines with the version of each environment.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType};
use kardinal_object::{created_at, name_of, namespace_of};
use serde::Serialize;

use crate::explain::{Outcome, Present, Promotion, WaitOn, World, explain};
use crate::intent::{History, entry, meet};
use crate::pipeline::check;

/// Some Pipelines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipelines {
    /// One for each.
    pub rows: Vec<PipelineRow>,
    /// The first instant at which something in them changes although no object does.
    pub next_change: Option<Timestamp>,
}

/// One Pipeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PipelineRow {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether somebody holds it.
    pub paused: bool,
    /// Why it cannot promote anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The environments, each after those before it.
    pub environments: Vec<EnvironmentCell>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
}

/// What an environment has, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentCell {
    /// The environment.
    pub environment: String,
    /// The version that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The Bundle that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// When the environment was found healthy with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Timestamp>,
    /// Why nothing proves that the version runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
    /// What it has of other kinds: beside the configuration its image, and the other way round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Also>,
    /// What comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming: Option<Incoming>,
}

/// Something else that an environment has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Also {
    /// The version.
    pub version: String,
    /// The Bundle that brought it.
    pub bundle: String,
}

/// A version at the door of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Incoming {
    /// The version.
    pub version: String,
    /// The Bundle that brings it.
    pub bundle: String,
    /// Where it stands, in one word.
    pub outcome: Outcome,
    /// The same in one line.
    pub result: String,
}

/// All Pipelines that were seen, in the same order.
pub fn pipelines(worlds: &[World<'_>]) -> Pipelines {
    let mut all = Pipelines::default();
    for world in worlds {
        let explanation = explain(world, None);
        all.next_change = [all.next_change, explanation.next_change].into_iter().flatten().min();
        all.rows.push(row(world, &explanation.environments));
    }
    all
}

fn row(world: &World<'_>, promotions: &[Promotion]) -> PipelineRow {
    let frozen = world.gates.iter().any(kardinal_policy::is_freeze);
    let metadata = &world.pipeline.metadata;
    PipelineRow {
        name: name_of(metadata).to_owned(),
        namespace: namespace_of(metadata).to_owned(),
        paused: frozen || world.pipeline.spec.paused(),
        error: check(world.pipeline).err().map(|problem| problem.to_string()),
        environments: promotions.iter().map(|promotion| cell(world, promotion)).collect(),
        created: created_at(metadata),
    }
}

fn cell(world: &World<'_>, promotion: &Promotion) -> EnvironmentCell {
    let waits_elsewhere = promotion.waits.iter().any(|wait| wait.on == WaitOn::Upstream);
    let comes = !matches!(promotion.outcome, Outcome::Verified | Outcome::Idle) && !waits_elsewhere;
    let named = |name: &str| world.bundles.iter().find(|one| name_of(&one.metadata) == name);
    let incoming = promotion.bundle.as_deref().filter(|_| comes).and_then(named);
    // What has failed and is in all the same.
    let failed = promotion
        .has
        .iter()
        .find(|one| promotion.outcome == Outcome::Failed && promotion.bundle.as_ref() == Some(&one.bundle));
    let current = match incoming {
        _ if failed.is_some() => failed.cloned(),
        Some(bundle) => beside(world, promotion, bundle),
        None => promotion.has.first().cloned(),
    };
    let kind = incoming.map(|bundle| bundle.spec.kind()).or(current.as_ref().map(|one| one.kind));
    let others = promotion.has.iter().filter(|one| kind.is_some_and(|kind| !meet(one.kind, kind)));
    EnvironmentCell {
        environment: promotion.environment.clone(),
        also: others.map(|one| Also { version: one.version.clone(), bundle: one.bundle.clone() }).collect(),
        version: current.as_ref().map(|one| one.version.clone()),
        bundle: current.as_ref().map(|one| one.bundle.clone()),
        verified_at: current.as_ref().and_then(|one| one.verified_at),
        not_proven: current.and_then(|one| one.not_proven),
        incoming: comes.then(|| Incoming {
            version: promotion.version.clone().unwrap_or_default(),
            bundle: promotion.bundle.clone().unwrap_or_default(),
            outcome: promotion.outcome,
            result: promotion.result.clone(),
        }),
    }
}

/// What is told beside a Bundle that comes: what the environment has of the same kind. A version that has come and is not
/// verified is told as one that comes, so what was there before stands beside it.
fn beside(world: &World<'_>, promotion: &Promotion, coming: &Bundle) -> Option<Present> {
    let kind = coming.spec.kind();
    let here = promotion.has.iter().find(|one| one.kind == kind || one.kind == BundleType::Mixed);
    if here.is_none_or(|one| Some(&one.bundle) != coming.metadata.name.as_ref()) {
        return here.cloned();
    }
    let bundles: Vec<&Bundle> = world.bundles.iter().collect();
    let before = History::of(&bundles, &promotion.environment, kind).before(coming)?;
    let entry = entry(before, &promotion.environment);
    Some(Present {
        kind,
        version: crate::gate_context::version(&before.spec),
        bundle: name_of(&before.metadata).to_owned(),
        deleted: false,
        verified_at: entry.and_then(|entry| entry.verified_at),
        not_proven: entry.and_then(|entry| entry.evidence.as_ref()?.not_proven.clone()),
    })
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::{Pipeline, PolicyGate};
    use serde_json::{Value, json};

    use super::*;

    fn pipeline(environments: Value) -> Pipeline {
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {"git": {"url": "u"}, "environments": environments},
        }))
        .unwrap()
    }

    fn bundle(name: &str, tag: &str, minute: u8, status: Value) -> Bundle {
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": "default", "labels": {"kardinal.io/pipeline": "my-app"},
                "creationTimestamp": format!("2026-04-09T10:{minute:02}:00Z")},
            "spec": {"artifacts": {"images": [{"name": "a", "reference": format!("r/a:{tag}")}]}},
            "status": status,
        }))
        .unwrap()
    }

    fn world<'a>(pipeline: &'a Pipeline, bundles: &'a [Bundle], gates: &'a [PolicyGate]) -> World<'a> {
        let now = "2026-04-09T10:05:00Z".parse().unwrap();
        World { bundles, gates, ..World::of(pipeline, now) }
    }

    /// The versions that the environment `prod` has and gets.
    fn told(bundles: &[Bundle]) -> (Option<String>, Option<(String, &'static str)>) {
        let pipeline = pipeline(json!([{"name": "prod"}]));
        let mut all = pipelines(&[world(&pipeline, bundles, &[])]);
        let cell = all.rows.remove(0).environments.remove(0);
        (cell.version, cell.incoming.map(|one| (one.version, one.outcome.as_str())))
    }

    #[test]
    fn a_rollback_shows_the_version_that_it_takes_back() {
        let good = json!({"state": "Verified", "promotedAt": "2026-04-09T10:00:10Z", "verifiedAt": "2026-04-09T10:00:20Z"});
        let bad = json!({"state": "Failed", "promotedAt": "2026-04-09T10:01:10Z"});
        let old = bundle("old", "10.0", 0, json!({"phase": "Verified", "environments": {"prod": good}}));
        let new = |record: &Value| {
            bundle("new", "11.0", 1, json!({"phase": "Failed", "environments": {"prod": record}}))
        };
        let some = |text: &str| Some(text.to_owned());
        let failed = Some(("11.0".to_owned(), "FAILED"));
        assert_eq!(told(&[old.clone(), new(&bad)]), (some("11.0"), failed.clone()), "it is in");
        let never = json!({"state": "Failed"});
        assert_eq!(told(&[old.clone(), new(&never)]), (some("10.0"), failed), "it never came in");
        for entry in
            [json!({}), json!({"prod": {"state": "HealthChecking", "promotedAt": "2026-04-09T10:02:10Z"}})]
        {
            let mut back = bundle("back", "10.0", 2, json!({"phase": "Promoting", "environments": entry}));
            back.spec.provenance = serde_json::from_value(json!({"rollbackOf": "new"})).unwrap();
            let (has, comes) = told(&[old.clone(), new(&bad), back]);
            assert_eq!((has, comes.map(|(version, _)| version)), (some("11.0"), some("10.0")));
        }
    }

    #[test]
    fn what_is_verified_or_has_never_come_has_nothing_beside_it() {
        assert_eq!(told(&[]), (None, None));
        let good = json!({"state": "Verified", "verifiedAt": "2026-04-09T10:00:20Z"});
        let there = bundle("old", "10.0", 0, json!({"phase": "Verified", "environments": {"prod": good}}));
        assert_eq!(told(&[there]), (Some("10.0".to_owned()), None));
    }

    #[test]
    fn a_version_comes_only_to_the_door_that_it_stands_at() {
        let pipeline = pipeline(json!([{"name": "dev"}, {"name": "prod"}]));
        let bundles = [bundle("new", "11.0", 1, json!({"phase": "Promoting"}))];
        let all = pipelines(&[world(&pipeline, &bundles, &[])]);
        let cells = &all.rows[0].environments;
        let comes: Vec<(&str, bool)> =
            cells.iter().map(|one| (one.environment.as_str(), one.incoming.is_some())).collect();
        assert_eq!(comes, [("dev", true), ("prod", false)]);
    }

    #[test]
    fn while_configuration_comes_the_image_is_still_told() {
        let good = json!({"state": "Verified", "verifiedAt": "2026-04-09T10:00:20Z"});
        let image = bundle("image", "10.0", 0, json!({"phase": "Verified", "environments": {"prod": good}}));
        let mut config = bundle(
            "config",
            "x",
            1,
            json!({"phase": "Promoting", "environments": {"prod": {"state": "Promoting"}}}),
        );
        config.spec = serde_json::from_value(json!({
            "type": "config", "artifacts": {"gitCommit": {"repository": "u", "sha": "4f1c2ab"}},
        }))
        .unwrap();
        let pipeline = pipeline(json!([{"name": "prod"}]));
        let all = pipelines(&[world(&pipeline, &[image, config], &[])]);
        let cell = &all.rows[0].environments[0];
        assert_eq!(cell.version, None, "it has no configuration yet");
        assert_eq!(cell.also, [Also { version: "10.0".to_owned(), bundle: "image".to_owned() }]);
        assert_eq!(cell.incoming.as_ref().map(|one| one.bundle.as_str()), Some("config"));
    }

    #[test]
    fn what_holds_a_pipeline_and_what_is_wrong_with_it_is_told() {
        let row = |pipeline: &Pipeline, gates: &[PolicyGate]| {
            pipelines(&[world(pipeline, &[], gates)]).rows.remove(0)
        };
        let mut good = pipeline(json!([{"name": "prod"}]));
        let free = row(&good, &[]);
        assert_eq!((free.paused, free.error, free.name.as_str()), (false, None, "my-app"));
        assert!(row(&good, &[crate::intent::pause(&good, "alice")]).paused);
        good.spec.paused = Some(true);
        assert!(row(&good, &[]).paused);
        let wrong = row(&pipeline(json!([{"name": "prod", "dependsOn": ["x"]}])), &[]);
        assert!(wrong.error.as_deref().is_some_and(|error| error.contains('x')), "{:?}", wrong.error);
        assert_eq!(pipelines(&[]), Pipelines::default());
    }
}
