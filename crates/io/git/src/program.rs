//! The git program as a fallback, for SSH and for servers that do not speak version 2 of the protocol.

mod bounds;
pub(crate) mod incoming;

use std::{
    collections::HashMap,
    fs::{OpenOptions, Permissions},
    io::Write as _,
    net::{IpAddr, SocketAddr},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use gix::ObjectId;
use kardinal_reach::{Policy, Refused, authority};
use reqwest::dns::Resolve;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::{
    Credentials, Limits, Secret,
    error::Failure,
    http::{
        fetch::Depth,
        push::{Update, refusal},
    },
    program::incoming::Incoming,
    remote::Target,
    session::blocking,
    store::Store,
};

const PATIENCE: Duration = Duration::from_secs(600);
/// What the program may print; the rest is read and forgotten.
const MAX_OUTPUT: u64 = 4 << 20;
/// What a person's environment may have that the program needs: everything else may be a secret.
const KEPT: [&str; 14] = [
    "PATH",
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_EXEC_PATH",
    "TMPDIR",
];
/// The same on the machine of the one who started the program.
const KEPT_ON_MACHINE: [&str; 7] =
    ["HOME", "USER", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "GIT_SSH", "GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME"];

/// The way to a remote, and what may be done on it.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    pub(crate) target: &'a Target,
    pub(crate) reach: &'a Policy,
    /// Who looks up names.
    pub(crate) resolver: Option<&'a Arc<dyn Resolve>>,
    pub(crate) limits: Limits,
}

/// The tips of some branches.
pub(crate) async fn tips(way: Way<'_>, branches: &[String]) -> Result<HashMap<String, ObjectId>, Failure> {
    let target = way.target;
    let (mut command, _keys) = git(way).await?;
    command.args(["ls-remote", "--heads", "--", &target.url]);
    command.args(branches.iter().map(|branch| format!("refs/heads/{branch}")));
    let output = run(target, command).await?;
    if !output.done {
        return Err(unsuccessful(target, &output.errors));
    }
    let mut tips = HashMap::new();
    for line in output.text.lines() {
        if let Some((id, name)) = line.split_once('\t')
            && let Ok(id) = ObjectId::from_hex(id.as_bytes())
            && let Some(branch) = name.strip_prefix("refs/heads/")
            && (branches.is_empty() || branches.iter().any(|wanted| wanted == branch))
        {
            tips.insert(branch.to_owned(), id);
        }
    }
    Ok(tips)
}

/// Gets commits with everything they need, beside the store.
pub(crate) async fn fetch(
    way: Way<'_>,
    store: &Arc<Store>,
    wants: &[ObjectId],
    depth: Depth,
) -> Result<Incoming, Failure> {
    let target = way.target;
    let (mut command, _keys) = git(way).await?;
    let (limits, cache) = (way.limits, Arc::clone(store));
    let incoming = blocking(move || Incoming::new(&cache, &limits)).await?;
    command.arg("--git-dir").arg(incoming.path());
    command.args(["fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head"]);
    match depth {
        Depth::Usual if store.haves().is_empty() => command.arg("--depth=50"),
        Depth::Usual | Depth::History => &mut command,
        Depth::Commits(count) => command.arg(format!("--depth={count}")),
        Depth::Whole => command.arg(format!("--depth={}", i32::MAX)),
    };
    command.args(["--", &target.url]);
    command.args(wants.iter().map(ObjectId::to_string));
    let output = run(target, command).await?;
    if output.done {
        return Ok(incoming);
    }
    blocking(move || {
        drop(incoming);
        Ok(())
    })
    .await?;
    Err(bounds::met(&output.errors, &limits).unwrap_or_else(|| unsuccessful(target, &output.errors)))
}

