//! Logs: for people on a terminal, JSON for machines otherwise.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

/// Starts logging to standard error. `RUST_LOG` wins over `-v`.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn,kardinal=info",
        1 => "info,kardinal=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.with_target(false).compact().init();
    } else {
        log.json().flatten_event(true).init();
    }
}
