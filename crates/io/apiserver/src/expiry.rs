//! Events do not live for ever: an hour after they were last seen they go, as on a real cluster.
//!
//! The task sleeps until the next event is due and otherwise waits for one to exist; it never polls.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kardinal_apimodel::model::{DeleteOptions, Preconditions, Target, Verb};
use kardinal_apimodel::{Object, Request};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::store::Store;

/// kube-apiserver's default.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Due events are collected for this long, so that a burst goes in few turns; also the bound against a clock that stands.
const GRAIN: Duration = Duration::from_secs(10);
/// The two groups that serve events.
const RESOURCES: [(&str, &str); 2] = [("events", ""), ("events.events.k8s.io", "events.k8s.io")];

/// Starts the task.
pub(crate) fn start(store: &Store, clock: Arc<dyn Clock>, stop: &CancellationToken, tasks: &TaskTracker) {
    let (store, stop) = (store.clone(), stop.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = run(&store, &*clock) => {}
        }
    });
}

async fn run(store: &Store, clock: &dyn Clock) {
    let mut commits = store.commits();
    loop {
        commits.borrow_and_update();
        let now = clock.now();
        let (due, next) = look(store, now);
        join_all(due.into_iter().map(|request| async move {
            if let Err(status) = store.submit(request).await
                && !matches!(status.code, 404 | 409)
            {
                tracing::warn!(error = %status, "an old event could not be deleted");
            }
        }))
        .await;
        match next {
            // Nothing that comes later can be due earlier, so commits need not wake us.
            Some(at) => {
                let wait = Duration::try_from(at.duration_since(now)).unwrap_or(GRAIN);
                tokio::time::sleep(wait.max(GRAIN)).await;
            }
            None if commits.changed().await.is_err() => return,
            None => {}
        }
    }
}

/// The events that are due, and when the next one is.
fn look(store: &Store, now: Timestamp) -> (Vec<Request>, Option<Timestamp>) {
    let mut due = Vec::new();
    let mut next: Option<Timestamp> = None;
    for (resource, group) in RESOURCES {
        let events: Vec<Arc<Object>> = match store.read().collection(resource) {
            Some(collection) => collection.iter().filter(|event| !event.terminating()).cloned().collect(),
            None => continue,
        };
        // Reading the times means parsing: that is done without the lock.
        for event in events {
            let seen = last_seen(&event.value());
            let Some(end) = seen.and_then(|seen| seen.checked_add(LIFETIME).ok()) else { continue };
            if end <= now {
                due.push(delete(group, &event));
            } else {
                next = Some(next.map_or(end, |other| other.min(end)));
            }
        }
    }
    (due, next)
}

fn last_seen(event: &Value) -> Option<Timestamp> {
    ["/metadata/creationTimestamp", "/eventTime", "/lastTimestamp", "/series/lastObservedTime"]
        .iter()
        .filter_map(|path| event.pointer(path)?.as_str()?.parse().ok())
        .max()
}

fn delete(group: &str, event: &Object) -> Request {
    let preconditions = Preconditions {
        uid: Some(event.uid().to_owned()),
        resource_version: Some(event.resource_version().to_string()),
    };
    Request {
        target: Target {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: "events".to_owned(),
            namespace: event.namespace().to_owned(),
            name: event.name().to_owned(),
            subresource: String::new(),
        },
        verb: Verb::Delete { options: DeleteOptions { preconditions, ..DeleteOptions::default() } },
    }
}
