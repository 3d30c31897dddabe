//! Whether the gates can be asked, and guard something.

use kardinal_api::kardinal::PolicyGate;
use kardinal_object::{name_of, namespace_of};
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::doctor::Finding;
use kardinal_policy::is_template;

use crate::policy_gate::GUARDS;
use crate::view::gates::uncompiled;

/// What is to be said of the gate templates among some gates.
pub fn gate_findings(gates: &[PolicyGate]) -> Vec<Finding> {
    let templates: Vec<&PolicyGate> = gates.iter().filter(|gate| is_template(gate)).collect();
    let broken: Vec<Finding> = templates.iter().filter_map(|gate| broken(gate)).collect();
    let well = (broken.is_empty() && !templates.is_empty())
        .then(|| Finding::ok("gates", format!("{} templates compile", templates.len())));
    let idle = templates.iter().filter_map(|gate| idle(gate));
    well.into_iter().chain(broken).chain(idle).collect()
}

fn title(gate: &PolicyGate) -> String {
    format!("gate {}/{}", namespace_of(&gate.metadata), name_of(&gate.metadata))
}

fn broken(gate: &PolicyGate) -> Option<Finding> {
    let problem = uncompiled(&gate.spec).into_iter().next()?;
    let remedy =
        "correct it: until then it holds every promotion; `kardinal policy test FILE` checks it before";
    Some(Finding::fail(title(gate), problem.trim_end(), remedy))
}

/// What the controller says of a template that guards nothing. It knows the Pipelines of every namespace.
fn idle(gate: &PolicyGate) -> Option<Finding> {
    let guards = condition::find(&gate.status.as_ref()?.conditions, GUARDS)?;
    let detail = condition::is(guards, Truth::False).then_some(guards.message.as_str())?;
    Some(Finding::warn(title(gate), detail, "correct it, or delete it: until then it holds nothing"))
}

#[cfg(test)]
mod tests {
    use kardinal_planner::doctor::Mark;
    use serde_json::{Value, json};

    use super::*;

    fn gate(spec: Value, guards: &str) -> PolicyGate {
        serde_json::from_value(json!({
            "metadata": {"name": "g", "namespace": "platform", "labels": {"kardinal.io/applies-to": "prod"}},
            "spec": spec,
            "status": {"conditions": [{
                "type": "Guards", "status": guards, "reason": "R", "message": "guards no environment",
                "lastTransitionTime": "2026-04-09T10:00:00Z",
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn a_template_is_judged_by_what_it_says_and_guards() {
        let good = json!({"expression": "true"});
        for (gates, wanted) in [
            (vec![], vec![]),
            (vec![gate(good.clone(), "True")], vec![(Mark::Ok, "1 templates compile")]),
            (
                vec![gate(good, "False")],
                vec![(Mark::Ok, "1 templates compile"), (Mark::Warn, "guards no environment")],
            ),
            (vec![gate(json!({"expression": "1 +"}), "True")], vec![(Mark::Fail, "")]),
            (
                vec![gate(json!({"expression": "true", "timeZone": "Nowhere"}), "True")],
                vec![(Mark::Fail, "spec.timeZone: ")],
            ),
        ] {
            let found = gate_findings(&gates);
            assert_eq!(found.len(), wanted.len(), "{found:?}");
            for (one, (mark, detail)) in found.iter().zip(wanted) {
                assert!(one.mark == mark && one.detail.starts_with(detail), "{one:?}");
                assert_eq!(one.what, if mark == Mark::Ok { "gates" } else { "gate platform/g" });
            }
        }
    }
}
