//! Whether somebody works on the objects, and what waits for a person.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_object::{created_at, name_of};
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::doctor::Finding;
use kardinal_policy::{is_freeze, is_template};

use crate::explain::remedy;

/// How long a controller may take to look at an object.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// The objects of a namespace that controllers look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Objects<'a> {
    /// Its Pipelines.
    pub pipelines: &'a [Pipeline],
    /// Its Bundles.
    pub bundles: &'a [Bundle],
    /// Its steps.
    pub steps: &'a [PromotionStep],
    /// Its gates.
    pub gates: &'a [PolicyGate],
    /// Its Graphs.
    pub graphs: &'a [Graph],
}

/// What is to be said of the objects of a namespace.
pub fn object_findings(objects: &Objects<'_>, now: Timestamp) -> Vec<Finding> {
    let mut findings = vec![alive(&looks(objects), now)];
    findings.extend(objects.steps.iter().filter_map(|step| blocked(step, objects.bundles)));
    findings
}

/// An object, and whether its controller has looked at it as it is.
struct Look {
    what: String,
    since: Option<Timestamp>,
    current: bool,
}

fn looks(objects: &Objects<'_>) -> Vec<Look> {
    let Objects { pipelines, bundles, steps, gates, graphs } = objects;
    let mut looks = Vec::new();
    let mut add = |kind: &str, metadata: &ObjectMeta, observed: Option<i64>| {
        looks.push(Look {
            what: format!("{kind} `{}`", name_of(metadata)),
            since: created_at(metadata),
            current: observed.is_some() && observed == metadata.generation,
        });
    };
    for one in *pipelines {
        add("Pipeline", &one.metadata, one.status.as_ref().and_then(|status| status.observed_generation));
    }
    for one in *bundles {
        add("Bundle", &one.metadata, one.status.as_ref().and_then(|status| status.observed_generation));
    }
    for one in *steps {
        add(
            "PromotionStep",
            &one.metadata,
            one.status.as_ref().and_then(|status| status.observed_generation),
        );
    }
    for one in *graphs {
        add("Graph", &one.metadata, one.status.as_ref().and_then(|status| status.observed_generation));
    }
    for one in gates.iter().filter(|gate| !is_template(gate) && !is_freeze(gate)) {
        add("PolicyGate", &one.metadata, one.status.as_ref().and_then(|status| status.observed_generation));
    }
    looks
}

/// Nobody says "I am alive"; the objects that nobody looks at tell.
fn alive(looks: &[Look], now: Timestamp) -> Finding {
    let overdue = |look: &&Look| {
        !look.current && look.since.is_some_and(|since| now.duration_since(since) > OVERDUE_AFTER)
    };
    let left: Vec<&Look> = looks.iter().filter(overdue).collect();
    let remedy = "start them with `kardinal up` or `kardinal controller`, and look at their log";
    match (looks.len(), left.first()) {
        (0, _) => Finding::warn(
            "controllers",
            "nothing exists that would show whether they run",
            "create a Pipeline",
        ),
        (all, None) => match looks.iter().filter(|look| look.current).count() {
            0 => Finding::warn(
                "controllers",
                "all objects are too new to tell whether they run",
                "ask again in a minute",
            ),
            current if current == all => {
                Finding::ok("controllers", format!("have looked at all {all} objects"))
            }
            current => Finding::ok(
                "controllers",
                format!("have looked at {current} of {all} objects, the others are new"),
            ),
        },
        (all, Some(first)) => {
            let detail =
                format!("have not looked at {} of {all} objects, {} among them", left.len(), first.what);
            Finding::fail("controllers", detail, remedy)
        }
    }
}

fn blocked(step: &PromotionStep, bundles: &[Bundle]) -> Option<Finding> {
    let status = step.status.as_ref()?;
    let condition = condition::find(&status.conditions, "Blocked")?;
    if !condition::is(condition, Truth::True) {
        return None;
    }
    let what = format!("step {}", name_of(&step.metadata));
    let bundle = bundles.iter().find(|bundle| name_of(&bundle.metadata) == step.spec.bundle_ref);
    let remedy = bundle.and_then(|bundle| remedy(step, bundle));
    let remedy = remedy.unwrap_or_else(|| "mend it; the step goes on by itself".to_owned());
    Some(Finding::fail(what, condition.message.as_str(), remedy))
}

#[cfg(test)]
mod tests {
    use kardinal_api::kardinal::BundleSpec;
    use kardinal_planner::doctor::Mark;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_overdue_tells_that_nobody_works() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let look = |seconds: i64, current: bool| Look {
            what: "Bundle `b`".to_owned(),
            since: Some(now - SignedDuration::from_secs(seconds)),
            current,
        };
        assert_eq!(alive(&[], now).mark, Mark::Warn);
        assert_eq!(alive(&[look(5, false), look(500, true)], now).mark, Mark::Ok);
        assert_eq!(alive(&[look(5, false)], now).mark, Mark::Warn);
        let dead = alive(&[look(500, false)], now);
        assert_eq!(dead.mark, Mark::Fail);
        assert!(dead.detail.contains("Bundle `b`"), "{}", dead.detail);
    }

    #[test]
    fn only_what_a_controller_looks_at_tells_whether_one_works() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let gate = |labels: serde_json::Value| -> PolicyGate {
            serde_json::from_value(json!({
                "metadata": {"name": "g", "labels": labels, "creationTimestamp": "2026-04-09T09:00:00Z"},
                "spec": {"expression": "true"},
            }))
            .unwrap()
        };
        let template = gate(json!({"kardinal.io/applies-to": "prod"}));
        let pause = gate(json!({"kardinal.io/freeze": "true"}));
        let objects = Objects { gates: &[template, pause], ..Objects::default() };
        assert_eq!(object_findings(&objects, now)[0].mark, Mark::Warn, "they belong to nobody");
        let instance = gate(json!({"kardinal.io/bundle": "b", "kardinal.io/gate-template": "g"}));
        let objects = Objects { gates: &[instance], ..Objects::default() };
        let found = object_findings(&objects, now);
        assert_eq!(found[0].detail, "have not looked at 1 of 1 objects, PolicyGate `g` among them");
    }

    #[test]
    fn a_blocked_step_is_told_with_its_remedy() {
        let now: Timestamp = "2026-04-09T10:00:00Z".parse().unwrap();
        let step = |blocked: &str| -> PromotionStep {
            serde_json::from_value(json!({
                "metadata": {"name": "s", "generation": 1},
                "spec": {"pipeline": "p", "bundleRef": "b", "environment": "prod"},
                "status": {"observedGeneration": 1, "conditions": [{
                    "type": "Blocked", "status": blocked, "reason": "NotLetIn", "message": "the push was refused: bad token",
                    "lastTransitionTime": "2026-04-09T10:00:00Z",
                }]},
            }))
            .unwrap()
        };
        let steps = [step("True"), step("False")];
        let objects = Objects { steps: &steps, ..Objects::default() };
        let found = object_findings(&objects, now);
        assert_eq!((found.len(), found[0].mark), (2, Mark::Ok));
        assert_eq!((found[1].mark, found[1].what.as_str()), (Mark::Fail, "step s"));
        assert_eq!(found[1].remedy.as_deref(), Some("mend it; the step goes on by itself"));
        let bundles = [Bundle::new("b", BundleSpec::default())];
        let found = object_findings(&Objects { bundles: &bundles, ..objects }, now);
        let remedy = found.iter().find_map(|one| one.remedy.as_deref());
        assert!(remedy.is_some_and(|remedy| remedy.contains("spec.git.secretRef")), "{found:?}");
    }
}
