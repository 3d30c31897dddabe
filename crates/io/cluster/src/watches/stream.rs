//! The life of one watch: list, watch, and again when the server says so.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use kardinal_graph::Gvk;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::object::version_of;
use super::{Change, KindWatch};
use crate::kinds::{Kinds, Resolved};

/// How many objects one list request asks for.
const PAGE: u32 = 500;
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_LAST: Duration = Duration::from_secs(30);

/// Why a watch ended.
enum End {
    /// The stream is over; the next one may start from this version.
    Resume(u64),
    /// The version is too old: a new list is needed.
    Relist,
    /// The kind is not served (any more).
    NotServed,
}

/// Keeps the kind's store current until it is dropped.
pub(super) async fn run(
    client: kube::Client,
    kinds: Arc<Kinds>,
    watch: Arc<KindWatch>,
    changes: UnboundedSender<Change>,
) {
    let mut backoff = BACKOFF_FIRST;
    loop {
        match follow(&client, &kinds, &watch, &changes).await {
            Ok(()) => {
                tell(&changes, watch.write(|store| store.clear()));
                tell(&changes, [Change::Kind(watch.gvk.clone())]);
                watch.retry.notified().await;
                backoff = BACKOFF_FIRST;
            }
            Err(error) => {
                tracing::warn!(kind = %watch.gvk.kind, error = %error, "watch failed, trying again");
                if watch.write(|store| store.settle()) {
                    tell(&changes, [Change::Kind(watch.gvk.clone())]);
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_LAST);
            }
        }
    }
}

/// Lists and watches; returns `Ok` when the kind is not served.
async fn follow(
    client: &kube::Client,
    kinds: &Kinds,
    watch: &KindWatch,
    changes: &UnboundedSender<Change>,
) -> Result<(), kube::Error> {
    loop {
        let Some(kind) = kinds.resolve(&watch.gvk).await? else { return Ok(()) };
        let request = Request::new(kind.path(None));
        let Some((items, mut version)) = list(client, &request, ListParams::default(), &watch.gvk).await?
        else {
            kinds.forget(&watch.gvk);
            return Ok(());
        };
        sync(watch, &kind, items, version, changes);
        loop {
            match stream(client, &request, watch, version, changes).await? {
                End::Resume(at) => version = at,
                End::Relist => break,
                End::NotServed => {
                    kinds.forget(&watch.gvk);
                    return Ok(());
                }
            }
        }
    }
}

/// All objects of the kind that are asked for and the list's version; `None` when the kind is not served.
pub(super) async fn list(
    client: &kube::Client,
    request: &Request,
    params: ListParams,
    gvk: &Gvk,
) -> Result<Option<(Vec<Value>, u64)>, kube::Error> {
    let mut items = Vec::new();
    let mut params = params.limit(PAGE);
    loop {
        let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page = match client.request::<Value>(request).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                items.clear();
                params.continue_token = None;
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            items.extend(found.into_iter().map(|item| with_type(item, gvk)));
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(token) if !token.is_empty() => params.continue_token = Some(token.to_owned()),
            _ => return Ok(Some((items, version_of(&page)))),
        }
    }
}

/// Items of a list may leave out their apiVersion and kind.
fn with_type(mut item: Value, gvk: &Gvk) -> Value {
    if let Value::Object(fields) = &mut item {
        fields.entry("apiVersion").or_insert_with(|| gvk.api_version().into());
        fields.entry("kind").or_insert_with(|| gvk.kind.clone().into());
    }
    item
}

fn sync(
    watch: &KindWatch,
    kind: &Resolved,
    items: Vec<Value>,
    version: u64,
    changes: &UnboundedSender<Change>,
) {
    let (first, differences) =
        watch.write(|store| (!store.synced(), store.replace(kind.scope, items, version)));
    tell(changes, differences);
    if first {
        tell(changes, [Change::Kind(watch.gvk.clone())]);
    }
}

async fn stream(
    client: &kube::Client,
    request: &Request,
    watch: &KindWatch,
    version: u64,
    changes: &UnboundedSender<Change>,
) -> Result<End, kube::Error> {
    let params = WatchParams { bookmarks: true, ..WatchParams::default() };
    let request = request.watch(&params, &version.to_string()).map_err(kube::Error::BuildRequest)?;
    let events = match client.request_events::<Value>(request).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(End::Relist),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(End::NotServed),
        Err(error) => return Err(error),
    };
    let mut events = pin!(events);
    let mut version = version;
    while let Some(event) = events.try_next().await? {
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                version = version.max(version_of(&object));
                watch.write(|store| store.put_event(object))
            }
            WatchEvent::Deleted(object) => {
                version = version.max(version_of(&object));
                watch.write(|store| store.remove_event(&object))
            }
            WatchEvent::Bookmark(bookmark) => {
                version = version.max(bookmark.metadata.resource_version.parse().unwrap_or_default());
                None
            }
            WatchEvent::Error(status) if status.code == 410 => return Ok(End::Relist),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        tell(changes, change);
    }
    Ok(End::Resume(version))
}

fn tell(changes: &UnboundedSender<Change>, differences: impl IntoIterator<Item = Change>) {
    for change in differences {
        // Nobody listens any more only while the process ends.
        let _ = changes.send(change);
    }
}
