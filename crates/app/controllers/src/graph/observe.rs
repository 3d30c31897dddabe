//! What a pass over one Graph is decided from. Only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::graph::{Graph, GraphRevision};
use kardinal_cluster::View;
use kardinal_cluster::watches::Object;
use kardinal_graph::{Changed, Observed, Permission, Permit, Seen, Selector};
use kardinal_object::{Gvk, KindScope, ObjectId};
use kardinal_planner::graph::{self as planner, GraphScope, Snapshot, plan::recorded_kinds};
use serde_json::Value;

use super::{Kind, Memory};
use crate::Context;
use crate::graph::facets;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{self, gvk, lock};
use crate::reconcile::pass::{self, Remembered, sight};

/// What was seen of one Graph and its objects.
pub(crate) struct Observation {
    pub(super) key: Key,
    pub(super) graph: Arc<Graph>,
    pub(super) revisions: Arc<Vec<GraphRevision>>,
    pub(super) scope: GraphScope,
    pub(super) now: Timestamp,
    /// The kinds that the pass could see.
    pub(super) kinds: BTreeSet<Gvk>,
    surroundings: Surroundings,
}

impl pass::Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.graph.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

impl Observation {
    pub(super) fn snapshot<'a>(&'a self, surroundings: &'a Surroundings) -> Snapshot<'a> {
        Snapshot {
            graph: &self.graph,
            revisions: &self.revisions,
            world: &surroundings.world,
            scope: self.scope,
            changed: surroundings.changed.clone(),
            now: self.now,
        }
    }

    /// What is around the Graph, once: nobody holds it after the decision.
    pub(super) fn take_surroundings(&mut self) -> Surroundings {
        let nothing = Surroundings { changed: Changed::Nothing, world: World::default() };
        std::mem::replace(&mut self.surroundings, nothing)
    }

    pub(super) fn id(&self) -> ObjectId {
        objects::id::<Graph>(&self.key)
    }
}

/// The Graph's objects. Whoever holds them makes the watches copy what they change, so they are only held while a
/// decision is made.
pub(super) struct Surroundings {
    changed: Changed,
    world: World,
}

/// How many nodes a Graph has, by the watch; none if it is not there.
pub(super) fn nodes(context: &Context, (namespace, name): &Key) -> usize {
    let kind = gvk::<Graph>();
    let view = context.watches.view([&kind]);
    let graph = view.kind(&kind).and_then(|graphs| graphs.get(Some(namespace), name));
    let nodes = graph
        .map(|graph| graph.tree())
        .and_then(|graph| graph.pointer("/spec/nodes")?.as_array().map(Vec::len));
    nodes.unwrap_or_default()
}

/// Asks what the Graph's account may read, as far as that is not known; returns whether there is news.
pub(super) async fn ask(context: &Context, key: &Key, remembered: &Remembered<Memory>) -> bool {
    let (account, wanted, mut permissions) = {
        let Memory { walk, permissions, .. } = &mut *lock(remembered);
        let Some(account) = walk.account().map(str::to_owned) else { return false };
        (account, walk.permits().cloned().collect(), std::mem::take(permissions))
    };
    let now = context.clock.now();
    let is_news = permissions.refresh(&context.writer, (&key.0, &account), wanted, now).await;
    lock(remembered).permissions = permissions;
    is_news
}

/// Reads the Graph, its revisions and its objects out of the watches.
pub(super) fn observe(kind: &Kind, key: &Key, memory: &mut Memory) -> Result<Observation, Next> {
    let Memory { walk, read, permissions, .. } = memory;
    let (namespace, name) = key;
    // A list of revisions that failed is not an empty one: they would be made again and again.
    let own = sight::<Kind>(&kind.context)?;
    let graphs = own.kind(&gvk::<Graph>());
    let seen = graphs.and_then(|graphs| graphs.get(Some(namespace), name)).ok_or(Next::Never)?;
    let graph = read.graph(seen).map_err(|error| {
        // The server validates Graphs, so this is a Graph of a version we do not know.
        tracing::error!(graph = %name, namespace, error = %error, "a Graph cannot be read");
        Next::Never
    })?;
    let uid = graph.metadata.uid.clone().unwrap_or_default();
    let recorded = recorded_kinds(&graph);
    let kinds = kinds_of(&graph, walk, &recorded);
    // Listen first, then look: nothing that happens in between is missed.
    kind.routes().expect(key, &uid, &kinds);
    let watches = &kind.context.watches;
    for gvk in &kinds {
        watches.ensure(gvk);
    }
    let changed = kind.routes().take_changes(key);
    let view = watches.view(&kinds);
    if !view.attempted() {
        kind.routes().put_back(key);
        return Err(Next::OnChange);
    }
    let now = kind.context.clock.now();
    let account = graph.spec.service_account_name.as_deref().unwrap_or_default();
    let permissions = permissions.known((namespace, account), now);
    let world = World { view, owned_kinds: recorded, uid: uid.clone(), permissions };
    let revisions = read.revisions(&own, namespace, &uid);
    let scope = kind.scope;
    let surroundings = Surroundings { changed, world };
    Ok(Observation { key: key.clone(), graph, revisions, scope, now, kinds, surroundings })
}

