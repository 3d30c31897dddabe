//! The page of a pull request, in a browser that is signed in by the way.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use kardinal_api::forge::PullRequest;

use super::forge::Forge;
use crate::args::ServerArguments;
use crate::server::Server;
use crate::{output, outside};

/// What opens an address on the systems that we know.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Gets a code that works once and hands it to a browser, or prints the address for one.
pub(super) async fn open(
    arguments: &ServerArguments,
    server: &Server,
    request: &PullRequest,
    number: u64,
    print: bool,
) -> anyhow::Result<()> {
    let forge = Forge::beside(arguments)?;
    let page = forge.page(server, request, number)?;
    let url = format!("{page}?code={}", forge.code().await?);
    let started = match (print, opener()) {
        (false, Some(opener)) => start(&opener, &url),
        _ => false,
    };
    if started {
        output::text(&format!("{page} opens in the browser, which is now signed in\n"));
        return Ok(());
    }
    if !print {
        output::remark("no browser can be started here; open this address within a minute:");
    }
    output::text(&format!("{url}\n"));
    Ok(())
}

fn opener() -> Option<PathBuf> {
    OPENERS.iter().find_map(|name| outside::find(name))
}

/// Whether the program took the address. What it prints is of no interest.
fn start(opener: &std::path::Path, url: &str) -> bool {
    let mut command = Command::new(opener);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
