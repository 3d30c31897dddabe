//! `kardinal diff`: what two Bundles carry, side by side.

use kardinal_api::kardinal::Bundle;
use kardinal_promotion::view::{self, Difference};

use crate::args::DiffArguments;
use crate::failure::Failure;
use crate::output;
use crate::server::Server;

/// Prints the differences.
pub(crate) fn run(arguments: DiffArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let bundles: Vec<Bundle> = server.list(&kube::api::ListParams::default()).await?;
        let DiffArguments { from, to, common } = &arguments;
        let differences = view::diff(&bundles, from, to).map_err(Failure::from)?;
        output::value(common.output, &differences, || render(&differences, [from, to]))
    })
}

fn render(differences: &[Difference], [from, to]: [&str; 2]) -> String {
    let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let rows = differences.iter().map(|one| {
        let mark = if one.changed { "*" } else { "" };
        vec![mark.to_owned(), one.what.clone(), cell(&one.from), cell(&one.to)]
    });
    let table = output::table(&["", "WHAT", from, to], rows.collect());
    match differences.iter().filter(|one| one.changed).count() {
        0 => format!("{table}\nboth carry the same\n"),
        count => format!("{table}\n{count} differ (*)\n"),
    }
}
