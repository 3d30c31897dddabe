//! What is wrong with a gate as it is written.

use kardinal_api::PolicyGateSpec;
use kardinal_policy::{check_recheck_interval, time_zone};

use crate::gate_context::check_expression;

/// The first thing that is wrong, for people.
pub(super) fn problem(spec: &PolicyGateSpec) -> Option<String> {
    if let Err(rendered) = check_expression(&spec.expression) {
        return Some(rendered);
    }
    if let Some(Err(message)) = spec.time_zone.as_deref().map(time_zone) {
        return Some(format!("spec.timeZone: {message}"));
    }
    check_recheck_interval(spec).err().map(|problem| format!("spec.recheckInterval: {problem}"))
}
