//! Carries out what was planned for a Bundle. Only writes; every write may be repeated without harm.

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::Bundle;
use kardinal_cluster::Answer;
use kardinal_object::{Gvk, ObjectId, name_of};
use kardinal_promotion::bundle::Effect;

use super::observe::Observation;
use crate::Context;
use crate::reconcile::objects::gvk;

/// The field manager of a Bundle's status and of what is made for it.
pub(super) const MANAGER: &str = "kardinal-bundle-controller";

/// What came of an effect.
pub(crate) enum Outcome {
    /// It is done, or was done before.
    Done,
    /// The API server does not take it, now or lately.
    Refused(String),
    /// The world failed.
    Failed(String),
}

/// Carries one effect out, unless it was refused lately.
pub(super) async fn act(context: &Context, seen: &Observation, effect: &Effect) -> Outcome {
    if let Some(refusal) = seen.refuses(effect) {
        return Outcome::Refused(refusal.why.clone());
    }
    match write(context, seen.namespace(), effect).await {
        // A name that is taken is seen in the next pass, which knows what it means.
        Answer::Done(()) | Answer::Gone(_) | Answer::Conflict(_) => Outcome::Done,
        Answer::Refused(why) => Outcome::Refused(why),
        Answer::Fault(message) => Outcome::Failed(message),
    }
}

async fn write(context: &Context, namespace: &str, effect: &Effect) -> Answer<()> {
    let place = |kind: &Gvk, name: &str| ObjectId {
        gvk: kind.clone(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    };
    match effect {
        Effect::CreateGraph(graph) => {
            create(context, &place(&gvk::<Graph>(), name_of(&graph.metadata)), graph).await
        }
        Effect::CreateBundle(bundle) => {
            create(context, &place(&gvk::<Bundle>(), name_of(&bundle.metadata)), bundle).await
        }
        Effect::DeleteGraph { name, uid } => {
            context.writer.delete(&place(&gvk::<Graph>(), name), uid).await.map(drop)
        }
        Effect::DeleteBundle { name, uid } => {
            context.writer.delete(&place(&gvk::<Bundle>(), name), uid).await.map(drop)
        }
    }
}

async fn create<T: serde::Serialize>(context: &Context, id: &ObjectId, object: &T) -> Answer<()> {
    let body = serde_json::to_value(object).unwrap_or_default();
    let answer = match context.writer.create(id, &body, MANAGER).await {
        // Not every conflict is about the name: a quota that moves answers the same. Only what is there is done.
        Answer::Conflict(message) => match context.writer.get(id).await {
            Answer::Gone(_) => Answer::Fault(message),
            found => found,
        },
        answer => answer,
    };
    context.remember(id, answer)
}