/// Moves a branch by compare-and-swap; the objects are in the store.
pub(crate) async fn push(way: Way<'_>, store: &Store, update: Update<'_>) -> Result<(), Failure> {
    let target = way.target;
    let name = format!("refs/heads/{}", update.branch);
    let old = update.old.map(|id| id.to_string()).unwrap_or_default();
    let new = update.new.map(|id| id.to_string()).unwrap_or_default();
    let (mut command, _keys) = git(way).await?;
    command.arg("--git-dir").arg(&store.path);
    command.args(["push", "--porcelain", "--no-verify", &format!("--force-with-lease={name}:{old}")]);
    command.args(["--", &target.url, &format!("{new}:{name}")]);
    let output = run(target, command).await?;
    if output.done {
        return Ok(());
    }
    match output.text.lines().find_map(|line| line.strip_prefix('!')) {
        // "!\t<from>:<to>\t[rejected] (stale info)"
        Some(line) => {
            let why = line.rsplit('\t').next().unwrap_or(line);
            if update.new.is_none() && output.errors.contains("does not exist") {
                return Ok(());
            }
            Err(refusal(why, &remote_lines(&output.errors), &target.url))
        }
        None => Err(unsuccessful(target, &output.errors)),
    }
}

/// The program with everything set that must not be an argument, and the folder with its keys, if it has any.
async fn git(way: Way<'_>) -> Result<(Command, Option<TempDir>), Failure> {
    let target = way.target;
    let pin = pin(way).await?;
    let mut command = bounds::git(&way.limits, PATIENCE.as_secs());
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear();
    let machine = way.reach.uses_machine();
    let kept = KEPT.iter().chain(if machine { KEPT_ON_MACHINE.as_slice() } else { &[] });
    for name in kept {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").env("GIT_ALLOW_PROTOCOL", "http:https:ssh");
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "http.followRedirects=false"]);
    // `https@host:path` is SSH, too.
    if target.url.starts_with("http://") || target.url.starts_with("https://") {
        web(target, pin.as_ref(), &mut command)?;
        return Ok((command, None));
    }
    let keys = match &target.credentials {
        Credentials::Ssh { key, known_hosts } => {
            Some(ssh(&mut command, key, known_hosts.as_deref(), pin.as_ref()).map_err(|error| {
                Failure::fault(format!("the SSH key cannot be laid out for `{}`: {error}", target.url))
            })?)
        }
        _ if !machine => {
            return Err(Failure::problem(format!(
                "`{}` needs a key of its own: name a Secret with `ssh-privatekey` and `known_hosts`",
                target.url
            )));
        }
        _ if std::env::var_os("GIT_SSH_COMMAND").is_none() => {
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
            None
        }
        _ => None,
    };
    Ok((command, keys))
}

/// A name and the address that it was judged by.
struct Pin {
    host: String,
    port: u16,
    address: IpAddr,
}

/// The program would look the name up once more, so it is told the address. On a machine of its own it may do as it is
/// set up; what is an address already was judged with the URL.
async fn pin(way: Way<'_>) -> Result<Option<Pin>, Failure> {
    let (host, port) = authority(&way.target.url);
    if way.reach.uses_machine() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Ok(None);
    }
    // It becomes part of a command line and of a setting.
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        return Err(Failure::problem(format!("`{}` is not the name of a host", host.escape_debug())));
    }
    let found = look_up(way.resolver, &host).await?;
    let allowed = way.reach.among(&host, found).map_err(Failure::problem)?;
    let address = allowed.first().map(SocketAddr::ip);
    let address = address.ok_or_else(|| Failure::fault(format!("`{host}` has no address")))?;
    Ok(Some(Pin { host, port: port.unwrap_or(22), address }))
}

async fn look_up(resolver: Option<&Arc<dyn Resolve>>, host: &str) -> Result<Vec<SocketAddr>, Failure> {
    let unknown =
        |error: &dyn std::fmt::Display| Failure::fault(format!("`{host}` cannot be found: {error}"));
    let Some(resolver) = resolver else {
        return Ok(tokio::net::lookup_host((host, 0)).await.map_err(|error| unknown(&error))?.collect());
    };
    let name = host.parse().map_err(|_| unknown(&"it is not the name of a host"))?;
    let found = resolver.resolve(name).await.map_err(|error| match Refused::within(error.as_ref()) {
        Some(refused) => Failure::problem(refused.clone()),
        None => unknown(&error),
    })?;
    Ok(found.collect())
}

