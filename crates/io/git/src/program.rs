//! The git program as a fallback, for SSH and for servers that do not speak version 2 of the protocol.

mod bounds;
pub(crate) mod incoming;
mod overflow;

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::Write as _,
    net::{IpAddr, SocketAddr},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gix::ObjectId;
use kardinal_reach::{Policy, Refused, authority};
use reqwest::dns::Resolve;
use tokio::process::Command;

use crate::remote::header;
use crate::{
    Credentials, Error, Limits, Scratch, Secret,
    error::Failure,
    http::{
        fetch::Depth,
        push::{Update, refusal},
    },
    objects::pack,
    process::{self, Cut},
    program::incoming::Incoming,
    remote::Target,
    session::blocking,
    store::Store,
    words::barrier,
};

/// How long the program may take.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// What the program may print; the rest is read and forgotten.
const MAX_OUTPUT: u64 = 4 << 20;
/// So many commits are fetched at first.
const USUAL: u32 = 50;
/// The program takes this for all there are.
const ALL: u32 = i32::MAX as u32;
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
    let output = run(way, command, None).await?;
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
    let (limits, incoming) = (way.limits, incoming(way, store).await?);
    command.arg("--git-dir").arg(incoming.path());
    command.args(["fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head"]);
    if let Some(count) = asked_for(depth, store.haves().is_empty(), is_web(target)) {
        command.arg(format!("--depth={count}"));
    }
    command.args(["--", &target.url]);
    command.args(wants.iter().map(ObjectId::to_string));
    let output = run(way, command, Some(incoming.path())).await;
    let (incoming, is_full) = blocking(move || {
        let is_full = overflow::is_full(incoming.path(), overflow::most(&limits));
        Ok((incoming, is_full))
    })
    .await?;
    let failure = match output {
        // It may have been faster than whoever looks from time to time.
        Ok(_) if is_full => pack::too_much(pack::at_once(&limits)),
        Ok(output) if output.done => return Ok(incoming),
        Ok(output) => {
            bounds::met(&output.errors, &limits).unwrap_or_else(|| unsuccessful(target, &output.errors))
        }
        Err(failure) => failure,
    };
    blocking(move || {
        drop(incoming);
        Ok(())
    })
    .await?;
    Err(failure)
}

/// How many commits back are asked for, if there is an end to it. A web server is always asked for an end, be it far away: if
/// it turns out to be a heap of files, whose number nobody declares, the program refuses it for that before it gets any.
fn asked_for(depth: Depth, is_first: bool, is_web: bool) -> Option<u32> {
    match depth {
        Depth::Usual => (is_first || is_web).then_some(USUAL),
        Depth::Commits(count) => Some(count),
        Depth::Whole => Some(ALL),
        Depth::History => is_web.then_some(ALL),
    }
}

async fn incoming(way: Way<'_>, store: &Arc<Store>) -> Result<Incoming, Failure> {
    let (limits, cache) = (way.limits, Arc::clone(store));
    blocking(move || Incoming::new(&cache, &limits)).await
}

/// Moves a branch by compare-and-swap; the objects are in the store.
pub(crate) async fn push(way: Way<'_>, store: &Arc<Store>, update: Update<'_>) -> Result<(), Failure> {
    let target = way.target;
    let name = format!("refs/heads/{}", update.branch);
    let old = update.old.map(|id| id.to_string()).unwrap_or_default();
    let new = update.new.map(|id| id.to_string()).unwrap_or_default();
    let (mut command, _keys) = git(way).await?;
    // To a server that is a heap of files it would push by fetching from it first.
    let apart = incoming(way, store).await?;
    command.arg("--git-dir").arg(apart.path());
    command.args(["push", "--porcelain", "--no-verify", &format!("--force-with-lease={name}:{old}")]);
    command.args(["--", &target.url, &format!("{new}:{name}")]);
    let output = run(way, command, Some(apart.path())).await;
    blocking(move || {
        drop(apart);
        Ok(())
    })
    .await?;
    let output = output?;
    if output.done {
        return Ok(());
    }
    match output.text.lines().find_map(|line| line.strip_prefix('!')) {
        // "!\t<from>:<to>\t[rejected] (stale info)"
        Some(line) => {
            let why = line.rsplit('\t').next().unwrap_or(line);
            if update.new.is_none() && own_lines(&output.errors).contains("does not exist") {
                return Ok(());
            }
            Err(refusal(why, &remote_lines(&output.errors), &target.url))
        }
        None => Err(unsuccessful(target, &output.errors)),
    }
}

