//! Carries out what was planned. Only writes; every write may be repeated without harm.

use kardinal_api::graph::{GraphRevision, KindReference};
use kardinal_cluster::{Answer, Writer};
use kardinal_graph::{Action, Outcome as Walked};
use kardinal_object::ObjectId;
use kardinal_planner::graph::{Effect, FINALIZER, MANAGER, owner};
use serde_json::{Value, json};

use super::observe::Observation;
use crate::Context;
use crate::reconcile::objects::gvk;

/// What came of an effect.
pub(crate) enum Outcome {
    /// Of an action of the walk.
    Walked(Walked),
    /// Of a write of the Graph's own bookkeeping.
    Kept(Answer<()>),
    /// Of taking the finalizer off.
    Released(Answer<()>),
}

impl Outcome {
    /// Whether the Graph's own bookkeeping failed.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Outcome::Walked(_) => false,
            Outcome::Kept(answer) | Outcome::Released(answer) => !is_done(answer),
        }
    }

    /// Whether something was written.
    pub(super) fn has_progressed(&self) -> bool {
        match self {
            Outcome::Walked(outcome) => matches!(outcome, Walked::Done(_) | Walked::Gone),
            Outcome::Kept(answer) | Outcome::Released(answer) => is_done(answer),
        }
    }

    /// Whether the finalizer is off: the Graph is gone.
    pub(super) fn releases(&self) -> bool {
        matches!(self, Outcome::Released(answer) if is_done(answer))
    }
}

fn is_done(answer: &Answer<()>) -> bool {
    match answer {
        Answer::Done(()) | Answer::Gone(_) => true,
        Answer::Conflict(_) | Answer::Refused(_) | Answer::Fault(_) => false,
    }
}

/// So many writes of all Graphs of a namespace are under way at a time. A Graph can have very many to make, and whoever
/// writes at the same time waits for those that came before.
pub(super) const WRITES: usize = 32;

/// Carries one effect out.
pub(super) async fn act(context: &Context, observation: &Observation, effect: &Effect) -> Outcome {
    let outcome = run(context, observation, effect).await;
    if let Outcome::Kept(answer) | Outcome::Released(answer) = &outcome
        && let Answer::Conflict(message) | Answer::Refused(message) | Answer::Fault(message) = answer
    {
        tracing::warn!(error = %message, "a write of the Graph's own bookkeeping failed");
    }
    outcome
}

async fn run(context: &Context, observation: &Observation, effect: &Effect) -> Outcome {
    match effect {
        Effect::AddFinalizer => Outcome::Kept(set_finalizer(context, observation, true).await),
        Effect::RemoveFinalizer => Outcome::Released(set_finalizer(context, observation, false).await),
        Effect::RecordKinds(kinds) => Outcome::Kept(record_kinds(context, observation, kinds).await),
        Effect::EnsureRevision(revision) => {
            let name = revision.metadata.name.clone().unwrap_or_default();
            let id = revision_id(observation, name);
            let body = serde_json::to_value(revision).unwrap_or_default();
            let answer = match context.writer.create(&id, &body, MANAGER).await {
                // It exists already: an earlier pass made it.
                Answer::Conflict(_) => context.writer.get(&id).await,
                answer => answer,
            };
            Outcome::Kept(context.remember(&id, answer))
        }
        Effect::DropRevision { name, uid } => {
            let id = revision_id(observation, name.clone());
            Outcome::Kept(context.writer.delete(&id, uid).await.map(drop))
        }
        Effect::Walk(action) => Outcome::Walked(walk(context, observation, action).await),
    }
}

/// One action of the walk.
async fn walk(context: &Context, observation: &Observation, action: &Action) -> Walked {
    let manager = owner(&observation.graph).field_manager();
    let account = observation.graph.spec.service_account_name.as_deref();
    let writer = match account {
        None => context.writer.clone(),
        Some(account) => match context.writer.acting_as(&observation.key.0, account) {
            Some(writer) => writer,
            None => return Walked::Refused(format!("`{account}` cannot be the name of a ServiceAccount")),
        },
    };
    let answer = match action {
        Action::Apply { id, object, status, force, .. } => {
            let answer = writer.apply(id, None, object, &manager, *force).await;
            with_status(&writer, id, status.as_ref(), answer, &manager, *force).await
        }
        Action::Patch { id, object, status, .. } => {
            let answer = writer.apply(id, None, object, &manager, false).await;
            with_status(&writer, id, status.as_ref(), answer, &manager, true).await
        }
        Action::Release { id, uid, .. } => {
            let nothing = identity_only(id, uid);
            // Not every kind has a status subresource, so only the main answer counts.
            writer.apply(id, Some("status"), &nothing, &manager, false).await;
            writer.apply(id, None, &nothing, &manager, false).await
        }
        Action::Delete { id, uid, .. } => writer.delete(id, uid).await,
    };
    if !matches!(action, Action::Delete { .. }) {
        context.remember(action.id(), answer.clone());
    }
    match (answer, action) {
        (Answer::Done(object), _) => Walked::Done(object),
        // An apply creates what is absent, so what is missing here is the namespace.
        (Answer::Gone(message), Action::Apply { .. }) => Walked::Refused(message),
        (Answer::Gone(_), Action::Patch { .. } | Action::Release { .. } | Action::Delete { .. }) => {
            Walked::Gone
        }
        (Answer::Conflict(message), _) => Walked::Conflict(message),
        (Answer::Refused(message), _) => Walked::Refused(message),
        (Answer::Fault(message), _) => Walked::Fault(message),
    }
}

async fn with_status(
    writer: &Writer,
    id: &ObjectId,
    status: Option<&Value>,
    answer: Answer,
    manager: &str,
    force: bool,
) -> Answer {
    match (status, answer) {
        (Some(status), Answer::Done(_)) => writer.apply(id, Some("status"), status, manager, force).await,
        (None, answer @ Answer::Done(_))
        | (_, answer @ (Answer::Gone(_) | Answer::Conflict(_) | Answer::Refused(_) | Answer::Fault(_))) => {
            answer
        }
    }
}

fn identity_only(id: &ObjectId, uid: &str) -> Value {
    let mut metadata = json!({"name": id.name, "uid": uid});
    if let (Some(namespace), Some(fields)) = (&id.namespace, metadata.as_object_mut()) {
        fields.insert("namespace".to_owned(), namespace.clone().into());
    }
    json!({"apiVersion": id.gvk.api_version(), "kind": id.gvk.kind, "metadata": metadata})
}

/// Puts our finalizer on the Graph or takes it off.
async fn set_finalizer(context: &Context, observation: &Observation, on: bool) -> Answer<()> {
    context.set_finalizer(&observation.id(), &observation.graph.metadata, FINALIZER, on, MANAGER).await
}

async fn record_kinds(context: &Context, observation: &Observation, kinds: &[KindReference]) -> Answer<()> {
    let mut status = observation.graph.status.clone().unwrap_or_default();
    status.kinds = kinds.to_vec();
    context.write_status(&observation.id(), &observation.graph.metadata, &status, MANAGER).await
}

fn revision_id(observation: &Observation, name: String) -> ObjectId {
    ObjectId { gvk: gvk::<GraphRevision>(), namespace: Some(observation.key.0.clone()), name }
}
