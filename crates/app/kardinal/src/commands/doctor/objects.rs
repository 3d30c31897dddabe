//! Whether somebody works on the objects, and what waits for a person.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_policy::is_template;
use kardinal_promotion::explain::remedy;
use kube::Resource;
use kube::api::ListParams;

use super::Finding;
use crate::failure::Failure;
use crate::server::Server;

/// How long a controller may take to look at an object.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

pub(super) async fn check(server: &Server) -> Result<Vec<Finding>, Failure> {
    let everything = ListParams::default();
    let (pipelines, bundles, steps, gates, graphs) = futures::try_join!(
        server.list::<Pipeline>(&everything),
        server.list::<Bundle>(&everything),
        server.list::<PromotionStep>(&everything),
        server.list::<PolicyGate>(&everything),
        server.list::<Graph>(&everything),
    )?;
    let now = Timestamp::now();
    let mut looks = Vec::new();
    looks.extend(
        pipelines
            .iter()
            .map(|one| look(one, one.status.as_ref().and_then(|status| status.observed_generation))),
    );
    looks.extend(
        bundles
            .iter()
            .map(|one| look(one, one.status.as_ref().and_then(|status| status.observed_generation))),
    );
    looks.extend(
        steps.iter().map(|one| look(one, one.status.as_ref().and_then(|status| status.observed_generation))),
    );
    looks.extend(
        graphs.iter().map(|one| look(one, one.status.as_ref().and_then(|status| status.observed_generation))),
    );
    let instances = gates.iter().filter(|gate| !is_template(gate) && !kardinal_policy::is_freeze(gate));
    looks.extend(
        instances.map(|one| look(one, one.status.as_ref().and_then(|status| status.observed_generation))),
    );
    let mut findings = vec![alive(&looks, now)];
    findings.extend(steps.iter().filter_map(|step| blocked(step, &bundles)));
    Ok(findings)
}

/// An object, and whether its controller has looked at it as it is.
struct Look {
    what: String,
    since: Option<Timestamp>,
    current: bool,
}

fn look<K: Resource<DynamicType = ()>>(object: &K, observed: Option<i64>) -> Look {
    let metadata = object.meta();
    Look {
        what: format!("{} `{}`", K::kind(&()), metadata.name.as_deref().unwrap_or_default()),
        since: metadata.creation_timestamp.as_ref().map(|time| time.0),
        current: observed.is_some() && observed == metadata.generation,
    }
}

/// Nobody says "I am alive"; the objects that nobody looks at tell.
fn alive(looks: &[Look], now: Timestamp) -> Finding {
    let overdue =
        |look: &&Look| !look.current && look.since.is_some_and(|since| now.duration_since(since) > PATIENCE);
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
    let condition = status.conditions.iter().find(|one| one.type_ == "Blocked" && one.status == "True")?;
    let what = format!("step {}", step.metadata.name.as_deref().unwrap_or_default());
    let bundle = bundles.iter().find(|bundle| bundle.metadata.name.as_ref() == Some(&step.spec.bundle_ref));
    let remedy = bundle.and_then(|bundle| remedy(step, bundle));
    let remedy = remedy.unwrap_or_else(|| "mend it; the step goes on by itself".to_owned());
    Some(Finding::fail(what, condition.message.clone(), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Mark;

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
}
