//! The gates that exist.

use kardinal_api::kardinal::PolicyGate;
use kardinal_promotion::view;

use crate::args::Common;
use crate::output;
use crate::server::Server;

pub(super) async fn run(
    instances: bool,
    policy_namespaces: &[String],
    common: &Common,
) -> anyhow::Result<()> {
    let server = Server::connect(&common.server).await?;
    let all = server.gates(&[policy_namespaces]).await?;
    let gates = view::gates(&all, instances);
    output::value(common.output, &gates, || match gates.is_empty() {
        true => "there are no PolicyGates in these namespaces\n".to_owned(),
        false => table(&gates),
    })
}

fn table(gates: &[&PolicyGate]) -> String {
    let rows = gates.iter().map(|gate| {
        let row = view::gate_row(gate);
        vec![
            row.namespace,
            row.name,
            row.scope.to_owned(),
            row.kind.as_str().to_owned(),
            row.applies_to.join(","),
            row.expression,
            row.message.unwrap_or_default(),
        ]
    });
    let header = ["NAMESPACE", "NAME", "SCOPE", "TYPE", "APPLIES-TO", "EXPRESSION", "MESSAGE"];
    output::table(&header, rows.collect())
}
