//! The sentence that every controller speaks, once: observe → plan → act → report.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_cluster::{Change, View};
use kardinal_object::Gvk;
use kardinal_planner::sentence::{Plan, Report};
use serde::Serialize;

pub(crate) use super::driver::Turn;
use super::driver::{self, Key, Next, Route};
use super::objects::{self, gvk, lock};
use super::routes::{self, Hearer};
use crate::Context;

/// What is remembered of one object. A pass holds it only for moments: what is heard meanwhile goes in there, too.
pub(crate) type Remembered<M> = Arc<Mutex<M>>;

/// What was seen in one pass.
pub(crate) trait Observed {
    /// The metadata of the object that the pass is about.
    fn metadata(&self) -> &ObjectMeta;

    /// The one `now` of the pass.
    fn now(&self) -> Timestamp;
}

/// A kind of objects, and what its controller says in the places of the sentence.
pub(crate) trait Kind: Hearer {
    /// What a pass is decided from.
    type Seen: Observed + Send + Sync;
    /// One thing to do.
    type Effect: Send + Sync;
    /// What comes of it.
    type Outcome: Send;
    /// What is told about an object.
    type Status: Serialize + Send + Sync;

    /// The name of the kind, for the log.
    const NAME: &'static str;
    /// The field manager of the status.
    const MANAGER: &'static str;

    /// Until when nothing is done about an object, if so.
    fn rests_until(&self, _: &mut Self::Memory, _: Timestamp) -> Option<Timestamp> {
        None
    }

    /// Whether passes take turns, besides the places of their namespace.
    const TAKES_TURNS: bool = false;

    /// Waits until a pass may begin that would keep others waiting. The object may be another one when it begins.
    fn turn(&self, _: &Key, _: &Remembered<Self::Memory>) -> impl Future<Output = Turn> + Send {
        std::future::ready(None)
    }

    /// Looks at the object and at what is around it. `before` is what was seen a moment ago in the same pass.
    fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Self::Memory>,
        before: Option<Self::Seen>,
    ) -> impl Future<Output = Result<Self::Seen, Next>> + Send;

    /// Decides.
    fn plan(&self, seen: &mut Self::Seen, memory: &mut Self::Memory) -> Plan<Self::Effect, Self::Status>;

    /// Reads kinds past their watches, as far as that was not done before; answers whether anything was read.
    fn read_again(
        &self,
        _: &Key,
        _: &Self::Seen,
        _: &[Gvk],
    ) -> impl Future<Output = Result<bool, String>> + Send {
        std::future::ready(Ok(false))
    }

    /// Carries one effect out.
    fn act(&self, seen: &Self::Seen, effect: &Self::Effect) -> impl Future<Output = Self::Outcome> + Send;

    /// Whether the stages after this one are left to the next pass.
    fn has_failed(_: &Self::Outcome) -> bool {
        false
    }

    /// Whether the object is gone after this.
    fn is_gone(_: &[(Self::Effect, Self::Outcome)]) -> bool {
        false
    }

    /// What to tell after the effects.
    fn report(
        &self,
        seen: &mut Self::Seen,
        plan: Plan<Self::Effect, Self::Status>,
        done: Vec<(Self::Effect, Self::Outcome)>,
        memory: &mut Self::Memory,
    ) -> Report<Self::Status>;

    /// When to look again where the status could not be written. `planned` is what else the pass wants.
    fn unwritten(later: Next, _planned: Next, _now: Timestamp) -> Next {
        later
    }

    /// The object tells what was reported: this was written, or nothing had to be.
    fn recorded(&self, _: &Self::Seen, _: Option<&Self::Status>, _: &mut Self::Memory) {}

    /// The object is gone.
    fn forget(&self, _: &Key) {}
}

/// What is told where nothing was done: the status, and its transitions once it is written.
pub(crate) fn as_planned<E, S>(plan: Plan<E, S>) -> Report<S> {
    let notes = if plan.status.is_some() { plan.notes } else { Vec::new() };
    Report { status: plan.status, notes, retry: None }
}

/// What has been seen of the kinds that passes of this kind read. Until all of them are known no pass can be made.
pub(crate) fn sight<K: Hearer>(context: &Context) -> Result<View, Next> {
    let view = routes::view::<K>(context);
    if view.synced() { Ok(view) } else { Err(Next::OnChange) }
}

/// What is remembered of the objects of a kind.
pub(crate) struct Memories<M> {
    /// With the uid of the object: one that was made anew under the same name is another one.
    of: Mutex<BTreeMap<Key, (String, Remembered<M>)>>,
}

impl<M> Default for Memories<M> {
    fn default() -> Memories<M> {
        Memories { of: Mutex::default() }
    }
}

impl<M: Default> Memories<M> {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, (String, Remembered<M>)>> {
        lock(&self.of)
    }

    /// What is remembered under a name.
    pub(crate) fn of(&self, key: &Key) -> Remembered<M> {
        self.all().entry(key.clone()).or_default().1.clone()
    }

    /// The same, unless nothing is remembered.
    pub(crate) fn known(&self, key: &Key) -> Option<Remembered<M>> {
        self.all().get(key).map(|(_, remembered)| remembered.clone())
    }

    /// What is remembered of the object that has this uid; nothing yet, if another one had the name before.
    fn of_object(&self, key: &Key, uid: &str) -> Remembered<M> {
        let mut all = self.all();
        let (known, remembered) = all.entry(key.clone()).or_default();
        if known != uid {
            if !known.is_empty() {
                *remembered = Remembered::default();
            }
            uid.clone_into(known);
        }
        remembered.clone()
    }

    fn forget(&self, key: &Key) {
        self.all().remove(key);
    }
}