fn web(target: &Target, pin: Option<&Pin>, command: &mut Command) -> Result<(), Failure> {
    if let Some(Pin { host, port, address }) = pin {
        let address = match address {
            IpAddr::V4(four) => four.to_string(),
            IpAddr::V6(six) => format!("[{six}]"),
        };
        command.args(["-c", &format!("http.curloptResolve={host}:{port}:{address}")]);
    }
    if let Some(header) = target.credentials.header() {
        command.env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "http.extraHeader");
        command.env("GIT_CONFIG_VALUE_0", format!("Authorization: {}", header.reveal()));
    }
    if target.ca.is_some() {
        return Err(Failure::problem(format!(
            "{} does not speak version 2 of the git protocol, so its CA must be installed on this system",
            target.host()
        )));
    }
    Ok(())
}

/// Only this key is used, and nothing of the machine's own settings. It is gone with the folder.
fn ssh(
    command: &mut Command,
    key: &Secret,
    known_hosts: Option<&str>,
    pin: Option<&Pin>,
) -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir()?;
    let place = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.trim_end().as_bytes())?;
        file.write_all(b"\n")?;
        Ok::<_, std::io::Error>(path)
    };
    let identity = place("key", key.reveal())?;
    let mut ssh = format!(
        "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none -o StrictHostKeyChecking=yes \
         -o ConnectTimeout=10 -i '{}'",
        identity.display()
    );
    let hosts = match known_hosts {
        Some(lines) => place("known_hosts", lines)?,
        None => PathBuf::from("/dev/null"),
    };
    ssh.push_str(&format!(" -o UserKnownHostsFile='{}'", hosts.display()));
    if let Some(Pin { host, port, address }) = pin {
        // `known_hosts` knows the name, not the address, and a port that is not the usual one with it.
        let known_as = if *port == 22 { host.clone() } else { format!("[{host}]:{port}") };
        ssh.push_str(&format!(" -o HostName='{address}' -o HostKeyAlias='{known_as}'"));
    }
    command.env("GIT_SSH_COMMAND", ssh).env("HOME", folder.path());
    Ok(folder)
}

struct Output {
    done: bool,
    text: String,
    errors: String,
}

async fn run(target: &Target, mut command: Command) -> Result<Output, Failure> {
    let unable = |error: std::io::Error| {
        Failure::problem(format!("`{}` needs the git program, which cannot be started: {error}", target.url))
    };
    let mut child = command.spawn().map_err(unable)?;
    let (text, errors) = (child.stdout.take(), child.stderr.take());
    let work = async { tokio::join!(bounded(text), bounded(errors), child.wait()) };
    let Ok((text, errors, status)) = tokio::time::timeout(PATIENCE, work).await else {
        return Err(Failure::fault(format!("{} took longer than ten minutes", target.host())));
    };
    Ok(Output { done: status.map_err(unable)?.success(), text, errors })
}

/// What a process prints, up to a limit. The rest is read, too, or it would never end.
async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    // A stream that breaks ends with the process, whose status tells.
    let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

fn remote_lines(errors: &str) -> String {
    errors.lines().filter_map(|line| line.strip_prefix("remote:")).collect::<Vec<_>>().join("\n")
}

/// Sorts failures by what the program prints.
fn unsuccessful(target: &Target, errors: &str) -> Failure {
    const PROBLEMS: [&str; 7] = [
        "Permission denied",
        "Authentication failed",
        "could not read Username",
        "not found",
        "does not appear to be a git repository",
        "Host key verification failed",
        "error: 403",
    ];
    let lines = errors.lines().filter(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    let said = lines.take(2).collect::<Vec<_>>().join("; ");
    if let Some(id) = errors.split("not our ref ").nth(1) {
        return Failure::no_commit(format!("there is no commit `{}` in the repository", id.trim()));
    }
    if PROBLEMS.iter().any(|problem| errors.contains(problem)) {
        return Failure::problem(format!(
            "{} refuses access: {said}. Check the URL and the Secret",
            target.host()
        ));
    }
    Failure::fault(format!("git cannot reach {}: {said}", target.host()))
}
