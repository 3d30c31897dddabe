//! The life of one watch: list, watch, and again when the server says so.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use http_body_util::LengthLimitError;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, Status, WatchEvent};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc::UnboundedSender;

use super::object::{Head, Object, version_of};
use super::room::{Full, Keeping};
use super::{Change, KindWatch, Lost, Name};
use crate::kinds::{Kinds, Resolved};

/// How many objects one list request asks for, at first.
const PAGE: u32 = 500;
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_LAST: Duration = Duration::from_secs(30);
/// How long the answer to a request may take to begin, or one page of a list to arrive.
const ANSWER: Duration = Duration::from_secs(30);
/// After so long a silence a watch is asked for anew: servers mark the time about once a minute, and a connection that
/// was cut without a word looks the same as one on which nothing happens.
const SILENCE: Duration = Duration::from_secs(90);
/// Longer reasons are cut.
const REASON_LIMIT: usize = 300;

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
                tell(&changes, [Change::Kind(watch.keeping.gvk.clone())]);
                watch.retry.notified().await;
                backoff = BACKOFF_FIRST;
            }
            Err(error) => {
                let lost = Lost::of(&error);
                tracing::warn!(kind = %watch.keeping.gvk.kind, error = %lost.why, "watch failed, trying again");
                watch.write(|store| {
                    store.set_lost(Some(lost));
                    // The next list would find the room taken by this one.
                    if has_cause::<Full>(&error) {
                        store.empty();
                    }
                });
                if watch.write(|store| store.mark_attempted()) {
                    tell(&changes, [Change::Kind(watch.keeping.gvk.clone())]);
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
        let Some(kind) = in_time(kinds.resolve(&watch.keeping.gvk)).await? else { return Ok(()) };
        let request = Request::new(kind.path(None));
        let Some((items, mut version)) =
            list(client, &request, ListParams::default(), &watch.keeping).await?
        else {
            kinds.forget(&watch.keeping.gvk);
            return Ok(());
        };
        sync(watch, &kind, items, version, changes);
        loop {
            match stream(client, &request, watch, version, changes).await? {
                End::Resume(at) => version = at,
                End::Relist => break,
                End::NotServed => {
                    kinds.forget(&watch.keeping.gvk);
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
    keeping: &Keeping,
) -> Result<Option<(Vec<(Name, Object)>, u64)>, kube::Error> {
    let mut items = Vec::new();
    let mut size = PAGE;
    let mut params = params;
    loop {
        params = params.limit(size);
        let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
        let text = match in_time(client.request_text(request)).await {
            Ok(text) => text,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Api(status)) if status.code == 410 && params.continue_token.is_some() => {
                items.clear();
                params.continue_token = None;
                continue;
            }
            Err(error) if size > 1 && is_too_long(&error) => {
                size /= 2;
                continue;
            }
            Err(error) => return Err(in_our_words(error)),
        };
        // A tree takes many times the room of its text, so the page's is gone before anything else is waited for.
        let mut page: Value = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            for item in found {
                items.push(keeping.keep(item).map_err(|full| kube::Error::Service(full.into()))?);
            }
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(token) if !token.is_empty() => params.continue_token = Some(token.to_owned()),
            _ => return Ok(Some((items, version_of(&page)))),
        }
    }
}

/// Whether a client with bounds stopped reading.
fn is_too_long(error: &kube::Error) -> bool {
    has_cause::<LengthLimitError>(error)
}

fn has_cause<E: std::error::Error + 'static>(error: &kube::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<E>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// In our words, where a library has only its own.
fn in_our_words(error: kube::Error) -> kube::Error {
    if !is_too_long(&error) {
        return error;
    }
    kube::Error::Service("its answer about a single object is longer than what is read of one".into())
}

fn sync(
    watch: &KindWatch,
    kind: &Resolved,
    items: Vec<(Name, Object)>,
    version: u64,
    changes: &UnboundedSender<Change>,
) {
    let (first, differences) =
        watch.write(|store| (!store.synced(), store.replace(kind.scope, items, version)));
    tell(changes, differences);
    if first {
        tell(changes, [Change::Kind(watch.keeping.gvk.clone())]);
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
    let events = match in_time(client.request_events::<Box<RawValue>>(request)).await {
        Ok(events) => events,
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(End::Relist),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(End::NotServed),
        Err(error) => return Err(error),
    };
    if watch.read().lost().is_some() {
        watch.write(|store| store.set_lost(None));
    }
    let mut events = pin!(events);
    let from = version;
    let mut version = version;
    while let Ok(next) = tokio::time::timeout(SILENCE, events.try_next()).await {
        let event = match next {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // A client with bounds reads so much of one answer. The next one goes on from here.
            Err(error) if version > from && is_too_long(&error) => break,
            Err(error) => return Err(in_our_words(error)),
        };
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let head = Head::read(&object)?;
                version = version.max(head.version);
                // Most events tell of our own writes, whose answers are here already: those need no tree.
                if watch.read().knows(&head) {
                    continue;
                }
                let tree: Value = serde_json::from_str(object.get()).map_err(kube::Error::SerdeError)?;
                let object = watch.keeping.keep(tree).map_err(|full| kube::Error::Service(full.into()))?;
                watch.write(|store| store.put_event(object))
            }
            WatchEvent::Deleted(object) => {
                let head = Head::read(&object)?;
                version = version.max(head.version);
                watch.write(|store| store.remove_event(&head))
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

/// Gives up on a server that takes the request and says nothing.
async fn in_time<T>(answer: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(ANSWER, answer).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(kube::Error::Service(format!("no answer within {ANSWER:?} ({elapsed})").into())),
    }
}

impl Lost {
    /// What went wrong with a request.
    pub(super) fn of(error: &kube::Error) -> Lost {
        let code = if let kube::Error::Api(status) = error { Some(status.code) } else { None };
        Lost { why: reason(error), code }
    }
}

/// What went wrong, from the outside to the cause: the outermost words alone often name only the library.
fn reason(error: &kube::Error) -> String {
    let (mut parts, mut source) = match error {
        kube::Error::Api(status) => (answered(status), None),
        other => (vec![other.to_string()], std::error::Error::source(other)),
    };
    while let Some(cause) = source {
        let text = cause.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        source = cause.source();
    }
    // The other side may have written it.
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    parts.join(": ").chars().map(plain).take(REASON_LIMIT).collect()
}

/// An answer of the server: `403 Forbidden`, and what it says besides.
fn answered(status: &Status) -> Vec<String> {
    let Status { code, reason, message, .. } = status;
    let mut parts = vec![format!("{code} {reason}").trim_end().to_owned()];
    if !message.is_empty() && message != reason {
        parts.push(message.clone());
    }
    parts
}

fn tell(changes: &UnboundedSender<Change>, differences: impl IntoIterator<Item = Change>) {
    for change in differences {
        // Nobody listens any more only while the process ends.
        let _ = changes.send(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_told_as_its_code_its_reason_and_its_words() {
        let refused = |code, reason, message| {
            reason_of(Status {
                code,
                reason: String::from(reason),
                message: String::from(message),
                ..Status::default()
            })
        };
        assert_eq!(refused(401, "Unauthorized", "Unauthorized"), "401 Unauthorized");
        let words = "pods is forbidden: User \"x\" cannot list";
        assert_eq!(refused(403, "Forbidden", words), format!("403 Forbidden: {words}"));
        assert_eq!(refused(500, "", "no\nluck"), "500: no luck");
        assert_eq!(refused(503, "", ""), "503");
        assert_eq!(refused(400, "", &"x".repeat(1000)).len(), REASON_LIMIT);
    }

    #[test]
    fn only_an_answer_has_a_code_whatever_the_words_begin_with() {
        let refused = kube::Error::Api(Box::new(Status { code: 403, ..Status::default() }));
        assert_eq!(Lost::of(&refused).code, Some(403));
        let away = kube::Error::Service("403 is no answer".into());
        assert_eq!(Lost::of(&away).code, None);
    }

    fn reason_of(status: Status) -> String {
        reason(&kube::Error::Api(Box::new(status)))
    }
}
