//! Which kind hears what: a table for each kind, from which its watches follow, too.

use std::sync::Arc;

use jiff::SignedDuration;
use kardinal_cluster::{Change, View};
use kardinal_object::Gvk;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::driver::{Key, Route};
use super::objects::{all_keys, before_and_after, key_of};
use super::pass::Memories;
use crate::Context;

/// Whoever hears of changes: the objects of a kind.
pub(crate) trait Hearer: Send + Sync + Sized + 'static {
    /// The objects.
    type Object: Resource<DynamicType = ()> + DeserializeOwned;
    /// What one process remembers of an object between passes.
    type Memory: Default + Send;

    /// Whose changes are heard, and by which objects.
    const HEARS: &'static [Hears<Self>];

    /// Which kinds passes read besides. Whoever hears their changes tells those that are in the table.
    const READS: &'static [fn() -> Gvk] = &[];

    /// What every controller is given.
    fn context(&self) -> &Arc<Context>;

    /// The objects that follow a change of something that is known only while they are worked on.
    fn following(&self, _: &Change) -> Vec<Key> {
        Vec::new()
    }
}

/// One row of the table: a kind of objects whose changes are heard.
pub(crate) struct Hears<K: Hearer> {
    /// The kind that is heard.
    pub(crate) kind: fn() -> Gvk,
    /// What its watch is needed for.
    pub(crate) need: Need,
    /// Who looks at a change of such an object.
    pub(crate) keys: fn(&Heard<'_, K>) -> Vec<Key>,
    /// How soon.
    pub(crate) pace: Pace<K>,
}

/// What the watch of a kind is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Passes read its objects: before all of them are known none is made.
    Read,
    /// Its changes are heard, and no pass waits for it.
    Told,
    /// Its changes are heard where somebody else watches it.
    Overheard,
}

/// How long a change may wait, so that several are looked at together. Nothing must be kept waiting by it.
pub(crate) enum Pace<K: Hearer> {
    /// Not at all.
    AtOnce,
    /// For so long.
    Within(SignedDuration),
    /// That depends on the change.
    By(fn(&Heard<'_, K>) -> SignedDuration),
}

impl<K: Hearer> Hears<K> {
    /// Passes read objects of this kind.
    pub(crate) const fn read(kind: fn() -> Gvk, keys: fn(&Heard<'_, K>) -> Vec<Key>) -> Hears<K> {
        Hears { kind, need: Need::Read, keys, pace: Pace::AtOnce }
    }

    /// The same with another pace.
    pub(crate) const fn paced(self, pace: Pace<K>) -> Hears<K> {
        Hears { kind: self.kind, need: self.need, keys: self.keys, pace }
    }
}

/// A change of an object, as a row of the table hears it.
pub(crate) struct Heard<'a, K: Hearer> {
    /// Who hears it.
    pub(crate) kind: &'a K,
    /// What is remembered of the objects of the kind that hears.
    pub(crate) memories: &'a Memories<K::Memory>,
    /// The change itself.
    pub(crate) change: &'a Change,
    /// The object, in its newest form that is known.
    pub(crate) object: &'a Value,
}

impl<'a, K: Hearer> Heard<'a, K> {
    /// What passes read, as it is now.
    pub(crate) fn view(&self) -> View {
        view::<K>(self.kind.context())
    }

    /// The object as it was and as it is.
    pub(crate) fn both(&self) -> (Option<&'a Value>, Option<&'a Value>) {
        before_and_after(self.change)
    }

    /// Namespace and name of the object.
    pub(crate) fn key(&self) -> Key {
        key_of(self.object)
    }
}

/// An object itself looks at its changes.
pub(crate) fn itself<K: Hearer>(heard: &Heard<'_, K>) -> Vec<Key> {
    vec![heard.key()]
}

/// Nobody has to look at a change: passes only read such objects.
pub(crate) fn nobody<K: Hearer>(_: &Heard<'_, K>) -> Vec<Key> {
    Vec::new()
}

/// Starts the watches of what a kind hears and reads.
pub(crate) fn watch<K: Hearer>(context: &Arc<Context>) {
    let heard = K::HEARS.iter().filter(|row| row.need == Need::Told).map(|row| (row.kind)());
    for gvk in heard.chain(read::<K>()) {
        context.watches.ensure(&gvk);
    }
}

/// The kinds that passes read.
fn read<K: Hearer>() -> impl Iterator<Item = Gvk> {
    let in_table = K::HEARS.iter().filter(|row| row.need == Need::Read).map(|row| row.kind);
    in_table.chain(K::READS.iter().copied()).map(|kind| kind())
}

/// What has been seen of the kinds that passes read.
pub(crate) fn view<K: Hearer>(context: &Context) -> View {
    context.watches.view(&read::<K>().collect::<Vec<_>>())
}

/// Who looks at a change, and how soon.
pub(crate) fn route<K: Hearer>(kind: &K, memories: &Memories<K::Memory>, change: &Change) -> Route {
    let mut route = Route { keys: kind.following(change), pace: SignedDuration::ZERO };
    match change {
        Change::Kind(gvk) => {
            if read::<K>().any(|read| read == *gvk) {
                route.keys.extend(all_keys::<K::Object>(&view::<K>(kind.context())));
            }
        }
        Change::Object { id, old, new } => {
            let Some(row) = K::HEARS.iter().find(|row| (row.kind)() == id.gvk) else { return route };
            let Some(object) = new.as_ref().or(old.as_ref()) else { return route };
            let heard = Heard { kind, memories, change, object: object.tree() };
            let keys = (row.keys)(&heard);
            // What follows the object besides does not wait.
            if route.keys.is_empty() && !keys.is_empty() {
                route.pace = row.pace.of(&heard);
            }
            route.keys.extend(keys);
        }
    }
    route
}

impl<K: Hearer> Pace<K> {
    fn of(&self, heard: &Heard<'_, K>) -> SignedDuration {
        match self {
            Pace::AtOnce => SignedDuration::ZERO,
            Pace::Within(time) => *time,
            Pace::By(decide) => decide(heard),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