/// The controller of a kind.
pub(crate) struct Controller<K: Kind> {
    kind: K,
    memories: Memories<K::Memory>,
}

impl<K: Kind> Controller<K> {
    /// Watches what every object of the kind needs.
    pub(crate) fn new(kind: K) -> Controller<K> {
        routes::watch::<K>(kind.context());
        Controller { kind, memories: Memories::default() }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &K {
        &self.kind
    }

    /// What is remembered of its objects.
    pub(crate) fn memories(&self) -> &Memories<K::Memory> {
        &self.memories
    }

    async fn sentence(&self, key: &Key, remembered: &Remembered<K::Memory>) -> Result<Next, Next> {
        // Many passes wait for other machines at the same time: each has only the room of the word that it is at.
        let (mut seen, mut plan) = Box::pin(self.decide(key, remembered)).await?;
        let done = Box::pin(self.carry_out(&seen, std::mem::take(&mut plan.stages))).await;
        let wake = plan.wake;
        let is_gone = K::is_gone(&done);
        let report = self.kind.report(&mut seen, plan, done, &mut lock(remembered));
        let now = seen.now();
        let again = match report.retry {
            Some(pause) if pause.is_zero() => Next::Now,
            Some(pause) => Next::At(now.saturating_add(pause).unwrap_or(Timestamp::MAX)),
            None => Next::at(wake),
        };
        Box::pin(self.tell(key, &seen, &report)).await.map_err(|later| K::unwritten(later, again, now))?;
        if is_gone {
            return Ok(Next::Never);
        }
        self.kind.recorded(&seen, report.status.as_ref(), &mut lock(remembered));
        Ok(again)
    }

    /// Looks and plans; once more where the plan needs to know more than the watches may have told.
    async fn decide(
        &self,
        key: &Key,
        remembered: &Remembered<K::Memory>,
    ) -> Result<(K::Seen, Plan<K::Effect, K::Status>), Next> {
        let mut seen = self.kind.observe(key, remembered, None).await?;
        let plan = self.kind.plan(&mut seen, &mut lock(remembered));
        if plan.fresh.is_empty() {
            return Ok((seen, plan));
        }
        match self.kind.read_again(key, &seen, &plan.fresh).await {
            Ok(false) => return Ok((seen, plan)),
            Ok(true) => {}
            Err(error) => {
                let (kind, name) = (K::NAME, &key.1);
                tracing::warn!(kind, name, error, "what the plan needs cannot be read; it is tried again");
                return Err(Next::At(seen.now() + crate::RETRY));
            }
        }
        let mut seen = self.kind.observe(key, remembered, Some(seen)).await?;
        let plan = self.kind.plan(&mut seen, &mut lock(remembered));
        Ok((seen, plan))
    }

    /// Runs the stages one after the other, the effects of each side by side.
    async fn carry_out(&self, seen: &K::Seen, stages: Vec<Vec<K::Effect>>) -> Vec<(K::Effect, K::Outcome)> {
        let mut done = Vec::new();
        for stage in stages {
            let running = stage.into_iter().map(|effect| async move {
                let outcome = self.kind.act(seen, &effect).await;
                (effect, outcome)
            });
            let came: Vec<(K::Effect, K::Outcome)> = join_all(running).await;
            let has_failed = came.iter().any(|(_, outcome)| K::has_failed(outcome));
            done.extend(came);
            if has_failed {
                break;
            }
        }
        done
    }

    /// Writes the status and records its transitions.
    async fn tell(&self, key: &Key, seen: &K::Seen, report: &Report<K::Status>) -> Result<(), Next> {
        let (context, metadata) = (self.kind.context(), seen.metadata());
        let (id, now) = (objects::id::<K::Object>(key), seen.now());
        match &report.status {
            Some(status) => context.report(K::MANAGER, &id, metadata, status, &report.notes, now).await,
            None => {
                let uid = metadata.uid.as_deref().unwrap_or_default();
                context.tell(K::MANAGER, &id, uid, &report.notes, now).await;
                Ok(())
            }
        }
    }

    /// The uid of an object as last seen; empty when there is none.
    fn uid(&self, (namespace, name): &Key) -> String {
        let kind = gvk::<K::Object>();
        let view = self.kind.context().watches.view([&kind]);
        let object = view.kind(&kind).and_then(|objects| objects.get(Some(namespace), name));
        object.map(|object| object.uid().to_owned()).unwrap_or_default()
    }
}

/// What follows from the plan may come before the next try to write the status.
pub(crate) fn sooner(later: Next, planned: Next, now: Timestamp) -> Next {
    match (later, planned) {
        (Next::At(later), Next::At(planned)) if planned > now => Next::At(later.min(planned)),
        (later, _) => later,
    }
}

impl<K: Kind> driver::Controller for Controller<K> {
    const KIND: &'static str = K::NAME;

    fn context(&self) -> &Context {
        self.kind.context()
    }

    fn route(&self, change: &Change) -> Route {
        routes::route(&self.kind, &self.memories, change)
    }

    async fn turn(&self, key: &Key) -> Turn {
        if !K::TAKES_TURNS {
            return None;
        }
        self.kind.turn(key, &self.memories.of_object(key, &self.uid(key))).await
    }

    async fn pass(&self, key: &Key) -> Next {
        let remembered = self.memories.of_object(key, &self.uid(key));
        let now = self.kind.context().clock.now();
        let rests = self.kind.rests_until(&mut lock(&remembered), now);
        if rests.is_some_and(|until| until > now) {
            return Next::at(rests);
        }
        self.sentence(key, &remembered).await.unwrap_or_else(|next| next)
    }

    fn forget(&self, key: &Key) {
        self.memories.forget(key);
        self.kind.forget(key);
    }
}