/// The program with everything set that must not be an argument, and the folder with its keys, if it has any.
async fn git(way: Way<'_>) -> Result<(Command, Option<Scratch>), Failure> {
    let target = way.target;
    let pin = pin(way).await?;
    let mut command = bounds::git(&way.limits, TIME_LIMIT.as_secs());
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
    if is_web(target) {
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
            return Err(Failure::not_let_in(format!(
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

/// `https@host:path` is SSH.
fn is_web(target: &Target) -> bool {
    target.url.starts_with("http://") || target.url.starts_with("https://")
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
    let allowed = way.reach.among(&host, found)?;
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
        Some(refused) => refused.clone().into(),
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
    if let Some(header) = header(&target.credentials) {
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
) -> std::io::Result<Scratch> {
    let folder = Scratch::new()?;
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

/// Why the program is ended.
enum Stop {
    Late,
    Full,
}

/// Runs the program as long as it may take, and while what it writes to the folder is not too much.
async fn run(way: Way<'_>, command: Command, folder: Option<&Path>) -> Result<Output, Failure> {
    let (target, limits) = (way.target, way.limits);
    let full = async {
        match folder {
            Some(folder) => overflow::full(folder, overflow::most(&limits)).await,
            None => std::future::pending().await,
        }
    };
    let stop = async {
        tokio::select! {
            () = tokio::time::sleep(TIME_LIMIT) => Stop::Late,
            () = full => Stop::Full,
        }
    };
    match process::run(command, [MAX_OUTPUT; 2], stop).await {
        Ok(ended) => Ok(Output {
            done: ended.status.success(),
            text: String::from_utf8_lossy(&ended.text).into_owned(),
            errors: String::from_utf8_lossy(&ended.errors).into_owned(),
        }),
        Err(Cut::NotStarted(error)) => Err(Failure::problem(format!(
            "`{}` needs the programs `git` and `/bin/sh`, which cannot be started: {error}",
            target.url
        ))),
        Err(Cut::Stopped(Stop::Late)) => {
            Err(Failure::fault(format!("{} took longer than ten minutes", target.host())))
        }
        Err(Cut::Stopped(Stop::Full)) => Err(pack::too_much(pack::at_once(&limits))),
    }
}

/// What the program itself says. A server can send any words, which stand behind `remote:`; nothing is decided by them. (Behind
/// SSH they may stand anywhere: there they can only name another reason for the failure of their own repository.)
fn own_lines(errors: &str) -> String {
    errors.lines().filter(|line| !line.starts_with("remote:")).collect::<Vec<_>>().join("\n")
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
    let errors = own_lines(errors);
    let lines = errors.lines().filter(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    let said = lines.take(2).collect::<Vec<_>>().join("; ");
    if errors.contains("dumb http transport") {
        return Failure::problem(format!(
            "`{}` is served as plain files, which is not supported: let its server speak smart HTTP (`git \
             http-backend`, or any forge)",
            target.url
        ));
    }
    if let Some(id) = errors.split("not our ref ").nth(1) {
        return Failure::no_commit(format!("there is no commit `{}` in the repository", id.trim()));
    }
    if PROBLEMS.iter().any(|problem| errors.contains(problem)) {
        let message = format!("{} refuses access: {said}. Check the URL and the Secret", target.host());
        return Error::Problem { message, barrier: barrier(&errors) }.into();
    }
    Failure::fault(format!("git cannot reach {}: {said}", target.host()))
}
