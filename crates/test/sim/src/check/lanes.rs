//! An environment never has two open pull requests, not even for a moment.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kardinal_api::forge::{Desired, PullRequest, PullRequestState};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};

use super::parts;
use crate::world::{NAMESPACE, World};

/// Hears of every change of every pull request, in order; ends when something is wrong.
pub(crate) async fn watch(world: &World) -> anyhow::Result<()> {
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), NAMESPACE);
    let list = api.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let mut open = Open::default();
    for request in &list.items {
        open.hear(request, true)?;
    }
    loop {
        let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            let (request, there) = match event {
                WatchEvent::Added(request) | WatchEvent::Modified(request) => (request, true),
                WatchEvent::Deleted(request) => (request, false),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => bail!("the watch of pull requests was cut: {status:?}"),
            };
            open.hear(&request, there)?;
            version = request.metadata.resource_version.unwrap_or(version);
        }
    }
}

/// The branches of the open pull requests, by the names of these.
#[derive(Default)]
struct Open(BTreeMap<String, String>);

impl Open {
    fn hear(&mut self, request: &PullRequest, there: bool) -> anyhow::Result<()> {
        let name = request.metadata.name.clone().unwrap_or_default();
        if !there || !is_open(request) {
            self.0.remove(&name);
            return Ok(());
        }
        let head = request.spec.head.clone();
        let Some((_, environment)) = parts(&head) else { bail!("whose pull request is `{head}`?") };
        let mut others = self.0.iter().filter(|(other, _)| **other != name).map(|(_, head)| head);
        let other = others.find(|head| parts(head).is_some_and(|(_, to)| to == environment));
        ensure!(
            other.is_none(),
            "`{environment}` has more than one open pull request: `{head}` beside {other:?}"
        );
        self.0.insert(name, head);
        Ok(())
    }
}

/// What was asked to close is open until the forge has closed it.
fn is_open(request: &PullRequest) -> bool {
    match request.status.as_ref().and_then(|status| status.state) {
        Some(state) => state == PullRequestState::Open,
        None => request.spec.desired() != Desired::Closed,
    }
}
