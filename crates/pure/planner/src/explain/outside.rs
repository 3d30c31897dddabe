//! What stands outside and is in the way: a door that is shut, or one where nobody answers.

use super::choose::Journey;
use super::{Wait, WaitOn};
use crate::promotion_step::TRYING_AGAIN;

/// Words of those who do not let us in.
const REFUSALS: [&str; 8] =
    ["credential", "token", "password", "permission", "authenti", "authoriz", "not allowed", "forbidden"];

/// Something that is not permitted until somebody changes it.
pub(super) fn action(journey: &Journey<'_>) -> Option<Wait> {
    let status = journey.step?.status.as_ref()?;
    let blocked = status.conditions.iter().find(|one| one.type_ == "Blocked" && one.status == "True")?;
    Some(Wait {
        on: WaitOn::Action,
        name: blocked.reason.clone(),
        detail: blocked.message.clone(),
        eta: None,
        deadline: None,
        basis: remedy(journey, &blocked.message),
    })
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
