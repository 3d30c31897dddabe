//! Steps and gates with where they stand.

use jiff::Timestamp;
use kardinal_api::kardinal::{BUNDLE_LABEL, PolicyGate, PromotionStep};
use kardinal_planner::names::label_value;
use kardinal_promotion::explain::{Explanation, GateVerdict, Outcome, Promotion};
use kardinal_promotion::intent::bundle_named;
use serde::Serialize;

use super::super::explain::of_pipeline;
use crate::args::Common;
use crate::failure::Failure;
use crate::output;
use crate::server::{Seen, Server};
use crate::watching::follow;

/// The objects themselves, for scripts.
#[derive(Serialize)]
struct Objects {
    steps: Vec<PromotionStep>,
    gates: Vec<PolicyGate>,
}

pub(super) async fn run(
    pipeline: Option<&str>,
    bundle: Option<&str>,
    watch: bool,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let pipeline = &server.this_or_the_only(pipeline).await?;
    let look = async || {
        let seen = server.seen(pipeline, policy_namespaces).await?;
        shown(seen, pipeline, bundle, common)
    };
    if !watch {
        output::text(&look().await?.0);
        return Ok(());
    }
    follow(of_pipeline(&server, pipeline, policy_namespaces), look).await
}

fn shown(
    mut seen: Seen,
    pipeline: &str,
    bundle: Option<&str>,
    common: &Common,
) -> anyhow::Result<(String, Option<Timestamp>)> {
    if let Some(name) = bundle {
        let wanted = bundle_named(&seen.bundles, name).map_err(Failure::from)?.clone();
        seen.bundles = vec![wanted];
    }
    let now = Timestamp::now();
    let explanation = seen.explain(None, now);
    let objects = objects(&seen, &explanation);
    let text = output::rendered(common.output, &objects, || {
        match explanation.environments.iter().any(|one| one.bundle.is_some()) {
            true => table(&seen, &explanation, now),
            false => format!("nothing is on its way through `{pipeline}`\n"),
        }
    })?;
    Ok((text, explanation.next_change))
}

/// The steps and gate instances of the Bundles that the explanation is about.
fn objects(seen: &Seen, explanation: &Explanation) -> Objects {
    let bundles: Vec<&str> =
        explanation.environments.iter().filter_map(|one| one.bundle.as_deref()).collect();
    let steps = seen.steps.iter().filter(|step| bundles.contains(&step.spec.bundle_ref.as_str()));
    let gates = seen.gates.iter().filter(|gate| {
        let of = gate.metadata.labels.as_ref().and_then(|labels| labels.get(BUNDLE_LABEL));
        of.is_some_and(|of| bundles.iter().any(|name| label_value(name) == *of))
    });
    Objects { steps: steps.cloned().collect(), gates: gates.cloned().collect() }
}

fn table(seen: &Seen, explanation: &Explanation, now: Timestamp) -> String {
    let mut rows = Vec::new();
    for promotion in &explanation.environments {
        for gate in &promotion.gates {
            let word = match gate.verdict {
                GateVerdict::Pass => "PASS",
                GateVerdict::Fail => "FAIL",
                GateVerdict::Pending => "PENDING",
            };
            rows.push(row(promotion, "gate", &gate.name, word, "", &gate.reason));
        }
        rows.push(step_row(seen, promotion, now));
    }
    output::table(&["ENVIRONMENT", "KIND", "NAME", "STATE", "AGE", "MESSAGE"], rows)
}

fn step_row(seen: &Seen, promotion: &Promotion, now: Timestamp) -> Vec<String> {
    let is_ours = |step: &&PromotionStep| {
        step.spec.environment == promotion.environment
            && promotion.bundle.as_deref() == Some(&step.spec.bundle_ref)
    };
    let step = seen.steps.iter().find(is_ours);
    let name = step.and_then(|step| step.metadata.name.clone()).unwrap_or_else(|| "-".to_owned());
    let age =
        output::age(step.and_then(|step| step.metadata.creation_timestamp.as_ref()).map(|time| time.0), now);
    let said = step.and_then(|step| step.status.as_ref()?.message.clone());
    let said = match promotion.outcome {
        Outcome::Verified | Outcome::Failed => said.unwrap_or_else(|| promotion.result.clone()),
        _ => said.filter(|_| promotion.waits.is_empty()).unwrap_or_else(|| promotion.result.clone()),
    };
    let state = promotion.state.map_or_else(|| "-".to_owned(), |state| format!("{state:?}"));
    row(promotion, "step", &name, &state, &age, &said)
}

fn row(promotion: &Promotion, kind: &str, name: &str, state: &str, age: &str, said: &str) -> Vec<String> {
    [&promotion.environment, kind, name, state, age, said].map(|cell: &str| cell.to_owned()).to_vec()
}
