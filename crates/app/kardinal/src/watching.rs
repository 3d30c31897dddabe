//! `--watch`: print again when an object changes, and at the instants at which an answer changes by itself.

use std::time::Duration;

use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use jiff::Timestamp;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};

use crate::failure::{Failure, Kind};
use crate::output::Screen;
use crate::server::Ours;

/// One cause often changes several objects; they are shown together.
const TOGETHER: Duration = Duration::from_millis(100);
/// A clock may be set while somebody watches.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Tells that something has changed.
#[derive(Default)]
pub(crate) struct Changes {
    signals: SelectAll<BoxStream<'static, ()>>,
}

impl Changes {
    /// Watches a kind, too.
    pub(crate) fn of<K: Ours>(mut self, api: Api<K>, config: watcher::Config) -> Changes {
        let events = watcher(api, config).default_backoff();
        let changed = events.filter_map(async |event| match event {
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(()),
            Err(error) => {
                tracing::debug!(%error, kind = %K::kind(&()), "the watch is started again");
                None
            }
        });
        self.signals.push(changed.boxed());
        self
    }

    /// Waits for a change or for an instant, whichever comes first.
    pub(crate) async fn next(&mut self, until: Option<Timestamp>) {
        let left = until.map(|until| until.duration_since(Timestamp::now()));
        let left = left.map(|left| Duration::try_from(left).unwrap_or_default());
        tokio::select! {
            _ = self.signals.next() => {}
            // A moment later, so that the instant has come by every clock.
            () = tokio::time::sleep(left.map_or(LONGEST_WAIT, |left| (left + TOGETHER).min(LONGEST_WAIT))) => return,
        }
        let more = tokio::time::sleep(TOGETHER);
        tokio::pin!(more);
        loop {
            tokio::select! {
                () = &mut more => return,
                _ = self.signals.next() => {}
            }
        }
    }
}

/// Renders again and again until the program is stopped. A server that is away for a while is waited for.
pub(crate) async fn follow(
    mut changes: Changes,
    mut render: impl AsyncFnMut() -> anyhow::Result<(String, Option<Timestamp>)>,
) -> anyhow::Result<()> {
    let mut screen = Screen::default();
    let mut shown = false;
    loop {
        let next = match render().await {
            Ok((text, next)) => {
                screen.show(&text);
                shown = true;
                next
            }
            Err(error) if shown && is_outage(&error) => {
                tracing::warn!("{error:#}; waiting for the server");
                None
            }
            Err(error) => return Err(error),
        };
        changes.next(next).await;
    }
}

fn is_outage(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.kind == Kind::NotReachable)
}
