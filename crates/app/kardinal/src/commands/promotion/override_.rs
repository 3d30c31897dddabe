//! `kardinal override`: lets the Bundles on their way pass a gate for a while.

use jiff::Timestamp;
use kardinal_api::kardinal::{BUNDLE_LABEL, PolicyGate};
use kardinal_object::label_of;
use kardinal_promotion::bundle::template_of;
use kardinal_promotion::intent::{Instance, environment_named, expiry, instances, override_gate};
use kube::Api;
use kube::api::ListParams;

use crate::args::OverrideArguments;
use crate::failure::{Failure, Kind};
use crate::server::{Server, about, refused, wrong_flag};
use crate::{output, who};

/// Adds the override to every instance of the gate that a Bundle on its way waits at; for a gate of the organisation to its
/// template, narrowed to that Bundle, because only there it counts.
pub(crate) fn run(arguments: OverrideArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let now = Timestamp::now();
        let expires = expiry(&arguments.expires_in, now);
        let expires = expires.map_err(|problem| wrong_flag("--expires-in", problem))?;
        let server = Server::connect(&arguments.common.server).await?;
        let seen = server.seen(&arguments.pipeline, &[]).await?;
        let environment = arguments.env.as_deref();
        if let Some(name) = environment {
            environment_named(&seen.pipeline, name).map_err(Failure::from)?;
        }
        let who = who::name(&arguments.who);
        let held = instances(&seen.pipeline, &seen.bundles, &seen.gates, &arguments.gate, environment);
        let held = held.map_err(Failure::from)?;
        for instance in &held {
            let wish = instance.wish(&arguments.reason, &who, expires);
            match instance.template {
                None => {
                    let patch = override_gate(instance.gate, &wish, now).map_err(refused)?;
                    server.patch(instance.gate, &patch).await?;
                }
                Some(place) => {
                    let template = template(&server, instance.gate, place).await?;
                    let patch = override_gate(&template, &wish, now).map_err(refused)?;
                    server.patch(&template, &patch).await.map_err(|failure| organisations(failure, place))?;
                }
            }
        }
        let changed: Vec<&PolicyGate> = held.iter().map(|instance| instance.gate).collect();
        output::value(arguments.common.output, &changed, || render(&arguments, &held, expires, &who))
    })
}

fn render(arguments: &OverrideArguments, held: &[Instance<'_>], expires: Timestamp, who: &str) -> String {
    let OverrideArguments { pipeline, gate, .. } = arguments;
    let lines = held.iter().map(|instance| {
        let environment = instance.environment.unwrap_or("every environment");
        let bundle = label_of(&instance.gate.metadata, BUNDLE_LABEL).unwrap_or_default();
        let place = instance.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        format!(
            "Gate \"{gate}\" overridden for {environment}{place} of {bundle} until {expires:.0} by {who}\n"
        )
    });
    format!("{}\nNext:\n  kardinal explain {pipeline}\n", lines.collect::<String>())
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
