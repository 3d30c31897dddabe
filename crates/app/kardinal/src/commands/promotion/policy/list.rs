//! The gates that exist.

use kardinal_api::kardinal::{APPLIES_TO_LABEL, ENVIRONMENT_LABEL, PolicyGate};
use kardinal_policy::{is_freeze, is_skip_permission, is_template, scope};

use crate::args::Common;
use crate::output;
use crate::server::Server;

pub(super) async fn run(
    instances: bool,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let mut gates = server.gates(&[policy_namespaces]).await?;
    gates.retain(|gate| instances || is_template(gate) || is_freeze(gate));
    gates.sort_by_key(|gate| (gate.metadata.namespace.clone(), gate.metadata.name.clone()));
    output::value(common.output, &gates, || match gates.is_empty() {
        true => "there are no PolicyGates in these namespaces\n".to_owned(),
        false => table(&gates),
    })
}

fn table(gates: &[PolicyGate]) -> String {
    let rows = gates.iter().map(|gate| {
        vec![
            gate.metadata.namespace.clone().unwrap_or_default(),
            gate.metadata.name.clone().unwrap_or_default(),
            scope(gate).as_str().to_owned(),
            kind(gate).to_owned(),
            environments(gate),
            gate.spec.expression.clone(),
            gate.spec.message.clone().unwrap_or_default(),
        ]
    });
    let header = ["NAMESPACE", "NAME", "SCOPE", "TYPE", "APPLIES-TO", "EXPRESSION", "MESSAGE"];
    output::table(&header, rows.collect())
}

fn kind(gate: &PolicyGate) -> &'static str {
    if is_freeze(gate) {
        "pause"
    } else if !is_template(gate) {
        "instance"
    } else if is_skip_permission(gate) {
        "skip-permission"
    } else {
        "gate"
    }
}

fn environments(gate: &PolicyGate) -> String {
    let labels = gate.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    let named =
        label(APPLIES_TO_LABEL).into_iter().chain(label(ENVIRONMENT_LABEL)).chain(&gate.spec.applies_to);
    let mut names: Vec<&str> = named.map(String::as_str).collect();
    names.dedup();
    names.join(",")
}
