//! What stands outside and is in the way: a door that is shut, or one where nobody answers.

use kardinal_api::kardinal::PromotionState;

use super::choose::Journey;
use super::{Wait, WaitOn};
use crate::promotion_step::{Ending, TRYING_AGAIN, ending};

/// Words of Git servers and forges that do not let us in.
const REFUSALS: [&str; 8] =
    ["credential", "token", "password", "permission", "authenti", "authoriz", "not allowed", "forbidden"];

/// Something that is not permitted until somebody changes it.
pub(super) fn action(journey: &Journey<'_>) -> Option<Wait> {
    let status = journey.step?.status.as_ref()?;
    let told = |type_: &str| status.conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
    let (name, detail, basis) = match told("Blocked") {
        Some(blocked) => {
            let basis = match is_health_unknown(journey) {
                true => remedy_of_health(cluster_secret(journey)),
                false => remedy(journey, &blocked.message),
            };
            (blocked.reason.clone(), blocked.message.clone(), basis)
        }
        None => {
            let secret = cluster_secret(journey).filter(|_| is_health_unknown(journey))?;
            let unreachable = told("ClusterUnreachable")?;
            let detail = shut_out(secret, &unreachable.message)?;
            ("ActionNeeded".to_owned(), detail, remedy_of_health(Some(secret)))
        }
    };
    Some(Wait { on: WaitOn::Action, name, detail, eta: None, deadline: None, basis })
}

/// Whether the trouble is that nothing can be learned of the environment's health.
fn is_health_unknown(journey: &Journey<'_>) -> bool {
    journey.state() == Some(PromotionState::HealthChecking)
        && journey.step.and_then(ending) == Some(Ending::Open)
}

/// The Secret with the way to the cluster of the environment.
fn cluster_secret<'j>(journey: &Journey<'j>) -> Option<&'j str> {
    journey.step?.spec.health.as_ref()?.cluster.as_deref()
}

/// What a cluster that answers, and lets us in or look around no further, says to the credentials of a Secret. Its answer
/// begins with the code.
fn shut_out(secret: &str, answer: &str) -> Option<String> {
    let verb = match answer.split([' ', ':']).next()? {
        "401" => "refuses",
        "403" => "permits too little to",
        _ => return None,
    };
    Some(format!("the cluster {verb} the credentials of the Secret `{secret}`: {answer}"))
}

fn remedy_of_health(secret: Option<&str>) -> String {
    match secret {
        Some(secret) => format!(
            "needs a person to correct the Secret `{secret}` of `health.cluster`; it goes on by itself then"
        ),
        None => "needs a person to mend this; it goes on by itself then".to_owned(),
    }
}

/// Who can do something about a refusal, and what. Where that is not known nothing is promised.
fn remedy(journey: &Journey<'_>, message: &str) -> String {
    let lower = message.to_lowercase();
    let secret = journey.step.and_then(|step| step.spec.git.as_ref()?.secret_ref.as_deref());
    match secret {
        _ if !REFUSALS.iter().any(|word| lower.contains(word)) => {
            "it is tried again every few seconds and goes on as soon as it can".to_owned()
        }
        Some(secret) => {
            format!("needs a person to correct the Secret `{secret}`; it goes on by itself then")
        }
        None => "needs a person to name a Secret in `spec.git.secretRef` of the Pipeline".to_owned(),
    }
}

/// Somebody outside, such as a Git server, who does not answer or not as they should.
pub(super) fn silence(journey: &Journey<'_>) -> Option<Wait> {
    let said = journey.step?.status.as_ref()?.message.as_deref()?;
    let detail = said.strip_suffix(TRYING_AGAIN)?;
    Some(Wait {
        on: WaitOn::Outside,
        name: "outside".to_owned(),
        detail: detail.to_owned(),
        eta: None,
        deadline: None,
        basis: "kardinal tries again by itself and goes on as soon as that works".to_owned(),
    })
}
