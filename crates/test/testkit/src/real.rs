//! The real servers: built once from their published modules, kept in a cache, started on free ports.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::child::{Running, free_port};

const KUBERNETES: &str = "1.36.3";
const ETCD: &str = "3.7.3";
/// A user without any rights but those that a scenario gives it.
pub const TENANT: &str = "tenant";
const TENANT_TOKEN: &str = "test-tenant-token";
/// How long a server may take until it answers; generous, because CI machines are slow.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Where the built programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub apiserver: PathBuf,
    /// kube-controller-manager: without it there is no owner cascade and no namespace deletion.
    pub controller_manager: PathBuf,
}

/// The programs, built if this machine has not built them before. `None`, with one visible line, where Go is missing.
pub fn programs() -> anyhow::Result<Option<Programs>> {
    if Command::new("go").arg("version").output().is_err() {
        say("skipped: the real kube-apiserver needs Go to be built, and there is no `go` on this machine");
        return Ok(None);
    }
    let cache = cache_dir()?;
    // Test binaries run side by side: only one of them builds.
    std::fs::create_dir_all(&cache)?;
    let lock = std::fs::File::create(cache.join("lock"))?;
    lock.lock()?;
    let version_flag = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}");
    let kubernetes = cache.join(format!("kubernetes-{KUBERNETES}"));
    let etcd = cache.join(format!("etcd-{ETCD}"));
    Ok(Some(Programs {
        etcd: build("etcd", "go.etcd.io/etcd/server/v3", "-s -w", &etcd.join("etcd"))?,
        apiserver: build(
            "kubernetes",
            "k8s.io/kubernetes/cmd/kube-apiserver",
            &version_flag,
            &kubernetes.join("kube-apiserver"),
        )?,
        controller_manager: build(
            "kubernetes",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            &version_flag,
            &kubernetes.join("kube-controller-manager"),
        )?,
    }))
}

fn cache_dir() -> anyhow::Result<PathBuf> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, Some(home)) => Path::new(&home).join(".cache"),
        (None, None) => bail!("neither XDG_CACHE_HOME nor HOME is set: no place to keep the built servers"),
    };
    Ok(base.join("kardinal-test"))
}

fn build(module: &str, package: &str, flags: &str, target: &Path) -> anyhow::Result<PathBuf> {
    if target.exists() {
        return Ok(target.to_owned());
    }
    say(&format!("building {package} (a few minutes, once per machine)"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(module);
    let unfinished = target.with_extension("unfinished");
    let status = Command::new("go")
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-ldflags", flags, "-o"])
        .arg(&unfinished)
        .arg(package)
        .status()?;
    if !status.success() {
        bail!("building {package} failed");
    }
    std::fs::rename(&unfinished, target)?;
    Ok(target.to_owned())
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests should see what takes so long")]
fn say(line: &str) {
    eprintln!("testkit: {line}");
}

/// A running kube-apiserver with etcd and a controller manager.
pub struct Cluster {
    /// How to reach it as its admin.
    pub kubeconfig: PathBuf,
    /// The server's address.
    pub url: String,
    /// The admin's token.
    pub token: String,
    _controller_manager: Running,
    _apiserver: Running,
    _etcd: Running,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// Starts everything and waits until it is ready.
    pub fn start(programs: &Programs) -> anyhow::Result<Cluster> {
        let dir = tempfile::tempdir()?;
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let peer_url = format!("http://127.0.0.1:{}", free_port()?);
        let etcd = Running::start(
            &programs.etcd,
            &strings(&[
                "--data-dir",
                &text(&dir.path().join("etcd")),
                "--listen-client-urls",
                &etcd_url,
                "--advertise-client-urls",
                &etcd_url,
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
                "--initial-cluster",
                &format!("default={peer_url}"),
                "--log-level",
                "error",
            ]),
            &dir.path().join("etcd.log"),
        )?;
        let port = free_port()?;
        let token = "test-admin-token".to_owned();
        let apiserver = start_apiserver(programs, dir.path(), &etcd_url, port, &token)?;
        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, kubeconfig_text(&url, &token))?;
        wait_ready(&kubeconfig, dir.path())?;
        let controller_manager = Running::start(
            &programs.controller_manager,
            &strings(&[
                "--controllers=garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller",
                "--leader-elect=false",
                "--kubeconfig",
                &text(&kubeconfig),
                "--bind-address",
                "127.0.0.1",
                "--secure-port",
                &free_port()?.to_string(),
            ]),
            &dir.path().join("controller-manager.log"),
        )?;
        Ok(Cluster {
            kubeconfig,
            url,
            token,
            _controller_manager: controller_manager,
            _apiserver: apiserver,
            _etcd: etcd,
            _dir: dir,
        })
    }
}

/// A client that acts as [`TENANT`] on the server of this kubeconfig.
pub async fn tenant(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let mut kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        user.token = Some(TENANT_TOKEN.to_owned().into());
    }
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

fn start_apiserver(
    programs: &Programs,
    dir: &Path,
    etcd_url: &str,
    port: u16,
    token: &str,
) -> anyhow::Result<Running> {
    let (key, public_key) = (dir.join("service-account.pem"), dir.join("service-account.pub"));
    let pair = rcgen::KeyPair::generate()?;
    std::fs::write(&key, pair.serialize_pem())?;
    std::fs::write(&public_key, pair.public_key_pem())?;
    let tokens = dir.join("tokens.csv");
    std::fs::write(
        &tokens,
        format!("{token},admin,admin,\"system:masters\"\n{TENANT_TOKEN},{TENANT},{TENANT}\n"),
    )?;
    let arguments = strings(&[
        "--etcd-servers",
        etcd_url,
        "--cert-dir",
        &text(&dir.join("certs")),
        "--secure-port",
        &port.to_string(),
        "--bind-address",
        "127.0.0.1",
        "--service-account-key-file",
        &text(&public_key),
        "--service-account-signing-key-file",
        &text(&key),
        "--service-account-issuer",
        "https://kubernetes.default.svc",
        "--token-auth-file",
        &text(&tokens),
        "--authorization-mode",
        "RBAC",
        "--disable-admission-plugins",
        "ServiceAccount",
        "--service-cluster-ip-range",
        "10.0.0.0/24",
    ]);
    Running::start(&programs.apiserver, &arguments, &dir.join("apiserver.log"))
}

fn kubeconfig_text(url: &str, token: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: \"{url}\", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: {token}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: admin, namespace: default}}}}]
current-context: test
"
    )
}

/// Asks `/readyz` until it says yes.
fn wait_ready(kubeconfig: &Path, dir: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    // The caller may be inside a runtime already, and a runtime cannot wait inside another.
    let asked = std::thread::scope(|scope| scope.spawn(|| ask_until_ready(kubeconfig, started)).join());
    match asked {
        Ok(Ok(true)) => return Ok(()),
        Ok(Err(error)) => return Err(error),
        Ok(Ok(false)) | Err(_) => {}
    }
    let log = std::fs::read_to_string(dir.join("apiserver.log")).unwrap_or_default();
    let tail: Vec<&str> = log.lines().rev().take(20).collect();
    bail!("kube-apiserver was not ready within {START_LIMIT:?}; its log ends:\n{}", tail.join("\n"));
}

fn ask_until_ready(kubeconfig: &Path, started: Instant) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = crate::world::client_of(kubeconfig).await?;
        while started.elapsed() < START_LIMIT {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if client.request_text(request).await.is_ok_and(|answer| answer == "ok") {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(false)
    })
}

fn strings(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
