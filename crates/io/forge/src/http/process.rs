//! The git processes that do the talking: started with nothing but what they need.

use std::path::Path;
use std::process::Stdio;

use http::HeaderMap;
use tokio::process::{Child, Command};

use super::Settings;

/// What a client wants from a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// To read.
    UploadPack,
    /// To write.
    ReceivePack,
}

impl Service {
    pub(super) fn named(name: &str) -> Option<Service> {
        [Service::UploadPack, Service::ReceivePack].into_iter().find(|service| service.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Service::UploadPack => "git-upload-pack",
            Service::ReceivePack => "git-receive-pack",
        }
    }

    fn subcommand(self) -> &'static str {
        match self {
            Service::UploadPack => "upload-pack",
            Service::ReceivePack => "receive-pack",
        }
    }
}

/// A protocol later than the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    V1,
    V2,
}

/// The protocol that a client asks for. Pushes know only the first one, and say so by themselves.
pub(super) fn protocol(service: Service, headers: &HeaderMap) -> Option<Protocol> {
    let asked = headers.get("git-protocol")?.to_str().ok()?;
    let asks = |version: &str| asked.split(':').any(|part| part == version);
    match service {
        Service::UploadPack if asks("version=2") => Some(Protocol::V2),
        Service::UploadPack if asks("version=1") => Some(Protocol::V1),
        _ => None,
    }
}

/// Sets limits for itself and becomes git. A lower limit that holds already is fine.
const SCRIPT: &str = r#"
limit() { ulimit "$1" "$2" 2>/dev/null || [ "$(ulimit "$1")" -le "$2" ]; }
limit -c 0 && limit -t "$1" && limit -d "$2" || { echo 'fatal: no limits can be set' >&2; exit 1; }
shift 2
exec "$@"
"#;
const SHELL: &str = "/bin/sh";
/// The memory of each git process, in KiB: a few kilobytes of deltas can stand for gigabytes.
const MEMORY: u64 = 512 * 1024;

/// Settings that hold for every repository. Its own file says nothing but what the store has written into it.
const SETTINGS: [&str; 20] = [
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // Git asks no other host for anything.
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.receivepack=true",
    "uploadpack.allowFilter=true",
    "uploadpack.allowReachableSHA1InWant=true",
    "receive.autogc=false",
    // Large objects go from the request to the disk, and are not unpacked in memory.
    "core.bigFileThreshold=16m",
    "transfer.unpackLimit=1",
    "pack.threads=1",
    "receive.advertisePushOptions=false",
    "receive.denyCurrentBranch=ignore",
    "receive.fsckObjects=true",
    // Old histories have these, and nobody can repair them any more.
    "receive.fsck.missingSpaceBeforeDate=warn",
    "receive.fsck.zeroPaddedFilemode=warn",
    "receive.fsck.badTimezone=warn",
    "receive.fsck.missingEmail=warn",
];

fn command(settings: &Settings, root: &Path, service: Service, protocol: Option<Protocol>) -> Command {
    let mut command = Command::new(SHELL);
    command.args(["-c", SCRIPT, "sh"]);
    command.args([settings.total.as_secs().max(1).to_string(), MEMORY.to_string()]).arg(&settings.git);
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
        .env("HOME", root.join(".nobody"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C");
    match protocol {
        Some(Protocol::V1) => command.env("GIT_PROTOCOL", "version=1"),
        Some(Protocol::V2) => command.env("GIT_PROTOCOL", "version=2"),
        None => &mut command,
    };
    for setting in SETTINGS {
        command.arg("-c").arg(setting);
    }
    command.arg("-c").arg(format!("receive.maxInputSize={}", settings.max_body));
    command.arg(service.subcommand()).arg("--stateless-rpc").kill_on_drop(true);
    command
}

/// What git says about a repository before anything is asked.
pub(super) async fn advertise(
    settings: &Settings,
    root: &Path,
    folder: &Path,
    service: Service,
    protocol: Option<Protocol>,
) -> std::io::Result<Vec<u8>> {
    let mut command = command(settings, root, service, protocol);
    command.arg("--advertise-refs").arg(folder).stdin(Stdio::null());
    let output = tokio::time::timeout(settings.idle, command.output()).await??;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(std::io::Error::other(format!("{}: {}", service.name(), said.trim())));
    }
    Ok(output.stdout)
}

/// A process that waits for a request.
pub(super) fn start(
    settings: &Settings,
    root: &Path,
    folder: &Path,
    service: Service,
    protocol: Option<Protocol>,
) -> std::io::Result<Child> {
    let mut command = command(settings, root, service, protocol);
    command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn()
}
