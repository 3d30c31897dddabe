//! The HTTP face: turns requests into model calls and model answers into responses.
//!
//! It decides nothing about objects. Reads and watches come from memory, writes go through the store's one writer.

mod body;
mod documents;
mod negotiate;
mod path;
mod query;
mod read;
mod render;
mod respond;
mod reviews;
mod watch;
mod write;

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use futures::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use kardinal_apimodel::model::Target;
use kardinal_apimodel::{Status, openapi};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::negotiate::{Form, Syntax};
use self::path::ResourcePath;
use self::query::Query;
use crate::backup::Snapshot;
use crate::clock::Clock;
use crate::limits::Limits;
use crate::listen::Peer;
use crate::shares::Shares;
use crate::store::Store;
use crate::uploads::UploadRefused;

/// What every request can reach.
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) stop: CancellationToken,
    /// The places of requests over the network.
    requests: Semaphore,
    /// Those of clients in this process.
    own_requests: Semaphore,
    watches: Arc<Shares>,
    documents: documents::Cache,
}

/// Put on a request by the front it came through: watches end when that front stops.
#[derive(Debug, Clone)]
pub(crate) struct FrontStop(pub(crate) CancellationToken);

impl App {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, limits: Limits, stop: CancellationToken) -> App {
        App {
            store,
            clock,
            stop,
            requests: Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS)),
            own_requests: Semaphore::new(limits.own_requests.clamp(1, Semaphore::MAX_PERMITS)),
            watches: Shares::new(limits.watches, limits.watches_per_peer),
            documents: documents::Cache::default(),
            limits,
        }
    }
}

/// The whole API as a service, without authentication: whoever holds it is the admin.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new().fallback(handle).with_state(app)
}

/// The answer to a request without a valid token.
pub(crate) fn unauthorized() -> Response<Body> {
    respond::status(&Status::unauthorized())
}

/// The answer to a request whose body was not read to its end.
pub(crate) fn upload_refused(refused: UploadRefused) -> Response<Body> {
    respond::status(&match refused {
        UploadRefused::Busy => Status::too_many_requests(refused.to_string()),
        UploadRefused::Slow => Status::timeout(&refused.to_string()),
    })
}

/// A request's head, read once.
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) syntax: Syntax,
    /// Whether the client takes any form that we can give; probes do not care.
    acceptable: bool,
    /// Whether the client asks for the OpenAPI v2 document as client-go does.
    pub(crate) openapi_protobuf: bool,
    pub(crate) pretty: bool,
    pub(crate) content_type: Option<String>,
    pub(crate) user_agent: String,
    /// What the client reaches us under.
    pub(crate) host: String,
    pub(crate) if_none_match: Option<String>,
    pub(crate) stop: CancellationToken,
    /// Who asks over the network; nobody for a client in this process.
    pub(crate) peer: Option<IpAddr>,
}

async fn handle(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if let Some(status) = impersonation(&parts.headers) {
        return respond::status(&status);
    }
    let target = path::parse(parts.uri.path());
    let front = parts.extensions.get::<FrontStop>().map(|front| front.0.clone());
    let outside = front.is_some();
    let stop = front.unwrap_or_else(|| app.stop.clone());
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let head = match Head::read(parts.method, parts.uri.query(), &parts.headers, stop) {
        Ok(head) => Head { peer, ..head },
        Err(status) => return respond::status(&status),
    };
    if let path::Target::Resource(resource) = &target
        && head.query.watch
        && head.method == Method::GET
    {
        let opened = head.check_acceptable().and_then(|()| read::watch(&app, resource, &head));
        return opened.unwrap_or_else(|status| respond::status(&status));
    }
    // A panic is a bug in answering this one request: its caller learns of it, everybody else goes on.
    let answer = AssertUnwindSafe(admit(&app, target, head, body, outside)).catch_unwind();
    match tokio::time::timeout(app.limits.request_timeout, answer).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => respond::status(&Status::internal("the request could not be processed")),
        Err(_) => respond::status(&Status::timeout("the request did not complete within the allotted time")),
    }
}

/// The 403 for a request that wants to be made as somebody else. Until roles are decided there is nobody else, and a
/// request that was meant to have fewer rights must not run with all of them.
fn impersonation(headers: &HeaderMap) -> Option<Status> {
    let name = headers.keys().find(|name| name.as_str().starts_with("impersonate-"))?;
    let message = format!(
        "impersonation is not possible here: this server knows one user, `{}`, and no roles, so it cannot decide what \
         another one may do; leave the header `{name}` (`kubectl --as`) out",
        reviews::ADMIN
    );
    Some(Status::generic(403, kardinal_apimodel::Reason::Forbidden, &message))
}

