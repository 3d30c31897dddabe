//! The git program as a fallback, for SSH and for servers that do not speak version 2 of the protocol.

use std::{collections::HashMap, process::Stdio, time::Duration};

use gix::ObjectId;
use tokio::process::Command;

use crate::{
    error::Failure,
    http::{
        fetch::Depth,
        push::{Update, refusal},
    },
    remote::Target,
    store::Store,
};

const PATIENCE: Duration = Duration::from_secs(600);

/// The tips of some branches.
pub(crate) async fn tips(target: &Target, branches: &[String]) -> Result<HashMap<String, ObjectId>, Failure> {
    let mut command = git(target)?;
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
            && branches.iter().any(|wanted| wanted == branch)
        {
            tips.insert(branch.to_owned(), id);
        }
    }
    Ok(tips)
}

/// Gets commits into the store.
pub(crate) async fn fetch(
    target: &Target,
    store: &Store,
    wants: &[ObjectId],
    depth: Depth,
) -> Result<(), Failure> {
    let mut command = git(target)?;
    command.arg("--git-dir").arg(&store.path);
    command.args(["fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head"]);
    match depth {
        Depth::Usual if store.haves().is_empty() => command.arg("--depth=50"),
        Depth::Usual => &mut command,
        Depth::Commits(count) => command.arg(format!("--depth={count}")),
        Depth::Whole => command.arg(format!("--depth={}", i32::MAX)),
    };
    command.args(["--", &target.url]);
    // A ref of its own keeps what was fetched reachable, so that the next fetch builds on it.
    command.args(wants.iter().map(|id| format!("+{id}:refs/kept/{id}")));
    let output = run(target, command).await?;
    if output.done { Ok(()) } else { Err(unsuccessful(target, &output.errors)) }
}

/// Moves a branch by compare-and-swap; the objects are in the store.
pub(crate) async fn push(target: &Target, store: &Store, update: Update<'_>) -> Result<(), Failure> {
    let name = format!("refs/heads/{}", update.branch);
    let old = update.old.map(|id| id.to_string()).unwrap_or_default();
    let new = update.new.map(|id| id.to_string()).unwrap_or_default();
    let mut command = git(target)?;
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

/// The program with everything set that must not be an argument.
fn git(target: &Target) -> Result<Command, Failure> {
    let mut command = Command::new("git");
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TRACE", "GIT_TRACE_CURL"]
    {
        command.env_remove(name);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    if std::env::var_os("GIT_SSH_COMMAND").is_none() {
        command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
    }
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"]);
    let web = target.url.starts_with("http");
    if let Some(header) = target.credentials.header()
        && web
    {
        command.env("GIT_CONFIG_COUNT", "2");
        command.env("GIT_CONFIG_KEY_0", "http.extraHeader");
        command.env("GIT_CONFIG_VALUE_0", format!("Authorization: {}", header.reveal()));
        command.env("GIT_CONFIG_KEY_1", "http.followRedirects").env("GIT_CONFIG_VALUE_1", "false");
    }
    if target.ca.is_some() && web {
        return Err(Failure::problem(format!(
            "{} does not speak version 2 of the git protocol, so its CA must be installed on this system",
            target.host()
        )));
    }
    Ok(command)
}

struct Output {
    done: bool,
    text: String,
    errors: String,
}

async fn run(target: &Target, mut command: Command) -> Result<Output, Failure> {
    let output = match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            return Err(Failure::problem(format!(
                "`{}` needs the git program, which cannot be started: {error}",
                target.url
            )));
        }
        Err(_) => return Err(Failure::fault(format!("{} took longer than ten minutes", target.host()))),
    };
    Ok(Output {
        done: output.status.success(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
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
        return Failure::problem(format!("there is no commit `{}` in the repository", id.trim()));
    }
    if PROBLEMS.iter().any(|problem| errors.contains(problem)) {
        return Failure::problem(format!(
            "{} refuses access: {said}. Check the URL and the Secret",
            target.host()
        ));
    }
    Failure::fault(format!("git cannot reach {}: {said}", target.host()))
}
