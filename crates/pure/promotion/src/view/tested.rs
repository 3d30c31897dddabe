//! Whether the gates that somebody wrote can be used, before they are applied.

use kardinal_api::kardinal::PolicyGate;
use kardinal_planner::problem::Problem;
use serde::Serialize;
use serde_json::Value;

use super::gates::gate_problems;
use crate::gate_context::{check_expression, variables};
use crate::intent::Error;

/// One gate of a file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestedGate {
    /// The file.
    pub file: String,
    /// The name of the gate.
    pub gate: String,
    /// What has to be true.
    pub expression: String,
    /// What is wrong. Empty: it can be used.
    pub problems: Vec<String>,
}

/// Tests the gates among the objects of a file. A file without objects is one bare expression.
pub fn test_gates(file: &str, text: &str, documents: &[&Value]) -> Result<Vec<TestedGate>, Error> {
    let tested = |gate: &str, expression: &str, problems| TestedGate {
        file: file.to_owned(),
        gate: gate.to_owned(),
        expression: expression.to_owned(),
        problems,
    };
    let kinds: Vec<(&Value, Option<&str>)> =
        documents.iter().filter_map(|document| Some((*document, document.get("kind")?.as_str()))).collect();
    if kinds.is_empty() {
        let expression = text.trim();
        let problems = check_expression(expression).err().into_iter().collect();
        return Ok(vec![tested("expression", expression, problems)]);
    }
    let gates = kinds.into_iter().filter(|(_, kind)| *kind == Some("PolicyGate"));
    let all: Vec<TestedGate> = gates
        .map(|(gate, _)| {
            let text = |place: &str| gate.pointer(place).and_then(Value::as_str);
            let (name, expression) = (text("/metadata/name"), text("/spec/expression"));
            tested(name.unwrap_or("(no name)"), expression.unwrap_or_default(), problems(gate))
        })
        .collect();
    match all.is_empty() {
        true => Err(Error::NotFound(Problem::new("file", format!("there is no PolicyGate in `{file}`")))),
        false => Ok(all),
    }
}

fn problems(gate: &Value) -> Vec<String> {
    match serde_json::from_value::<PolicyGate>(gate.clone()) {
        Err(error) => vec![error.to_string()],
        Ok(gate) => gate_problems(&gate.spec),
    }
}

/// What to say where some of the gates cannot be used.
pub fn unusable(tested: &[TestedGate]) -> Option<Problem> {
    let count = tested.iter().filter(|one| !one.problems.is_empty()).count();
    let problem =
        || Problem::new("spec.expression", format!("{count} of {} gates cannot be used", tested.len()));
    (count > 0).then(|| {
        problem().hint(format!(
            "a gate that does not compile holds every promotion; the attributes are those of {}",
            readable()
        ))
    })
}

/// All that gates may read, as text.
fn readable() -> String {
    let names: Vec<&str> = variables().collect();
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

impl TestedGate {
    /// The same as text for people.
    pub fn render(&self) -> String {
        let TestedGate { file, gate, .. } = self;
        match self.problems.as_slice() {
            [] => format!("{file}: {gate}: ok\n"),
            problems => format!("{file}: {gate}:\n{}\n", problems.join("\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_gates_or_one_expression() {
        let gate = |name: &str, expression: &str| {
            json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate", "metadata": {"name": name},
                "spec": {"expression": expression}})
        };
        let other = json!({"kind": "ConfigMap"});
        for (text, documents, expected) in [
            (" !schedule.isWeekend\n", vec![], Ok(vec![("expression", true)])),
            ("1 +", vec![json!("1 +")], Ok(vec![("expression", false)])),
            (
                "",
                vec![gate("a", "true"), gate("b", "1 +"), other.clone()],
                Ok(vec![("a", true), ("b", false)]),
            ),
            ("", vec![json!({"kind": "PolicyGate"})], Ok(vec![("(no name)", false)])),
            ("", vec![other.clone()], Err("there is no PolicyGate in `f.yaml`")),
            ("", vec![json!({"kind": 1})], Err("there is no PolicyGate in `f.yaml`")),
        ] {
            let documents: Vec<&Value> = documents.iter().collect();
            let found = test_gates("f.yaml", text, &documents);
            let shown = found.as_ref().map(|all| {
                all.iter().map(|one| (one.gate.as_str(), one.problems.is_empty())).collect::<Vec<_>>()
            });
            let shown = shown.map_err(|error| match error {
                Error::NotFound(problem) => problem.message.as_str(),
                Error::Unclear(_) | Error::Refused(_) => panic!("{text}: {error:?}"),
            });
            assert_eq!(shown, expected, "{documents:?}");
        }
    }

    #[test]
    fn how_many_cannot_be_used_is_counted() {
        let gate = |problems: &[&str]| TestedGate {
            file: "f.yaml".to_owned(),
            gate: "g".to_owned(),
            expression: String::new(),
            problems: problems.iter().map(|one| (*one).to_owned()).collect(),
        };
        assert_eq!(unusable(&[]), None);
        assert_eq!(unusable(&[gate(&[])]), None);
        let wrong = unusable(&[gate(&[]), gate(&["x"]), gate(&["x", "y"])]).unwrap();
        assert_eq!(wrong.message, "2 of 3 gates cannot be used");
        let known = "the attributes are those of bundle, schedule, environment and previousBundle";
        assert!(wrong.hint.is_some_and(|hint| hint.ends_with(known)));
        assert_eq!(gate(&[]).render(), "f.yaml: g: ok\n");
        assert_eq!(gate(&["x", "y"]).render(), "f.yaml: g:\nx\ny\n");
    }
}
