//! Steps and gates with where they stand.

use jiff::Timestamp;
use kardinal_api::kardinal::{BUNDLE_LABEL, PolicyGate, PromotionStep};
use kardinal_object::{created_at, label_of};
use kardinal_planner::names::label_value;
use serde::Serialize;

use crate::explain::{Outcome, Promotion, World, explain};
use crate::intent::{Error, bundle_named};

/// The steps and gates of the Bundles that the environments of a Pipeline are about.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<'a> {
    /// The objects.
    pub objects: StepObjects<'a>,
    /// What is told of them. Empty: nothing is on its way.
    pub rows: Vec<StepRow>,
    /// The first instant at which something in them changes although no object does.
    pub next_change: Option<Timestamp>,
}

/// The objects themselves, for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepObjects<'a> {
    /// The steps.
    pub steps: Vec<&'a PromotionStep>,
    /// The gate instances.
    pub gates: Vec<&'a PolicyGate>,
}

/// A step, or a gate in front of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRow {
    /// The environment.
    pub environment: String,
    /// Which of the two it is.
    pub kind: RowKind,
    /// Its name. Absent: there is no such object yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it stands, in one word. Absent: it has not begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// When a step was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// What is said about it.
    pub message: String,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowKind {
    /// A gate.
    Gate,
    /// A step.
    Step,
}

impl RowKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RowKind::Gate => "gate",
            RowKind::Step => "step",
        }
    }
}

/// The steps and gates of a Pipeline, or those of one of its Bundles.
pub fn steps<'a>(world: &World<'a>, bundle: Option<&str>) -> Result<Steps<'a>, Error> {
    let mut world = *world;
    if let Some(name) = bundle {
        world.bundles = std::slice::from_ref(bundle_named(world.bundles, name)?);
    }
    let explanation = explain(&world, None);
    let promotions = &explanation.environments;
    let rows = match promotions.iter().any(|promotion| promotion.bundle.is_some()) {
        true => promotions.iter().flat_map(|promotion| rows(&world, promotion)).collect(),
        false => Vec::new(),
    };
    Ok(Steps { objects: objects(&world, promotions), rows, next_change: explanation.next_change })
}

/// The steps and gate instances of the Bundles that the environments are about.
fn objects<'a>(world: &World<'a>, promotions: &[Promotion]) -> StepObjects<'a> {
    let bundles: Vec<&str> = promotions.iter().filter_map(|one| one.bundle.as_deref()).collect();
    let steps = world.steps.iter().filter(|step| bundles.contains(&step.spec.bundle_ref.as_str()));
    let gates = world.gates.iter().filter(|gate| {
        let of = label_of(&gate.metadata, BUNDLE_LABEL);
        of.is_some_and(|of| bundles.iter().any(|name| label_value(name) == of))
    });
    StepObjects { steps: steps.collect(), gates: gates.collect() }
}

/// The gates of an environment, then its step.
fn rows(world: &World<'_>, promotion: &Promotion) -> Vec<StepRow> {
    let gates = promotion.gates.iter().map(|gate| StepRow {
        environment: promotion.environment.clone(),
        kind: RowKind::Gate,
        name: Some(gate.name.clone()),
        state: Some(gate.verdict.as_str()),
        created: None,
        message: gate.reason.clone(),
    });
    gates.chain([step_row(world, promotion)]).collect()
}

