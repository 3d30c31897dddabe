//! Carries out what was planned. Only writes; every write may be repeated without harm.

use futures::future::join_all;
use jiff::SignedDuration;
use kardinal_api::graph::{GraphStatus, KindReference};
use kardinal_cluster::{Answer, Writer};
use kardinal_graph::{Action, Outcome};
use kardinal_object::ObjectId;
use kardinal_planner::graph::{Effect, FINALIZER, MANAGER, owner};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::observe::Observation;
use super::routes;
use crate::{Context, RETRY};

/// What came of a plan.
#[derive(Default)]
pub(super) struct Outcomes {
    /// The walk's actions and their outcomes.
    pub(super) walked: Vec<(Action, Outcome)>,
    /// Something was written.
    pub(super) progressed: bool,
    /// Bookkeeping failed; try again after this long.
    pub(super) failed: Option<SignedDuration>,
    /// The finalizer is off: the Graph is gone.
    pub(super) released: bool,
}

/// So many writes of all Graphs of a namespace are under way at a time. A Graph can have very many to make, and whoever
/// writes at the same time waits for those that came before.
pub(super) const WRITES: usize = 32;

/// Runs the stages one after the other, the effects of each side by side, as far as the namespace has turns for them.
pub(super) async fn act(
    context: &Context,
    observation: &Observation,
    turns: &Semaphore,
    stages: Vec<Vec<Effect>>,
) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for stage in stages {
        let running = stage.into_iter().map(|effect| in_turn(turns, run(context, observation, effect)));
        for done in join_all(running).await {
            outcomes.add(done);
        }
        if outcomes.failed.is_some() {
            break;
        }
    }
    outcomes
}

async fn in_turn(turns: &Semaphore, effect: impl Future<Output = Done>) -> Done {
    // Nobody closes it.
    let _turn = turns.acquire().await;
    effect.await
}

/// One effect and what came of it.
enum Done {
    Walked(Box<Action>, Outcome),
    Kept(Answer<()>),
    Released(Answer<()>),
}

impl Outcomes {
    /// Whether some action of the walk was not carried out.
    pub(super) fn is_refused(&self) -> bool {
        self.walked.iter().any(|(_, outcome)| !matches!(outcome, Outcome::Done(_) | Outcome::Gone))
    }

    fn add(&mut self, done: Done) {
        match done {
            Done::Walked(action, outcome) => {
                self.progressed |= matches!(outcome, Outcome::Done(_) | Outcome::Gone);
                self.walked.push((*action, outcome));
            }
            Done::Kept(answer) => self.keep(&answer),
            Done::Released(answer) => {
                self.released = matches!(answer, Answer::Done(_) | Answer::Gone(_));
                self.keep(&answer);
            }
        }
    }

    fn keep(&mut self, answer: &Answer<()>) {
        match answer {
            Answer::Done(_) | Answer::Gone(_) => self.progressed = true,
            Answer::Conflict(message) | Answer::Refused(message) | Answer::Fault(message) => {
                tracing::warn!(error = %message, "a write of the Graph's own bookkeeping failed");
                self.failed = Some(RETRY);
            }
        }
    }
}

async fn run(context: &Context, observation: &Observation, effect: Effect) -> Done {
    match effect {
        Effect::AddFinalizer => Done::Kept(set_finalizer(context, observation, true).await),
        Effect::RemoveFinalizer => Done::Released(set_finalizer(context, observation, false).await),
        Effect::RecordKinds(kinds) => Done::Kept(record_kinds(context, observation, kinds).await),
        Effect::EnsureRevision(revision) => {
            let name = revision.metadata.name.clone().unwrap_or_default();
            let id = revision_id(observation, name);
            let body = serde_json::to_value(&*revision).unwrap_or_default();
            let answer = match context.writer.create(&id, &body, MANAGER).await {
                // It exists already: an earlier pass made it.
                Answer::Conflict(_) => context.writer.get(&id).await,
                answer => answer,
            };
            Done::Kept(context.remember(&id, answer))
        }
        Effect::DropRevision { name, uid } => {
            Done::Kept(context.writer.delete(&revision_id(observation, name), &uid).await.map(drop))
        }
        Effect::Walk(action) => {
            let outcome = walk(context, observation, &action).await;
            Done::Walked(Box::new(action), outcome)
        }
    }
}

/// One action of the walk.
async fn walk(context: &Context, observation: &Observation, action: &Action) -> Outcome {
    let manager = owner(&observation.graph).field_manager();
    let account = observation.graph.spec.service_account_name.as_deref();
    let writer = match account {
        None => context.writer.clone(),
        Some(account) => match context.writer.acting_as(&observation.key.0, account) {
            Some(writer) => writer,
            None => return Outcome::Refused(format!("`{account}` cannot be the name of a ServiceAccount")),
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
        (Answer::Done(object), _) => Outcome::Done(object),
        // An apply creates what is absent, so what is missing here is the namespace.
        (Answer::Gone(message), Action::Apply { .. }) => Outcome::Refused(message),
        (Answer::Gone(_), _) => Outcome::Gone,
        (Answer::Conflict(message), _) => Outcome::Conflict(message),
        (Answer::Refused(message), _) => Outcome::Refused(message),
        (Answer::Fault(message), _) => Outcome::Fault(message),
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
    match (status, &answer) {
        (Some(status), Answer::Done(_)) => writer.apply(id, Some("status"), status, manager, force).await,
        _ => answer,
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

async fn record_kinds(context: &Context, observation: &Observation, kinds: Vec<KindReference>) -> Answer<()> {
    let mut status = observation.graph.status.clone().unwrap_or_default();
    status.kinds = kinds;
    apply_status(context, observation, &status).await
}

/// Writes the whole status; when it cannot be written now, says after how long to try again.
pub(super) async fn write_status(
    context: &Context,
    observation: &Observation,
    status: &GraphStatus,
) -> Result<(), SignedDuration> {
    match apply_status(context, observation, status).await {
        // A Graph that is gone needs no status.
        Answer::Done(_) | Answer::Gone(_) => Ok(()),
        Answer::Conflict(message) | Answer::Refused(message) | Answer::Fault(message) => {
            tracing::warn!(graph = %observation.id(), error = %message, "status not written");
            Err(RETRY)
        }
    }
}

async fn apply_status(context: &Context, observation: &Observation, status: &GraphStatus) -> Answer<()> {
    context.write_status(&observation.id(), &observation.graph.metadata, status, MANAGER).await
}

fn revision_id(observation: &Observation, name: String) -> ObjectId {
    ObjectId { gvk: routes::revision_gvk(), namespace: Some(observation.key.0.clone()), name }
}
