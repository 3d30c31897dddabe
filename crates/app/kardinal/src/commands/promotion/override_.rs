//! `kardinal override`: lets the Bundles on their way pass a gate for a while.

use jiff::Timestamp;
use kardinal_api::GoDuration;
use kardinal_api::kardinal::{BUNDLE_LABEL, Bundle, ENVIRONMENT_LABEL, PIPELINE_LABEL, PolicyGate};
use kardinal_object::label_of;
use kardinal_planner::names::label_value;
use kardinal_promotion::bundle::{GATE_TEMPLATE_LABEL, is_finished, template_of};
use kardinal_promotion::intent::{Override, overridden_in, override_gate, place_of};
use kube::Api;
use kube::api::ListParams;

use crate::args::OverrideArguments;
use crate::failure::{Failure, Kind};
use crate::server::{Seen, Server, about, check_environment, refused};
use crate::{output, who};
use kardinal_planner::problem::listed;

/// Adds the override to every instance of the gate that a Bundle on its way waits at; for a gate of the organisation to its
/// template, narrowed to that Bundle, because only there it counts.
pub(crate) fn run(arguments: OverrideArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let now = Timestamp::now();
        let expires = expiry(&arguments.expires_in, now)?;
        let server = Server::connect(&arguments.common.server).await?;
        let seen = server.seen(&arguments.pipeline, &[]).await?;
        if let Some(environment) = &arguments.env {
            check_environment(&seen.pipeline, environment)?;
        }
        let who = who::name(&arguments.who);
        let mut changed = Vec::new();
        for gate in instances(&seen, &arguments)? {
            let stage = arguments.env.as_deref().or_else(|| label_of(&gate.metadata, ENVIRONMENT_LABEL));
            let place = stage.and_then(|stage| place_of(&seen.pipeline, stage));
            let mut wish = Override {
                reason: &arguments.reason,
                who: &who,
                stage,
                place: place.as_ref(),
                expires: Some(expires),
                only: None,
            };
            match overridden_in(gate) {
                None => {
                    let patch = override_gate(gate, &wish, now).map_err(refused)?;
                    server.patch(gate, &patch).await?;
                }
                Some(place) => {
                    let template = template(&server, gate, place).await?;
                    let of_gate = |bundle: &&Bundle| {
                        bundle.metadata.name.as_deref().map(label_value).as_deref()
                            == label_of(&gate.metadata, BUNDLE_LABEL)
                    };
                    wish.only = seen.bundles.iter().find(of_gate);
                    let patch = override_gate(&template, &wish, now).map_err(refused)?;
                    server.patch(&template, &patch).await.map_err(|failure| organisations(failure, place))?;
                }
            }
            changed.push(gate);
        }
        output::value(arguments.common.output, &changed, || {
            let lines = changed.iter().map(|gate| {
                let environment = label_of(&gate.metadata, ENVIRONMENT_LABEL).unwrap_or("every environment");
                let bundle = label_of(&gate.metadata, BUNDLE_LABEL).unwrap_or_default();
                // The team chooses where an environment of this name writes: whoever overrides shall see it.
                let place = place_of(&seen.pipeline, environment);
                let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
                format!(
                    "Gate \"{}\" overridden for {environment}{place} of {bundle} until {expires:.0} by {who}\n",
                    arguments.gate
                )
            });
            let pipeline = &arguments.pipeline;
            format!("{}\nNext:\n  kardinal explain {pipeline}\n", lines.collect::<String>())
        })
    })
}

/// A template of the organisation, as it is now: two overrides of one command follow each other.
async fn template(
    server: &Server,
    instance: &PolicyGate,
    place: (&str, &str),
) -> Result<PolicyGate, Failure> {
    let (namespace, name) = place;
    let api: Api<PolicyGate> = Api::namespaced(server.client.clone(), namespace);
    let failed = |error| organisations(about::<PolicyGate>(name, error), place);
    let absent = match api.get(name).await {
        Err(kube::Error::Api(status)) if status.code == 404 => kube::Error::Api(status),
        found => return found.map_err(failed),
    };
    // The label holds a part of a long name only.
    let all = api.list(&ListParams::default()).await.map_err(failed)?;
    template_of(instance, &all.items).cloned().ok_or_else(|| failed(absent))
}

/// Whoever may not write there cannot pass the gate, and must ask somebody who can.
fn organisations(failure: Failure, (namespace, name): (&str, &str)) -> Failure {
    match failure.kind {
        Kind::Refused => failure.hint(format!(
            "`{name}` is a gate of the organisation: its overrides count only in namespace `{namespace}`; ask \
             somebody who may write there"
        )),
        _ => failure,
    }
}

fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let wrong = |why: String| {
        Failure::new(Kind::Usage, format!("--expires-in: `{text}`: {why}")).hint("write it as `30m` or `2h`")
    };
    let duration = GoDuration::new(text).parse().map_err(|error| wrong(error.to_string()))?;
    if duration <= jiff::SignedDuration::ZERO {
        return Err(wrong("it must be more than nothing".to_owned()));
    }
    now.checked_add(duration).map_err(|error| wrong(error.to_string()))
}

fn instances<'a>(seen: &'a Seen, arguments: &OverrideArguments) -> Result<Vec<&'a PolicyGate>, Failure> {
    let on_their_way: Vec<String> = seen
        .bundles
        .iter()
        .filter(|bundle| !bundle.status.as_ref().and_then(|status| status.phase).is_some_and(is_finished))
        .filter_map(|bundle| bundle.metadata.name.as_deref().map(label_value))
        .collect();
    let pipeline = label_value(&arguments.pipeline);
    let ours: Vec<&PolicyGate> = seen
        .gates
        .iter()
        .filter(|gate| label_of(&gate.metadata, PIPELINE_LABEL) == Some(pipeline.as_str()))
        .filter(|gate| {
            label_of(&gate.metadata, BUNDLE_LABEL)
                .is_some_and(|bundle| on_their_way.iter().any(|one| one == bundle))
        })
        .filter(|gate| {
            arguments
                .env
                .as_deref()
                .is_none_or(|wanted| label_of(&gate.metadata, ENVIRONMENT_LABEL) == Some(wanted))
        })
        .collect();
    let wanted = label_value(&arguments.gate);
    let named: Vec<&PolicyGate> = ours
        .iter()
        .copied()
        .filter(|gate| label_of(&gate.metadata, GATE_TEMPLATE_LABEL) == Some(wanted.as_str()))
        .collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let gate = &arguments.gate;
    let failure = Failure::new(Kind::NotFound, format!("no Bundle on its way waits at a gate `{gate}`"));
    let mut known: Vec<&str> =
        ours.iter().filter_map(|gate| label_of(&gate.metadata, GATE_TEMPLATE_LABEL)).collect();
    known.sort_unstable();
    known.dedup();
    Err(match known.is_empty() {
        true => failure
            .hint(format!("no gates are asked now; `kardinal explain {}` tells why", arguments.pipeline)),
        false => failure.hint(format!("they wait at {}", listed(known))),
    })
}