/// The kinds that a Graph reads, manages, or may have managed.
fn kinds_of(graph: &Graph, memory: &planner::Memory, recorded: &BTreeSet<Gvk>) -> BTreeSet<Gvk> {
    let mut kinds = recorded.clone();
    if let Some(walker) = &memory.walker {
        kinds.extend(walker.interests().kinds().cloned());
        kinds.extend(walker.graph().static_kinds());
        kinds.extend(walker.graph().reads());
    } else if let Ok(compiled) = planner::check::compile_nodes(&graph.spec.nodes) {
        kinds.extend(compiled.static_kinds());
        kinds.extend(compiled.reads());
    }
    kinds
}

/// What was read of a Graph and its revisions, as long as the watches have nothing newer: large Graphs take time to
/// read.
#[derive(Default)]
pub(super) struct Read {
    graph: Option<(Arc<Object>, Arc<Graph>)>,
    revisions: (Vec<Arc<Object>>, Arc<Vec<GraphRevision>>),
}

impl Read {
    fn graph(&mut self, seen: &Arc<Object>) -> Result<Arc<Graph>, serde_json::Error> {
        if let Some((raw, graph)) = &self.graph
            && Arc::ptr_eq(raw, seen)
        {
            return Ok(graph.clone());
        }
        let graph = Arc::new(seen.read::<Graph>()?);
        self.graph = Some((seen.clone(), graph.clone()));
        Ok(graph)
    }

    /// The revisions that this very Graph owns, oldest first.
    fn revisions(&mut self, view: &View, namespace: &str, uid: &str) -> Arc<Vec<GraphRevision>> {
        let Some(store) = view.kind(&gvk::<GraphRevision>()) else { return Arc::default() };
        let found = store.filed(Some(namespace), (facets::REVISION_OF, uid.to_owned()));
        let seen: Vec<Arc<Object>> = found.map(|(_, revision)| revision.clone()).collect();
        let (known, revisions) = &mut self.revisions;
        let same =
            known.len() == seen.len() && known.iter().zip(&seen).all(|(one, other)| Arc::ptr_eq(one, other));
        if !same {
            let read = seen.iter().filter_map(|revision| revision.read().ok());
            let mut read: Vec<GraphRevision> = read.collect();
            read.sort_by_key(|revision| revision.spec.generation);
            (*known, *revisions) = (seen, Arc::new(read));
        }
        revisions.clone()
    }
}

/// The caches through the eyes of the walk.
#[derive(Default)]
struct World {
    view: View,
    /// The kinds whose objects may be ours.
    owned_kinds: BTreeSet<Gvk>,
    uid: String,
    /// What the Graph's account may read.
    permissions: BTreeMap<Permit, Permission>,
}

impl Observed for World {
    fn scope_of(&self, gvk: &Gvk) -> Option<KindScope> {
        self.view.scope(gvk)
    }

    fn object(&self, id: &ObjectId) -> Seen<'_> {
        match self.view.kind(&id.gvk) {
            None => Seen::Unknown,
            Some(store) => match store.get(id.namespace.as_deref(), &id.name) {
                None => Seen::Absent,
                Some(object) => Seen::Present(object.tree()),
            },
        }
    }

    fn select(&self, gvk: &Gvk, namespace: Option<&str>, selector: &Selector) -> Option<Vec<&Value>> {
        let store = self.view.kind(gvk)?;
        let all = store.list(namespace).map(|(_, object)| object.tree());
        Some(all.filter(|object| selector.matches(object)).collect())
    }

    fn permission(&self, permit: &Permit) -> Permission {
        self.permissions.get(permit).cloned().unwrap_or(Permission::Unknown)
    }

    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        let mut owned = Vec::new();
        for gvk in &self.owned_kinds {
            let store = self.view.kind(gvk)?;
            let found = store.filed(None, (facets::MANAGED_BY, self.uid.clone()));
            owned.extend(found.map(|(name, object)| (store.id(name), object.tree())));
        }
        Some(owned)
    }
}
