//! A Kubernetes-compatible API server in our own process: HTTP, watch streams, authentication and a durable store
//! round the pure state machine of `kardinal-apimodel`.
//!
//! Controllers and tests use [`Server::client`], a `kube::Client` whose transport is the router itself, without a socket;
//! `kubectl` and everybody else comes in over HTTPS through [`Server::serve`]. Both reach the same router.
//!
//! What must not be here: decisions about objects (they belong to the model) and reads from the disk after start-up.

// A `Status` is the answer to the client; boxing it would buy nothing.
#![allow(clippy::result_large_err)]

pub mod backup;
mod clock;
mod credentials;
mod error;
mod expiry;
mod files;
mod housekeeping;
mod http;
mod ids;
mod limits;
mod listen;
mod shares;
mod store;
mod tls;
mod uploads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::clock::{Clock, SystemClock, TokioClock};
pub use self::error::Error;
pub use self::files::write_private;
pub use self::limits::{ConnectionLimits, Limits, UploadLimits};
pub use self::listen::{Peer, ServeHandle, serve_plain};
pub use self::uploads::{UploadRefused, Uploads};
pub use kardinal_apimodel::watch::Limits as WindowLimits;

use self::credentials::Token;
use self::http::App;
use self::ids::IdSource;
use self::store::{Store, StoreOptions, WriterEnd};
use self::tls::Pki;

/// How a server is started.
#[derive(Clone)]
pub struct Options {
    /// Where objects, keys, the token and the kubeconfig live; nothing means that all is in memory.
    pub data_dir: Option<PathBuf>,
    /// Where timestamps come from.
    pub clock: Arc<dyn Clock>,
    /// Bounds on clients.
    pub limits: Limits,
    /// How much of the past watches can start from.
    pub window: WindowLimits,
    /// The admin's bearer token; nothing means the data directory's own, or a random one.
    pub token: Option<String>,
    /// Names and addresses for the server's certificate besides those of loopback.
    pub tls_names: Vec<String>,
    /// Makes uids and generated names repeat from run to run; for simulations only.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            data_dir: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            window: WindowLimits::default(),
            token: None,
            tls_names: Vec::new(),
            seed: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token stays out of every log.
        f.debug_struct("Options")
            .field("data_dir", &self.data_dir)
            .field("limits", &self.limits)
            .field("window", &self.window)
            .field("tls_names", &self.tls_names)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    store: Store,
    router: Router,
    limits: Limits,
    uploads: Uploads,
    data_dir: Option<PathBuf>,
    token: Token,
    tls_names: Vec<String>,
    stop: CancellationToken,
    tasks: TaskTracker,
    writer: WriterEnd,
}

impl Server {
    /// Opens the store and starts the writer and the housekeeping; serves nothing over the network yet.
    pub async fn start(options: Options) -> Result<Server, Error> {
        let (store, writer) = Store::open(StoreOptions {
            data_dir: options.data_dir.as_deref(),
            clock: options.clock.clone(),
            ids: IdSource::new(options.seed),
            batch: options.limits.batch,
            window: options.window,
        })
        .await?;
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        housekeeping::start(&store, &stop, &tasks).await?;
        // Keys come after the first objects: keys beside an empty store tell that it was lost.
        let token = match (options.token, &options.data_dir) {
            (Some(text), _) => Token::new(text),
            (None, Some(dir)) => Token::load_or_create(dir)?,
            (None, None) => Token::random()?,
        };
        expiry::start(&store, options.clock.clone(), &stop, &tasks);
        let app = Arc::new(App::new(store.clone(), options.clock, options.limits.clone(), stop.clone()));
        Ok(Server {
            store,
            router: http::router(app),
            uploads: Uploads::new(options.limits.uploads.clone()),
            limits: options.limits,
            data_dir: options.data_dir,
            token,
            tls_names: options.tls_names,
            stop,
            tasks,
            writer,
        })
    }

    /// A client on this server's router: no socket, no token, the admin's rights.
    #[must_use]
    pub fn client(&self, default_namespace: &str) -> kube::Client {
        kube::Client::new(self.router.clone(), default_namespace)
    }

    /// The API as a service, without authentication. Do not put it on a network.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Serves over HTTPS with the token required. With a data directory, `DIR/kubeconfig` is (re)written for it.
    pub async fn serve(&self, listener: TcpListener) -> Result<ServeHandle, Error> {
        let address = listen::address_of(&listener)?;
        let pki = match &self.data_dir {
            Some(dir) => Pki::load_or_create(dir, &self.tls_names)?,
            None => Pki::ephemeral(&self.tls_names)?,
        };
        let kubeconfig = credentials::kubeconfig(address, &pki.ca_pem, &self.token);
        if let Some(dir) = &self.data_dir {
            write_kubeconfig(&dir.join("kubeconfig"), &kubeconfig)?;
        }
        let stop = self.stop.child_token();
        let front = listen::Front {
            router: self.router.clone(),
            token: self.token.clone(),
            tls: pki.server_config()?,
            limits: self.limits.clone(),
            uploads: self.uploads.clone(),
            stop: stop.clone(),
        };
        let task = self.tasks.spawn(listen::run(listener, front));
        Ok(ServeHandle::new(address, kubeconfig, task, stop))
    }

    /// Bytes of bodies that are held for requests over the network which are not answered yet.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.uploads.held()
    }

    /// Ends watches, lets running requests finish, makes queued writes durable and frees the data directory.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.store.stop().await;
        self.writer.wait().await;
    }
}

/// Writes a kubeconfig so that only its owner can read it, and never half.
pub fn write_kubeconfig(path: &Path, kubeconfig: &str) -> Result<(), Error> {
    write_private(path, kubeconfig.as_bytes())
}