fn step_row(world: &World<'_>, promotion: &Promotion) -> StepRow {
    let is_ours = |step: &&PromotionStep| {
        step.spec.environment == promotion.environment
            && promotion.bundle.as_deref() == Some(&step.spec.bundle_ref)
    };
    let step = world.steps.iter().find(is_ours);
    let said = step.and_then(|step| step.status.as_ref()?.message.clone());
    // While it waits, the step may not have seen yet what it waits for.
    let said = match promotion.outcome {
        Outcome::Verified | Outcome::Failed => said,
        _ => said.filter(|_| promotion.waits.is_empty()),
    };
    StepRow {
        environment: promotion.environment.clone(),
        kind: RowKind::Step,
        name: step.and_then(|step| step.metadata.name.clone()),
        state: promotion.state.map(|state| state.as_str()),
        created: step.and_then(|step| created_at(&step.metadata)),
        message: said.unwrap_or_else(|| promotion.result.clone()),
    }
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::{Bundle, Pipeline};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn bundle(name: &str, environments: Value) -> Bundle {
        read(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"kardinal.io/pipeline": "my-app"}},
            "spec": {"artifacts": {"images": [{"name": "a", "reference": "r/a:1.0.0"}]}},
            "status": {"phase": "Promoting", "environments": environments},
        }))
    }

    fn step(bundle: &str, status: Value) -> PromotionStep {
        read(json!({
            "metadata": {"name": format!("{bundle}-dev"), "namespace": "default",
                "creationTimestamp": "2026-04-09T10:00:00Z"},
            "spec": {"pipeline": "my-app", "bundleRef": bundle, "environment": "dev"},
            "status": status,
        }))
    }

    fn gate(bundle: &str) -> PolicyGate {
        read(json!({
            "metadata": {"name": format!("{bundle}-dev-soak"), "namespace": "default", "labels": {
                "kardinal.io/pipeline": "my-app", "kardinal.io/bundle": bundle, "kardinal.io/environment": "dev",
                "kardinal.io/gate-template": "soak",
            }},
            "spec": {"expression": "false"},
        }))
    }

    fn pipeline() -> Pipeline {
        read(json!({
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {"git": {"url": "u"}, "environments": [{"name": "dev"}, {"name": "prod"}]},
        }))
    }

    #[test]
    fn gates_come_before_the_step_that_they_hold() {
        let pipeline = pipeline();
        let bundles = [bundle("one", json!({}))];
        let steps = [step("one", json!({"state": "Pending"})), step("other", json!({}))];
        let gates = [gate("one"), gate("other")];
        let world = World {
            bundles: &bundles,
            steps: &steps,
            gates: &gates,
            ..World::of(&pipeline, "2026-04-09T10:05:00Z".parse().unwrap())
        };
        let seen = super::steps(&world, Some("one")).unwrap();
        let rows: Vec<(&str, &str, Option<&str>, Option<&str>)> = seen
            .rows
            .iter()
            .map(|row| (row.environment.as_str(), row.kind.as_str(), row.name.as_deref(), row.state))
            .collect();
        assert_eq!(
            rows,
            [
                ("dev", "gate", Some("soak"), Some("FAIL")),
                ("dev", "step", Some("one-dev"), Some("Pending")),
                ("prod", "step", None, None),
            ]
        );
        let created = seen.rows[1].created.map(|at| at.to_string());
        assert_eq!(created.as_deref(), Some("2026-04-09T10:00:00Z"));
        assert_eq!(seen.objects, StepObjects { steps: vec![&steps[0]], gates: vec![&gates[0]] });
    }

    #[test]
    fn a_step_that_is_over_says_what_came_of_it() {
        let pipeline = pipeline();
        for (state, said, wanted) in [
            ("Verified", Some("all is well"), "all is well"),
            ("Failed", Some("the push was refused"), "the push was refused"),
            ("Failed", None, "FAILED: the promotion has failed"),
            ("WaitingForMerge", Some("an older message"), "WAITING for"),
        ] {
            let record = json!({"dev": {"state": state, "verifiedAt": (state == "Verified").then_some("2026-04-09T10:01:00Z")}});
            let (bundles, steps) =
                ([bundle("one", record)], [step("one", json!({"state": state, "message": said}))]);
            let world = World {
                bundles: &bundles,
                steps: &steps,
                ..World::of(&pipeline, "2026-04-09T10:05:00Z".parse().unwrap())
            };
            let seen = super::steps(&world, None).unwrap();
            let message = &seen.rows[0].message;
            assert!(message.starts_with(wanted), "{state}: {message}");
        }
    }

    #[test]
    fn nothing_on_its_way_is_no_rows_and_an_unknown_bundle_names_those_that_exist() {
        let pipeline = pipeline();
        let bundles = [bundle("one", json!({}))];
        let mut world = World::of(&pipeline, "2026-04-09T10:05:00Z".parse().unwrap());
        let seen = steps(&world, None).unwrap();
        assert_eq!((seen.rows, seen.objects), (Vec::new(), StepObjects::default()));
        world.bundles = &bundles;
        let Err(Error::NotFound(problem)) = steps(&world, Some("x")) else { panic!("`x` is found") };
        assert_eq!(problem.to_string(), "bundle: there is no Bundle `x` (the newest are `one`)");
    }
}