/// Lets a request in: one from outside is refused when its places are taken, one of our own waits for its turn. Neither
/// takes the places of the other, or whoever waits in this process would keep out everybody who may not.
async fn admit(app: &App, target: path::Target, head: Head, body: Body, outside: bool) -> Response<Body> {
    // A busy server is still alive: probes need no place.
    if matches!(target, path::Target::Health { .. }) {
        return dispatch(app, target, head, body).await;
    }
    let permit =
        if outside { app.requests.try_acquire().ok() } else { app.own_requests.acquire().await.ok() };
    if permit.is_none() {
        let full = "too many requests are in flight, try again later";
        return respond::status(&Status::too_many_requests(full));
    }
    dispatch(app, target, head, body).await
}

impl Head {
    fn read(
        method: Method,
        query: Option<&str>,
        headers: &HeaderMap,
        stop: CancellationToken,
    ) -> Result<Head, Status> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let query = Query::parse(query.unwrap_or_default()).map_err(Status::bad_request)?;
        let accepted = negotiate::accept(text(ACCEPT));
        let (form, syntax) = accepted.unwrap_or((Form::Plain, Syntax::Json));
        let user_agent = text(USER_AGENT).unwrap_or_default().to_owned();
        // kube pretty-prints for people: a request from curl or a browser without a word about it.
        let person = user_agent.starts_with("curl/") || user_agent.starts_with("Mozilla/");
        Ok(Head {
            pretty: query.pretty.unwrap_or(person),
            method,
            query,
            form,
            syntax,
            acceptable: accepted.is_some(),
            openapi_protobuf: text(ACCEPT).is_some_and(|accept| accept.contains(openapi::V2_PROTOBUF)),
            content_type: text(CONTENT_TYPE).map(str::to_owned),
            user_agent,
            host: text(http::header::HOST).unwrap_or("localhost").to_owned(),
            if_none_match: text(http::header::IF_NONE_MATCH).map(str::to_owned),
            stop,
            peer: None,
        })
    }
}

impl Head {
    /// The 406 for a client that takes neither JSON nor YAML.
    pub(crate) fn check_acceptable(&self) -> Result<(), Status> {
        let accepted = ["application/json", "application/yaml"];
        if self.acceptable { Ok(()) } else { Err(Status::not_acceptable(&accepted)) }
    }
}

async fn dispatch(app: &App, target: path::Target, head: Head, body: Body) -> Response<Body> {
    let answer = match target {
        path::Target::Resource(resource) => on_resource(app, &resource, &head, body).await,
        _ if !matches!(head.method, Method::GET | Method::HEAD) => Err(not_allowed()),
        path::Target::Backup => Ok(backup(app)),
        other => documents::answer(app, &other, &head),
    };
    answer.unwrap_or_else(|status| respond::status(&status))
}

async fn on_resource(
    app: &App,
    resource: &ResourcePath,
    head: &Head,
    body: Body,
) -> Result<Response<Body>, Status> {
    head.check_acceptable()?;
    if head.method == Method::POST && reviews::is_review(resource) {
        return reviews::answer(app, resource, head, body).await;
    }
    match (&head.method, resource.name.is_some()) {
        (&(Method::GET | Method::HEAD), true) => read::get(app, resource, head),
        (&(Method::GET | Method::HEAD), false) => read::list(app, resource, head),
        _ => write::answer(app, resource, head, body).await,
    }
}

/// Every object at one version. Nobody waits for whoever reads it, however slowly.
fn backup(app: &App) -> Response<Body> {
    let snapshot = Snapshot::of(&app.store.read());
    let pieces = futures::stream::iter(snapshot.pieces().map(Ok::<_, std::convert::Infallible>));
    let kind = http::HeaderValue::from_static("application/jsonl");
    respond::typed(http::StatusCode::OK, kind, Body::from_stream(pieces))
}

fn not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::generic(405, kardinal_apimodel::Reason::MethodNotAllowed, message)
}

impl ResourcePath {
    /// The same address as the model spells it.
    pub(crate) fn target(&self) -> Target {
        Target {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone().unwrap_or_default(),
            subresource: self.subresource.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
