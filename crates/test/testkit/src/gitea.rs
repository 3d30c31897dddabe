//! A real Gitea: built once from its published module, kept in a cache, started on a free port with a fresh database.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::child::{Running, free_port};

const VERSION: &str = "1.26.0";
/// How long the server may take until it answers; generous, because CI machines are slow.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long it may take for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The administrator, who owns all repositories.
const ADMIN: &str = "operator";
/// Everybody's password.
const PASSWORD: &str = "a-password-for-tests";

/// A running Gitea. It ends with this value.
pub struct Gitea {
    /// Its address, without a slash at the end.
    pub url: String,
    /// The administrator's name, who owns all repositories.
    pub admin: String,
    /// A token that may do everything.
    pub token: String,
    port: u16,
    programs: Programs,
    server: Option<Running>,
    dir: tempfile::TempDir,
}

#[derive(Clone)]
struct Programs {
    gitea: PathBuf,
    /// Templates and translations.
    source: PathBuf,
}

/// How a request signs in.
enum Sign<'a> {
    Token(&'a str),
    Password(&'a str),
}

impl Gitea {
    /// Builds Gitea if this machine has not built it before, and starts it. `None`, with one visible line, where Go
    /// is missing.
    pub fn start() -> anyhow::Result<Option<Gitea>> {
        Gitea::start_with("")
    }

    /// The same with more lines in its configuration, for example `[api]\nMAX_RESPONSE_ITEMS = 2`.
    pub fn start_with(more: &str) -> anyhow::Result<Option<Gitea>> {
        let Some(programs) = programs()? else { return Ok(None) };
        let dir = tempfile::tempdir()?;
        let port = free_port()?;
        let mut gitea = Gitea {
            url: format!("http://127.0.0.1:{port}"),
            admin: ADMIN.to_owned(),
            token: String::new(),
            port,
            programs,
            server: None,
            dir,
        };
        std::fs::write(gitea.config(), format!("{}{more}\n", gitea.settings()))?;
        gitea.run(&["migrate"])?;
        gitea.run(&[
            "admin",
            "user",
            "create",
            "--admin",
            "--username",
            ADMIN,
            "--password",
            PASSWORD,
            "--email",
            "operator@mail.example",
            "--must-change-password=false",
        ])?;
        gitea.start_again()?;
        gitea.token = gitea.create_token(ADMIN, "everything", &["all"])?;
        Ok(Some(gitea))
    }

    /// Ends the server at once, as a crash would. Its data stay.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Starts the server on the same port with the same data, and waits until it answers.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let mut arguments = self.environment();
        arguments.push(text(&self.programs.gitea));
        arguments.extend(["web".to_owned(), "--config".to_owned(), text(&self.config())]);
        let log = self.dir.path().join("gitea.log");
        self.server = Some(Running::start(Path::new("env"), &arguments, &log)?);
        let started = Instant::now();
        while started.elapsed() < START_LIMIT {
            if self.exchange("GET", "/api/healthz", None, None).is_ok_and(|(status, _)| status == 200) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        bail!("Gitea was not ready within {START_LIMIT:?}; its log ends:\n{}", tail.join("\n"));
    }

    /// Creates a repository with these files on `main`; returns its clone URL, without credentials.
    pub fn create_repository(&self, name: &str, files: &[(&str, &str)]) -> anyhow::Result<String> {
        let body = json!({ "name": name, "default_branch": "main", "auto_init": false });
        self.post("/user/repos", &body)?;
        self.commit(name, "main", None, files)?;
        Ok(format!("{}/{ADMIN}/{name}.git", self.url))
    }

    /// Commits files to a branch, which is created from another one if `from` names it; returns the commit.
    pub fn commit(
        &self,
        repository: &str,
        branch: &str,
        from: Option<&str>,
        files: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let mut operations = Vec::new();
        for (path, content) in files {
            let known = self.content(repository, from.unwrap_or(branch), path)?;
            let sha = known.as_ref().and_then(|known| known.get("sha")).cloned().unwrap_or(Value::Null);
            let operation = if known.is_some() { "update" } else { "create" };
            let content = ByteString(content.as_bytes().to_vec());
            operations.push(json!({ "operation": operation, "path": path, "content": content, "sha": sha }));
        }
        let mut body =
            json!({ "branch": from.unwrap_or(branch), "message": "A change", "files": operations });
        if from.is_some()
            && let Some(body) = body.as_object_mut()
        {
            body.insert("new_branch".to_owned(), branch.into());
        }
        let answer = self.post(&self.in_repository(repository, "contents"), &body)?;
        let sha = answer.pointer("/commit/sha").and_then(Value::as_str);
        Ok(sha.context("Gitea named no commit")?.to_owned())
    }

    fn content(&self, repository: &str, branch: &str, path: &str) -> anyhow::Result<Option<Value>> {
        let path = self.in_repository(repository, &format!("contents/{path}?ref={branch}"));
        let (status, answer) = self.exchange("GET", &api(&path), None, Some(&Sign::Token(&self.token)))?;
        Ok((status == 200).then_some(answer))
    }

    /// The text of a file on a branch; `None` if it is not there.
    pub fn file(&self, repository: &str, branch: &str, path: &str) -> anyhow::Result<Option<String>> {
        let Some(found) = self.content(repository, branch, path)? else { return Ok(None) };
        let content = found.get("content").cloned().context("Gitea sent no content")?;
        let ByteString(bytes) = serde_json::from_value(content)?;
        Ok(Some(String::from_utf8(bytes)?))
    }

    /// Deletes a branch.
    pub fn delete_branch(&self, repository: &str, branch: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("branches/{branch}"));
        self.call("DELETE", &path, None, &Sign::Token(&self.token)).map(|_| ())
    }

    /// Creates a user.
    pub fn create_user(&self, name: &str) -> anyhow::Result<()> {
        let body = json!({
            "username": name, "password": PASSWORD, "email": format!("{name}@mail.example"), "must_change_password": false,
        });
        self.post("/admin/users", &body).map(|_| ())
    }

    /// Lets a user into a repository: `read`, `write` or `admin`.
    pub fn add_collaborator(&self, repository: &str, user: &str, permission: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("collaborators/{user}"));
        self.call("PUT", &path, Some(&json!({ "permission": permission })), &Sign::Token(&self.token))
            .map(|_| ())
    }

    /// Creates a token of a user with these scopes, for example `write:repository`.
    pub fn create_token(&self, user: &str, name: &str, scopes: &[&str]) -> anyhow::Result<String> {
        let path = format!("/users/{user}/tokens");
        let body = json!({ "name": name, "scopes": scopes });
        let answer = self.call("POST", &path, Some(&body), &Sign::Password(user))?;
        Ok(answer.get("sha1").and_then(Value::as_str).context("Gitea sent no token")?.to_owned())
    }

    /// Revokes a token.
    pub fn delete_token(&self, user: &str, name: &str) -> anyhow::Result<()> {
        self.call("DELETE", &format!("/users/{user}/tokens/{name}"), None, &Sign::Password(user)).map(|_| ())
    }

    /// Has every event of a repository delivered to this URL.
    pub fn add_webhook(&self, repository: &str, url: &str, secret: &str) -> anyhow::Result<()> {
        let body = json!({
            "type": "gitea",
            "active": true,
            "events": ["push", "pull_request", "pull_request_sync", "pull_request_review"],
            "config": { "url": url, "content_type": "json", "secret": secret },
        });
        self.post(&self.in_repository(repository, "hooks"), &body).map(|_| ())
    }

    /// Forbids pushes to a branch, and merges with fewer approvals than this.
    pub fn protect_branch(
        &self,
        repository: &str,
        branch: &str,
        required_approvals: u32,
    ) -> anyhow::Result<()> {
        let body =
            json!({ "rule_name": branch, "enable_push": false, "required_approvals": required_approvals });
        self.post(&self.in_repository(repository, "branch_protections"), &body).map(|_| ())
    }

    /// Allows what [`Gitea::protect_branch`] forbade.
    pub fn unprotect_branch(&self, repository: &str, branch: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("branch_protections/{branch}"));
        self.call("DELETE", &path, None, &Sign::Token(&self.token)).map(|_| ())
    }

    /// Merges a pull request as the administrator does on the web page.
    pub fn merge(&self, repository: &str, number: u64) -> anyhow::Result<()> {
        self.merge_as(repository, number, ADMIN)
    }

    /// Merges a pull request as this user does on the web page.
    pub fn merge_as(&self, repository: &str, number: u64, user: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("pulls/{number}/merge"));
        let started = Instant::now();
        loop {
            // Gitea looks for conflicts in the background before it lets anybody merge.
            match self.post_as(user, &path, &json!({ "Do": "merge" })) {
                Err(error)
                    if error.to_string().contains("try again later") && started.elapsed() < ANSWER_LIMIT =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other.map(|_| ()),
            }
        }
    }

    /// Closes a pull request without merging, as this user.
    pub fn close_as(&self, repository: &str, number: u64, user: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("pulls/{number}"));
        self.call("PATCH", &path, Some(&json!({ "state": "closed" })), &Sign::Password(user)).map(|_| ())
    }

    /// Approves a pull request as this user.
    pub fn approve(&self, repository: &str, number: u64, user: &str) -> anyhow::Result<()> {
        self.review(repository, number, user, "APPROVED")
    }

    /// Reviews a pull request as this user: `APPROVED` or `REQUEST_CHANGES`.
    pub fn review(&self, repository: &str, number: u64, user: &str, event: &str) -> anyhow::Result<()> {
        let path = self.in_repository(repository, &format!("pulls/{number}/reviews"));
        let body = json!({ "event": event, "body": "Seen." });
        self.call("POST", &path, Some(&body), &Sign::Password(user)).map(|_| ())
    }

    /// What the API says about a repository, at this path below it.
    pub fn in_repository_json(&self, repository: &str, below: &str) -> anyhow::Result<Value> {
        self.get_json(&self.in_repository(repository, below))
    }

    /// The bare repository on the disk.
    pub fn folder(&self, repository: &str) -> PathBuf {
        self.dir.path().join(format!("repositories/{ADMIN}/{repository}.git"))
    }

    /// What the API says at this path below `/api/v1`, to the administrator.
    pub fn get_json(&self, path: &str) -> anyhow::Result<Value> {
        self.call("GET", path, None, &Sign::Token(&self.token))
    }

    /// Sends this to the API as the administrator.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call("POST", path, Some(body), &Sign::Token(&self.token))
    }

    /// Sends this to the API as this user.
    pub fn post_as(&self, user: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call("POST", path, Some(body), &Sign::Password(user))
    }

    fn in_repository(&self, repository: &str, below: &str) -> String {
        format!("/repos/{ADMIN}/{repository}/{below}")
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>, sign: &Sign<'_>) -> anyhow::Result<Value> {
        let (status, answer) = self.exchange(method, &api(path), body, Some(sign))?;
        if !(200..300).contains(&status) {
            bail!("Gitea answered {status} to {method} {path}: {answer}");
        }
        Ok(answer)
    }

    /// One request over HTTP/1.0, where the end of the connection is the end of the answer.
    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        sign: Option<&Sign<'_>>,
    ) -> anyhow::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let authorization = match sign {
            None => String::new(),
            Some(Sign::Token(token)) => format!("Authorization: token {token}\r\n"),
            Some(Sign::Password(user)) => {
                let pair = serde_json::to_value(ByteString(format!("{user}:{PASSWORD}").into_bytes()))?;
                format!("Authorization: Basic {}\r\n", pair.as_str().unwrap_or_default())
            }
        };
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{authorization}\r\n",
            self.port,
            body.len()
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(format!("{head}{body}").as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("Gitea's answer has no end of headers")?;
        let status = head.split_whitespace().nth(1).context("Gitea's answer has no status")?.parse()?;
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        Ok((status, body))
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = Command::new("env")
            .args(self.environment())
            .arg(&self.programs.gitea)
            .args(["--config", &text(&self.config())])
            .args(arguments)
            .output()?;
        if !output.status.success() {
            bail!("`gitea {}` failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn environment(&self) -> Vec<String> {
        let home = text(self.dir.path());
        vec![
            format!("HOME={home}"),
            format!("GITEA_WORK_DIR={home}"),
            "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true".to_owned(),
        ]
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("app.ini")
    }

    fn settings(&self) -> String {
        let (dir, url, port) = (self.dir.path().display(), &self.url, self.port);
        let source = self.programs.source.display();
        format!(
            "RUN_MODE = prod
WORK_PATH = {dir}
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = {url}/
STATIC_ROOT_PATH = {source}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {dir}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[repository]
ROOT = {dir}/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = only-for-tests
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5
[log]
MODE = console
LEVEL = warn
[cron]
ENABLED = false
[indexer]
ISSUE_INDEXER_TYPE = db
[session]
PROVIDER = memory
[picture]
DISABLE_GRAVATAR = true
[actions]
ENABLED = false
[packages]
ENABLED = false
"
        )
    }
}

fn api(path: &str) -> String {
    format!("/api/v1{path}")
}

/// The program and its templates, built if this machine has not built them before.
fn programs() -> anyhow::Result<Option<Programs>> {
    if Command::new("go").arg("version").output().is_err() {
        say("skipped: the real Gitea needs Go to be built, and there is no `go` on this machine");
        return Ok(None);
    }
    let cache = cache_dir()?.join(format!("gitea-{VERSION}"));
    // Test binaries run side by side: only one of them builds.
    std::fs::create_dir_all(&cache)?;
    let lock = std::fs::File::create(cache.join("lock"))?;
    lock.lock()?;
    let programs = Programs { gitea: cache.join("gitea"), source: cache.join("source") };
    if !programs.source.exists() {
        let unfinished = cache.join("source.unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        copy_folder(&download()?, &unfinished)?;
        std::fs::rename(&unfinished, &programs.source)?;
    }
    if !programs.gitea.exists() {
        build(&programs)?;
    }
    Ok(Some(programs))
}

/// The folder of the published module, checked against `go.sum`.
fn download() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("go/gitea");
    let output = Command::new("go")
        .current_dir(folder)
        .args(["mod", "download", "-json", &format!("code.gitea.io/gitea@v{VERSION}")])
        .output()?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match said.get("Dir").and_then(Value::as_str) {
        Some(folder) if output.status.success() => Ok(PathBuf::from(folder)),
        _ => bail!("downloading Gitea failed: {said} {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// It must be built from inside its own module: only there its replacements of other modules count.
fn build(programs: &Programs) -> anyhow::Result<()> {
    say("building Gitea (a few minutes, once per machine)");
    let unfinished = programs.gitea.with_extension("unfinished");
    let status = Command::new("go")
        .current_dir(&programs.source)
        .env("CGO_ENABLED", "1")
        .args(["build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w"])
        .args(["-tags", "sqlite sqlite_unlock_notify", "-o"])
        .arg(&unfinished)
        .arg(".")
        .status()?;
    if !status.success() {
        bail!("building Gitea failed");
    }
    std::fs::rename(&unfinished, &programs.gitea)?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            // Written anew, because files of the module cache are read-only.
            std::fs::write(target, std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn cache_dir() -> anyhow::Result<PathBuf> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache"),
        (None, None) => bail!("neither XDG_CACHE_HOME nor HOME is set: no place to keep the built servers"),
    };
    Ok(base.join("kardinal-test"))
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests should see what takes so long")]
fn say(line: &str) {
    eprintln!("testkit: {line}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
