//! The world outside the cluster, as the controllers get it: git, forges, programs, counters.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kardinal_controllers::{LocalForge, Metrics, Outside, RealForges, Resolver};
use kardinal_git::{Git, Limits};
use kardinal_reach::Policy;
use kardinal_scm as scm;

/// The caches of all repositories together.
const CACHE_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// How long a custom task may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a cache is kept that nobody uses.
const CACHE_AGE: Duration = Duration::from_secs(24 * 3600);

/// Where the environment names a proxy.
const PROXIES: [&str; 6] =
    ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy", "http_proxy"];

/// What may be reached, and how much of it is read.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) reach: Policy,
    pub(crate) limits: Limits,
}

impl Bounds {
    fn resolver(&self) -> Arc<Resolver> {
        Arc::new(Resolver::new(self.reach.clone()))
    }
}

/// The way to repositories.
pub(crate) fn git(cache_dir: PathBuf, forge: Option<&LocalForge>, bounds: &Bounds) -> Git {
    let local = forge
        .map(|forge| kardinal_git::Local { prefix: forge.url.clone(), root: forge.store.root().to_owned() });
    let limits = bounds.limits;
    let settings =
        kardinal_git::Settings { cache_dir, max_bytes: CACHE_BYTES, max_age: CACHE_AGE, local, limits };
    Git::reaching(settings, bounds.reach.clone(), Some(bounds.resolver()))
}

/// Everything outside.
pub(crate) fn outside(
    client: kube::Client,
    git: Arc<Git>,
    forge: Option<LocalForge>,
    bounds: &Bounds,
) -> anyhow::Result<Outside> {
    if let Some(variables) = proxies(&bounds.reach, |name| std::env::var_os(name).is_some()) {
        tracing::warn!(
            variables,
            "Git over HTTP, forges and tasks are reached through a proxy: it has to refuse the addresses that may not be \
             reached, only their URLs are judged here"
        );
    }
    let metrics = Arc::new(Metrics::default());
    let counted = Arc::new(Counted(metrics.clone()));
    // A provider that is installed already is the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder()
        .user_agent(concat!("kardinal/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .dns_resolver(bounds.resolver())
        .build()?;
    let forges = scm::Http::reaching(
        scm::Settings::default(),
        Some(counted),
        bounds.reach.clone(),
        Some(bounds.resolver()),
    );
    Ok(Outside {
        repositories: git,
        forges: Arc::new(RealForges { http: forges, client }),
        forge,
        kustomize: find("kustomize"),
        http,
        reach: bounds.reach.clone(),
        metrics,
        workloads: None,
    })
}

/// The variables that name a proxy, where addresses are judged. What they say may be a secret.
fn proxies(reach: &Policy, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let set: Vec<&str> = PROXIES.into_iter().filter(|name| is_set(name)).collect();
    (!reach.uses_machine() && !set.is_empty()).then(|| set.join(", "))
}

struct Counted(Arc<Metrics>);

impl scm::Observer for Counted {
    fn request(&self, endpoint: &'static str, status: u16, _: Duration) {
        self.0.scm_request(endpoint, status);
    }
}

/// A program on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::TcpListener;

    use kardinal_reach::Hosts;

    use super::*;

    #[test]
    fn a_proxy_is_told_of_where_it_decides_over_addresses() {
        let proxies = |reach: &Policy, set: &[&str]| proxies(reach, |name| set.contains(&name));
        let cluster = Policy::cluster(Hosts::default());
        assert_eq!(proxies(&cluster, &["NO_PROXY", "PATH"]), None);
        let variables = proxies(&cluster, &["https_proxy", "HTTP_PROXY", "NO_PROXY"]);
        assert_eq!(variables.as_deref(), Some("HTTP_PROXY, https_proxy"));
        assert_eq!(proxies(&Policy::machine(Hosts::default()), &["HTTP_PROXY"]), None);
    }

    /// Reach is judged for the URL that somebody wrote; whoever is there cannot send us on to another one.
    #[tokio::test]
    async fn a_task_that_redirects_is_not_followed() {
        let bounds = Bounds { reach: Policy::machine(Hosts::default()), limits: Limits::default() };
        let folder = tempfile::tempdir().unwrap();
        let git = Arc::new(git(folder.path().to_owned(), None, &bounds));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let nobody = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let outside = outside(kube::Client::try_from(nobody).unwrap(), git, None, &bounds).unwrap();
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let location = format!("http://{}/", elsewhere.local_addr().unwrap());
        let task = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", task.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut caller, _) = task.accept().unwrap();
            let read = caller.read(&mut [0; 4096]).unwrap();
            write!(
                caller,
                "HTTP/1.1 307 Go on\r\nLocation: {location}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            .unwrap();
            read
        });
        // Nobody answers elsewhere: whoever goes there fails here.
        let answer = outside.http.post(url).timeout(CONNECT).send().await.unwrap();
        assert!(answering.join().unwrap() > 0);
        assert_eq!(answer.status().as_u16(), 307);
        assert_eq!(
            elsewhere.accept().unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "somebody called elsewhere"
        );
    }
}
