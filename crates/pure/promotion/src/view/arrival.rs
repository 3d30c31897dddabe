//! How a Bundle stands for whoever waits until it has arrived.

use kardinal_api::kardinal::{Bundle, BundlePhase, PIPELINE_LABEL};
use kardinal_object::label_of;
use serde::Serialize;

use crate::bundle::{phase_of, why};

/// How a Bundle stands for whoever waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Arrival {
    /// The Bundle.
    pub bundle: String,
    /// How it stands.
    pub state: ArrivalState,
    /// What it says of itself. Absent: it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// What came of it, in one sentence.
    pub message: String,
    /// What to do next, where it has not arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a Bundle stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalState {
    /// It may still arrive.
    OnItsWay,
    /// It is verified wherever it was meant to go.
    Arrived,
    /// It will not arrive.
    Failed,
    /// It wanted to skip an environment and may not.
    Denied,
    /// Somebody has deleted it.
    Deleted,
}

impl ArrivalState {
    /// Whether there is nothing left to wait for.
    pub fn is_over(self) -> bool {
        match self {
            ArrivalState::OnItsWay => false,
            ArrivalState::Arrived | ArrivalState::Failed | ArrivalState::Denied | ArrivalState::Deleted => {
                true
            }
        }
    }
}

/// How a Bundle stands, or that there is none of this name any more.
pub fn arrival(name: &str, bundle: Option<&Bundle>) -> Arrival {
    let said = bundle.map(|bundle| why(bundle).unwrap_or("waiting for the controllers").to_owned());
    let words = bundle.and_then(why).unwrap_or_default();
    let (state, message) = match bundle.map(phase_of) {
        None => (ArrivalState::Deleted, format!("Bundle `{name}` was deleted")),
        Some(None | Some(BundlePhase::Available | BundlePhase::Promoting)) => {
            (ArrivalState::OnItsWay, format!("Bundle \"{name}\" is on its way: {words}"))
        }
        Some(Some(BundlePhase::Verified)) => {
            (ArrivalState::Arrived, format!("Bundle \"{name}\" has arrived: {words}"))
        }
        Some(Some(phase @ (BundlePhase::Failed | BundlePhase::Superseded))) => {
            (ArrivalState::Failed, format!("Bundle `{name}` is {}: {words}", phase.as_str()))
        }
        Some(Some(phase @ BundlePhase::SkipDenied)) => {
            (ArrivalState::Denied, format!("Bundle `{name}` is {}: {words}", phase.as_str()))
        }
    };
    let pipeline = match state {
        ArrivalState::Failed | ArrivalState::Denied => {
            bundle.and_then(|bundle| label_of(&bundle.metadata, PIPELINE_LABEL))
        }
        ArrivalState::OnItsWay | ArrivalState::Arrived | ArrivalState::Deleted => None,
    };
    let hint = pipeline.map(|pipeline| format!("`kardinal explain {pipeline}` tells more"));
    Arrival { bundle: name.to_owned(), state, said, message, hint }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bundle::is_finished;

    fn bundle(phase: Value, conditions: Value) -> Bundle {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "labels": {"kardinal.io/pipeline": "shop"}},
            "spec": {"artifacts": {}},
            "status": {"phase": phase, "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn who_waits_is_told_what_came_of_it() {
        let said = json!([{"type": "Ready", "status": "False", "reason": "X", "message": "words",
            "lastTransitionTime": "2026-04-09T10:00:00Z"}]);
        for (phase, state, message) in [
            (Value::Null, ArrivalState::OnItsWay, "Bundle \"b\" is on its way: words"),
            (json!("Available"), ArrivalState::OnItsWay, "Bundle \"b\" is on its way: words"),
            (json!("Promoting"), ArrivalState::OnItsWay, "Bundle \"b\" is on its way: words"),
            (json!("Verified"), ArrivalState::Arrived, "Bundle \"b\" has arrived: words"),
            (json!("Failed"), ArrivalState::Failed, "Bundle `b` is Failed: words"),
            (json!("Superseded"), ArrivalState::Failed, "Bundle `b` is Superseded: words"),
            (json!("SkipDenied"), ArrivalState::Denied, "Bundle `b` is SkipDenied: words"),
        ] {
            let bundle = bundle(phase.clone(), said.clone());
            let found = arrival("b", Some(&bundle));
            assert_eq!((found.state, found.message.as_str()), (state, message), "{phase}");
            assert_eq!(found.said.as_deref(), Some("words"), "{phase}");
            assert_eq!(state.is_over(), phase_of(&bundle).is_some_and(is_finished), "{phase}");
            let is_lost = matches!(state, ArrivalState::Failed | ArrivalState::Denied);
            let hint = is_lost.then_some("`kardinal explain shop` tells more");
            assert_eq!(found.hint.as_deref(), hint, "{phase}");
        }
    }

    #[test]
    fn what_nobody_has_looked_at_waits_and_what_is_gone_does_not() {
        let new = arrival("b", Some(&bundle(Value::Null, json!([]))));
        assert_eq!(
            (new.state, new.said.as_deref()),
            (ArrivalState::OnItsWay, Some("waiting for the controllers"))
        );
        let gone = arrival("b", None);
        assert_eq!((gone.state, gone.message.as_str()), (ArrivalState::Deleted, "Bundle `b` was deleted"));
        assert!(gone.state.is_over() && gone.said.is_none() && gone.hint.is_none());
        let mut nobodys = bundle(json!("Failed"), json!([]));
        nobodys.metadata.labels = None;
        assert_eq!(arrival("b", Some(&nobodys)).hint, None);
    }
}
